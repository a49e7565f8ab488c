//! Case B: webhook deliveries of third parties (docs/contract.md section 5).

mod request;

pub(crate) use request::await_delivery;
