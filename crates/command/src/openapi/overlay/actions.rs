//! The actions of an overlay and their JSONPaths (RFC 9535).

use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::references::References;
use serde_json::{Value, json};

/// The actions of an overlay, in the order in which they are applied.
#[derive(Debug, Default)]
pub(super) struct OverlayActions(Vec<Value>);

impl OverlayActions {
    /// Merges a value into each node of the target.
    pub(super) fn update(&mut self, target: String, update: Value) {
        self.0.push(json!({"target": target, "update": update}));
    }

    /// Removes each node of the target. A target without a node changes nothing.
    pub(super) fn remove(&mut self, target: String) {
        self.0.push(json!({"target": target, "remove": true}));
    }

    pub(super) fn into_json(self) -> Value {
        Value::Array(self.0)
    }
}

/// The JSONPath of the value behind names.
pub(super) fn path<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut path = "$".to_owned();
    for name in names {
        path.push_str(&step(name));
    }
    path
}

/// The JSONPath of the value behind names of a document, in which an item of a list has its index as its name.
pub(super) fn path_in<'t, 'n>(references: &References<'t>, names: impl IntoIterator<Item = &'n str>) -> String {
    let mut path = "$".to_owned();
    let mut parent = Some(references.root());
    for name in names {
        let items = parent.map(SpannedNode::items).unwrap_or_default();
        if items.is_empty() {
            path.push_str(&step(name));
            parent = parent.and_then(|node| references.get(node, name));
        } else {
            path.push_str(&format!("[{name}]"));
            parent = name.parse::<usize>().ok().and_then(|index| items.get(index));
        }
    }
    path
}

/// The step of a JSONPath to the member with this name.
fn step(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain { format!(".{name}") } else { format!("[{}]", text(name)) }
}

/// A text of a JSONPath.
pub(super) fn text(text: &str) -> String {
    let mut quoted = "'".to_owned();
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            letter if u32::from(letter) < 0x20 => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_steps_of_a_path() {
        for (names, expected) in [
            (vec!["paths", "/a/{b}", "post"], "$.paths['/a/{b}'].post"),
            (vec!["x-y", "_a1"], "$['x-y']._a1"),
            (vec!["it's \\ \n"], "$['it\\'s \\\\ \\u000a']"),
            (vec![], "$"),
        ] {
            assert_eq!(path(names), expected);
        }
    }
}
