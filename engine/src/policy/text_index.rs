//! Numbers by text: a hash table that keeps all texts in one block of memory. A policy of 10,000 routes has about 30,000 of
//! them, and a map with a `String` for each of them takes several times as long to build and to free.
//!
//! A search for a text also finds one that differs from it in letter case or in escapes only: a router that ignores letter case,
//! or that decodes a path before it compares it, takes one for the other. Both have the same hash, so this costs nothing.

use crate::percent::lenient;

/// Numbers by text, in any number of spaces: the same text can have a number in each of them.
#[derive(Debug, Default)]
pub(crate) struct TextIndex {
    texts: Vec<u8>,
    entries: Vec<TextEntry>,
    /// Hash table with open addressing: one more than the index of an entry, or 0. Its length is a power of two, and at most
    /// half of it is in use.
    slots: Vec<u32>,
}

#[derive(Debug)]
struct TextEntry {
    hash: u32,
    space: usize,
    /// Where the text stands in `texts`
    start: usize,
    end: usize,
    number: usize,
}

/// The length of the first hash table.
const FEWEST_SLOTS: usize = 16;

/// The result of a search.
enum Place {
    Entry(usize),
    /// The slot in which the text would be, and the entry of a text that a lenient reader takes for it
    Free(usize, Option<usize>),
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
            texts: Vec::with_capacity(texts * USUAL_LENGTH),
            entries: Vec::with_capacity(texts),
            slots: vec![0; (texts * 2).next_power_of_two().max(FEWEST_SLOTS)],
        }
    }

    /// The number of `text` in `space`.
    pub(crate) fn get(&self, space: usize, text: &str) -> Option<usize> {
        match self.place(space, hash(space, text), text) {
            Place::Entry(entry) => self.entries.get(entry).map(|entry| entry.number),
            Place::Free(..) => None,
        }
    }

    /// The number of `text` in `space`, or else that of a text which differs in letter case or in escapes only.
    pub(crate) fn find(&self, space: usize, text: &str) -> Option<Match> {
        let (entry, is_exact) = match self.place(space, hash(space, text), text) {
            Place::Entry(entry) => (entry, true),
            Place::Free(_, alike) => (alike?, false),
        };
        Some(Match { number: self.entries.get(entry)?.number, is_exact })
    }

    /// The text in `space` that differs from `text` in letter case or in escapes only, unless `text` is there, too.
    pub(crate) fn alike(&self, space: usize, text: &str) -> Option<&str> {
        let Place::Free(_, alike) = self.place(space, hash(space, text), text) else { return None };
        let entry = self.entries.get(alike?)?;
        std::str::from_utf8(self.texts.get(entry.start..entry.end)?).ok()
    }

    /// The number of `text` in `space`. If it has none, it gets `number`.
    pub(crate) fn get_or_insert(&mut self, space: usize, text: &str, number: usize) -> usize {
        self.make_room();
        let hash = hash(space, text);
        match self.place(space, hash, text) {
            Place::Entry(entry) => self.entries.get(entry).map_or(number, |entry| entry.number),
            Place::Free(slot, _) => {
                let start = self.texts.len();
                self.texts.extend_from_slice(text.as_bytes());
                self.entries.push(TextEntry { hash, space, start, end: self.texts.len(), number });
                self.fill(slot, self.entries.len());
                number
            }
        }
    }

    /// Whether some text has a number in `space`.
    pub(crate) fn has_any(&self, space: usize) -> bool {
        self.entries.iter().any(|entry| entry.space == space)
    }

    /// Whether `text` has a number in some space.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| self.texts.get(entry.start..entry.end) == Some(text.as_bytes()))
    }

    /// Gives `text` this number in `space`. Returns the number that it had.
    pub(crate) fn insert(&mut self, space: usize, text: &str, number: usize) -> Option<usize> {
        let count = self.entries.len();
        self.get_or_insert(space, text, number);
        if self.entries.len() > count {
            return None;
        }
        match self.place(space, hash(space, text), text) {
            Place::Entry(entry) => {
                self.entries.get_mut(entry).map(|entry| std::mem::replace(&mut entry.number, number))
            }
            Place::Free(..) => None,
        }
    }

    fn place(&self, space: usize, hash: u32, text: &str) -> Place {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = hash as usize & mask;
        let mut alike = None;
        loop {
            let Some(entry) = self.slots.get(slot).and_then(|number| (*number as usize).checked_sub(1)) else {
                return Place::Free(slot, alike);
            };
            let known = self.entries.get(entry).filter(|known| known.hash == hash && known.space == space);
            let known = known.and_then(|known| self.texts.get(known.start..known.end));
            if known == Some(text.as_bytes()) {
                return Place::Entry(entry);
            }
            if let Some(Ok(known)) = known.map(std::str::from_utf8)
                && alike.is_none()
                && lenient(known).eq(lenient(text))
            {
                alike = Some(entry);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Makes the hash table longer if half of it is in use.
    fn make_room(&mut self) {
        if self.entries.len() * 2 < self.slots.len() {
            return;
        }
        let length = (self.slots.len() * 2).max(FEWEST_SLOTS);
        self.slots = vec![0; length];
        for entry in 0..self.entries.len() {
            let Some(found) = self.entries.get(entry) else { return };
            let mut slot = found.hash as usize & (length - 1);
            while self.slots.get(slot).is_some_and(|number| *number != 0) {
                slot = (slot + 1) & (length - 1);
            }
            self.fill(slot, entry + 1);
        }
    }

    fn fill(&mut self, slot: usize, number: usize) {
        if let (Some(slot), Ok(number)) = (self.slots.get_mut(slot), u32::try_from(number)) {
            *slot = number;
        }
    }
}

/// FNV-1a of the space and the text as a lenient reader compares it, with the upper bits mixed into the lower ones, which choose the slot. The texts come from
/// the operator's document, so the hash need not withstand an attacker: a client's path is only searched for.
fn hash(space: usize, text: &str) -> u32 {
    const PRIME: u32 = 16_777_619;
    let start = (space as u32 ^ 2_166_136_261).wrapping_mul(PRIME);
    let hash = lenient(text).fold(start, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME));
    hash ^ (hash >> 15)
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
    fn texts_with_the_same_slot_are_kept_apart() {
        let mut index = TextIndex::default();
        // Sixteen slots at first, so several of these share one.
        let texts: Vec<String> = (0..7).map(|number| "x".repeat(number)).collect();
        for (number, text) in texts.iter().enumerate() {
            index.insert(0, text, number);
        }
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(index.get(0, text), Some(number));
        }
    }
}
