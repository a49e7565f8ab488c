//! Removes stack traces and file paths from JSON errors, since they describe the machine of the backend.
//!
//! Nothing here is recursive, so deep nesting cannot exhaust the stack.

use super::paths;
use crate::json::lex::{JsonScalar, Text, scalar, skip_space, string};
use crate::json::scan::{self, NotJson, skip_value};

/// Removes the members `stacktrace` at any depth and in any spelling (`stack_trace`, `StackTrace`), and replaces each
/// file path in a string by `…`. `None` if there is nothing to remove.
///
/// # Errors
/// [`NotJson`] if the text is no JSON, or is nested too deeply.
pub(super) fn error(body: &[u8]) -> Result<Option<Vec<u8>>, NotJson> {
    // The functions below rely on this check that the text is JSON.
    scan::find(body, &[])?;
    let without_traces = without_traces(body)?;
    let without_paths = without_paths(without_traces.as_deref().unwrap_or(body))?;
    Ok(without_paths.or(without_traces))
}

/// The text without stack traces and without space between values; `None` if it has no stack trace.
fn without_traces(text: &[u8]) -> Result<Option<Vec<u8>>, NotJson> {
    let mut out = Vec::with_capacity(text.len());
    let mut found = false;
    let mut rest = skip_space(text);
    while let Some((first, after)) = rest.split_first() {
        let after = match first {
            b'{' | b'[' | b':' => {
                out.push(*first);
                after
            }
            // No comma if no member or item was kept before it.
            b',' => {
                if !matches!(out.last(), Some(b'{' | b',')) {
                    out.push(b',');
                }
                after
            }
            // No comma if no member or item is kept after it.
            b'}' | b']' => {
                if out.last() == Some(&b',') {
                    out.pop();
                }
                out.push(*first);
                after
            }
            _ => {
                let (value, after) = scalar(rest).ok_or(NotJson)?;
                match (value, skip_space(after).strip_prefix(b":")) {
                    (JsonScalar::Text(name), Some(member)) if is_trace(name) => {
                        found = true;
                        skip_value(skip_space(member)).ok_or(NotJson)?
                    }
                    _ => {
                        let written = rest.split_at_checked(rest.len().saturating_sub(after.len()));
                        out.extend(written.ok_or(NotJson)?.0);
                        after
                    }
                }
            }
        };
        rest = skip_space(after);
    }
    Ok(found.then_some(out))
}

fn is_trace(name: Text<'_>) -> bool {
    let name = name.decode();
    let letters = name.iter().filter(|byte| !matches!(byte, b'_' | b'-')).map(u8::to_ascii_lowercase);
    letters.eq(*b"stacktrace")
}

/// What the string of a member is by convention.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberKind {
    /// Any text, which can name a file
    Text,
    /// A pointer into a document
    Pointer,
    /// A URL or its path: a problem document's `type` and `instance` (RFC 9457), a link, the path of a request
    Url,
}

impl MemberKind {
    fn of(name: Text<'_>) -> Self {
        const URLS: [&str; 6] = ["href", "instance", "instancePath", "path", "type", "url"];
        match name {
            _ if name.is("pointer") => Self::Pointer,
            _ if URLS.iter().any(|url| name.is(url)) => Self::Url,
            _ => Self::Text,
        }
    }
}

