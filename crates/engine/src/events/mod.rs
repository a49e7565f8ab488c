//! What happens to an exchange, and what becomes of it: the events of a request and of its answer.

mod answer;
mod answer_body;
mod answer_mapping;
mod clean;
mod handler_hit;
mod replay_mark;
mod request;

pub use answer::ResponseFlow;
pub use answer_body::{AwaitedBody, UnreadBody};
