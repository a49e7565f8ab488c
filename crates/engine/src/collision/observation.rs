//! A request that is checked beside its way to the backend (`collision: observe`). Its body is read as it passes, and the
//! claim is made when the whole body has passed. Nothing of the request waits for it.

use super::claim::{Claim, OpenClaim};
use super::fingerprint::BodyReader;
use crate::body::Body;
use crate::codes::Reason;
use crate::memory::{KeptBody, MemoryLimit};

/// The bodies that a VM keeps until their canonical JSON can be made have at most 16 MiB. A client that begins bodies and
/// does not end them could otherwise use all of the VM's memory.
static KEPT: MemoryLimit = MemoryLimit::new(16 * 1024 * 1024);

/// A request whose body is still passing.
#[derive(Debug)]
pub(crate) struct Observation {
    claim: OpenClaim,
    body: ObservedBody,
    /// How many bytes of the body have passed
    passed: u64,
    /// How many bytes the body may have
    limit: u64,
    caller: ObservedCaller,
}

/// What is kept of a body that passes.
#[derive(Debug)]
enum ObservedBody {
    /// Its digest
    Hashed(BodyReader),
    /// Its bytes, because members are sorted when all of them are there
    Kept(KeptBody),
}

/// Whose request it is, for metrics.
#[derive(Debug)]
pub(crate) struct ObservedCaller {
    pub(crate) tenant: String,
    pub(crate) project: String,
    pub(crate) endpoint: String,
}

/// A claim that no request waits for.
#[derive(Debug)]
pub(crate) struct ObservedClaim {
    pub(crate) claim: Claim,
    pub(crate) caller: ObservedCaller,
}

/// An observed request for which no claim is made.
#[derive(Debug)]
pub(crate) struct Unobserved {
    pub(crate) caller: ObservedCaller,
    /// Why, as metrics write it
    pub(crate) reason: Reason,
}

impl Observation {
    /// A request with its whole body, or one of which no body has come. `limit`: the longest body for which a claim is
    /// made, in bytes.
    pub(crate) fn new(claim: OpenClaim, whole: Option<&Body<'_>>, limit: u64, caller: ObservedCaller) -> Self {
        let reader = whole.map(|body| claim.fingerprint.read(body)).or_else(|| claim.fingerprint.body_reader());
        let body = reader.map_or_else(|| ObservedBody::Kept(KeptBody::new(&KEPT)), ObservedBody::Hashed);
        Self { claim, body, passed: 0, limit, caller }
    }

    /// Takes the next part of the body.
    ///
    /// # Errors
    /// The body is above the limit (`body_too_large`), or the bodies that are kept leave no room for it (`observing_full`).
    pub(crate) fn push(mut self: Box<Self>, part: &Body<'_>) -> Result<Box<Self>, Unobserved> {
        self.passed = self.passed.saturating_add(part.len() as u64);
        if self.passed > self.limit {
            return Err(Unobserved { caller: self.caller, reason: Reason::ObservedBodyTooLarge });
        }
        match &mut self.body {
            ObservedBody::Hashed(reader) => part.pieces().iter().for_each(|piece| reader.push(piece)),
            ObservedBody::Kept(kept) => {
                let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
                if !part.pieces().iter().all(|piece| kept.push(piece, limit)) {
                    return Err(Unobserved { caller: self.caller, reason: Reason::ObservingFull });
                }
            }
        }
        Ok(self)
    }

    /// The claim of the whole request.
    pub(crate) fn finish(self) -> ObservedClaim {
        let claim = match self.body {
            ObservedBody::Hashed(reader) => self.claim.with_body(reader),
            ObservedBody::Kept(kept) => self.claim.with_whole_body(&Body::of(kept.bytes())),
        };
        ObservedClaim { claim, caller: self.caller }
    }
}
