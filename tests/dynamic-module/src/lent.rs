//! Bytes that Envoy lends to the module. The module's reference is to a copy, which is overwritten and freed at the first moment at
//! which Envoy may change or free the bytes: when something is set, and when the hook returns.

use edge_idempotency::abi::Buffer;

/// What is lent now.
#[derive(Default)]
pub(crate) struct Lent(Vec<*mut [u8]>);

impl Lent {
    /// Lends a copy.
    pub(crate) fn lend(&mut self, bytes: &[u8]) -> Buffer {
        let copy = Box::into_raw(bytes.to_vec().into_boxed_slice());
        self.0.push(copy);
        Buffer { ptr: copy.cast(), length: bytes.len() }
    }

    /// Takes everything back.
    pub(crate) fn end(&mut self) {
        for copy in self.0.drain(..) {
            // SAFETY: it was made of a box, and is taken out of the list, so it is freed once.
            let mut copy = unsafe { Box::from_raw(copy) };
            // Whoever reads it now finds no text, even if the memory is not used again.
            copy.fill(0xdd);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.end();
    }
}
