//! Recovery: a caller requests the stored result of its own earlier request, with the key of that request in the path
//! (docs/contract.md section 6). The key gets the namespace of the caller, so a caller cannot reach another caller's
//! result.

mod answer;
mod request;
mod result;

pub(crate) use answer::evaluate_stored_result;
pub(crate) use request::recovery_request;
pub(crate) use result::StoredResult;
