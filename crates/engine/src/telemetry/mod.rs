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
    written(Sha256::digest(key.as_bytes()).into())
}

/// The digest of a request's payload for logs. `digest` is what the filter has computed of the payload for another purpose,
/// and `key` the namespaced key. A body of a few bytes can be guessed from its digest, so the key is hashed with it, in the form
/// in which a shell can do the same: `printf '%s\n%s' KEY DIGEST | sha256sum`. Neither part has a line break.
pub(crate) fn payload_in_logs(form: KeyInLogs, key: &str, digest: &str) -> Option<Box<str>> {
    match form {
        KeyInLogs::Full => Some(digest.into()),
        KeyInLogs::Off => None,
        KeyInLogs::Hash => {
            let parts = [key, "\n", digest].iter().fold(Sha256::new(), |hash, part| hash.chain_update(part));
            Some(String::from_utf8_lossy(&written(parts.finalize().into())).into())
        }
    }
}

/// `sha256:` and a digest as 64 hexadecimal digits.
pub(crate) fn written(digest: [u8; 32]) -> [u8; DIGEST_LENGTH] {
    let mut text = *b"sha256:0000000000000000000000000000000000000000000000000000000000000000";
    if let Some((_, places)) = text.split_first_chunk_mut::<7>() {
        for (places, bytes) in places.as_chunks_mut::<8>().0.iter_mut().zip(digest.as_chunks::<4>().0) {
            // Eight digits at once. Four bytes go apart, and then each half of a byte gets a byte of its own.
            let bytes = u64::from(u32::from_le_bytes(*bytes));
            let pairs = (bytes | bytes << 16) & 0x0000_ffff_0000_ffff;
            let single = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
            let halves = (single >> 4 | single << 8) & 0x0f0f_0f0f_0f0f_0f0f;
            // 1 in the bytes above 9
            let letters = (halves + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
            *places = (halves + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'9' - 1)).to_le_bytes();
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

    #[test]
    fn the_digest_of_a_payload_is_bound_to_the_key_by_default() {
        // printf '%s\n%s' t-acme:shop:user:u1:k1 1r.abc | sha256sum
        let bound = "sha256:e45bc352320a5b91e698d094bbefc05e8033395a7045dade49499b48e12cda90";
        let shown = |form| payload_in_logs(form, "t-acme:shop:user:u1:k1", "1r.abc");
        assert_eq!(shown(KeyInLogs::default()).as_deref(), Some(bound));
        assert_eq!(shown(KeyInLogs::Full).as_deref(), Some("1r.abc"));
        assert_eq!(shown(KeyInLogs::Off), None);
    }
}
