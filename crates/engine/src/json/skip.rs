//! Skips an object or an array, and checks all of it, in a loop without recursion.

use super::lex::{scalar, skip_space, string};

/// The maximum nesting.
pub(super) const MAX_DEPTH: usize = 512;

/// The brackets that end the open containers, from the outermost on, except for the innermost container.
pub(super) type Closes = [u8; MAX_DEPTH];

/// Skips the object or the array at the beginning of `text`, which is in `depth` containers. Returns what follows it.
/// `None` if it is not JSON in UTF-8, or is nested too deeply.
pub(super) fn skip_container<'b>(text: &'b [u8], depth: usize, closes: &mut Closes) -> Option<&'b [u8]> {
    let mut rest = text;
    let mut level = depth;
    // The bracket that ends the innermost container.
    let mut close = 0;
    loop {
        if close == b'}' {
            let (_, after) = string(skip_space(rest).strip_prefix(b"\"")?)?;
            rest = skip_space(after).strip_prefix(b":")?;
        }
        // A value begins here.
        rest = skip_space(rest);
        if let [first @ (b'{' | b'['), after @ ..] = rest {
            *closes.get_mut(level)? = close;
            level += 1;
            // The closing bracket is the next but one in ASCII.
            close = first + 2;
            rest = skip_space(after);
            if *rest.first()? != close {
                continue;
            }
        } else {
            rest = scalar(rest)?.1;
        }
        // A value, or an empty container, has ended here.
        loop {
            let (byte, after) = skip_space(rest).split_first()?;
            rest = after;
            if *byte == b',' {
                break;
            }
            if *byte != close {
                return None;
            }
            level -= 1;
            close = *closes.get(level)?;
            if level == depth {
                return Some(rest);
            }
        }
    }
}
