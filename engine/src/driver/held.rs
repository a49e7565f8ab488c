//! The header lines of waiting requests, with a limit on their total size.

use crate::headers::Headers;
use crate::host::HeaderLines;
use crate::room::Room;

/// The header lines of all waiting requests of a VM have at most 16 MiB: about 280 requests with 60 KiB of headers, which
/// is Envoy's limit for one request, or ten thousand ordinary requests.
static HELD: Room = Room::new(16 * 1024 * 1024);

/// A request's header lines. Their bytes are counted until this is dropped.
pub(super) struct HeldLines<L: HeaderLines> {
    lines: L,
    size: usize,
}

impl<L: HeaderLines> HeldLines<L> {
    /// Keeps the lines; `None` if they would exceed the limit.
    pub(super) fn keep(lines: L) -> Option<Self> {
        let size = lines.size();
        HELD.take(size).then(|| Self { lines, size })
    }

    /// The lines; `None` if the host's encoding of them is broken.
    pub(super) fn headers(&self) -> Option<Headers<'_>> {
        self.lines.headers()
    }
}

impl<L: HeaderLines> Drop for HeldLines<L> {
    fn drop(&mut self) {
        HELD.give_back(self.size);
    }
}
