//! Signed callers: machines that sign their requests (docs/contract.md section 7).

mod request;

pub(crate) use request::await_signed;
