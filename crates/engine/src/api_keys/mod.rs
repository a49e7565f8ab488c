//! Callers with API keys (docs/contract.md section 3).
//!
//! | module | subject |
//! |---|---|
//! | `key` | where a request has its API key, and what the registry says of its holder |
//! | `document` | `unkey` of an identity source, and `api_key` of a route |
//! | `compile` | start errors |
//! | `request` | a request that waits until it is known whose its API key is |

mod compile;
pub(crate) mod document;
mod key;
mod request;

pub(crate) use document::{ApiKeyRules, KeyRegistry};
pub(crate) use key::MAX_HOLDER_TEXT;
pub use key::{ApiKey, ApiKeyPlace, KeyHolder, KeyMember};
pub(crate) use request::{Asked, await_caller};
