//! Idempotency keys: their grammar, the header, and the namespaced form for the backend.

mod grammar;
mod header;
mod namespace;
mod place;
mod rules;

pub use grammar::{EXTRA_CHARACTERS, KeyError, KeyGrammar, MAX_LENGTH, RESERVED_PREFIX, RawKey};
pub use header::{KeySyntax, read, read_as};
pub use namespace::{Decoded, MAX_NAMESPACED_LENGTH, NotNamespaced, decode, encode, prefix};
pub use place::KeyPlace;
pub use rules::{KeyCharset, KeyFormat, KeyRules, MaxAge};

pub(crate) use header::{is_forged, is_sent_key, read_line};
pub(crate) use namespace::raw_of;
pub(crate) use place::find_in_body;
