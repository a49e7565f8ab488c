//! Signed callers: machines that sign their requests (docs/contract.md section 7).
//!
//! | module | subject |
//! |---|---|
//! | `document` | the object `callers` of the document |
//! | `compile` | the routes of each caller, and start errors |
//! | `request` | a signed request: its signature, its caller, its key |

mod compile;
pub(crate) mod document;
mod request;

pub(crate) use document::{CallerHeaders, SignedCaller};
pub(crate) use request::await_signed;
