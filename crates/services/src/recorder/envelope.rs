//! What the recorder hands to Restate and gets back: a line of JSON, and behind it a body as it came.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::config::OnUnknown;

/// Header lines in their order. A value may have bytes that are no UTF-8: each byte is one character.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Lines(Vec<(String, String)>);

impl Lines {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
        Self(headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect())
    }

    /// Lines that are none of HTTP are left out; [`Lines::of`] makes no such ones.
    pub(super) fn headers(&self) -> HeaderMap {
        let line = |(name, value): &(String, String)| {
            let bytes: Option<Vec<u8>> = value.chars().map(|char| u8::try_from(u32::from(char)).ok()).collect();
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(bytes?).ok()?))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in self.0.iter().filter_map(line) {
            headers.append(name, value);
        }
        headers
    }
}

/// A request for the API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Call {
    /// Random: it tells whose request was the first one with its key
    pub(super) nonce: String,
    pub(super) upstream: String,
    pub(super) method: String,
    /// Path and query
    pub(super) target: String,
    /// What the filter says of the request's content
    pub(super) fingerprint: Option<String>,
    pub(super) headers: Lines,
    /// As the file of the recorder said when the call came: the steps of a call stay the same if that changes
    pub(super) on_unknown: OnUnknown,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Answer {
    /// Of the call
    pub(super) nonce: String,
    /// Of the call
    pub(super) fingerprint: Option<String>,
    pub(super) outcome: Outcome,
    pub(super) headers: Lines,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Outcome {
    /// The API has answered.
    Answered(u16),
    /// It has, with a body that is too long to keep.
    TooLong(u16),
    /// It has answered that it did nothing.
    Refused(u16),
    /// It cannot be reached, so it did nothing.
    Unreachable,
    /// Nobody knows what it did.
    Unknown,
}

impl Outcome {
    /// Whether the key is still free: the API did nothing under it.
    pub(super) const fn is_free(self) -> bool {
        matches!(self, Self::Refused(_) | Self::Unreachable)
    }
}

pub(super) fn encode(head: &impl Serialize, body: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(head)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(body);
    Ok(bytes)
}

pub(super) fn decode<T: DeserializeOwned>(mut bytes: Bytes) -> Result<(T, Bytes)> {
    // JSON as it is written here has no line feed.
    let end = bytes.iter().position(|byte| *byte == b'\n').context("there is no head")?;
    let head = serde_json::from_slice(&bytes.split_to(end))?;
    Ok((head, bytes.split_off(1)))
}

#[cfg(test)]
mod tests {
    use super::{Answer, Lines, Outcome, decode, encode};
    use bytes::Bytes;
    use hyper::header::{HeaderMap, HeaderValue};

    #[test]
    fn an_answer_comes_back_byte_for_byte() {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a=1"));
        headers.append("x-name", HeaderValue::from_bytes(b"\xe9 \"\\\t\xff").unwrap());
        headers.append("set-cookie", HeaderValue::from_static("b=2"));
        let body: Vec<u8> = (0..=255).chain(*b"\n\n{}").collect();
        let answer = Answer {
            nonce: "n".to_owned(),
            fingerprint: None,
            outcome: Outcome::Answered(201),
            headers: Lines::of(&headers),
        };
        let (back, behind): (Answer, Bytes) = decode(encode(&answer, &body).unwrap().into()).unwrap();
        assert_eq!((&back, behind.as_ref()), (&answer, body.as_slice()));
        assert_eq!(back.headers.headers(), headers);
    }

    #[test]
    fn what_is_no_envelope_is_an_error() {
        for bytes in ["", "{}", "\n", "{}\n", "nonsense\nbody"] {
            assert!(decode::<Answer>(Bytes::from_static(bytes.as_bytes())).is_err(), "{bytes:?}");
        }
    }
}
