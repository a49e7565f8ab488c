//! Percent-encoding (RFC 3986 section 2.1).

use crate::bytes::ByteSet;

/// Whether a byte is one of [`UNRESERVED`].
pub(crate) const fn is_unreserved(byte: u8) -> bool {
    UNRESERVED.has(byte)
}

/// RFC 3986 section 2.3.
pub(crate) static UNRESERVED: ByteSet = ByteSet::alphanumeric().with(b"._~-");

/// Appends `bytes`, with everything except unreserved characters as `%XX` in upper case.
pub(crate) fn percent_encode(bytes: &[u8], out: &mut String) {
    if UNRESERVED.holds(bytes)
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        out.push_str(text);
        return;
    }
    for &byte in bytes {
        if is_unreserved(byte) {
            out.push(char::from(byte));
        } else {
            push_escape(byte, out);
        }
    }
}

/// Appends `%XX`.
pub(crate) fn push_escape(byte: u8, out: &mut String) {
    out.push('%');
    for digit in [byte >> 4, byte & 15] {
        out.push(char::from(if digit < 10 { b'0' + digit } else { b'A' + digit - 10 }));
    }
}

/// Decodes every `%XX` once; `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = if byte == b'%' {
            let (&[high, low], after) = after.split_first_chunk::<2>()?;
            out.push(hex(high)? << 4 | hex(low)?);
            after
        } else {
            out.push(byte);
            after
        };
    }
    Some(out)
}

/// The value of a hexadecimal digit of either case.
pub(crate) const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
