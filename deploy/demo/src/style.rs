//! Plain text, with colours on a terminal only.

use std::env;
use std::io::{IsTerminal as _, Write as _, stdout};

/// Prints a line, or several. A reader that went away (`| head`) changes nothing about what is being done.
pub(crate) fn say(text: impl AsRef<str>) {
    let _ = writeln!(stdout(), "{}", text.as_ref().trim_end_matches('\n'));
}

/// Columns of running text.
const WIDTH: usize = 110;

/// Whether to colour.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    colours: bool,
}

impl Style {
    /// Colours if standard output is a terminal and `NO_COLOR` is not set.
    pub(crate) fn detect() -> Self {
        Self { colours: stdout().is_terminal() && env::var_os("NO_COLOR").is_none() }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colours: false }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31;1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Breaks `text` between words, and between lines where it has some, after `first`; further lines begin with as many spaces.
pub(crate) fn wrap(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let fits = indent.len() + line.chars().count() + 1 + word.chars().count() <= WIDTH;
            if !line.is_empty() && !fits {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    let mut wrapped = String::new();
    for (index, line) in lines.iter().enumerate() {
        wrapped.push_str(if index == 0 { first } else { &indent });
        wrapped.push_str(line);
        wrapped.push('\n');
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_indented() {
        let text = "word ".repeat(30);
        let wrapped = wrap("why  ", text.trim_end());
        let mut lines = wrapped.lines();
        assert!(lines.next().unwrap().starts_with("why  word word"));
        assert!(lines.clone().count() > 0);
        assert!(lines.all(|line| line.starts_with("     word") && line.len() <= WIDTH));
    }

    #[test]
    fn a_long_word_stays_whole_and_lines_stay_apart() {
        let long = "x".repeat(200);
        assert_eq!(wrap("a ", &long), format!("a {long}\n"));
        assert_eq!(wrap("a ", "one\ntwo"), "a one\n  two\n");
    }
}
