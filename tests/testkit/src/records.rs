//! The record of a request that the filter gives to the gateway's access log, as JSON.

use serde_json::{Map, Value};

/// Reads a `google.protobuf.Struct` whose values are strings, booleans and small whole numbers. `None` if the message is malformed, has other values, or
/// has a member twice.
pub fn read(message: &[u8]) -> Option<Map<String, Value>> {
    let mut record = Map::new();
    let mut rest = message;
    while !rest.is_empty() {
        let entry = tagged(&mut rest, 0x0a)?;
        let mut entry = entry;
        let name = std::str::from_utf8(tagged(&mut entry, 0x0a)?).ok()?;
        let mut value = tagged(&mut entry, 0x12)?;
        let value = match value {
            [0x20, flag @ (0 | 1)] => Value::Bool(*flag == 1),
            [0x11, number @ ..] => {
                let number = f64::from_le_bytes(number.try_into().ok()?);
                Value::from((0..=u8::MAX).find(|whole| f64::from(*whole) == number)?)
            }
            _ => Value::String(String::from_utf8(tagged(&mut value, 0x1a)?.to_vec()).ok()?),
        };
        if !entry.is_empty() || record.insert(name.to_owned(), value).is_some() {
            return None;
        }
    }
    Some(record)
}

/// The bytes of the length-delimited field that has to come next.
fn tagged<'m>(rest: &mut &'m [u8], tag: u8) -> Option<&'m [u8]> {
    *rest = rest.strip_prefix(&[tag])?;
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_or_refused() {
        // What Python's protobuf writes for {"a": "x", "b": true, "c": 3}.
        let message =
            b"\x0a\x08\x0a\x01a\x12\x03\x1a\x01x\x0a\x07\x0a\x01b\x12\x02 \x01\x0a\x0e\x0a\x01c\x12\x09\x11\0\0\0\0\0\0\x08@";
        let record = Value::Object(read(message).unwrap());
        assert_eq!(record, serde_json::json!({"a": "x", "b": true, "c": 3}));
        assert_eq!(read(&message[..message.len() - 1]), None);
        assert_eq!(read(&[&message[..10], &message[..10]].concat()), None, "a member twice");
    }
}
