//! Removes stack traces from JSON errors, since they describe the machine of the backend.
//!
//! Nothing here is recursive, so deep nesting cannot exhaust the stack.

use crate::json::lex::{JsonScalar, Text, scalar, skip_space};
use crate::json::scan::{self, NotJson, skip_value};

/// The members that frameworks put stack traces and the names of classes into, without `-` and `_`.
const TRACES: [&[u8]; 5] = [b"stacktrace", b"stack", b"trace", b"backtrace", b"exception"];

/// Removes the members of [`TRACES`] at any depth and in any spelling (`stack_trace`, `StackTrace`). `None` if there is none.
///
/// # Errors
/// [`NotJson`] if the text is no JSON, or is nested too deeply.
pub(super) fn error(body: &[u8]) -> Result<Option<Vec<u8>>, NotJson> {
    // The function below relies on this check that the text is JSON.
    scan::find(body, &[])?;
    without_traces(body)
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
    let letters = || name.iter().filter(|byte| !matches!(byte, b'_' | b'-')).map(u8::to_ascii_lowercase);
    TRACES.iter().any(|trace| letters().eq(trace.iter().copied()))
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
            (r#"{"trace":"x","traceId":"y","Exception":"z","stack":1,"backtrace":[]}"#, r#"{"traceId":"y"}"#),
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
}
