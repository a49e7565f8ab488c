//! The header lines of waiting requests, with limits on their size (docs/contract.md section 2, "Waiting").

use crate::exchange::Waiter;
use crate::headers::Headers;
use crate::memory::{NoMemory, SharedMemory};
use std::cell::RefCell;
use std::sync::Arc;

/// What a waiting request takes beside what is counted of its head, in bytes: its decision, the key at the guard, the entry of its
/// sender.
const REQUEST: usize = 512;

/// The memory of a worker: for requests whose sender nobody has verified, and for those of verified callers. Neither can
/// take memory from the other.
struct SharedMemories {
    unverified: SharedMemory,
    verified: SharedMemory,
}

thread_local! {
    /// A gateway runs each worker on a thread of its own, and each worker has its memory.
    static MEMORIES: RefCell<SharedMemories> = const {
        RefCell::new(SharedMemories { unverified: SharedMemory::new(16 * 1024 * 1024), verified: SharedMemory::new(16 * 1024 * 1024) })
    };
}

/// Runs `event` with the memory for a waiting request and the name of who takes its memory.
fn with_memory<T>(waiter: &Waiter, event: impl FnOnce(&mut SharedMemory, &Arc<str>) -> T) -> Option<T> {
    let run = |memories: &RefCell<SharedMemories>| {
        let mut memories = memories.try_borrow_mut().ok()?;
        Some(match waiter {
            Waiter::Unverified(name) => event(&mut memories.unverified, name),
            Waiter::Tenant(name) => event(&mut memories.verified, name),
        })
    };
    // At its end a thread has none any more.
    MEMORIES.try_with(run).ok().flatten()
}

/// The kept header lines of a request. Once the request waits their bytes are counted, until this is dropped.
pub(super) struct KeptLines {
    /// Each line: the lengths of its name and of its value, four bytes each, then both
    bytes: Vec<u8>,
    /// How many bytes of the request's head the exchange keeps itself
    carried: usize,
    counted_for: Option<Waiter>,
}

impl KeptLines {
    /// Keeps the lines, which nobody counts yet. They are counted together with the bytes that the exchange
    /// carries ([`crate::Exchange::carried_bytes`]).
    pub(super) fn keep(headers: &Headers<'_>, carried: usize) -> Self {
        let size = headers.iter().map(|(name, value)| 8 + name.len() + value.len()).sum();
        let mut bytes = Vec::with_capacity(size);
        for (name, value) in headers.iter() {
            for text in [name, value] {
                bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            }
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        Self { bytes, carried, counted_for: None }
    }

    /// The lines.
    pub(super) fn headers(&self) -> Headers<'_> {
        let mut lines = Vec::new();
        let mut rest = self.bytes.as_slice();
        while let Some((line, after)) = line(rest) {
            lines.push(line);
            rest = after;
        }
        Headers::new(lines)
    }

    /// Counts the lines for the one whose request waits, and no longer for another one.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn count_for(&mut self, waiter: Waiter) -> Result<(), NoMemory> {
        if self.counted_for.as_ref() == Some(&waiter) {
            return Ok(());
        }
        let size = self.size();
        with_memory(&waiter, |memory, name| memory.take(name, size)).unwrap_or(Err(NoMemory::Full))?;
        self.give_back();
        self.counted_for = Some(waiter);
        Ok(())
    }

    const fn size(&self) -> usize {
        REQUEST + self.carried + self.bytes.len()
    }

    fn give_back(&self) {
        if let Some(waiter) = &self.counted_for {
            with_memory(waiter, |memory, name| memory.give_back(name, self.size()));
        }
    }
}

impl Drop for KeptLines {
    fn drop(&mut self) {
        self.give_back();
    }
}

type Line<'b> = (&'b [u8], &'b [u8]);

/// The first line, and the bytes behind it.
fn line(bytes: &[u8]) -> Option<(Line<'_>, &[u8])> {
    let (name, rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(u32::from_le_bytes(*name) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value) as usize)?;
    Some(((name, value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let long = vec![b'v'; 300];
        let lines: Vec<Line<'_>> = vec![(b":path", b"/a"), (b"", b""), (b"x", &long), (b"x", b"\0\xff")];
        let kept = KeptLines::keep(&Headers::new(lines.clone()), 0);
        assert_eq!(kept.headers().iter().collect::<Vec<_>>(), lines);
        let none = KeptLines::keep(&Headers::default(), 0);
        assert_eq!(none.headers().iter().count(), 0);
    }
}
