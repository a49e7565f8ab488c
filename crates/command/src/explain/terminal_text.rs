//! Text of a log on a terminal: what would move the cursor, change colours or turn the direction of writing is shown as an
//! escape sequence.

use serde_json::Value;
use std::borrow::Cow;

/// Whether a terminal could act on the character, or would show nothing.
pub fn is_unprintable(letter: char) -> bool {
    !matches!(letter, '\\' | '"' | '\'') && letter.escape_debug().len() > 1
}

/// The text with `\u{1b}` for an unprintable character, here for U+001B.
pub fn printable(text: &str) -> Cow<'_, str> {
    without(text, is_unprintable)
}

/// [`printable`] for a text of several lines, whose ends and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    without(text, |letter| !matches!(letter, '\n' | '\t') && is_unprintable(letter))
}

fn without(text: &str, is_escaped: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_escaped(letter) { shown.extend(letter.escape_unicode()) } else { shown.push(letter) }
    }
    Cow::Owned(shown)
}

/// The value as JSON with two spaces of indentation. Unprintable characters, which stand in strings only, are written as
/// `\u001b`, so that a parser reads the same value.
pub fn json(value: &Value) -> String {
    escaped(format!("{value:#}"))
}

/// [`json`] in one line.
pub fn json_line(value: &Value) -> String {
    escaped(value.to_string())
}

/// A text in JSON, or in YAML with such texts in quotes, that has been written already: as [`json`].
pub fn escaped(text: String) -> String {
    let is_kept = |letter: char| matches!(letter, '\n' | '\t') || !is_unprintable(letter);
    if text.chars().all(is_kept) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_kept(letter) {
            shown.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_printed() {
        assert_eq!(
            printable("a\u{1b}[31m\u{9b}\u{202e}\r\n\u{7f}ü\"\\"),
            "a\\u{1b}[31m\\u{9b}\\u{202e}\\u{d}\\u{a}\\u{7f}ü\"\\"
        );
        assert_eq!(printable("order-1 テスト"), "order-1 テスト");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a\u{9b}": ["\u{1b}[2J\u{7f}\u{202e}\u{e0001}ü", "\n"]});
        let text = json(&value);
        assert!(!text.contains(|letter| letter != '\n' && is_unprintable(letter)), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
