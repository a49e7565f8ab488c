//! The log fields of an exchange (docs/contract.md section 9).

use crate::json::to_text;
use crate::policy::KeyInLogs;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The case of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// The caller's key, namespaced.
    A,
    /// A third party's webhook.
    B,
    /// The handler deduplicates.
    C,
}

impl Case {
    /// The case as logs and metrics write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }
}

/// The outcome of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// The request went to the backend.
    #[default]
    Forwarded,
    /// The backend did the work and stored the response.
    Stored,
    /// The backend replayed a stored response.
    Replayed,
    /// The filter refused the request.
    Rejected,
}

impl Outcome {
    /// The outcome as logs and metrics write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Stored => "stored",
            Self::Replayed => "replayed",
            Self::Rejected => "rejected",
        }
    }
}

/// The log fields of one exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Record<'a> {
    /// `idempotency_case`
    #[serde(rename = "idempotency_case", skip_serializing_if = "Option::is_none")]
    pub case: Option<&'static str>,
    /// `idempotency_key_namespaced`, in the form that `telemetry.key_in_logs` asks for
    #[serde(rename = "idempotency_key_namespaced", skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `idempotency_source`
    #[serde(rename = "idempotency_source", skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
    /// `idempotency_policy`
    #[serde(rename = "idempotency_policy", skip_serializing_if = "Option::is_none")]
    pub policy: Option<&'a str>,
    /// `idempotency_outcome`
    #[serde(rename = "idempotency_outcome")]
    pub outcome: &'static str,
    /// `idempotency_code`
    #[serde(rename = "idempotency_code", skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// `idempotency_reason`
    #[serde(rename = "idempotency_reason", skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// `restate_invocation_id`
    #[serde(rename = "restate_invocation_id", skip_serializing_if = "Option::is_none")]
    pub invocation: Option<&'a str>,
    /// `restate_cache_hit`
    #[serde(rename = "restate_cache_hit", skip_serializing_if = "Option::is_none")]
    pub cache_hit: Option<bool>,
    /// `tenant`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<&'a str>,
    /// `project`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<&'a str>,
    /// `endpoint`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<&'a str>,
    /// `original_path`, without its query
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_path: Option<&'a str>,
}

impl Record<'_> {
    /// The fields as a JSON text; those without a value are left out.
    pub fn to_json(&self) -> String {
        to_text(self)
    }
}

/// The form of a namespaced key for logs; a digest is `sha256:` and 64 hexadecimal digits.
pub fn key_in_logs(form: KeyInLogs, key: &str) -> Option<String> {
    match form {
        KeyInLogs::Full => Some(key.to_owned()),
        KeyInLogs::Off => None,
        KeyInLogs::Hash => {
            let digest = base16ct::lower::encode_string(&Sha256::digest(key.as_bytes()));
            Some(format!("sha256:{digest}"))
        }
    }
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
    fn fields_without_a_value_are_left_out() {
        let record = Record { outcome: Outcome::Forwarded.name(), cache_hit: Some(false), ..Record::default() };
        assert_eq!(record.to_json(), r#"{"idempotency_outcome":"forwarded","restate_cache_hit":false}"#);
    }
}
