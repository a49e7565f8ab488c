//! Parts of a description that are not read.

use std::ops::Range;

/// A part of a description that is not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadPart {
    /// The path, or the URL of a server
    pub(crate) title: String,
    /// The JSON pointer of the part, or of the list with it
    pub(crate) pointer: String,
    /// The bytes to show
    pub(crate) span: Range<usize>,
    /// What is not read, and why
    pub(crate) message: String,
    /// What to write instead
    pub(crate) help: &'static str,
}

/// The message about a reference that leads to nothing in the file, and what to do.
pub(crate) fn unread_reference(reference: &str) -> (String, &'static str) {
    (
        format!("`{reference}` leads to another file, to nothing or in a circle, and was not followed"),
        "put the description into one file first, for example with `redocly bundle`",
    )
}
