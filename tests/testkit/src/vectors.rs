//! Test vectors: deliveries of real providers with what a receiver has to make of them.

// A fixture that cannot be read is told by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "fixtures")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One delivery and what is expected of it.
#[derive(Debug, Clone)]
pub struct Vector {
    /// Its name, unique among all vectors.
    pub id: String,
    /// The provider file that is meant.
    pub provider: String,
    /// The secrets that the receiver has, in the order in which they are tried.
    pub secrets: Vec<Vec<u8>>,
    /// The request's method.
    pub method: String,
    /// The public URL as the sender addressed it.
    pub url: String,
    /// The header lines, names in lower case, repetitions kept.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
    /// The receiver's clock, in milliseconds since 1970-01-01 UTC.
    pub now_ms: u64,
    /// Whether signature and timestamp are right.
    pub valid: bool,
    /// Its raw key, which never changes, or why there is none: signature or timestamp are wrong, or it has no identifier.
    pub key: Result<String, String>,
    /// Whether the delivery verifies although something was changed.
    pub weak: bool,
}

/// All vectors, in the order of files and in theirs.
///
/// # Panics
/// A file cannot be read.
pub fn all() -> Vec<Vector> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder().join("providers")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path| serde_json::from_slice::<Vec<Value>>(&std::fs::read(path).unwrap()).unwrap();
    files.iter().flat_map(read).map(|vector| Vector::read(&vector)).collect()
}

/// The folder of the vectors.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

/// The vectors of callers that sign their requests (docs/identity.md).
pub const SIGNED_CALLERS: &str = include_str!("../../vectors/signed_callers.json");

impl Vector {
    fn read(json: &Value) -> Self {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let strings = |value: &Value| match value {
            Value::Array(items) => items.iter().map(|item| item.as_str().unwrap().as_bytes().to_vec()).collect(),
            Value::String(text) => vec![text.as_bytes().to_vec()],
            _ => Vec::new(),
        };
        let mut secrets = strings(&json["secret"]);
        secrets.extend(strings(&json["secrets_also_configured"]));
        let mut headers = Vec::new();
        for (name, value) in json["headers"].as_object().unwrap() {
            headers.extend(strings(value).into_iter().map(|value| (name.to_ascii_lowercase(), value)));
        }
        let body = match (&json["body_base64"], &json["body_repeat"]) {
            (Value::String(text), _) => STANDARD.decode(text).unwrap(),
            (_, Value::Object(repeat)) => {
                repeat["unit"].as_str().unwrap().repeat(repeat["count"].as_u64().unwrap() as usize).into_bytes()
            }
            _ => text("body").into_bytes(),
        };
        // Schemes that no request may choose are provider files of their own.
        let provider = match (text("provider").as_str(), text("scheme").as_str()) {
            ("adyen", "payments") => "adyen_payments".to_owned(),
            ("hubspot", version @ ("v1" | "v2")) => format!("hubspot_{version}"),
            (provider, _) => provider.to_owned(),
        };
        let expect = &json["expect"];
        let reason = || expect["reason"].as_str().expect("a delivery has a key or a reason").to_owned();
        let plain = || expect["delivery_id"].as_str().map(|id| format!("{provider}-{id}"));
        let key = expect["key"].as_str().map(str::to_owned).or_else(plain).ok_or_else(reason);
        Self {
            id: text("id"),
            provider,
            secrets,
            method: json["method"].as_str().unwrap_or("POST").to_owned(),
            url: text("url"),
            headers,
            body,
            now_ms: json["now_unix"].as_u64().unwrap_or(1_760_000_000) * 1000,
            valid: expect["valid"].as_bool().unwrap(),
            key,
            weak: json["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "scheme-weakness")),
        }
    }

    /// The values of a header.
    pub fn header(&self, name: &str) -> Vec<&[u8]> {
        self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_slice()).collect()
    }
}
