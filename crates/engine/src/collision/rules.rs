//! Collision detection of a route (docs/contract.md section 6).

use crate::backend::GuardService;
use crate::policy::Target;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// How a route detects that a key comes again with another request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollisionRules {
    /// The target, also where the path is not rewritten
    pub(crate) target: Arc<Target>,
    /// The guard that is asked
    pub(crate) guard: Arc<GuardService>,
    /// Whether a request waits for the guard, and is refused (`enforce`). Otherwise its claim is counted (`observe`, and
    /// `enforce` in shadow mode).
    pub(crate) waits: bool,
    /// Whether bodies are compared as canonical JSON
    pub(crate) json: bool,
    /// The headers that are compared, too
    pub(crate) headers: ComparedHeaders,
}

/// The headers beside `content-type` that are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ComparedHeaders {
    /// Their names in lower case, in alphabetical order
    pub(crate) names: Box<[String]>,
    /// What tells fingerprints with these headers from those with others: 8 characters of `A-Z a-z 0-9 _ -`; empty without
    /// headers
    pub(crate) tag: String,
}

impl ComparedHeaders {
    /// `declared`: in lower case, each of them once.
    #[inline(never)]
    pub(crate) fn of(declared: &[String]) -> Self {
        let mut names: Vec<String> = Vec::new();
        for name in declared {
            // They are few, and a sort would be code of its own in the module.
            names.insert(names.partition_point(|other| other < name), name.clone());
        }
        let mut text = Vec::new();
        for name in &names {
            text.extend_from_slice(&(name.len() as u64).to_be_bytes());
            text.extend_from_slice(name.as_bytes());
        }
        let digest: [u8; 32] = Sha256::digest(text.as_slice()).into();
        let tag = digest.first_chunk::<6>().filter(|_| !names.is_empty());
        Self { tag: tag.map(|tag| BASE64_URL_SAFE_NO_PAD.encode(tag)).unwrap_or_default(), names: names.into() }
    }
}
