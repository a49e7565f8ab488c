//! The codes of problem documents, and the reasons that refine them: their names, what they mean, and what to do. The tables of
//! docs/callers.md and docs/webhooks.md are made of this.

mod code;
mod reason;
mod rpc;

pub use code::{Audience, Code, CodeExplanation, Retry};
pub use reason::{Reason, ReasonTable};
pub use rpc::RpcStatus;
