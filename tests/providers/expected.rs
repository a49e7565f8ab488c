//! What has to come of each vector. The tests of the built module share this file.

use crate::vector::Vector;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The raw key of every vector that has one.
pub(crate) const GOLDEN: &str = include_str!("../golden/webhook_keys.json");

/// What a delivery that verifies comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its raw key
    Key(String),
    /// A reason why it has none
    None(String),
}

/// The expectation of a vector that verifies, and where it differs the design's (tests/vectors/README.md).
pub(crate) fn expected(vector: &Vector) -> Outcome {
    let literal = |text: &str| Outcome::Key(format!("{}-{text}", vector.provider));
    match vector.provider.as_str() {
        // What of a Twilio delivery makes a key is computed elsewhere (tests/vectors/README.md).
        "twilio" => {
            let keys: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
            return match keys[&vector.id].as_str() {
                Some(key) => Outcome::Key(key.to_owned()),
                None => Outcome::None("delivery_id_missing".to_owned()),
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
            Outcome::Key(format!("{}-~{}", vector.provider, URL_SAFE_NO_PAD.encode(digest)))
        }
        (_, Some(text)) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
            if text.bytes().all(plain) && text.len() <= 255 {
                literal(text)
            } else {
                Outcome::Key(format!("{}-~{}", vector.provider, URL_SAFE_NO_PAD.encode(Sha256::digest(text))))
            }
        }
        (reason, None) => Outcome::None(reason.to_owned()),
    }
}

/// An identifier that does not fit into a key, read in another way than the filter's.
fn unusual_identifier(vector: &Vector) -> Vec<u8> {
    let from_json = |pointer: &str| {
        // Half of a surrogate pair is no Unicode; the filter digests its three bytes.
        let text = String::from_utf8(vector.body.clone()).unwrap();
        let (text, replaced) = (text.replace("\\ud800", "\u{fffd}"), text.contains("\\ud800"));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
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
