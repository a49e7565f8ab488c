//! Errors without what they tell about the machine they come from: stack traces and file paths.

use crate::json::lex::Text;
use crate::provider::json::{self, NotJson};

/// What stands where a path stood.
const GONE: &str = "…";

/// Directories that a file system's paths begin with, and those of APIs do not.
const ROOTS: [&str; 17] = [
    "Users", "bin", "etc", "home", "lib", "lib64", "mnt", "nix", "opt", "private", "proc", "root", "srv", "sys", "tmp",
    "usr", "var",
];

/// What source and object files are named.
const SOURCES: [&str; 27] = [
    "c", "cc", "cjs", "cpp", "cs", "ex", "exs", "fs", "go", "h", "hpp", "java", "js", "jsx", "kt", "kts", "mjs", "mts",
    "php", "py", "rb", "rs", "scala", "so", "swift", "ts", "tsx",
];

/// A JSON error without the member `stacktrace`, however spelled, and with `…` for each path of a file; `None` if there
/// is nothing of the kind in it. All else stays as it was written.
///
/// # Errors
/// [`NotJson`]
pub(super) fn error(body: &[u8]) -> Result<Option<Vec<u8>>, NotJson> {
    let members = json::members(body)?;
    if !members.iter().any(|(name, _)| is_trace(*name)) {
        return Ok(without_paths(body));
    }
    let mut kept = Vec::with_capacity(body.len());
    for (name, value) in members.into_iter().filter(|(name, _)| !is_trace(*name)) {
        kept.extend(if kept.is_empty() { b"{\"" } else { b",\"" });
        kept.extend(name.raw());
        kept.extend(b"\":");
        kept.extend(value);
    }
    if kept.is_empty() {
        kept.push(b'{');
    }
    kept.push(b'}');
    Ok(Some(without_paths(&kept).unwrap_or(kept)))
}

fn is_trace(name: Text<'_>) -> bool {
    let name = name.decode();
    let letters = name.iter().filter(|byte| !matches!(byte, b'_' | b'-')).map(u8::to_ascii_lowercase);
    letters.eq(*b"stacktrace")
}

/// The text without paths of files; `None` if there are none in it.
fn without_paths(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    while let Some((first, after)) = rest.split_first() {
        let end = rest.iter().position(|byte| !is_word_byte(*byte)).unwrap_or(rest.len());
        let (word, after) = match end {
            0 => {
                out.push(*first);
                // The letter of an escape, as in a line break, is no part of what follows it.
                rest = match after {
                    [escape, after @ ..] if *first == b'\\' => {
                        out.push(*escape);
                        after
                    }
                    _ => after,
                };
                continue;
            }
            end => rest.split_at_checked(end)?,
        };
        rest = after;
        if is_file(word) {
            found = true;
            out.extend(GONE.as_bytes());
        } else {
            out.extend(word);
        }
    }
    found.then_some(out)
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'@' | b'+' | b'-' | b'/' | b':')
}

/// Whether a word is the path of a file, or the place of a line in one.
fn is_file(word: &[u8]) -> bool {
    let holds = |part: &[u8]| word.windows(part.len()).any(|window| window == part);
    if word.starts_with(b"file:/") {
        return true;
    }
    if holds(b"://") {
        return false;
    }
    let path = trimmed(word, |byte| matches!(byte, b':' | b'.'));
    let name = trimmed(path, |byte| byte.is_ascii_digit() || byte == b':');
    let has_line = path.get(name.len()) == Some(&b':');
    let extension = name.iter().rposition(|byte| *byte == b'.').and_then(|dot| name.get(dot + 1..));
    let is_source = extension.is_some_and(|extension| SOURCES.iter().any(|known| known.as_bytes() == extension));
    if is_source && (has_line || name.contains(&b'/')) {
        return true;
    }
    let mut segments = path.split(|byte| *byte == b'/');
    let rooted = segments.next() == Some(b"")
        && segments.next().is_some_and(|first| ROOTS.iter().any(|root| root.as_bytes() == first))
        && segments.next().is_some();
    rooted || holds(b"node_modules/")
}

/// The text without such bytes at its end.
fn trimmed(mut text: &[u8], is_cut: fn(u8) -> bool) -> &[u8] {
    while let [rest @ .., last] = text {
        if !is_cut(*last) {
            break;
        }
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(body: &str) -> Option<String> {
        error(body.as_bytes()).unwrap().map(|cleaned| String::from_utf8(cleaned).unwrap())
    }

    #[test]
    fn a_stack_trace_goes_and_the_rest_stays_as_it_was_written() {
        for (body, expected) in [
            (r#"{"code":500,"message":"no","stacktrace":"at x (/srv/a.js:1:2)"}"#, r#"{"code":500,"message":"no"}"#),
            (r#"{ "stacktrace" : ["a", {"b": "]}"}] , "code" : 5.00e1 }"#, r#"{"code":5.00e1}"#),
            (r#"{"stacktrace":null}"#, "{}"),
            (r#"{"StackTrace":1,"stack_trace":2,"s\u0074acktrace":3,"a":"\u00e9é"}"#, r#"{"a":"\u00e9é"}"#),
            (r#"{"a":1,"stacktrace":2,"a":3}"#, r#"{"a":1,"a":3}"#),
        ] {
            assert_eq!(cleaned(body).as_deref(), Some(expected), "{body}");
        }
        for untouched in ["{}", r#" {"code": 404, "message":"no stacktrace here"} "#, "[]", "7", r#""stacktrace""#] {
            assert_eq!(cleaned(untouched), None, "{untouched}");
        }
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for body in ["", "{", r#"{"a":1"#, "<html>", "{\"a\":\"\u{0}\"}"] {
            assert!(error(body.as_bytes()).is_err(), "{body}");
        }
        assert!(error(b"{\"a\":\"\xff\"}").is_err());
    }

    #[test]
    fn paths_of_files_go_wherever_they_stand() {
        for (message, expected) in [
            ("open '/srv/app/secret.json': no such file", "open '…': no such file"),
            (
                r"boom\n    at run (file:///app/dist/index.js:10:5)\n    at /app/x.ts:3",
                r"boom\n    at run (…)\n    at …",
            ),
            ("panicked at src/main.rs:10:5: no", "panicked at … no"),
            ("handlers.py:7", "…"),
            ("in /home/builder/x, /usr/lib/y.", "in …, …"),
            ("app/node_modules/lib/index", "…"),
            (r"a\n/var/lib/x", r"a\n…"),
            (r"a\\/var/lib/x", r"a\\…"),
        ] {
            let body = format!(r#"{{"message":"{message}"}}"#);
            assert_eq!(cleaned(&body), Some(format!(r#"{{"message":"{expected}"}}"#)), "{message}");
        }
        for untouched in [
            "no /api/v1/orders/17",
            "see https://docs.example.com/var/x.js",
            "/items/0/name is not a number",
            "1/2 of 3.5",
            "at 10:30:05",
            "node.js and Vue.js are fine",
            "/tmp",
            "card 4242 was declined.",
        ] {
            assert_eq!(cleaned(&format!(r#"{{"message":"{untouched}"}}"#)), None, "{untouched}");
        }
    }
}
