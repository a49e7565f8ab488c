//! Sets of bytes: a table makes the test of every byte of a path, a key or an identity one load. And comparison in words, since
//! the library's takes a byte at a time in WebAssembly.

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSet([bool; 256]);

#[allow(clippy::indexing_slicing, reason = "a byte is less than 256")]
impl ByteSet {
    /// ASCII letters and digits.
    pub(crate) const fn alphanumeric() -> Self {
        let mut set = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            set[byte as usize] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        Self(set)
    }

    /// The set with more bytes in it.
    pub(crate) const fn with(mut self, more: &[u8]) -> Self {
        let mut index = 0;
        while index < more.len() {
            self.0[more[index] as usize] = true;
            index += 1;
        }
        self
    }

    /// Whether the byte is in the set.
    #[inline]
    pub(crate) const fn has(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }

    /// Whether every byte is in the set.
    #[inline]
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.has(*byte))
    }
}

/// Whether both are the same.
#[inline(never)]
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (words, other_words) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    words.iter().zip(other_words).all(|(one, other)| one == other)
        && match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
            // What is behind the last word, with a part of it.
            (Some(one), Some(other)) => one == other,
            _ => one.iter().zip(other).all(|(one, other)| one == other),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_have_the_same_length_and_no_difference_anywhere() {
        for length in 0..40 {
            let text = vec![b'a'; length];
            assert!(equal(&text, &text.clone()), "{length}");
            assert!(!equal(&text, &vec![b'a'; length + 1]) && !equal(&vec![b'a'; length + 1], &text), "{length}");
            for place in 0..length {
                let mut other = text.clone();
                other[place] = b'b';
                assert!(!equal(&text, &other), "{length}, {place}");
            }
        }
    }

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        let set = ByteSet::alphanumeric().with(b"-\xff");
        for byte in 0..=u8::MAX {
            assert_eq!(set.has(byte), byte.is_ascii_alphanumeric() || b"-\xff".contains(&byte), "{byte}");
        }
        assert!(set.holds(b"") && set.holds(b"a-Z9\xff") && !set.holds(b"a b"));
    }
}
