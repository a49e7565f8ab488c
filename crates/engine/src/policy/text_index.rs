//! Numbers by text: a hash table that keeps all texts in one block of memory. A policy of 10,000 routes has about 30,000 of
//! them, and a map with a `String` for each of them takes several times as long to build and to free.
//!
//! A search for a text also finds one that differs from it in letter case or in escapes only: a router that ignores letter case,
//! or that decodes a path before it compares it, takes one for the other. Both have the same hash, so this costs nothing.

use crate::bytes::equal;
use crate::percent::{lenient, unescaped};
use hashbrown::HashTable;

/// Numbers by text, in any number of spaces: the same text can have a number in each of them.
#[derive(Debug, Default)]
pub(crate) struct TextIndex {
    texts: String,
    entries: Vec<TextEntry>,
    /// The indices of `entries`
    index: HashTable<u32>,
}

#[derive(Debug)]
struct TextEntry {
    hash: u64,
    space: usize,
    /// Where the text stands in `texts`
    start: usize,
    end: usize,
    number: usize,
}

/// What a search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    /// The number of the text that was found.
    pub number: usize,
    /// Whether it is the text that was searched for, and not one that a lenient reader takes for it.
    pub is_exact: bool,
}

impl TextIndex {
    /// An index with room for this many texts.
    pub(crate) fn with_capacity(texts: usize) -> Self {
        const USUAL_LENGTH: usize = 16;
        Self {
            texts: String::with_capacity(texts * USUAL_LENGTH),
            entries: Vec::with_capacity(texts),
            index: HashTable::with_capacity(texts),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of `text` in `space`.
    pub(crate) fn get(&self, space: usize, text: &str) -> Option<usize> {
        self.exact(hash(space, text), space, text).map(|entry| entry.number)
    }

    /// The number of `text` in `space`, or else that of a text which differs in letter case or in escapes only.
    pub(crate) fn find(&self, space: usize, text: &str) -> Option<Match> {
        let hash = hash(space, text);
        let exact = self.exact(hash, space, text).map(|entry| Match { number: entry.number, is_exact: true });
        exact.or_else(|| {
            let alike = self.lenient(hash, space, text)?;
            Some(Match { number: alike.number, is_exact: false })
        })
    }

    /// The text in `space` that differs from `text` in letter case or in escapes only, unless `text` is there, too.
    pub(crate) fn alike(&self, space: usize, text: &str) -> Option<&str> {
        let hash = hash(space, text);
        match self.exact(hash, space, text) {
            Some(_) => None,
            None => self.lenient(hash, space, text).map(|entry| self.text(entry)),
        }
    }

    /// The number of `text` in `space`. If it has none, it gets `number`.
    pub(crate) fn get_or_insert(&mut self, space: usize, text: &str, number: usize) -> usize {
        let hash = hash(space, text);
        if let Some(entry) = self.exact(hash, space, text) {
            return entry.number;
        }
        self.add(hash, space, text, number);
        number
    }

    /// The texts in `space`, in no order, each with its number.
    pub(crate) fn texts(&self, space: usize) -> impl Iterator<Item = (&str, usize)> {
        let of_space = self.entries.iter().filter(move |entry| entry.space == space);
        of_space.map(|entry| (self.text(entry), entry.number))
    }

    /// Whether `text` has a number in some space.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        self.entries.iter().any(|entry| self.text(entry) == text)
    }

    /// Gives `text` this number in `space`. Returns the number that it had.
    pub(crate) fn insert(&mut self, space: usize, text: &str, number: usize) -> Option<usize> {
        let hash = hash(space, text);
        let Some(index) = self.place(hash, space, text, true) else {
            self.add(hash, space, text, number);
            return None;
        };
        self.entries.get_mut(index).map(|entry| std::mem::replace(&mut entry.number, number))
    }

    fn exact(&self, hash: u64, space: usize, text: &str) -> Option<&TextEntry> {
        self.entries.get(self.place(hash, space, text, true)?)
    }

    fn lenient(&self, hash: u64, space: usize, text: &str) -> Option<&TextEntry> {
        self.entries.get(self.place(hash, space, text, false)?)
    }

    /// The index of the entry with this text, or with one that a lenient reader takes for it.
    #[inline(never)]
    fn place(&self, hash: u64, space: usize, text: &str, is_exact: bool) -> Option<usize> {
        let is_it = |index: &u32| {
            self.entries.get(*index as usize).is_some_and(|entry| {
                let known = self.text(entry);
                entry.space == space
                    && (equal(known.as_bytes(), text.as_bytes()) || !is_exact && lenient(known).eq(lenient(text)))
            })
        };
        self.index.find(hash, is_it).map(|index| *index as usize)
    }

    fn text(&self, entry: &TextEntry) -> &str {
        self.texts.get(entry.start..entry.end).unwrap_or_default()
    }

    #[inline(never)]
    fn add(&mut self, text_hash: u64, space: usize, text: &str, number: usize) {
        let (start, index) = (self.texts.len(), self.entries.len() as u32);
        self.texts.push_str(text);
        self.entries.push(TextEntry { hash: text_hash, space, start, end: self.texts.len(), number });
        let hash = |index: &u32| self.entries.get(*index as usize).map_or(0, |entry| entry.hash);
        insert_number(&mut self.index, text_hash, index, &hash);
    }
}

/// Inserts a number into a table of numbers. A table that grows is much code, so the module has it once.
#[inline(never)]
pub(crate) fn insert_number(table: &mut HashTable<u32>, hash: u64, number: u32, hash_of: &dyn Fn(&u32) -> u64) {
    table.insert_unique(hash, number, hash_of);
}

/// FNV-1a of the space and of the text without escapes and with one bit of each byte set, so that both cases of a letter are the
/// same. The texts come from the operator's document, so the hash need
/// not withstand an attacker: a client's path is only searched for.
fn hash(space: usize, text: &str) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let start = (space as u64 ^ 0xcbf2_9ce4_8422_2325).wrapping_mul(PRIME);
    unescaped(text).fold(start, |hash, byte| (hash ^ (u64::from(byte) | 0x20)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_its_number_in_each_space() {
        for mut index in [TextIndex::default(), TextIndex::with_capacity(0), TextIndex::with_capacity(300)] {
            assert_eq!(index.get(0, ""), None);
            for number in 0..1_000 {
                for space in 0..3 {
                    let text = format!("t{number}");
                    assert_eq!(index.get(space, &text), None);
                    assert_eq!(index.get_or_insert(space, &text, number * 3 + space), number * 3 + space);
                    assert_eq!(index.get_or_insert(space, &text, 7), number * 3 + space, "it keeps its number");
                }
            }
            for number in 0..1_000 {
                for space in 0..3 {
                    assert_eq!(index.get(space, &format!("t{number}")), Some(number * 3 + space));
                }
            }
            assert!(index.has_text("t999") && !index.has_text("t1000"));
            assert_eq!((index.get(3, "t1"), index.get(0, "t"), index.get(0, "t1000")), (None, None, None));
        }
    }

    #[test]
    fn a_number_can_be_replaced() {
        let mut index = TextIndex::default();
        assert_eq!(index.insert(0, "a", 1), None);
        assert_eq!(index.insert(0, "a", 2), Some(1));
        assert_eq!((index.get(0, "a"), index.get(1, "a")), (Some(2), None));
    }

    #[test]
    fn a_text_is_found_as_a_lenient_reader_reads_it() {
        let mut index = TextIndex::default();
        index.insert(0, "Key:A", 1);
        index.insert(0, "key%3Ab", 2);
        for (text, number, is_exact) in
            [("Key:A", 1, true), ("key:a", 1, false), ("KEY%3aa", 1, false), ("key:b", 2, false), ("key%3Ab", 2, true)]
        {
            assert_eq!(index.find(0, text), Some(Match { number, is_exact }), "{text}");
            assert_eq!(index.get(0, text), is_exact.then_some(number), "{text}");
            assert_eq!(index.alike(0, text).is_some(), !is_exact, "{text}");
        }
        assert_eq!((index.find(1, "Key:A"), index.find(0, "key")), (None, None));
        assert_eq!(index.alike(0, "KEY:B"), Some("key%3Ab"));
    }
}
