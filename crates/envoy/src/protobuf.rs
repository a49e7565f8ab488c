//! Reads messages in protobuf's wire format (<https://protobuf.dev/programming-guides/encoding/>), as Envoy's interfaces use it.

pub use edge_idempotency_engine::append_field;

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'m> {
    /// Its number in the message's definition
    pub number: u64,
    /// Its bytes: a text, or another message; else empty
    pub bytes: &'m [u8],
    /// Its value as it is on the wire, if it is a varint or has eight bytes; else 0
    pub fixed: u64,
}

/// The fields of a message, in order. A malformed field ends the iteration.
#[derive(Debug, Clone)]
pub struct Fields<'m>(pub &'m [u8]);

impl<'m> Iterator for Fields<'m> {
    type Item = Field<'m>;

    #[inline]
    fn next(&mut self) -> Option<Field<'m>> {
        // Most fields are short texts or messages.
        if let [tag @ ..0x80, size @ ..0x80, rest @ ..] = self.0
            && tag & 7 == 2
        {
            let (bytes, rest) = rest.split_at_checked(usize::from(*size))?;
            self.0 = rest;
            return Some(Field { number: u64::from(tag >> 3), bytes, fixed: 0 });
        }
        self.any()
    }
}

impl<'m> Fields<'m> {
    /// The next field, whatever its type and size.
    #[inline(never)]
    fn any(&mut self) -> Option<Field<'m>> {
        let (tag, rest) = varint(self.0)?;
        let (bytes, fixed, rest) = match tag & 7 {
            0 => {
                let (value, rest) = varint(rest)?;
                (&[][..], value, rest)
            }
            1 => {
                let (fixed, rest) = rest.split_first_chunk()?;
                (&[][..], u64::from_le_bytes(*fixed), rest)
            }
            2 => {
                let (size, rest) = varint(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
                (bytes, 0, rest)
            }
            5 => (&[][..], 0, rest.get(4..)?),
            _ => return None,
        };
        self.0 = rest;
        Some(Field { number: tag >> 3, bytes, fixed })
    }
}

/// The last field with this number; `None` if there is none.
pub fn field(message: &[u8], number: u64) -> Option<Field<'_>> {
    Fields(message).filter(|field| field.number == number).last()
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut number, mut rest) = (0, bytes);
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((number, rest));
        }
    }
    None
}
