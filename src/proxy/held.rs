//! The header lines of requests that wait, and how many bytes of them a VM keeps.

use std::cell::Cell;

/// How many bytes of header lines all waiting requests of a VM may keep. With the 60 KiB that Envoy takes of one
/// request's headers these are about 280 requests at their worst, and ten thousand ordinary ones.
const LIMIT: usize = 16 * 1024 * 1024;

thread_local! {
    /// How many bytes are kept.
    static KEPT: Cell<usize> = const { Cell::new(0) };
}

/// A request's header lines, as the host gave them. Their bytes are counted until this is dropped.
pub(super) struct HeldLines(Vec<u8>);

impl HeldLines {
    /// Keeps the lines; `None` if there is no room for them.
    pub(super) fn keep(lines: Vec<u8>) -> Option<Self> {
        let kept = KEPT.get().checked_add(lines.len()).filter(|kept| *kept <= LIMIT)?;
        KEPT.set(kept);
        Some(Self(lines))
    }

    /// The lines, for [`super::abi::pairs`].
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for HeldLines {
    fn drop(&mut self) {
        KEPT.set(KEPT.get().saturating_sub(self.0.len()));
    }
}
