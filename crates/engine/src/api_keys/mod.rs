//! Callers with API keys (docs/contract.md section 3).

mod request;

pub(crate) use request::{Asked, await_caller};
