//! `application/x-www-form-urlencoded` (WHATWG URL, section 5.1), read without copying the body.

use crate::percent::hex_byte;
use std::cmp::Ordering;

/// The maximum number of fields that are sorted. No provider sends so many.
const MAX_FIELDS: usize = 1024;

/// One field, still encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'b> {
    pub(super) name: &'b [u8],
    pub(super) value: &'b [u8],
}

/// The fields in their order. A field without `=` has an empty value.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = Field<'_>> {
    text.split(|byte| *byte == b'&').filter(|item| !item.is_empty()).map(|item| {
        let mut halves = item.splitn(2, |byte| *byte == b'=');
        Field { name: halves.next().unwrap_or_default(), value: halves.next().unwrap_or_default() }
    })
}

/// Decodes a name or a value: `+` is a space, `%XX` is a byte, and a `%` without two digits stays as it is.
#[derive(Debug, Clone)]
pub(super) struct DecodedField<'b>(&'b [u8]);

impl Iterator for DecodedField<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        let (value, rest) = match (byte, rest) {
            (b'+', rest) => (b' ', rest),
            (b'%', rest) => match rest.split_first_chunk().and_then(|(digits, after)| Some((hex_byte(digits)?, after)))
            {
                Some(decoded) => decoded,
                None => (b'%', rest),
            },
            (byte, rest) => (*byte, rest),
        };
        self.0 = rest;
        Some(value)
    }
}

/// Decodes a name or a value.
pub(super) const fn decoded(raw: &[u8]) -> DecodedField<'_> {
    DecodedField(raw)
}

/// Whether an encoded name is `name`.
pub(super) fn is(raw: &[u8], name: &str) -> bool {
    decoded(raw).eq(name.bytes())
}

/// Fields sorted by decoded name, then by decoded value, each pair once.
#[derive(Debug)]
pub(super) struct Sorted<'b>(Vec<Field<'b>>);

impl<'b> Sorted<'b> {
    /// Sorts; `None` if there are too many fields.
    pub(super) fn new(text: &'b [u8]) -> Option<Self> {
        let mut sorted = Vec::new();
        for (count, field) in fields(text).enumerate() {
            if count == MAX_FIELDS {
                return None;
            }
            if let Err(index) = sorted.binary_search_by(|other| compare(other, &field)) {
                sorted.insert(index, field);
            }
        }
        Some(Self(sorted))
    }

    /// Writes all decoded names and values, without separators.
    pub(super) fn feed(&self, sink: &mut dyn FnMut(&[u8])) {
        for field in &self.0 {
            feed(field.name, sink);
            feed(field.value, sink);
        }
    }
}

fn compare(one: &Field<'_>, other: &Field<'_>) -> Ordering {
    decoded(one.name).cmp(decoded(other.name)).then_with(|| decoded(one.value).cmp(decoded(other.value)))
}

fn feed(raw: &[u8], sink: &mut dyn FnMut(&[u8])) {
    let mut rest = decoded(raw);
    loop {
        let plain = rest.0.iter().take_while(|byte| !matches!(byte, b'+' | b'%')).count();
        if let Some((run, after)) = rest.0.split_at_checked(plain) {
            sink(run);
            rest = decoded(after);
        }
        match rest.next() {
            Some(byte) => sink(&[byte]),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(text: &str) -> String {
        let mut out = Vec::new();
        Sorted::new(text.as_bytes()).unwrap().feed(&mut |bytes| out.extend_from_slice(bytes));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_and_values_are_decoded_once() {
        for (raw, expected) in [
            ("a+b", b"a b".as_slice()),
            ("%2B%2b%20", b"++ "),
            ("%252B", b"%2B"),
            ("%c3%A9", "é".as_bytes()),
            ("%", b"%"),
            ("%2", b"%2"),
            ("%zz%%41", b"%zz%A"),
            ("%00", b"\0"),
            ("%+1", b"% 1"),
        ] {
            assert_eq!(decoded(raw.as_bytes()).collect::<Vec<u8>>(), expected, "{raw}");
        }
    }

    #[test]
    fn fields_keep_their_order_and_their_empty_values() {
        let read: Vec<(&[u8], &[u8])> = fields(b"a=1&&b&c=&=d&e=f=g&").map(|field| (field.name, field.value)).collect();
        let expected: [(&[u8], &[u8]); 5] = [(b"a", b"1"), (b"b", b""), (b"c", b""), (b"", b"d"), (b"e", b"f=g")];
        assert_eq!(read, expected);
        assert_eq!(fields(b"").count(), 0);
    }

    #[test]
    fn sorts_by_decoded_bytes_and_keeps_a_pair_once() {
        assert_eq!(sorted("%C3%A9=1&z=2&Z=3"), "Z3z2é1");
        assert_eq!(sorted("ReasonX=a&Reason=b"), "ReasonbReasonXa");
        assert_eq!(sorted("a=2&a=1&%61=2&b="), "a1a2b");
        assert_eq!(sorted("Body=++hi+%0A&n%20m=%2B1"), "Body  hi \nn m+1");
        assert_eq!(sorted(""), "");
    }

    #[test]
    fn the_number_of_sorted_fields_is_bounded() {
        assert!(Sorted::new("a&".repeat(MAX_FIELDS).as_bytes()).is_some());
        assert!(Sorted::new("a&".repeat(MAX_FIELDS + 1).as_bytes()).is_none());
    }
}
