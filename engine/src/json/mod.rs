//! JSON (RFC 8259): texts read into a tree, and small objects written. What the filter needs of it is less than what
//! general libraries bring, and a module that every worker compiles at start is the smaller for it.

pub(crate) mod cursor;
pub(crate) mod lex;
pub(crate) mod scan;
mod tree;
mod write;

pub use cursor::{Issue, Issues, JsonCursor, ObjectCursor};
pub use tree::Json;
pub(crate) use write::{Object, push_string};
