//! Questions on the terminal.

use crate::output::tell_text;
use std::io::{BufRead as _, IsTerminal as _};

/// Whether somebody can see a question, which is written to standard error, and answer it.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on the terminal; only `y` and `yes` are a yes.
///
/// # Errors
/// Standard input or standard error is no terminal.
pub(super) fn confirmed(question: &str) -> Result<bool, String> {
    if !can_ask() {
        return Err(
            "there is no terminal to ask on, so nothing was done: standard input and standard error both have to be \
             a terminal. --yes goes on without a question"
                .to_owned(),
        );
    }
    tell_text(&format!("{question} [y/N] "));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|error| format!("standard input: {error}"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
