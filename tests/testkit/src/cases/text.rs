//! Values of headers and bodies: text, or bytes that JSON text cannot hold or nobody wants to write out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// Bytes, written as a string, `{"base64": "…"}`, `{"repeat": ["a", 60000]}`, or a list of these, joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Text(pub Vec<u8>);

impl TryFrom<Value> for Text {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        bytes(&value).map(Self)
    }
}

fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let wrong = || {
        format!(r#"{value} is no value: it takes a string, {{"base64": "…"}}, {{"repeat": ["…", times]}} or a list"#)
    };
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Array(parts) => Ok(parts.iter().map(bytes).collect::<Result<Vec<_>, _>>()?.concat()),
        Value::Object(members) if members.len() == 1 => match (members.get("base64"), members.get("repeat")) {
            (Some(Value::String(text)), _) => STANDARD.decode(text).map_err(|error| format!("{text:?}: {error}")),
            (_, Some(Value::Array(repeat))) => match repeat.as_slice() {
                [what, times] => {
                    let times = times.as_u64().and_then(|times| usize::try_from(times).ok()).ok_or_else(wrong)?;
                    Ok(bytes(what)?.repeat(times))
                }
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}
