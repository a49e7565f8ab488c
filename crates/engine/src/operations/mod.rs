//! Operations: a caller asks for the answer of an earlier request by its operation id (docs/contract.md section 6). The
//! id's tag fits its own caller only, so a caller cannot reach another caller's answer.
//!
//! | module | subject |
//! |---|---|
//! | `document` | the object `operations` of a backend |
//! | `compile` | the operations of a policy, and start errors |
//! | `rules` | operation ids, their tags and their paths |
//! | `request` | a request for the answer of an operation |
//! | `answer` | the operation id of an answer |

mod answer;
mod compile;
pub(crate) mod document;
mod request;
mod rules;

pub(crate) use answer::{operation_id, set_operation};
pub(crate) use request::operation_request;
pub(crate) use rules::is_invocation_id;
pub use rules::{Operations, tag};
