//! `init`: a first policy document from a few answers.
//!
//! | module | subject |
//! |---|---|
//! | `answers` | what a document is made of, and the document |
//! | `questions` | asks on a terminal for what the options leave open |

pub(crate) mod answers;
pub(crate) mod questions;
