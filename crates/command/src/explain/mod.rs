//! `explain`: what the filter does with one request, by the very engine that runs in the gateway. Texts go in, a report comes out:
//! nothing here reads a file, an environment, a clock or the network. The command and the playground say the same by it.
//!
//! | module | subject |
//! |---|---|
//! | `request` | the request document |
//! | `request_input` | requests that people describe: a pasted curl command, a URL, a token |
//! | `verdict` | what the engine decides about a request |
//! | `sources` | what the identity sources hold |
//! | `trace` | the steps of a verdict, for people |
//! | `explanations` | what codes and reasons mean |
//! | `terminal_text` | texts of others, shown safely |

pub mod explanations;
pub mod request;
pub mod request_input;
mod sources;
pub mod terminal_text;
mod trace;
mod verdict;

pub use verdict::{Verdict, explain};
