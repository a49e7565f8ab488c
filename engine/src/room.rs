//! Memory for what requests keep, with a limit for all requests of a VM together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all requests of a VM share.
pub(crate) struct Room {
    limit: usize,
    used: AtomicUsize,
}

impl Room {
    /// A room for `limit` bytes, of which none is used.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// Takes so many bytes; `false`, and nothing is taken, if fewer are left. The caller gives them back.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Gives bytes back that [`Room::take`] took.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
