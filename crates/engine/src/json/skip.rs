//! Skips an object or an array, and checks all of it.
//!
//! Most bytes of a large text are read here. Two things make it fast (decisions/0011-json.md has what else was tried):
//! - The special bytes of strings are found in blocks of 64 bytes, so that the position of a string's end needs no load
//!   from memory. WebAssembly has 128-bit vectors for it in every host (docs/hosts.md).
//! - The loop calls no function: V8 keeps values in memory that live across a call.

#[cfg(not(target_arch = "wasm32"))]
use super::lex::special_bytes;
use super::lex::{skip_in_string, skip_number};

/// The maximum nesting.
pub(super) const MAX_DEPTH: usize = 512;

/// The bytes that are examined at once.
const BLOCK: usize = 64;

/// The brackets that end the open containers, from the outermost on, except for the innermost container.
pub(super) type Closes = [u8; MAX_DEPTH];

/// Skips the object or the array at the beginning of `text`, which is in `depth` containers. Returns what follows it.
/// `None` if it is not JSON in UTF-8, or is nested too deeply.
#[inline(never)]
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
pub(super) fn skip_container<'b>(text: &'b [u8], depth: usize, closes: &mut Closes) -> Option<&'b [u8]> {
    let mut marks = Marks::new(text);
    let mut at = 0;
    let mut level = depth;
    // The bracket that ends the innermost container.
    let mut close = 0;
    loop {
        if close == b'}' {
            if *text.get(at)? != b'"' {
                at = skip_space(text, at);
                if *text.get(at)? != b'"' {
                    return None;
                }
            }
            at = marks.string_end(at + 1)? + 1;
            if *text.get(at)? != b':' {
                at = skip_space(text, at);
                if *text.get(at)? != b':' {
                    return None;
                }
            }
            at += 1;
        }
        // A value begins here.
        let mut first = *text.get(at)?;
        if first <= b' ' {
            at = skip_space(text, at);
            first = *text.get(at)?;
        }
        if first == b'"' {
            at = marks.string_end(at + 1)? + 1;
        } else if first | 0x20 == b'{' {
            // One of the two opening brackets; the closing one is the next but one in ASCII.
            *closes.get_mut(level)? = close;
            level += 1;
            close = first + 2;
            at = skip_space(text, at + 1);
            if *text.get(at)? != close {
                continue;
            }
        } else {
            let after = match text.get(at..)? {
                [b't', after @ ..] => after.strip_prefix(b"rue")?,
                [b'f', after @ ..] => after.strip_prefix(b"alse")?,
                [b'n', after @ ..] => after.strip_prefix(b"ull")?,
                number => skip_number(number)?,
            };
            at = text.len() - after.len();
        }
        // A value, or an empty container, has ended here.
        loop {
            let mut byte = *text.get(at)?;
            if byte <= b' ' {
                at = skip_space(text, at);
                byte = *text.get(at)?;
            }
            at += 1;
            if byte == b',' {
                break;
            }
            if byte != close {
                return None;
            }
            level -= 1;
            close = *closes.get(level)?;
            if level == depth {
                return text.get(at..);
            }
        }
    }
}

/// As [`super::lex::skip_space`], for a position.
#[inline(always)]
fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// The special bytes of a block of a text: those that are not ASCII, quotes, backslashes and control characters.
struct Marks<'b> {
    text: &'b [u8],
    /// Where the block ends
    end: usize,
    /// A bit for each byte of the block, from the lowest on
    bits: u64,
}

impl<'b> Marks<'b> {
    #[inline(always)]
    fn new(text: &'b [u8]) -> Self {
        if text.len() >= BLOCK {
            return Self { text, end: 0, bits: 0 };
        }
        let is_special = |byte: &u8| !(0x20..0x80).contains(byte) || matches!(byte, b'"' | b'\\');
        let bits = text.iter().rev().fold(0, |bits, byte| bits << 1 | u64::from(is_special(byte)));
        Self { text, end: BLOCK, bits }
    }

    /// The position of the quote that ends the string whose content begins at `at`.
    #[inline(always)]
    fn string_end(&mut self, mut at: usize) -> Option<usize> {
        loop {
            if at >= self.end {
                if at >= self.text.len() {
                    return None;
                }
                let begin = at.min(self.text.len().checked_sub(BLOCK)?);
                self.end = begin + BLOCK;
                self.bits = specials(self.text.get(begin..)?.first_chunk()?);
            }
            let bits = self.bits >> (at + BLOCK - self.end);
            if bits == 0 {
                at = self.end;
                continue;
            }
            at += bits.trailing_zeros() as usize;
            if *self.text.get(at)? == b'"' {
                return Some(at);
            }
            at = self.text.len() - skip_in_string(self.text.get(at..)?)?.len();
        }
    }
}

/// The special bytes of a block, as [`Marks`] has them.
#[cfg(not(target_arch = "wasm32"))]
#[inline]
fn specials(block: &[u8; BLOCK]) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    words.iter().rev().fold(0, |bits, word| {
        // The product has the highest bits of the eight bytes side by side at its upper end.
        let gathered = (special_bytes(u64::from_le_bytes(*word)) >> 7).wrapping_mul(0x0102_0408_1020_4080);
        bits << 8 | gathered >> 56
    })
}

/// The special bytes of a block, as [`Marks`] has them.
#[cfg(target_arch = "wasm32")]
#[inline]
#[target_feature(enable = "simd128")]
fn specials(block: &[u8; BLOCK]) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    let [a, b, c, d, e, f, g, h] = words else { return 0 };
    specials_of_16(a, b) | specials_of_16(c, d) << 16 | specials_of_16(e, f) << 32 | specials_of_16(g, h) << 48
}

#[cfg(target_arch = "wasm32")]
#[inline]
#[target_feature(enable = "simd128")]
fn specials_of_16(low: &[u8; 8], high: &[u8; 8]) -> u64 {
    use core::arch::wasm32::{i8x16_lt, i8x16_splat, u8x16_bitmask, u8x16_eq, u8x16_splat, u64x2, v128_or};
    let bytes = u64x2(u64::from_le_bytes(*low), u64::from_le_bytes(*high));
    // As signed numbers, the bytes beyond ASCII are below the control characters.
    let outside = i8x16_lt(bytes, i8x16_splat(0x20));
    let quotes = v128_or(u8x16_eq(bytes, u8x16_splat(b'"')), u8x16_eq(bytes, u8x16_splat(b'\\')));
    u64::from(u8x16_bitmask(v128_or(outside, quotes)))
}
