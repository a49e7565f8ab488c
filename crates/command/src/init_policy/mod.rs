//! `init`: a first policy document from a few answers, or from an OpenAPI description.
//!
//! | module | subject |
//! |---|---|
//! | `answers` | what a document is made of, and the document |
//! | `questions` | asks on a terminal for what the options leave open |
//! | `guesses` | routes that an OpenAPI description suggests |
//! | `webhook_signs` | which of its operations look like webhooks |

pub(crate) mod answers;
pub(crate) mod guesses;
pub(crate) mod questions;
mod webhook_signs;
