//! Collision detection: whether an idempotency key comes again with another request (docs/contract.md section 6).
//!
//! | module | subject |
//! |---|---|
//! | `document` | what a route says of it, and its rules; the `guard` of a backend |
//! | `compile` | the rules of a policy's routes, and start errors |
//! | `request` | what a request waits for, and whether it is refused |
//! | `fingerprint` | the digest of a request: method, path, query, content type, body |
//! | `claim` | the key and the fingerprint that the guard service gets, and its reply |
//! | `probe` | whether the guard does what is expected of it |
//! | `observation` | a request that is checked beside its way to the backend |

mod claim;
mod compile;
pub(crate) mod document;
mod fingerprint;
mod observation;
mod probe;
mod request;

pub use claim::{Claim, claim_key};
pub(crate) use claim::{ClaimVerdict, OpenClaim, STORE, call, read};
pub use document::Collision;
pub(crate) use document::{CollisionRules, Guard};
pub(crate) use fingerprint::BodyReader;
pub(crate) use observation::{Observation, ObservedCaller, ObservedClaim, Unobserved};
pub use probe::{GuardProbe, GuardVerdict};
pub(crate) use request::CollisionChecks;
