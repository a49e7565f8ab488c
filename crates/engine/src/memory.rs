//! Memory for what requests keep, with a limit for all requests of a VM together.

use crate::codes::Reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all requests of a VM share.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryLimit {
    /// A limit of so many bytes, of which none is used.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// Takes so many bytes; `false`, and nothing is taken, if fewer are left. The caller gives them back.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Gives bytes back that [`MemoryLimit::take`] took.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What has come of a body that passes. Its memory is taken from a limit, and given back when this is dropped.
#[derive(Debug)]
pub(crate) struct KeptBody {
    bytes: Vec<u8>,
    /// How much memory was taken, in bytes
    room: usize,
    memory: &'static MemoryLimit,
}

impl KeptBody {
    /// A body of which nothing has come.
    pub(crate) const fn new(memory: &'static MemoryLimit) -> Self {
        Self { bytes: Vec::new(), room: 0, memory }
    }

    /// Takes the next part of a body of at most `limit` bytes; `false` if there is no memory for it.
    pub(crate) fn push(&mut self, part: &[u8], limit: usize) -> bool {
        let size = self.bytes.len().saturating_add(part.len());
        if size > self.room {
            // The memory is doubled, so that a body in many parts is not copied for each of them.
            let room = size.max(self.room.saturating_mul(2).min(limit));
            if !self.memory.take(room.saturating_sub(self.room)) {
                return false;
            }
            self.room = room;
            self.bytes.reserve_exact(room.saturating_sub(self.bytes.len()));
        }
        self.bytes.extend_from_slice(part);
        true
    }

    /// What has come.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for KeptBody {
    fn drop(&mut self) {
        self.memory.give_back(self.room);
    }
}

/// A number of bytes that the senders of requests share. While more than half of them are used, a sender gets no more than
/// its share, so it cannot take from the others what they need.
pub(crate) struct SharedMemory {
    limit: usize,
    used: usize,
    /// How much each of the senders uses that use any, by their names
    senders: Vec<(Arc<str>, usize)>,
}

/// Why a request gets no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoMemory {
    /// The limit is reached.
    Full,
    /// More than half of the memory is used, and the sender has its share.
    Share,
}

impl NoMemory {
    /// The reason of a refusal.
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::Full => Reason::WaitingFull,
            Self::Share => Reason::WaitingShare,
        }
    }
}

impl SharedMemory {
    /// The memory has so many shares.
    const SHARES: usize = 16;

