//! The playground: what `edge-idempotency check` and `edge-idempotency explain` print about a policy and a request, for a page that runs
//! this crate as WebAssembly (docs/playground/web/). Nothing is sent, and nothing is kept.
//!
//! | module | subject |
//! |---|---|
//! | `report` | what the command would print |
//! | `memory` | texts that the page hands in and takes out |

mod memory;
mod report;

pub use report::{Question, Report, answer, report};
