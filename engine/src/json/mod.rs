//! JSON (RFC 8259).
//!
//! serde_json reads the texts that the filter acts on (policy documents, replies of stores) and writes what the filter
//! tells (problem documents, log records). The scanner is our own: it finds values in signed bodies and cleans errors
//! without a copy, and it knows what serde_json's values do not tell (docs/decisions/0011-json.md).
//!
//! | module | subject |
//! |---|---|
//! | `tree` | a text as a tree in which no member stands twice |
//! | `cursor` | reading a tree and noting every problem with its JSON pointer |
//! | `lex` | scalars and space, as they were written |
//! | `scan` | values at given places of a body, in one pass over its bytes |

pub(crate) mod cursor;
pub(crate) mod lex;
pub(crate) mod scan;
mod tree;

pub use cursor::{Issue, Issues, JsonCursor, ObjectCursor};
pub(crate) use tree::is_json;
pub use tree::{Json, JsonError};

/// `value` as a JSON text; members stand in the order of its fields.
///
/// The values of this crate are objects of texts, numbers and truths, whose names are texts, and the memory that they are
/// written to does not fail: serde_json has no error to return for them.
#[inline(never)]
pub(crate) fn to_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
