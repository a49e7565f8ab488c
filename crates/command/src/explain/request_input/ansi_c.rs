//! `$'…'` of bash (the Bash manual, "ANSI-C Quoting"), in which browsers write a body that holds an apostrophe or a line break
//! ("Copy as cURL").

use std::str::Chars;

/// A quote begins in the command, and does not end.
pub(super) const NOT_CLOSED: &str = "--curl: a quote of the command is not closed: paste the whole command";

/// Behind this a byte stands that is no character by itself: `$'\xe2\x82\xac'` is three of them. Such a byte travels through the words of
/// a command as a character of Unicode's last private area.
const BYTES: u32 = 0x10_FF00;

/// The character that stands for a byte.
fn of_byte(byte: u32) -> Option<char> {
    char::from_u32(if byte < 0x80 { byte } else { BYTES + byte })
}

/// The byte that a character stands for.
fn byte_of(letter: char) -> Option<u8> {
    u32::from(letter).checked_sub(BYTES).filter(|byte| *byte >= 0x80).and_then(|byte| u8::try_from(byte).ok())
}

/// Whether the text has one of the characters that stand for bytes.
pub(super) fn has_bytes(text: &str) -> bool {
    text.chars().any(|letter| byte_of(letter).is_some())
}

/// What the shell makes of a word.
pub(super) fn bytes(word: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    for letter in word.chars() {
        match byte_of(letter) {
            Some(byte) => out.push(byte),
            None => out.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// The text up to the closing quote, without its escapes. `letters` begins behind the opening quote, and ends behind the closing
/// one.
///
/// # Errors
/// The quote is not closed, or an escape stands for a zero byte, at which bash ends the text, or for no character.
pub(super) fn unescaped(letters: &mut Chars<'_>) -> Result<String, String> {
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => return Ok(out),
            '\\' => {
                let escape = letters.next().ok_or(NOT_CLOSED)?;
                let known = match escape {
                    'n' => Some('\n'),
                    'r' => Some('\r'),
                    't' => Some('\t'),
                    'a' => Some('\u{7}'),
                    'b' => Some('\u{8}'),
                    'e' | 'E' => Some('\u{1b}'),
                    'f' => Some('\u{c}'),
                    'v' => Some('\u{b}'),
                    '\\' | '\'' | '"' | '?' => Some(escape),
                    'c' => letters.next().map(control).transpose()?,
                    '0'..='7' => {
                        let first = escape.to_digit(8).unwrap_or_default();
                        let more = number(letters, 8, 2);
                        let value = more.map_or(first, |(value, digits)| (first << (3 * digits)) + value);
                        Some(character(of_byte(value & 0xff))?)
                    }
                    'x' => number(letters, 16, 2).map(|(value, _)| character(of_byte(value))).transpose()?,
                    'u' => number(letters, 16, 4).map(|(value, _)| character(char::from_u32(value))).transpose()?,
                    'U' => number(letters, 16, 8).map(|(value, _)| character(char::from_u32(value))).transpose()?,
                    _ => None,
                };
                match known {
                    Some(letter) => out.push(letter),
                    // What is no escape stays as it stands there.
                    None => out.extend(['\\', escape]),
                }
            }
            plain => out.push(plain),
        }
    }
    Err(NOT_CLOSED.to_owned())
}

/// Ctrl and a key.
fn control(key: char) -> Result<char, String> {
    character(if key == '?' { Some('\u{7f}') } else { of_byte(u32::from(key) & 0x1f) })
}

/// A number of at most `most` digits, and how many it has; `None` without a digit.
fn number(letters: &mut Chars<'_>, radix: u32, most: u32) -> Option<(u32, u32)> {
    let (mut value, mut digits) = (0, 0);
    while digits < most {
        let Some(digit) = letters.clone().next().and_then(|letter| letter.to_digit(radix)) else { break };
        letters.next();
        value = value * radix + digit;
        digits += 1;
    }
    (digits > 0).then_some((value, digits))
}

fn character(letter: Option<char>) -> Result<char, String> {
    letter.filter(|letter| *letter != '\0').ok_or_else(|| {
        "--curl: the command has an escape that stands for no character: write the body into a file, and use -d @FILE".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was compared with bash 5.2.
    #[test]
    fn escapes_become_what_bash_makes_of_them() {
        let cases: [(&str, &[u8], &str); 5] = [
            (r"it\'s\n\u0021\x41' b", "it's\n!A".as_bytes(), " b"),
            ("'", b"", ""),
            (r"\U1F600\x7g'", "\u{1f600}\u{7}g".as_bytes(), ""),
            (r"\xe2\x82\xac \303\251 é\377'", b"\xe2\x82\xac \xc3\xa9 \xc3\xa9\xff", ""),
            (r#"\101\7\1018 \"\?\cA\c?\q\x\u\z'"#, b"A\x07A8 \"?\x01\x7f\\q\\x\\u\\z", ""),
        ];
        for (text, expected, rest) in cases {
            let mut letters = text.chars();
            let read = unescaped(&mut letters).map(|word| bytes(&word));
            assert_eq!((read.as_deref(), letters.as_str()), (Ok(expected), rest), "{text}");
        }
        for bad in ["a", r"\u0000'", r"\0'", r"\x00'", r"\400'", r"\c@'", r"\uD800'", "\\"] {
            assert!(unescaped(&mut bad.chars()).is_err(), "{bad}");
        }
    }
}
