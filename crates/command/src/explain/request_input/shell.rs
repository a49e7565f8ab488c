//! A pasted command as a POSIX shell and bash read it ("Shell Command Language" of POSIX, the Bash manual): its first simple
//! command, without redirections, as words. `shell_words` splits them. What stands here is what a paste has beside words.

use super::PastedCommand;
use super::ansi_c::{self, NOT_CLOSED};
use std::str::Chars;

const INPUT: &str = "--curl: the command takes its input from `<`: write the body into a file, and name the file in the command: -d @FILE";
const SEVERAL: &str = "--curl: bash makes several words of a list in `{ }`: put it in quotes";
/// Stands for a redirection, whose file is the next word. No argument of a command can hold it.
const REDIRECTION: &str = "\0";

/// The words of the first simple command. Text that the shell would replace stands there as it was written, and is listed.
///
/// # Errors
/// A quote is not closed, the command reads from a redirection, or the shell makes something else of it than the writer means: a line that ends
/// with spaces behind its backslash, a list in braces.
pub(super) fn words(command: &str) -> Result<PastedCommand, String> {
    let plain = PlainText::of(command)?;
    let all = shell_words::split(&plain.text).map_err(|_| NOT_CLOSED.to_owned())?;
    let mut words = Vec::with_capacity(all.len());
    let mut all = all.into_iter();
    while let Some(word) = all.next() {
        if word == REDIRECTION {
            // Its file.
            all.next();
        } else {
            words.push(word);
        }
    }
    Ok(PastedCommand { words, replaced: plain.replaced, notes: plain.notes })
}

/// The first simple command, in which only quotes, backslashes, spaces and [`REDIRECTION`] have a meaning.
#[derive(Default)]
struct PlainText {
    text: String,
    /// What the shell would replace
    replaced: Vec<String>,
    notes: Vec<String>,
}

impl PlainText {
    fn of(command: &str) -> Result<Self, String> {
        let mut plain = Self::default();
        let mut letters = command.chars();
        let (mut in_quotes, mut at_word_start) = (false, true);
        // Where the text behind each open brace of the word begins, and whether there is a comma in it.
        let mut braces: Vec<(usize, bool)> = Vec::new();
        while let Some(letter) = letters.next() {
            let rest = letters.as_str();
            let starts_word = std::mem::replace(&mut at_word_start, matches!(letter, ' ' | '\t' | '\n') && !in_quotes);
            if at_word_start {
                braces.clear();
            }
            match letter {
                '\'' if !in_quotes => {
                    let end = rest.find('\'').ok_or(NOT_CLOSED)?;
                    plain.add_quoted(taken(&mut letters, end));
                    letters.next();
                }
                '"' => {
                    in_quotes = !in_quotes;
                    plain.text.push('"');
                }
                '\\' => match letters.next() {
                    // The line goes on. A terminal shows `> ` in front of the next one.
                    Some('\n') => {
                        at_word_start = starts_word;
                        if !in_quotes && letters.as_str().starts_with("> -") {
                            letters.nth(1);
                        }
                    }
                    Some(' ' | '\t') if !in_quotes && rest.trim_start_matches([' ', '\t']).starts_with('\n') => {
                        let line = command.lines().count() - rest.lines().count() + 1;
                        return Err(format!(
                            "--curl: a space stands behind the `\\` at the end of line {line}, so that the shell ends the command \
                             there: remove the space"
                        ));
                    }
                    next => {
                        plain.text.push('\\');
                        plain.text.extend(next);
                    }
                },
                '$' if !in_quotes && rest.starts_with('\'') => {
                    letters.next();
                    let text = ansi_c::unescaped(&mut letters)?;
                    plain.add_quoted(&text);
                }
                '$' if !in_quotes && rest.starts_with('"') => {}
                '$' | '`' => match replaced_length(letter, rest)? {
                    0 => plain.text.push(letter),
                    length => {
                        let source = format!("{letter}{}", taken(&mut letters, length));
                        plain.add_replaced(source, in_quotes);
                    }
                },
                letter if in_quotes => plain.text.push(letter),
                '{' => {
                    plain.text.push(letter);
                    braces.push((plain.text.len(), false));
                }
                ',' => {
                    plain.text.push(letter);
                    if let Some((_, has_comma)) = braces.last_mut() {
                        *has_comma = true;
                    }
                }
                '}' => {
                    if let Some((start, has_comma)) = braces.pop()
                        && (has_comma || plain.text.get(start..).is_some_and(is_sequence))
                    {
                        return Err(SEVERAL.to_owned());
                    }
                    plain.text.push(letter);
                }
                '#' if starts_word => {
                    taken(&mut letters, rest.find('\n').unwrap_or(rest.len()));
                }
                '<' => return Err(INPUT.to_owned()),
                '>' => plain.add_redirection(&mut letters),
                '&' if rest.starts_with('>') => {
                    letters.next();
                    plain.add_redirection(&mut letters);
                }
                '\n' | ';' | '|' | '&' if !plain.text.trim().is_empty() => {
                    plain.end(letter, rest);
                    return Ok(plain);
                }
                _ => plain.text.push(letter),
            }
        }
        if in_quotes { Err(NOT_CLOSED.to_owned()) } else { Ok(plain) }
    }