/// The text with `…` for each file path in its strings, but for those that are URLs by convention; `None` if it has no file path. All other bytes stay the same.
fn without_paths(text: &[u8]) -> Result<Option<Vec<u8>>, NotJson> {
    let mut out = Vec::with_capacity(text.len());
    let mut found = false;
    // What the next string is.
    let mut member = MemberKind::Text;
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        out.push(*first);
        rest = after;
        if *first == b'"' {
            let (content, after) = string(after).ok_or(NotJson)?;
            match member {
                // A URL of a file tells as much as its path.
                MemberKind::Url if !content.raw().starts_with(b"file:") => out.extend(content.raw()),
                _ => found |= paths::clean(content.raw(), member == MemberKind::Pointer, &mut out),
            }
            let value = skip_space(after).strip_prefix(b":").map(skip_space);
            let is_text = value.is_some_and(|value| value.starts_with(b"\""));
            member = if is_text { MemberKind::of(content) } else { MemberKind::Text };
            out.push(b'"');
            rest = after;
        }
    }
    Ok(found.then_some(out))
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
            (r#"{"a":1,"stacktrace":2,"stacktrace":3}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(cleaned(body).as_deref(), Some(expected), "{body}");
        }
        for untouched in ["{}", r#" {"code": 404, "message":"no stacktrace here"} "#, "[]", "7", r#""stacktrace""#] {
            assert_eq!(cleaned(untouched), None, "{untouched}");
        }
    }

    #[test]
    fn a_stack_trace_goes_at_any_depth() {
        for (body, expected) in [
            (r#"{"error":{"stacktrace":"x","code":1}}"#, r#"{"error":{"code":1}}"#),
            (r#"{"errors":[{"code":1,"stacktrace":"x"},{"stacktrace":"y"}]}"#, r#"{"errors":[{"code":1},{}]}"#),
            (r#"[{"stacktrace":{"stacktrace":1}},[[{"a":[],"Stack-Trace":[{}]}]],"b"]"#, r#"[{},[[{"a":[]}]],"b"]"#),
            (r#"{"a":{"b":{"stacktrace":1}},"c":{"stacktrace":1,"d":2}}"#, r#"{"a":{"b":{}},"c":{"d":2}}"#),
        ] {
            assert_eq!(cleaned(body).as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn depth_exhausts_nothing() {
        let nested = |depth: usize| {
            let inner = r#"{"stacktrace":1}"#;
            format!("{}{inner}{}", r#"{"a":["#.repeat(depth), "]}".repeat(depth))
        };
        assert!(cleaned(&nested(200)).is_some_and(|text| text.contains("{}") && !text.contains("stack")));
        assert!(error(nested(10_000).as_bytes()).is_err());
        assert!(error("[".repeat(60_000).as_bytes()).is_err());
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for body in ["", "{", r#"{"a":1"#, "<html>", "{\"a\":\"\u{0}\"}", "{} {}", "\u{feff}{}"] {
            assert!(error(body.as_bytes()).is_err(), "{body}");
        }
        assert!(error(b"{\"a\":\"\xff\"}").is_err());
    }

    #[test]
    fn paths_go_from_every_string_and_space_stays() {
        for (body, expected) in [
            (r#"{ "a": [ "/srv/app/x" ] }"#, r#"{ "a": [ "…" ] }"#),
            (r#"{"/srv/app/x.js": "no"}"#, r#"{"…": "no"}"#),
            (r#""at \/srv\/app\/x.js""#, r#""at …""#),
            // The one place where a path below /data is no file's: JSON:API.
            (
                r#"{"source":{"pointer":"/data/attributes/a"},"detail":"/data/db/a"}"#,
                r#"{"source":{"pointer":"/data/attributes/a"},"detail":"…"}"#,
            ),
            (r#"{"pointer":"/srv/app"}"#, r#"{"pointer":"…"}"#),
            (r#"{"pointer":{"a":"/data/db/a"}}"#, r#"{"pointer":{"a":"…"}}"#),
            (r#"{"path":"/home/7","detail":"/home/7"}"#, r#"{"path":"/home/7","detail":"…"}"#),
            (r#"{"path":{"detail":"/home/7"}}"#, r#"{"path":{"detail":"…"}}"#),
            (r#"{"path":["/home/7"]}"#, r#"{"path":["…"]}"#),
            (r#"{"Path":"/home/7"}"#, r#"{"Path":"…"}"#),
            (r#"{"url":"file:///srv/app/x.js"}"#, r#"{"url":"…"}"#),
            (r#"["path", "/home/7"]"#, r#"["path", "…"]"#),
            (r#"[{"path":7}, "/home/7"]"#, r#"[{"path":7}, "…"]"#),
            (r#"{"path":7,"/home/7":1}"#, r#"{"path":7,"…":1}"#),
        ] {
            assert_eq!(cleaned(body).as_deref(), Some(expected), "{body}");
        }
        for name in ["instance", "path", "instancePath", "type", "href", "url", r"p\u0061th"] {
            let body = format!(r#"{{"{name}" : "/home/users/42.js","stack":"x"}}"#);
            assert_eq!(cleaned(&body), None, "{body}");
        }
    }
}
