//! Collision detection: whether an idempotency key comes again with another request (docs/contract.md section 6).
//!
//! | module | subject |
//! |---|---|
//! | `fingerprint` | the digest of a request: method, path, query, content type, body |
//! | `claim` | the key and the fingerprint that the guard service gets, and its reply |
//! | `probe` | whether the guard does what is expected of it |
//! | `observation` | a request that is checked beside its way to the backend |

mod claim;
mod fingerprint;
mod observation;
mod probe;

pub use claim::{Claim, claim_key};
pub(crate) use claim::{ClaimVerdict, OpenClaim, STORE, call, read};
pub(crate) use fingerprint::{BodyReader, ClaimedRequest};
pub(crate) use observation::{Observation, ObservedCaller, ObservedClaim, Unobserved};
pub use probe::{GuardProbe, GuardVerdict};
