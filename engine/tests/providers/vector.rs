//! Test vectors: deliveries of real providers with what a receiver has to make of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Catalogue, Delivery, Provider};
use serde_json::Value;
use std::path::Path;

/// One delivery and what is expected of it.
#[derive(Debug, Clone)]
pub(crate) struct Vector {
    pub(crate) id: String,
    /// The provider file that is meant
    pub(crate) provider: String,
    pub(crate) secrets: Vec<Vec<u8>>,
    pub(crate) method: String,
    pub(crate) url: String,
    /// Names in lower case, repetitions kept
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) now_ms: u64,
    pub(crate) valid: bool,
    pub(crate) reason: String,
    pub(crate) delivery_id: Option<String>,
    /// Verifies although something was changed
    pub(crate) weak: bool,
}

/// All vectors of the repository, in the order of files and in theirs.
pub(crate) fn all(repository: &str) -> Vec<Vector> {
    let directory = Path::new(repository).join("tests/vectors/providers");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path| serde_json::from_slice::<Vec<Value>>(&std::fs::read(path).unwrap()).unwrap();
    files.iter().flat_map(read).map(|vector| Vector::read(&vector)).collect()
}

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
        Self {
            id: text("id"),
            provider,
            secrets,
            method: text("method"),
            url: text("url"),
            headers,
            body,
            now_ms: json["now_unix"].as_u64().unwrap() * 1000,
            valid: expect["valid"].as_bool().unwrap(),
            reason: expect["reason"].as_str().unwrap().to_owned(),
            delivery_id: expect["delivery_id"].as_str().map(str::to_owned),
            weak: json["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "scheme-weakness")),
        }
    }

    /// The provider, from its compiled-in file.
    pub(crate) fn provider(&self) -> Provider {
        Catalogue::compiled_in().provider(&self.provider).unwrap()
    }

    /// Calls `then` with the vector's delivery.
    pub(crate) fn deliver<T>(&self, then: impl FnOnce(&Delivery<'_>) -> T) -> T {
        let lines = self.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())).collect();
        then(&Delivery {
            method: self.method.as_bytes(),
            url: self.url.as_bytes(),
            headers: &Headers::new(lines),
            body: &self.body,
        })
    }

    /// Whether the delivery verifies, or why not.
    pub(crate) fn verify(&self, provider: &Provider) -> Result<(), &'static str> {
        let secrets: Vec<&[u8]> = self.secrets.iter().map(Vec::as_slice).collect();
        self.deliver(|delivery| provider.verify(delivery, &secrets, self.now_ms).map(drop).map_err(|why| why.reason()))
    }

    /// The values of a header.
    pub(crate) fn header(&self, name: &str) -> Vec<&[u8]> {
        self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_slice()).collect()
    }
}
