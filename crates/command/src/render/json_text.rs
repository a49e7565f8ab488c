//! JSON for people: a value that fits stays on one line.

use crate::explain::terminal_text::is_unprintable;
use serde_json::Value;
use std::fmt::Write as _;

/// A text in quotes, as JSON and YAML both read it. A character that YAML takes for the end of a line, that it refuses, or that a
/// terminal acts on is an escape.
pub(crate) fn quoted(text: &str) -> String {
    let plain = Value::from(text).to_string();
    let mut shown = String::with_capacity(plain.len());
    for char in plain.chars() {
        if is_escaped(char) {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(char));
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Whether [`quoted`] writes an escape. YAML knows no escape of four digits for characters beyond these.
pub(super) fn is_escaped(char: char) -> bool {
    char <= '\u{ffff}' && is_unprintable(char)
}

/// How long a line may be.
const WIDTH: usize = 142;

/// Writes JSON in which a value that fits stays on one line. Lists of objects are never on one line, nor is the whole.
pub(crate) fn compact_json(value: &Value) -> String {
    laid_out(value, 0, 0)
}

fn laid_out(value: &Value, indent: usize, before: usize) -> String {
    let flat = flat(value);
    let listed = matches!(value, Value::Array(list) if list.iter().any(Value::is_object));
    if indent > 0 && !listed && indent * 2 + before + flat.len() < WIDTH {
        return flat;
    }
    let (inner, outer) = ("  ".repeat(indent + 1), "  ".repeat(indent));
    match value {
        Value::Array(list) if !list.is_empty() => {
            let items: Vec<_> = list.iter().map(|item| format!("{inner}{}", laid_out(item, indent + 1, 1))).collect();
            format!("[\n{}\n{outer}]", items.join(",\n"))
        }
        Value::Object(members) if !members.is_empty() => {
            let items = members.iter().map(|(name, item)| {
                let name = quoted(name);
                format!("{inner}{name}: {}", laid_out(item, indent + 1, name.len() + 3))
            });
            format!("{{\n{}\n{outer}}}", items.collect::<Vec<_>>().join(",\n"))
        }
        _ => flat,
    }
}

fn flat(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(flat).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let items: Vec<_> =
                members.iter().map(|(name, item)| format!("{}: {}", quoted(name), flat(item))).collect();
            format!("{{{}}}", items.join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}