    /// Adds text that the shell takes as it is.
    fn add_quoted(&mut self, text: &str) {
        self.text.push_str(&format!("'{}'", text.replace('\'', r"'\''")));
    }

    fn add_replaced(&mut self, source: String, in_quotes: bool) {
        let quote = if in_quotes { "\"" } else { "" };
        self.text.push_str(quote);
        self.add_quoted(&source);
        self.text.push_str(quote);
        self.replaced.push(source);
    }

    /// `>`, `>>`, `>|`, `>&`, with the number in front (`2>&1`).
    fn add_redirection(&mut self, letters: &mut Chars<'_>) {
        let length = letters.as_str().len() - letters.as_str().trim_start_matches(['>', '|', '&']).len();
        taken(letters, length);
        let without_number = self.text.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        if self.text.get(..without_number).is_some_and(|text| text.is_empty() || text.ends_with([' ', '\t'])) {
            self.text.truncate(without_number);
        }
        self.text.push_str(&format!(" {REDIRECTION} "));
    }

    /// Says what may be a surprise about the end of the command, before `rest`.
    fn end(&mut self, separator: char, rest: &str) {
        if separator == '&' && rest.starts_with(|next: char| next != '&' && !next.is_whitespace()) {
            self.notes.push(
                "The shell ends the command at the first `&` that is not in quotes: put the URL in quotes if it goes on there."
                    .to_owned(),
            );
        }
        let goes_on = rest.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        if separator == '\n' && goes_on {
            self.notes.push(
                "The command ends with its first line that has no `\\` at its end. The lines behind it are not explained."
                    .to_owned(),
            );
        }
    }
}

/// `1..9` and `a..z`, with a step behind it or without.
fn is_sequence(text: &str) -> bool {
    let is_end = |end: &str| {
        end.parse::<i64>().is_ok() || (end.len() == 1 && end.bytes().all(|byte| byte.is_ascii_alphabetic()))
    };
    let parts: Vec<&str> = text.split("..").collect();
    (2..=3).contains(&parts.len()) && parts.into_iter().all(is_end)
}

/// Takes this many bytes, which end between characters.
fn taken<'t>(letters: &mut Chars<'t>, length: usize) -> &'t str {
    let (text, rest) = letters.as_str().split_at_checked(length).unwrap_or_default();
    *letters = rest.chars();
    text
}

