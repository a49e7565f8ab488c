//! Reads JSON into a tree with the place of each value.

use super::tree::{NodeContent, SpannedMember, SpannedNode};
use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::{Range as JsonRange, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use std::ops::Range;

/// Reads a text that the engine's own parser has accepted. `None` if it is no JSON.
pub fn read(text: &str) -> Option<SpannedNode> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).ok()?;
    Some(node(parsed.value?))
}

fn span(range: JsonRange) -> Range<usize> {
    range.start..range.end
}

fn node(value: Value<'_>) -> SpannedNode {
    let own = span(value.range());
    let content = match value {
        Value::StringLit(text) => NodeContent::Scalar(text.value.into_owned()),
        Value::NumberLit(number) => NodeContent::Scalar(number.value.to_owned()),
        Value::BooleanLit(boolean) => NodeContent::Scalar(boolean.value.to_string()),
        Value::NullKeyword(_) => NodeContent::Scalar("null".to_owned()),
        Value::Array(array) => NodeContent::List(array.elements.into_iter().map(node).collect()),
        Value::Object(object) => NodeContent::Map(
            object
                .properties
                .into_iter()
                .map(|property| {
                    let name_span = match &property.name {
                        ObjectPropName::String(name) => span(name.range),
                        ObjectPropName::Word(name) => span(name.range),
                    };
                    SpannedMember { name: property.name.into_string(), name_span, value: node(property.value) }
                })
                .collect(),
        ),
    };
    SpannedNode { span: own, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_finds_the_value_or_what_is_nearest_to_it() {
        let text = r#"{"routes": [{"path": "/é", "a/b": {"c": 1}}, {"key": {}}]}"#;
        let tree = read(text).unwrap();
        for (pointer, expected) in [
            ("/routes/0/path", "\"/é\""),
            ("/routes/0/a~1b", "\"a/b\""),
            ("/routes/0/a~1b/c", "1"),
            ("/routes/0/methods", r#"{"path": "/é", "a/b": {"c": 1}}"#),
            ("/routes/1", r#"{"key": {}}"#),
            ("/routes/1/key/format/x", "\"key\""),
            ("/routes/9", "\"routes\""),
            ("", text),
        ] {
            assert_eq!(text.get(tree.pointed(pointer)), Some(expected), "{pointer}");
        }
    }
}
