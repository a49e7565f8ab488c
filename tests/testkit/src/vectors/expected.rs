//! What has to come of each vector.

use super::{Vector, folder};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;

/// The raw key of every vector that has one, as released versions made it.
const GOLDEN: &str = include_str!("../../../vectors/webhook_keys.json");

/// The raw key of every vector that has one, by the vector's name.
///
/// # Panics
/// The file is no JSON object.
pub fn golden_keys() -> Map<String, Value> {
    serde_json::from_str(GOLDEN).unwrap()
}

/// The file of these keys.
pub fn golden_file() -> PathBuf {
    folder().join("webhook_keys.json")
}

/// What a delivery that verifies comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum ExpectedKey {
    /// Its raw key.
    Key(String),
    /// The reason why it has none.
    None(String),
}

/// The key of a vector that verifies. Where the vector's expectation and the design differ it is the design's
/// (tests/vectors/README.md).
///
/// # Panics
/// The vector is not what it is said to be.
pub fn expected(vector: &Vector) -> ExpectedKey {
    let literal = |text: &str| ExpectedKey::Key(format!("{}-{text}", vector.provider));
    match vector.provider.as_str() {
        // What of a Twilio delivery makes a key is computed elsewhere (tests/vectors/README.md).
        "twilio" => {
            return match golden_keys().get(&vector.id).and_then(Value::as_str) {
                Some(key) => ExpectedKey::Key(key.to_owned()),
                None => ExpectedKey::None("delivery_id_missing".to_owned()),
            };
        }
        "twilio_event_streams" if matches!(vector.reason.as_str(), "delivery_id_missing" | "multiple_events") => {
            if let [token] = vector.header("i-twilio-idempotency-token").as_slice() {
                return literal(std::str::from_utf8(token).unwrap());
            }
        }
        _ => {}
    }
    match (vector.reason.as_str(), &vector.delivery_id) {
        ("delivery_id_forbidden_char" | "delivery_id_too_long", _) => {
            let digest = Sha256::digest(unusual_identifier(vector));
            ExpectedKey::Key(format!("{}-~{}", vector.provider, URL_SAFE_NO_PAD.encode(digest)))
        }
        (_, Some(text)) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
            if text.bytes().all(plain) && text.len() <= 255 {
                literal(text)
            } else {
                ExpectedKey::Key(format!("{}-~{}", vector.provider, URL_SAFE_NO_PAD.encode(Sha256::digest(text))))
            }
        }
        (reason, None) => ExpectedKey::None(reason.to_owned()),
    }
}

/// An identifier that does not fit into a key, read in another way than the filter's.
fn unusual_identifier(vector: &Vector) -> Vec<u8> {
    let from_json = |pointer: &str| {
        // Half of a surrogate pair is no Unicode; the filter digests its three bytes.
        let text = String::from_utf8(vector.body.clone()).unwrap();
        let (text, replaced) = (text.replace("\\ud800", "\u{fffd}"), text.contains("\\ud800"));
        let json: Value = serde_json::from_str(&text).unwrap();
        let id = json.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        if !replaced {
            return id.into_bytes();
        }
        let (before, after) = id.split_once('\u{fffd}').unwrap();
        [before.as_bytes(), b"\xed\xa0\x80", after.as_bytes()].concat()
    };
    match vector.provider.as_str() {
        "stripe" => from_json("/id"),
        "twilio_event_streams" => from_json("/0/id"),
        "github" => vector.header("x-github-delivery")[0].to_vec(),
        "standard_webhooks" => vector.header("webhook-id")[0].to_vec(),
        other => panic!("where is the identifier of {other}?"),
    }
}
