//! Parts of protobuf's encoding (<https://protobuf.dev/programming-guides/encoding/>).

/// Appends a length, or another number, as a varint.
pub(crate) fn append_varint(message: &mut Vec<u8>, number: usize) {
    let mut rest = number;
    while let Ok(low) = u8::try_from(rest & 0x7f)
        && rest > 0x7f
    {
        message.push(low | 0x80);
        rest >>= 7;
    }
    message.push(u8::try_from(rest).unwrap_or_default());
}

/// Appends a field with this number, up to 15, whose value is a text or another message.
pub fn append_field(message: &mut Vec<u8>, number: u8, value: &[u8]) {
    const LENGTH_DELIMITED: u8 = 2;
    message.push(number << 3 | LENGTH_DELIMITED);
    append_varint(message, value.len());
    message.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_varints() {
        for (length, bytes) in
            [(0, &b"\x00"[..]), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (16_384, b"\x80\x80\x01")]
        {
            let mut message = Vec::new();
            append_varint(&mut message, length);
            assert_eq!(message, bytes, "{length}");
        }
    }
}
