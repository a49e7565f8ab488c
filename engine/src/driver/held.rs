//! The header lines of waiting requests, with a limit on their total size.

use crate::headers::Headers;
use crate::host::HeaderLines;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum size of the header lines of all waiting requests of a VM, in bytes: about 280 requests with 60 KiB of
/// headers, which is Envoy's limit for one request, or ten thousand ordinary requests.
const LIMIT: usize = 16 * 1024 * 1024;

/// The current size of these header lines, in bytes.
static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A request's header lines. Their bytes are counted until this is dropped.
pub(super) struct HeldLines<L: HeaderLines> {
    lines: L,
    size: usize,
}

impl<L: HeaderLines> HeldLines<L> {
    /// Keeps the lines; `None` if they would exceed the limit.
    pub(super) fn keep(lines: L) -> Option<Self> {
        let size = lines.size();
        let add = |kept: usize| kept.checked_add(size).filter(|kept| *kept <= LIMIT);
        HELD_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Self { lines, size })
    }

    /// The lines; `None` if the host's encoding of them is broken.
    pub(super) fn headers(&self) -> Option<Headers<'_>> {
        self.lines.headers()
    }
}

impl<L: HeaderLines> Drop for HeldLines<L> {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.size, Ordering::Relaxed);
    }
}
