//! The lexer for JSON texts (RFC 8259): scalars and space.

use std::borrow::Cow;

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonScalar<'b> {
    /// A string
    Text(Text<'b>),
    /// A number, as it was written
    Number(&'b [u8]),
    /// `true` or `false`, as it was written
    Boolean(&'b [u8]),
    /// `null`
    Null,
    /// An object or an array
    Container,
}

/// The content of a string between its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'b> {
    raw: &'b [u8],
    escaped: bool,
}

impl<'b> Text<'b> {
    /// The decoded string. An unpaired surrogate, which UTF-8 cannot encode, becomes three bytes (WTF-8), so that
    /// different strings stay different.
    pub(crate) fn decode(self) -> Cow<'b, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut out = Vec::with_capacity(self.raw.len());
        let mut rest = self.raw;
        loop {
            rest = match rest {
                [b'\\', b'u', after @ ..] => push_unicode(after, &mut out),
                [b'\\', kind, after @ ..] => {
                    out.push(match kind {
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        other => *other,
                    });
                    after
                }
                [byte, after @ ..] => {
                    out.push(*byte);
                    after
                }
                [] => return Cow::Owned(out),
            };
        }
    }

    /// The string in its source form, with escapes.
    #[cfg(test)]
    pub(crate) const fn raw(self) -> &'b [u8] {
        self.raw
    }

    /// Whether this is the string `name`.
    pub(crate) fn is(self, name: &str) -> bool {
        if self.escaped { self.decode().as_ref() == name.as_bytes() } else { self.raw == name.as_bytes() }
    }
}

/// Appends the character of a `\u` escape, or of a surrogate pair of two escapes. `digits` begins after the first `\u`.
/// Returns the rest.
fn push_unicode<'b>(digits: &'b [u8], out: &mut Vec<u8>) -> &'b [u8] {
    let Some((high, rest)) = unit(digits) else { return &[] };
    if let [b'\\', b'u', after @ ..] = rest
        && let Some((low, after)) = unit(after)
        && (0xd800..0xdc00).contains(&high)
        && (0xdc00..0xe000).contains(&low)
    {
        push_code_point(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00), out);
        return after;
    }
    push_code_point(high, out);
    rest
}

/// Reads the four hexadecimal digits after `\u`. Returns their value and the rest.
#[inline(always)]
pub(crate) fn unit(digits: &[u8]) -> Option<(u32, &[u8])> {
    let (four, rest) = digits.split_first_chunk::<4>()?;
    let mut value = 0;
    for digit in four {
        value = value << 4 | char::from(*digit).to_digit(16)?;
    }
    Some((value, rest))
}

