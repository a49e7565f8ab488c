//! What the command prints. Documents, logs and answers of others hold texts that a terminal would act on, so every text goes through
//! here: no other file writes to standard output or standard error (clippy denies it), but for the findings of `check`, which have colours.

use crate::explain::terminal_text::{escaped, printable_lines};
use std::io::Write as _;

/// Prints a text and the end of its line on standard output. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print(text: &str) -> Result<(), String> {
    written(&printable_lines(text))
}

/// As [`print`], for JSON and for YAML whose texts are in quotes: a parser reads the same values.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_document(text: &str) -> Result<(), String> {
    written(&escaped(text.to_owned()))
}

fn written(text: &str) -> Result<(), String> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// Prints a text on standard error, as it ends. Nobody is left to tell if that cannot be written.
pub(crate) fn tell_text(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(printable_lines(text).as_bytes());
    let _ = out.flush();
}

/// Prints a line on standard error, as `eprintln!` does.
macro_rules! tell {
    ($($text:tt)*) => { $crate::output::tell_text(&(format!($($text)*) + "\n")) };
}
pub(crate) use tell;
