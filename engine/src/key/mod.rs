//! Idempotency keys: what a client may send, how the header is read, and the namespaced form the backend sees.

mod grammar;
mod header;
mod namespace;

pub use grammar::{EXTRA_CHARACTERS, KeyError, KeyGrammar, MAX_LENGTH, RESERVED_PREFIX, RawKey};
pub use header::{Form, read, read_as};
pub use namespace::{Decoded, MAX_NAMESPACED_LENGTH, NotNamespaced, decode, encode};

pub(crate) use header::unwrapped;
