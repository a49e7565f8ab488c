//! Recovery: a caller requests the stored result of its own earlier request, with the key of that request in the path
//! (docs/contract.md section 6). The key gets the namespace of the caller, so a caller cannot reach another caller's
//! result.
//!
//! | module | subject |
//! |---|---|
//! | `compile` | the routes that can be recovered from, and start errors |
//! | `path` | recovery paths |
//! | `request` | a request for a stored result |
//! | `result` | the way of such a request to the backend |
//! | `answer` | what a backend's answer says of the result |

mod answer;
mod compile;
mod path;
mod request;
mod result;

pub(crate) use answer::evaluate_stored_result;
#[cfg_attr(not(feature = "needs"), allow(unreachable_pub, reason = "only what describes policies hands it on"))]
pub use path::{OUTPUT, SEGMENT, Wait};
pub(crate) use path::{RecoveryPath, request_path};
pub(crate) use request::recovery_request;
pub(crate) use result::StoredResult;
