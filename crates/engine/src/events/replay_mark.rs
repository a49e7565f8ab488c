//! Marks replays in their bodies, for clients that read no headers (docs/contract.md section 6).

use crate::backend::ResponseHead;
use crate::headers::Headers;

/// Whether the body of a replay may be changed.
#[inline(never)]
pub(super) fn can_be_marked(head: &ResponseHead<'_>, headers: &Headers<'_>) -> bool {
    // `content-digest`, `repr-digest` and `digest` say what the bytes of a body are, and may be signed.
    let forbids = |(name, value): (&[u8], &[u8])| {
        name.ends_with(b"digest")
            || name == b"content-md5"
            || name == b"cache-control" && value.windows(12).any(|part| part.eq_ignore_ascii_case(b"no-transform"))
    };
    // The content of a 206 is a part of a text.
    head.status / 100 == 2 && head.status != 206 && head.is_json && !head.is_encoded && !headers.iter().any(forbids)
}
