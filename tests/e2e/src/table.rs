//! The table of header fields that a connection of HTTP/2 keeps (RFC 7541), as its client fills it: a field stands in it when
//! it was sent once, and a later one is a number.

use std::collections::VecDeque;

/// The size that a peer's table has by default, and what an entry takes beside its texts (section 4.1).
const SIZE: usize = 4096;
const ENTRY: usize = 32;

/// The first number of the entries behind the fixed ones.
const FIRST: usize = 62;

/// A field: name and value.
pub type Field = (String, Vec<u8>);

/// What stands in the table, the newest field first.
#[derive(Clone, Debug, Default)]
pub struct Table {
    fields: VecDeque<Field>,
    size: usize,
}

impl Table {
    /// Writes a field: as a number if it is there, else as text, and from then on it is there if it is not too long.
    pub fn write(&mut self, block: &mut Vec<u8>, field: &Field) {
        if let Some(at) = self.fields.iter().position(|known| known == field) {
            number(block, 0x80, 0x7f, FIRST + at);
            return;
        }
        // A field that is longer than the table empties it, so it is written without it.
        let size = field.0.len() + field.1.len() + ENTRY;
        block.push(if size > SIZE { 0 } else { 0x40 });
        push_text(block, field.0.as_bytes());
        push_text(block, &field.1);
        if size > SIZE {
            return;
        }
        self.size += size;
        self.fields.push_front(field.clone());
        while self.size > SIZE {
            let Some((name, value)) = self.fields.pop_back() else { return };
            self.size -= name.len() + value.len() + ENTRY;
        }
    }
}

/// A string literal without Huffman coding (section 5.2).
pub(crate) fn push_text(block: &mut Vec<u8>, text: &[u8]) {
    number(block, 0, 0x7f, text.len());
    block.extend(text);
}

/// An integer whose first byte has these bits before it (section 5.1).
fn number(block: &mut Vec<u8>, bits: u8, most: u8, value: usize) {
    if let Some(short) = u8::try_from(value).ok().filter(|value| *value < most) {
        block.push(bits | short);
        return;
    }
    block.push(bits | most);
    let mut left = value.saturating_sub(usize::from(most));
    while left >= 0x80 {
        block.push(u8::try_from(left & 0x7f).unwrap_or_default() | 0x80);
        left >>= 7;
    }
    block.push(u8::try_from(left).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, size: usize) -> Field {
        (name.to_owned(), vec![b'v'; size])
    }

    #[test]
    fn a_field_is_a_number_when_it_comes_again() {
        let (mut table, mut block) = (Table::default(), Vec::new());
        table.write(&mut block, &field("a", 2));
        assert_eq!(block, b"\x40\x01a\x02vv");
        block.clear();
        table.write(&mut block, &field("b", 1));
        table.write(&mut block, &field("a", 2));
        table.write(&mut block, &field("b", 1));
        assert_eq!(block, b"\x40\x01b\x01v\xbf\xbe");
    }

    #[test]
    fn old_fields_go_when_the_table_is_full() {
        let (mut table, mut block) = (Table::default(), Vec::new());
        table.write(&mut block, &field("a", 3000));
        table.write(&mut block, &field("b", 1000));
        assert_eq!((table.fields.len(), table.size), (2, 4066));
        table.write(&mut block, &field("c", 0));
        assert_eq!((table.fields.len(), table.size), (2, 1066));
        table.write(&mut block, &field("d", SIZE));
        assert_eq!(table.fields.len(), 2);
    }

    #[test]
    fn great_numbers_take_more_bytes() {
        let mut block = Vec::new();
        number(&mut block, 0x80, 0x7f, 127 + 128);
        assert_eq!(block, [0xff, 0x80, 0x01]);
    }
}