/// How many bytes behind `$` or a backtick belong to what the shell replaces; 0 if it replaces nothing.
fn replaced_length(letter: char, rest: &str) -> Result<usize, String> {
    if letter == '`' {
        return Ok(rest.find('`').ok_or(NOT_CLOSED)? + 1);
    }
    let name = rest.len() - rest.trim_start_matches(|next: char| next.is_ascii_alphanumeric() || next == '_').len();
    match rest.chars().next() {
        Some('{') => Ok(rest.find('}').ok_or(NOT_CLOSED)? + 1),
        Some('(') => {
            let mut depth = 0_usize;
            for (at, next) in rest.char_indices() {
                depth = match next {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            Err(NOT_CLOSED.to_owned())
        }
        Some(first) if first.is_ascii_alphabetic() || first == '_' => Ok(name),
        Some(first) if first.is_ascii_digit() || "@*#?$!-".contains(first) => Ok(1),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_command_is_split_into_words_as_bash_does() {
        for (command, expected) in [
            ("curl -d $'it\\'s\\n\\u0021' h", vec!["curl", "-d", "it's\n!", "h"]),
            (r#"curl "$'a'" '$' \$'b' $"c""#, vec!["curl", "$'a'", "$", "$b", "c"]),
            (r#"curl -d "a\"$'b'" h"#, vec!["curl", "-d", "a\"$'b'", "h"]),
            ("curl h/orders; echo done", vec!["curl", "h/orders"]),
            ("curl h/orders|jq .", vec!["curl", "h/orders"]),
            ("curl h/orders&&echo", vec!["curl", "h/orders"]),
            ("curl 'h?a=1&b=2;c|d' \"e;f\" g\\;h", vec!["curl", "h?a=1&b=2;c|d", "e;f", "g;h"]),
            ("curl 2>&1 -v h >out.txt 2>/dev/null -d x", vec!["curl", "-v", "h", "-d", "x"]),
            ("curl &> 'my file' h2>x", vec!["curl", "h2"]),
            ("# create an order\n\ncurl h # it's one\n", vec!["curl", "h"]),
            ("curl \\\n  h \\\n> -d a#b \\\n  -s", vec!["curl", "h", "-d", "a#b", "-s"]),
        ] {
            assert_eq!(
                words(command).map(|pasted| pasted.words),
                Ok(expected.into_iter().map(str::to_owned).collect())
            );
        }
        for bad in ["curl 'h", "curl \"h", "curl `h", "curl ${h", "curl $(h", "curl $'h", "curl -d @- <<EOF\nx\nEOF"] {
            assert!(words(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_the_shell_reads_in_another_way_than_its_writer_is_refused() {
        for (command, told) in [
            ("curl \\\n -X POST \\ \n h", "end of line 2,"),
            ("curl -X POST \\ \t\n h", "end of line 1,"),
            ("curl h/{a,b}", "several words"),
            ("curl h -d {\"a\":1,\"b\":2}", "several words"),
            ("curl h/{1..3}", "several words"),
            ("curl h/x{{a},b}y", "several words"),
        ] {
            let error = words(command).unwrap_err();
            assert!(error.contains(told), "{command}: {error}");
        }
        for (command, expected) in [
            ("curl \"h \\ \n\" 'h \\ \n'", vec!["curl", "h \\ \n", "h \\ \n"]),
            (
                "curl a\\ b {a} {}, \\{a,b\\} {a\\,b} '{a,b}' \"{a,b}\" {a.b..c} ,{ a,b }",
                vec!["curl", "a b", "{a}", "{},", "{a,b}", "{a,b}", "{a,b}", "{a,b}", "{a.b..c}", ",{", "a,b", "}"],
            ),
        ] {
            let read = words(command).unwrap().words;
            assert_eq!(read, expected, "{command}");
        }
    }

    #[test]
    fn what_the_shell_would_replace_is_listed_and_stays() {
        for (command, expected, listed) in [
            ("\"a: $(uuidgen -r (x) )\" b", vec!["a: $(uuidgen -r (x) )", "b"], vec!["$(uuidgen -r (x) )"]),
            ("$KEY${A:-b}`date +%s`", vec!["$KEY${A:-b}`date +%s`"], vec!["$KEY", "${A:-b}", "`date +%s`"]),
            (r#"'$A' \$B "\$C" "$ d" $1"#, vec!["$A", "$B", "$C", "$ d", "$1"], vec!["$1"]),
        ] {
            let pasted = words(command).unwrap();
            assert_eq!(
                (pasted.words, pasted.replaced),
                (expected.into_iter().map(str::to_owned).collect(), listed.into_iter().map(str::to_owned).collect())
            );
        }
    }

    #[test]
    fn a_surprising_end_is_told() {
        let notes = |command| words(command).unwrap().notes.len();
        assert_eq!(notes("curl https://h/a?b=1&c=2"), 1);
        assert_eq!(notes("curl https://h/a\n-H 'a: b'"), 1);
        for expected in ["curl h & ", "curl h && x", "curl h\n\n# that was it", "curl h | x\ny"] {
            assert_eq!(notes(expected), 0, "{expected}");
        }
    }
}
