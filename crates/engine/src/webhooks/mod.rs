//! Case B: webhook deliveries of third parties (docs/contract.md section 5).
//!
//! | module | subject |
//! |---|---|
//! | `document` | the objects `webhooks` of the document and `webhook` of a route |
//! | `compile` | the providers that a policy names, and start errors |
//! | `request` | a delivery: its binding, its secrets, its key |

mod compile;
pub(crate) mod document;
mod request;

pub(crate) use document::{Binding, WebhookBlock, Webhooks};
pub(crate) use request::await_delivery;
