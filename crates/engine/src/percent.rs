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
    out.push_str(base16ct::upper::encode_str(&[byte], &mut [0; 2]).unwrap_or_default());
}

/// Decodes every `%XX` once; `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = if byte == b'%' {
            let (digits, after) = after.split_first_chunk()?;
            out.push(hex_byte(digits)?);
            after
        } else {
            out.push(byte);
            after
        };
    }
    Some(out)
}

/// The bytes of a text as the most lenient reader of paths compares them: escapes decoded, ASCII letters in lower case.
pub(crate) fn lenient(text: &str) -> impl Iterator<Item = u8> {
    unescaped(text).map(|byte| byte.to_ascii_lowercase())
}

/// The bytes of a text, with those escapes decoded that are well formed.
pub(crate) fn unescaped(text: &str) -> Unescaped<'_> {
    Unescaped(text.as_bytes().iter())
}

/// The iterator of [`unescaped`].
pub(crate) struct Unescaped<'t>(std::slice::Iter<'t, u8>);

impl Iterator for Unescaped<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let &byte = self.0.next()?;
        if byte == b'%'
            && let Some((digits, after)) = self.0.as_slice().split_first_chunk()
            && let Some(decoded) = hex_byte(digits)
        {
            self.0 = after.iter();
            return Some(decoded);
        }
        Some(byte)
    }
}

/// Whether `path` is `prefix`, or lies below it, for the most lenient reader of paths. Below a prefix that ends in a full stop, such as
/// the package of gRPC services, lies every path that begins so.
pub(crate) fn is_below(path: &str, prefix: &str) -> bool {
    let mut rest = lenient(path);
    lenient(prefix).all(|byte| rest.next() == Some(byte))
        && (prefix.ends_with('.') || rest.next().is_none_or(|byte| byte == b'/'))
}

/// Splits a text behind this number of bytes, as they are once decoded; `None` if it is shorter.
pub(crate) fn split_decoded(text: &str, length: usize) -> Option<(&str, &str)> {
    let mut end = 0;
    for _ in 0..length {
        end += if *text.as_bytes().get(end)? == b'%' { 3 } else { 1 };
    }
    text.split_at_checked(end)
}

/// The byte of two hexadecimal digits of either case.
pub(crate) fn hex_byte(digits: &[u8; 2]) -> Option<u8> {
    let mut byte = 0;
    base16ct::mixed::decode(digits, std::slice::from_mut(&mut byte)).ok()?;
    Some(byte)
}
