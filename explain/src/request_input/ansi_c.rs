//! `$'…'` of bash (the Bash manual, "ANSI-C Quoting"), in which browsers write a body that holds an apostrophe or a line break
//! ("Copy as cURL").

use super::quotes::NOT_CLOSED;
use std::str::Chars;

/// The text up to the closing quote, without its escapes. `letters` begins behind the opening quote, and ends behind the closing
/// one.
///
/// # Errors
/// The quote is not closed, or an escape is not that of a character.
pub(super) fn unescaped(letters: &mut Chars<'_>) -> Result<String, String> {
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => return Ok(out),
            '\\' => out.push(match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('a') => '\u{7}',
                Some('b') => '\u{8}',
                Some('e' | 'E') => '\u{1b}',
                Some('f') => '\u{c}',
                Some('v') => '\u{b}',
                Some('x') => number(letters, 2)?,
                Some('u') => number(letters, 4)?,
                Some('U') => number(letters, 8)?,
                Some(plain) => plain,
                None => break,
            }),
            plain => out.push(plain),
        }
    }
    Err(NOT_CLOSED.to_owned())
}

/// The character with a hexadecimal number of at most `most` digits.
fn number(letters: &mut Chars<'_>, most: usize) -> Result<char, String> {
    let mut value = 0;
    for _ in 0..most {
        let Some(digit) = letters.clone().next().and_then(|letter| letter.to_digit(16)) else { break };
        letters.next();
        value = value * 16 + digit;
    }
    char::from_u32(value).filter(|letter| *letter != '\0').ok_or_else(|| {
        "--curl: the command has an escape that stands for no character: write the body into a file, and use -d @FILE".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters() {
        for (text, expected, rest) in
            [(r"it\'s\n\u0021\x41' b", "it's\n!A", " b"), ("'", "", ""), (r"\U1F600\x7g'", "\u{1f600}\u{7}g", "")]
        {
            let mut letters = text.chars();
            assert_eq!((unescaped(&mut letters).as_deref(), letters.as_str()), (Ok(expected), rest), "{text}");
        }
        for bad in ["a", r"\u0000'", r"\uD800'", "\\"] {
            assert!(unescaped(&mut bad.chars()).is_err(), "{bad}");
        }
    }
}
