//! `$'…'` of bash (the Bash manual, "ANSI-C Quoting"), in which browsers write a body that holds an apostrophe or a line break
//! ("Copy as cURL").

/// The command with each `$'…'` as a word in single quotes, which every shell reads in the same way.
///
/// # Errors
/// An escape is not that of a character.
pub(super) fn plain(command: &str) -> Result<String, String> {
    let mut out = String::with_capacity(command.len());
    let mut letters = command.chars().peekable();
    // The quote in which the text stands.
    let mut quote = None;
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '$') if letters.peek() == Some(&'\'') => {
                letters.next();
                let word = unescaped(&mut letters)?;
                out.push_str(&format!("'{}'", word.replace('\'', r"'\''")));
                continue;
            }
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None | Some('"'), '\\') => {
                out.push(letter);
                out.extend(letters.next());
                continue;
            }
            _ => {}
        }
        out.push(letter);
    }
    Ok(out)
}

/// The text up to the closing quote, without its escapes.
fn unescaped(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, String> {
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
    Err("--curl: a quote of the command is not closed: paste the whole command".to_owned())
}

/// The character with a hexadecimal number of at most `most` digits.
fn number(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, most: usize) -> Result<char, String> {
    let mut value = 0;
    for _ in 0..most {
        let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(16)) else { break };
        letters.next();
        value = value * 16 + digit;
    }
    char::from_u32(value).filter(|letter| *letter != '\0').ok_or_else(|| {
        "--curl: the command has an escape that is not that of a character: write the body into a file, and -d @FILE".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters_and_other_quotes_stay() {
        for (text, expected) in [
            (r"curl --data-raw $'it\'s\n\u0021\x41'", "curl --data-raw 'it'\\''s\n!A'"),
            (r#"curl "$'a'" '$' \$'b'"#, r#"curl "$'a'" '$' \$'b'"#),
            (r#"-d "a\"$'b'""#, r#"-d "a\"$'b'""#),
        ] {
            assert_eq!(plain(text).unwrap(), expected);
        }
        for bad in [r"$'a", r"$'\u0000'", r"$'\uD800'"] {
            assert!(plain(bad).is_err(), "{bad}");
        }
    }
}
