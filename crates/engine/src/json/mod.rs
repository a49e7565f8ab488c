//! JSON (RFC 8259).
//!
//! serde_json reads policy documents and replies of stores, and writes problem documents and log records. The scanner
//! is our own: it finds values in signed bodies and cleans errors without building a tree, and it sees duplicate
//! members and source forms, which serde_json's values do not show (docs/decisions/0011-json.md).
//!
//! | module | subject |
//! |---|---|
//! | `tree` | a text as a tree without duplicate members |
//! | `cursor` | reading a tree and collecting its problems with their JSON pointers |
//! | `lex` | the lexer: scalars and space |
//! | `scan` | values at JSON pointers, in one pass over the bytes |
//! | `set_true` | a member of an object becomes `true` as the text passes |
//! | `skip` | skipping what no pointer leads to, with a check of all of it |
//! | `canonical` | the canonical form of a text (RFC 8785) |
//! | `syntax_error` | why a text is no JSON |

pub(crate) mod canonical;
pub(crate) mod cursor;
pub(crate) mod lex;
#[cfg(test)]
mod reference;
pub(crate) mod scan;
pub(crate) mod set_true;
mod skip;
pub(crate) mod syntax_error;
mod tree;

pub use cursor::{Issue, Issues, JsonCursor, ObjectCursor};
pub(crate) use tree::is_json;
pub use tree::{Json, JsonError};

/// Serialises `value` as JSON, with the members in the order of its fields.
///
/// serde_json cannot fail here: the values of this crate have string keys only, and they are written into memory.
#[inline(never)]
pub(crate) fn to_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
