//! Operations: a caller asks for the answer of an earlier request by its operation id (docs/contract.md section 6). The
//! id's tag fits its own caller only, so a caller cannot reach another caller's answer.

mod answer;
mod request;

pub(crate) use answer::{operation_id, set_operation};
pub(crate) use request::operation_request;
