//! `in_flight`: a duplicate of a request that is under way waits for it, or is refused (docs/contract.md section 6).

mod compile;
mod request;

pub(crate) use request::InFlightCheck;
