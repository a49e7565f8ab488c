//! Fills a template: comments of a gateway's configuration are for people, so configurations are texts with places for values.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value;

/// Fills a template with values. The filter `yaml` writes a value on one line.
///
/// # Errors
/// The template has a place for which there is no value, or is malformed.
pub(crate) fn fill(template: &str, values: &Value) -> Result<String, String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    environment.set_syntax(syntax.map_err(|error| error.to_string())?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("yaml", yaml);
    environment
        .render_str(template, minijinja::value::Serde(values))
        .map_err(|error| format!("the template cannot be filled: {error:#}"))
}

fn yaml(value: &minijinja::Value) -> Result<String, Error> {
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, "no JSON").with_source(error))?;
    Ok(flow(&value))
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
        other => other.to_string(),
    }
}

/// A member's name, without quotes where nobody takes it for something else.
fn member(name: &str) -> String {
    let plain = name.len() > 3 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if plain && !["null", "true", "false"].contains(&name) { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_yaml_on_one_line() {
        let value = json!({"match": {"prefix": "/"}, "n": ["no", 1, true, null], "null": "a: \"b\"\n"});
        assert_eq!(
            fill("x: {{ v|yaml }}\n", &json!({"v": value})).unwrap(),
            "x: {match: {prefix: \"/\"}, \"n\": [\"no\", 1, true, null], \"null\": \"a: \\\"b\\\"\\n\"}\n"
        );
    }

    #[test]
    fn a_place_without_a_value_is_an_error() {
        assert!(fill("{{ nothing }}", &json!({})).is_err());
    }
}
