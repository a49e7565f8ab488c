//! The record of an exchange for logs (docs/contract.md section 9).
//!
//! | module | subject |
//! |---|---|
//! | `record` | the members of the record, and the record as JSON |
//! | `struct_message` | members in the encoding of `google.protobuf.Struct` |
//! | `recorder` | gives records to the gateway, and writes log lines |
//! | `budget` | how many log lines of each kind and code are written |

mod budget;
mod record;
mod recorder;
mod struct_message;

pub use record::Record;
pub(crate) use recorder::{GivenRecord, PREFIX};
pub use recorder::{RECORD_TYPE, Recorder};

use crate::policy::KeyInLogs;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// The form of a namespaced key for logs; a digest is `sha256:` and 64 hexadecimal digits.
pub fn key_in_logs(form: KeyInLogs, key: &str) -> Option<Cow<'_, str>> {
    match form {
        KeyInLogs::Full => Some(Cow::Borrowed(key)),
        KeyInLogs::Off => None,
        KeyInLogs::Hash => Some(Cow::Owned(String::from_utf8_lossy(&digest(key)).into_owned())),
    }
}

/// The length of [`digest`], in bytes.
const DIGEST_LENGTH: usize = 7 + 64;

/// `sha256:` and the digest of a namespaced key as 64 hexadecimal digits.
pub(crate) fn digest(key: &str) -> [u8; DIGEST_LENGTH] {
    let mut text = *b"sha256:0000000000000000000000000000000000000000000000000000000000000000";
    if let Some((_, places)) = text.split_first_chunk_mut::<7>() {
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        for (places, byte) in places.as_chunks_mut::<2>().0.iter_mut().zip(&digest) {
            // Both digits at once: each half of the byte in a byte of its own.
            let halves = u16::from(*byte >> 4) | u16::from(*byte & 15) << 8;
            // 1 in the bytes above 9
            let letters = (halves + 0x0606) >> 4 & 0x0101;
            *places = (halves + 0x3030 + letters * (b'a' - b'9' - 1) as u16).to_le_bytes();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_digests_by_default() {
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(key_in_logs(KeyInLogs::default(), "abc").as_deref(), Some(digest));
        assert_eq!(key_in_logs(KeyInLogs::Full, "abc").as_deref(), Some("abc"));
        assert_eq!(key_in_logs(KeyInLogs::Off, "abc"), None);
    }
}