/// Appends the UTF-8 encoding of a code point, surrogates included.
fn push_code_point(point: u32, out: &mut Vec<u8>) {
    let tail = |shift: u32| 0x80 | (point >> shift & 0x3f) as u8;
    match point {
        0..0x80 => out.push(point as u8),
        0x80..0x800 => out.extend([0xc0 | (point >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => out.extend([0xe0 | (point >> 12) as u8, tail(6), tail(0)]),
        _ => out.extend([0xf0 | (point >> 18) as u8, tail(12), tail(6), tail(0)]),
    }
}

/// Reads a scalar at the beginning of `text`. Returns it and the rest.
pub(crate) fn scalar(text: &[u8]) -> Option<(JsonScalar<'_>, &[u8])> {
    match text {
        [b'"', after @ ..] => string(after).map(|(content, after)| (JsonScalar::Text(content), after)),
        [b't', b'r', b'u', b'e', after @ ..] => Some((JsonScalar::Boolean(b"true"), after)),
        [b'f', b'a', b'l', b's', b'e', after @ ..] => Some((JsonScalar::Boolean(b"false"), after)),
        [b'n', b'u', b'l', b'l', after @ ..] => Some((JsonScalar::Null, after)),
        _ => {
            let after = skip_number(text)?;
            let (number, _) = text.split_at_checked(text.len().checked_sub(after.len())?)?;
            Some((JsonScalar::Number(number), after))
        }
    }
}

/// RFC 8259 section 6.
#[inline(always)]
fn skip_number(text: &[u8]) -> Option<&[u8]> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let mut rest = match unsigned {
        [b'0', after @ ..] => after,
        _ => skip_digits(unsigned)?,
    };
    if let [b'.', after @ ..] = rest {
        rest = skip_digits(after)?;
    }
    if let [b'e' | b'E', after @ ..] = rest {
        let after = match after {
            [b'+' | b'-', after @ ..] => after,
            _ => after,
        };
        rest = skip_digits(after)?;
    }
    Some(rest)
}

/// Skips one digit or more.
#[inline(always)]
fn skip_digits(text: &[u8]) -> Option<&[u8]> {
    let [b'0'..=b'9', rest @ ..] = text else { return None };
    let mut rest = rest;
    while let [b'0'..=b'9', after @ ..] = rest {
        rest = after;
    }
    Some(rest)
}

/// RFC 8259 section 2.
#[inline(always)]
pub(crate) fn skip_space(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = text {
        text = rest;
    }
    text
}

/// Reads a string after its opening quote. Returns it and the rest.
pub(crate) fn string(text: &[u8]) -> Option<(Text<'_>, &[u8])> {
    let mut rest = text;
    let mut escaped = false;
    loop {
        // A large text consists mostly of strings, so eight plain bytes are skipped at once.
        while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
            let special = special_bytes(u64::from_le_bytes(*chunk));
            if special != 0 {
                rest = rest.get(special.trailing_zeros() as usize / 8..)?;
                break;
            }
            rest = after;
        }
        if let [b'"', after @ ..] = rest {
            let (raw, _) = text.split_at_checked(text.len().checked_sub(rest.len())?)?;
            return Some((Text { raw, escaped }, after));
        }
        escaped |= matches!(rest, [b'\\', ..]);
        rest = skip_in_string(rest)?;
    }
}

/// Skips one character or escape of a string.
#[inline(always)]
fn skip_in_string(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => Some(after),
        [b'\\', b'u', after @ ..] => Some(unit(after)?.1),
        [(0..0x20) | b'\\', ..] | [] => None,
        [(..0x80), after @ ..] => Some(after),
        _ => skip_code_point(text),
    }
}

/// Skips one code point beyond ASCII; `None` if it is not valid UTF-8 (RFC 3629 section 4).
#[inline(always)]
fn skip_code_point(text: &[u8]) -> Option<&[u8]> {
    match text {
        [0xc2..=0xdf, 0x80..=0xbf, rest @ ..]
        | [0xe0, 0xa0..=0xbf, 0x80..=0xbf, rest @ ..]
        | [0xe1..=0xec | 0xee | 0xef, 0x80..=0xbf, 0x80..=0xbf, rest @ ..]
        | [0xed, 0x80..=0x9f, 0x80..=0xbf, rest @ ..]
        | [0xf0, 0x90..=0xbf, 0x80..=0xbf, 0x80..=0xbf, rest @ ..]
        | [0xf1..=0xf3, 0x80..=0xbf, 0x80..=0xbf, 0x80..=0xbf, rest @ ..]
        | [0xf4, 0x80..=0x8f, 0x80..=0xbf, 0x80..=0xbf, rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Marks the bytes of eight that are not ASCII, or a quote, a backslash or a control character: the highest bit of each.
const fn special_bytes(bytes: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let ascii = bytes & !HIGH;
    // The subtractions clear the highest bit of a byte that is less than what they subtract. Exchanging 0x20 and 0x22
    // puts the quote next to the control characters.
    let plain = ((ascii ^ (ONES * 2)) | HIGH).wrapping_sub(ONES * 0x21);
    let plain = plain & ((ascii ^ (ONES * b'\\' as u64)) | HIGH).wrapping_sub(ONES);
    (bytes | !plain) & HIGH
}
