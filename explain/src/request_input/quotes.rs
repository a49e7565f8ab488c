//! The error about quotes, the same for every shell.

/// A quote begins in the command, and does not end.
pub(super) const NOT_CLOSED: &str = "--curl: a quote of the command is not closed: paste the whole command";
