//! What requests and answers wait for: a store, or a question that is a call of its own, since nothing of it is cached.
//!
//! | module | subject |
//! |---|---|
//! | `invocation` | the id of a Restate invocation, for recovery |
//! | `output` | how far the work of an invocation is, for requests in flight and answers of one-way routes |

pub(crate) mod invocation;
pub(crate) mod output;

pub use crate::backend::restate::Progress;
pub use invocation::InvocationQuestion;
pub(crate) use invocation::STORE;
pub use output::OutputQuestion;

use crate::call::CallReply;
use crate::codes::Reason;
use crate::collision::{self, Claim};
use crate::lookup::{FETCHED, LookupAnswer, LookupRequest};

/// The lookup that a request or its answer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingLookup<'r> {
    /// What a store knows
    Store(&'r LookupRequest),
    /// The id of an invocation
    Invocation(&'r InvocationQuestion),
    /// The first fingerprint under the key of a claim
    Claim(&'r Claim),
    /// How far the work of an invocation is
    Output(&'r OutputQuestion),
}

impl PendingLookup<'_> {
    /// The store as metrics write it.
    pub(crate) const fn store_name(self) -> &'static str {
        match self {
            Self::Store(request) => request.kind.name(),
            Self::Invocation(_) | Self::Output(_) => STORE,
            Self::Claim(_) => collision::STORE,
        }
    }
}

/// What is asked without a cache: each lookup is a call of its own, and [`Lookups`](crate::lookup::Lookups) knows nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncachedLookup {
    /// [`PendingLookup::Invocation`]
    Invocation,
    /// [`PendingLookup::Claim`]
    Claim,
    /// [`PendingLookup::Output`]
    Output,
}

impl UncachedLookup {
    /// The answer that the reply to the call gives. A reply that cannot be used gives an answer with the reason.
    pub fn read_reply(self, reply: &CallReply<'_>) -> LookupAnswer {
        match self {
            Self::Invocation => LookupAnswer::Invocation(invocation::read(reply)),
            Self::Claim => LookupAnswer::FirstClaim(collision::read(reply)),
            Self::Output => LookupAnswer::Output(output::read(reply)),
        }
    }
}

/// The result of a call without a cache, as metrics write it: `miss`, or the reason of a failure.
pub(crate) const fn call_name<T>(result: &Result<T, Reason>) -> &'static str {
    match result {
        Ok(_) => FETCHED,
        Err(reason) => reason.name(),
    }
}
