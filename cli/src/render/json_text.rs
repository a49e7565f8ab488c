//! JSON for people: a value that fits stays on one line.

use serde_json::Value;

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
                let name = Value::from(name.as_str()).to_string();
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
                members.iter().map(|(name, item)| format!("{}: {}", Value::from(name.as_str()), flat(item))).collect();
            format!("{{{}}}", items.join(", "))
        }
        other => other.to_string(),
    }
}
