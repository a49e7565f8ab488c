//! Fills a template: comments of a gateway's configuration are for people, so configurations are texts with places for values.
//!
//! A place takes no text as it is, because a line break or a quote in a policy or an option would become a part of the
//! configuration. What stands in a place is a number, a word that means nothing to YAML, or what one of these filters makes of a value:
//!
//! | filter | what it writes |
//! |---|---|
//! | `yaml` | a value on one line, texts in quotes |
//! | `name` | the name of a member, in quotes where it needs them |
//! | `comment` | a text in a comment: no line ends in it, and no terminal acts on it |
//! | `part(n)` | lines that are configuration already, or a policy in a literal block, each but the first indented |

use super::json_text::{is_escaped, quoted};
use crate::explain::terminal_text::printable;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
use serde_json::Value;

/// Fills a template with values.
///
/// # Errors
/// The template has a place for which there is no value, or takes a text as it is, or is malformed.
pub(crate) fn fill(template: &str, values: &Value) -> Result<String, String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    environment.set_syntax(syntax.map_err(|error| error.to_string())?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(only_safe);
    environment.add_filter("yaml", yaml);
    environment.add_filter("name", name);
    environment.add_filter("comment", comment);
    environment.add_filter("part", part);
    environment
        .render_str(template, minijinja::value::Serde(values))
        .map_err(|error| format!("the template cannot be filled: {error:#}"))
}

/// Writes a value that a filter has made, and what needs none.
fn only_safe(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &minijinja::Value) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
    let is_word = value.as_str().is_some_and(|text| text.bytes().all(is_plain));
    match value.kind() {
        ValueKind::Bool | ValueKind::Number | ValueKind::None => {}
        ValueKind::String if value.is_safe() || is_word => {}
        _ => return Err(Error::new(ErrorKind::BadEscape, format!("a place takes a text as it is: {value}"))),
    }
    write!(out, "{value}").map_err(Error::from)
}

fn safe(text: String) -> minijinja::Value {
    minijinja::Value::from_safe_string(text)
}

fn yaml(value: &minijinja::Value) -> Result<minijinja::Value, Error> {
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, "no JSON").with_source(error))?;
    Ok(safe(flow(&value)))
}

fn name(text: &str) -> minijinja::Value {
    safe(member(text))
}

fn comment(text: &str) -> minijinja::Value {
    safe(printable(text).into_owned())
}

/// Indents lines. They come from a template, or are a policy whose text YAML reads as it is.
fn part(lines: &str, indent: usize) -> Result<minijinja::Value, Error> {
    if !is_literal(lines) {
        return Err(Error::new(ErrorKind::BadEscape, "lines with a character that ends a line or shows nothing"));
    }
    let mut text = String::with_capacity(lines.len());
    for (index, line) in lines.split('\n').enumerate() {
        if index > 0 {
            text.push('\n');
            if !line.is_empty() {
                text.extend(std::iter::repeat_n(' ', indent));
            }
        }
        text.push_str(line);
    }
    Ok(safe(text))
}

/// Whether a literal block of YAML holds a text as it is: no character ends a line but a line feed, and none is refused.
pub(super) fn is_literal(text: &str) -> bool {
    !text.contains(|char: char| !matches!(char, '\n' | '\t') && is_escaped(char))
}

/// YAML on one line. Texts have quotes, because YAML takes some texts for numbers, booleans and dates.
fn flow(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, value)| format!("{}: {}", member(name), flow(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// A member's name, without quotes where nobody takes it for something else.
fn member(name: &str) -> String {
    let plain = name.len() > 3 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if plain && !["null", "true", "false"].contains(&name) { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_yaml_on_one_line() {
        let value =
            json!({"match": {"prefix": "/"}, "n": ["no", 1, true, null], "null": "a: \"b\"\n\u{85}\u{2028}\u{7f}"});
        assert_eq!(
            fill("x: {{ v|yaml }}\n", &json!({"v": value})).unwrap(),
            "x: {match: {prefix: \"/\"}, \"n\": [\"no\", 1, true, null], \"null\": \"a: \\\"b\\\"\\n\\u0085\\u2028\\u007f\"}\n"
        );
    }

    #[test]
    fn a_place_without_a_value_is_an_error() {
        assert!(fill("{{ nothing }}", &json!({})).is_err());
    }

    #[test]
    fn no_text_stands_in_a_place_as_it_is() {
        for text in ["a b", "a\n- evil: 1", "a: b", "\"", "#", "{", "a\u{2028}b", "é"] {
            let value = json!({"v": text, "list": [text]});
            assert!(fill("x: {{ v }}\n", &value).is_err(), "{text:?}");
            assert!(fill("x: {{ list }}\n", &value).is_err(), "{text:?}");
            assert!(fill("x: {{ list|join(', ') }}\n", &value).is_err(), "{text:?}");
            let comment = fill("# {{ list|join(', ')|comment }}\nx: 1\n", &value).unwrap();
            assert_eq!(comment.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count(), 3, "{comment:?}");
        }
        assert_eq!(fill("x: {{ v }} {{ n }}", &json!({"v": "KEEP_UNCHANGED", "n": 5})).unwrap(), "x: KEEP_UNCHANGED 5");
        assert_eq!(fill("  {{ v|part(2) }}", &json!({"v": "a:\n\n  b"})).unwrap(), "  a:\n\n    b");
        assert!(fill("{{ v|part(2) }}", &json!({"v": "a\rb"})).is_err());
    }
}
