//! Members in the encoding of `google.protobuf.Struct`, `map<string, Value> fields = 1`
//! (<https://protobuf.dev/programming-guides/encoding/>). A gateway shows such a message as a JSON object in its access
//! log.

use super::record::{MemberValue, Record, RecordPart};
use crate::protobuf::append_varint;

/// Tags: the number of a field, and its wire type (2 is length-delimited, 0 a varint, 1 eight bytes).
const FIELDS: u8 = 1 << 3 | 2;
const ENTRY_KEY: u8 = 1 << 3 | 2;
const ENTRY_VALUE: u8 = 2 << 3 | 2;
const NUMBER_VALUE: u8 = 2 << 3 | 1;
const STRING_VALUE: u8 = 3 << 3 | 2;
const BOOL_VALUE: u8 = 4 << 3;

/// Appends the members of a part of the record to a message.
pub(super) fn append(message: &mut Vec<u8>, record: Record<'_>, part: RecordPart) {
    record.members(part, &mut |name, value| append_member(message, name, value));
}

fn append_member(message: &mut Vec<u8>, name: &str, value: MemberValue<'_>) {
    match value {
        MemberValue::Text(text) => {
            // The tags and lengths around name and text, when each length is one byte.
            let entry = name.len() + text.len() + 6;
            if entry < 0x80 {
                let (name_size, text_size) = (name.len() as u8, text.len() as u8);
                message.extend_from_slice(&[FIELDS, entry as u8, ENTRY_KEY, name_size]);
                message.extend_from_slice(name.as_bytes());
                message.extend_from_slice(&[ENTRY_VALUE, text_size + 2, STRING_VALUE, text_size]);
                message.extend_from_slice(text);
                return;
            }
            append_entry(message, name, 1 + length_size(text.len()) + text.len());
            message.push(STRING_VALUE);
            append_varint(message, text.len());
            message.extend_from_slice(text);
        }
        MemberValue::Flag(flag) => {
            append_entry(message, name, 2);
            message.extend([BOOL_VALUE, u8::from(flag)]);
        }
        MemberValue::Number(number) => {
            append_entry(message, name, 9);
            message.push(NUMBER_VALUE);
            message.extend_from_slice(&f64::from(number).to_le_bytes());
        }
    }
}

/// Appends the beginning of an entry, whose value of `size` bytes has to follow.
fn append_entry(message: &mut Vec<u8>, name: &str, size: usize) {
    message.push(FIELDS);
    append_varint(message, 1 + length_size(name.len()) + name.len() + 1 + length_size(size) + size);
    message.push(ENTRY_KEY);
    append_varint(message, name.len());
    message.extend_from_slice(name.as_bytes());
    message.push(ENTRY_VALUE);
    append_varint(message, size);
}

/// The number of bytes of a length as a varint.
const fn length_size(length: usize) -> usize {
    let mut size = 1;
    let mut rest = length >> 7;
    while rest > 0 {
        size += 1;
        rest >>= 7;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_bytes_of_the_standard_encoder() {
        let mut message = Vec::new();
        append_member(&mut message, "idempotency_outcome", MemberValue::Text(b"stored"));
        append_member(&mut message, "restate_cache_hit", MemberValue::Flag(true));
        append_member(&mut message, "attempt", MemberValue::Number(3));
        // What Python's protobuf writes for {"idempotency_outcome": "stored", "restate_cache_hit": true, "attempt": 3}.
        let expected =
            b"\x0a\x1f\x0a\x13idempotency_outcome\x12\x08\x1a\x06stored\x0a\x17\x0a\x11restate_cache_hit\x12\x02 \x01\x0a\x14\x0a\x07attempt\x12\x09\x11\0\0\0\0\0\0\x08@";
        assert_eq!(message, expected);
    }

    #[test]
    fn the_size_of_a_length_is_that_of_its_varint() {
        for length in [0, 127, 128, 300, 16_383, 16_384] {
            let mut message = Vec::new();
            append_varint(&mut message, length);
            assert_eq!(length_size(length), message.len(), "{length}");
        }
    }
}
