//! JSON (RFC 8259): texts read into a tree, and small objects written. What the filter needs of it is less than what
//! general libraries bring, and a module that every worker compiles at start is the smaller for it.

pub(crate) mod lex;
mod tree;
mod write;

pub use tree::Json;
pub(crate) use write::{Object, push_string};
