//! The header lines of requests that wait, and how many bytes of them are kept at once.

use crate::headers::Headers;
use crate::host::HeaderLines;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes of header lines all waiting requests of a VM may keep. With the 60 KiB that Envoy takes of one
/// request's headers these are about 280 requests at their worst, and ten thousand ordinary ones.
const LIMIT: usize = 16 * 1024 * 1024;

/// How many bytes are kept.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A request's header lines. Their bytes are counted until this is dropped.
pub(super) struct HeldLines<L: HeaderLines> {
    lines: L,
    size: usize,
}

impl<L: HeaderLines> HeldLines<L> {
    /// Keeps the lines; `None` if there is no room for them.
    pub(super) fn keep(lines: L) -> Option<Self> {
        let size = lines.size();
        let add = |kept: usize| kept.checked_add(size).filter(|kept| *kept <= LIMIT);
        KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Self { lines, size })
    }

    /// The lines; `None` if the host's encoding of them is broken.
    pub(super) fn headers(&self) -> Option<Headers<'_>> {
        self.lines.headers()
    }
}

impl<L: HeaderLines> Drop for HeldLines<L> {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.size, Ordering::Relaxed);
    }
}
