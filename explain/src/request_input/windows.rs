//! A pasted command as Windows reads it, such as that of "Copy as cURL (cmd)" in browsers: `cmd.exe` takes its carets
//! (`help cmd`), then curl splits the line into words ("Parsing C command-line arguments" of Microsoft).

use super::PastedCommand;
use super::quotes::NOT_CLOSED;
use std::str::Chars;

/// Whether the command is written for `cmd.exe`: it quotes with `^"`, or its first line ends with a caret.
pub(super) fn is_for_windows(command: &str) -> bool {
    let (first, more) = command.split_once('\n').unwrap_or((command, ""));
    let quote = command.find(['"', '\'']).and_then(|at| command.get(..at));
    quote.is_some_and(|before| before.ends_with('^')) || (first.ends_with('^') && !more.is_empty())
}

/// The words of the first command, and `%NAME%` in them.
///
/// # Errors
/// A quote is not closed.
pub(super) fn words(command: &str) -> Result<PastedCommand, String> {
    let line = without_carets(command);
    let replaced = variables(&line);
    Ok(PastedCommand { words: arguments(&line)?, replaced, notes: Vec::new() })
}

/// The line that `cmd.exe` gives to the program.
fn without_carets(command: &str) -> String {
    let mut line = String::with_capacity(command.len());
    let mut letters = command.chars();
    let mut in_quotes = false;
    while let Some(letter) = letters.next() {
        match letter {
            '^' if !in_quotes => match letters.next() {
                // The line goes on, and the first character of the next one is taken as it is.
                Some('\n') => line.extend(letters.next()),
                next => line.extend(next),
            },
            '\n' | '&' | '|' | '<' | '>' if !in_quotes => break,
            letter => {
                in_quotes ^= letter == '"';
                line.push(letter);
            }
        }
    }
    line
}

/// The words that the C runtime makes of a line.
fn arguments(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    let mut in_quotes = false;
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' if !in_quotes => words.extend(word.take()),
            '\\' => {
                let count = 1 + skipped(&mut letters, '\\');
                let is_before_quote = letters.as_str().starts_with('"');
                let shown = if is_before_quote { count / 2 } else { count };
                let word = word.get_or_insert_default();
                word.extend(std::iter::repeat_n('\\', shown));
                if is_before_quote && count % 2 == 1 {
                    word.extend(letters.next());
                }
            }
            '"' if in_quotes && letters.as_str().starts_with('"') => {
                word.get_or_insert_default().extend(letters.next())
            }
            '"' => {
                in_quotes = !in_quotes;
                word.get_or_insert_default();
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if in_quotes { Err(NOT_CLOSED.to_owned()) } else { Ok(words) }
}

/// Skips one character as often as it stands there; how often.
fn skipped(letters: &mut Chars<'_>, letter: char) -> usize {
    let rest = letters.as_str().trim_start_matches(letter);
    let count = letters.as_str().len() - rest.len();
    *letters = rest.chars();
    count
}

/// Each `%NAME%`. A percent sign with two hexadecimal digits is part of a URL.
fn variables(line: &str) -> Vec<String> {
    let names = line.split('%').skip(1);
    let is_name = |name: &&str| {
        let is_escape = name.len() >= 2 && name.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
        !name.is_empty() && !is_escape && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let named = names.filter(is_name).map(|name| format!("%{name}%"));
    named.filter(|name| line.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_a_browser_on_windows() {
        // Chrome 131, "Copy as cURL (cmd)".
        let command = "curl ^\"https://h/orders?a=1^&b=%^20x^\" ^\n  -H ^\"idempotency-key: ^\\^\"8e03^\\^\"^\" ^\n  \
                       --data-raw ^\"^{^\\^\"a^\\^\":^\\^\"b^\n\nc^\\^\"^}^\" & echo";
        assert!(is_for_windows(command));
        let expected = [
            "curl",
            "https://h/orders?a=1&b=%20x",
            "-H",
            "idempotency-key: \"8e03\"",
            "--data-raw",
            "{\"a\":\"b\nc\"}",
        ];
        assert_eq!(words(command).unwrap().words, expected);
    }

    #[test]
    fn quotes_and_backslashes_are_read_as_the_c_runtime_does() {
        for (line, expected) in [
            (r#"a "b c" d"e f"g "" \"h\""#, vec!["a", "b c", "de fg", "", "\"h\""]),
            (r#"a\b "c\\" "d\\\"e" "f""g""#, vec!["a\\b", "c\\", "d\\\"e", "f\"g"]),
        ] {
            assert_eq!(arguments(line).unwrap(), expected, "{line}");
        }
        assert!(arguments("\"a").is_err());
        assert_eq!(without_carets("a \"b^c|d\" ^^ e|f"), "a \"b^c|d\" ^ e");
        assert_eq!(variables("%KEY% 100%25 %C3%A4% % %a b%"), ["%KEY%"]);
        for other in ["curl 'https://h' -d '^\"'", "curl h", "curl \"^\"", "curl h ^"] {
            assert!(!is_for_windows(other), "{other}");
        }
    }
}