    /// A limit of so many bytes, of which none is used.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, used: 0, senders: Vec::new() }
    }

    /// Takes so many bytes for a sender. The caller gives them back.
    ///
    /// # Errors
    /// There is no memory for them, and nothing is taken.
    pub(crate) fn take(&mut self, sender: &Arc<str>, bytes: usize) -> Result<(), NoMemory> {
        let used = self.used.checked_add(bytes).filter(|used| *used <= self.limit).ok_or(NoMemory::Full)?;
        let place = self.find(sender);
        let own = place.ok().and_then(|at| self.senders.get(at)).map_or(0, |(_, own)| *own) + bytes;
        if used > self.limit / 2 && own > self.limit / Self::SHARES {
            return Err(NoMemory::Share);
        }
        self.used = used;
        match place {
            Ok(at) => {
                if let Some((_, size)) = self.senders.get_mut(at) {
                    *size = own;
                }
            }
            Err(at) => self.senders.insert(at, (Arc::clone(sender), own)),
        }
        Ok(())
    }

    fn find(&self, sender: &str) -> Result<usize, usize> {
        self.senders.binary_search_by(|(name, _)| (**name).cmp(sender))
    }

    /// Gives bytes back that [`SharedMemory::take`] took for this sender.
    pub(crate) fn give_back(&mut self, sender: &Arc<str>, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        let Ok(at) = self.find(sender) else { return };
        if let Some((_, own)) = self.senders.get_mut(at) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.senders.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 1600;
    const SHARE: usize = LIMIT / SharedMemory::SHARES;

    /// What becomes of the requests of a few senders.
    #[derive(Debug, Clone)]
    enum Event {
        /// A request of this sender begins to wait.
        Begin(usize, usize),
        /// One of the requests that wait ends.
        End(usize),
        /// One of them is counted for another sender, as a delivery is whose webhook is found.
        Move(usize, usize),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let sender = 0..12_usize;
        let event = prop_oneof![
            4 => (sender.clone(), 1..=2 * SHARE).prop_map(|(sender, bytes)| Event::Begin(sender, bytes)),
            1 => any::<usize>().prop_map(Event::End),
            1 => (any::<usize>(), sender).prop_map(|(request, sender)| Event::Move(request, sender)),
        ];
        proptest::collection::vec(event, 0..200)
    }

    proptest! {
        /// The model is the list of the requests that wait.
        #[test]
        fn memory_is_bounded_and_nobody_takes_that_of_others(events in events()) {
            let name = |sender: usize| Arc::from(format!("tenant-{sender}"));
            let mut memory = SharedMemory::new(LIMIT);
            let mut waiting: Vec<(usize, usize)> = Vec::new();
            let of = |waiting: &[(usize, usize)], one: usize| -> usize {
                waiting.iter().filter(|(sender, _)| *sender == one).map(|(_, bytes)| bytes).sum()
            };
            for event in events {
                let all: usize = waiting.iter().map(|(_, bytes)| bytes).sum();
                let (sender, bytes, moved) = match event {
                    Event::Begin(sender, bytes) => (sender, bytes, None),
                    Event::End(request) => {
                        if !waiting.is_empty() {
                            let (sender, bytes) = waiting.swap_remove(request % waiting.len());
                            memory.give_back(&name(sender), bytes);
                        }
                        continue;
                    }
                    Event::Move(..) if waiting.is_empty() => continue,
                    Event::Move(request, sender) => {
                        let at = request % waiting.len();
                        (sender, waiting[at].1, Some(at))
                    }
                };
                let taken = memory.take(&name(sender), bytes);
                let own = of(&waiting, sender) + bytes;
                let expected = if all + bytes > LIMIT {
                    Err(NoMemory::Full)
                } else if all + bytes > LIMIT / 2 && own > SHARE {
                    Err(NoMemory::Share)
                } else {
                    Ok(())
                };
                prop_assert_eq!(taken, expected);
                if taken.is_ok() {
                    if let Some(at) = moved {
                        let (before, bytes) = waiting.swap_remove(at);
                        memory.give_back(&name(before), bytes);
                    }
                    waiting.push((sender, bytes));
                }
                let all: usize = waiting.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(memory.used, all);
                prop_assert!(all <= LIMIT);
                let senders: std::collections::BTreeSet<usize> = waiting.iter().map(|(sender, _)| *sender).collect();
                prop_assert_eq!(memory.senders.len(), senders.len());
                // Up to eight others, whatever they do, leave memory for the share of one who has nothing.
                let newcomer = name(99);
                if senders.len() <= 8 {
                    prop_assert_eq!(memory.take(&newcomer, SHARE), Ok(()));
                    memory.give_back(&newcomer, SHARE);
                }
            }
            for (sender, bytes) in waiting {
                memory.give_back(&name(sender), bytes);
            }
            prop_assert_eq!((memory.used, memory.senders.len()), (0, 0));
        }
    }

    /// Eight senders of which one was first, and what a ninth gets.
    #[test]
    fn one_sender_gets_half_of_the_memory_and_others_their_shares() {
        let name = |sender: usize| Arc::from(sender.to_string());
        let mut memory = SharedMemory::new(LIMIT);
        while memory.take(&name(0), 10).is_ok() {}
        assert_eq!((memory.used, memory.take(&name(0), 1)), (LIMIT / 2, Err(NoMemory::Share)));
        for sender in 1..9 {
            while memory.take(&name(sender), 10).is_ok() {}
            assert_eq!(memory.used, LIMIT / 2 + sender * SHARE);
        }
        assert_eq!(memory.take(&name(9), 1), Err(NoMemory::Full));
        memory.give_back(&name(0), 10);
        assert_eq!(memory.take(&name(0), 10), Err(NoMemory::Share));
        assert_eq!(memory.take(&name(9), 10), Ok(()));
    }
}
