//! What is told about an exchange: the log fields of docs/contract.md section 9.

use crate::json::Object;
use crate::policy::KeyInLogs;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Which of the three cases an exchange is.
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

/// What became of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// It went to the backend.
    #[default]
    Forwarded,
    /// The backend did the work and keeps the answer.
    Stored,
    /// The backend answered from what it had stored.
    Replayed,
    /// The filter refused it.
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

/// One exchange, in the words of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// `idempotency_case`
    pub case: Option<&'static str>,
    /// `idempotency_key_namespaced`, in the form that `telemetry.key_in_logs` asks for
    pub key: Option<String>,
    /// `idempotency_source`
    pub source: Option<&'static str>,
    /// `idempotency_policy`
    pub policy: Option<&'a str>,
    /// `idempotency_outcome`
    pub outcome: &'static str,
    /// `idempotency_code`
    pub code: Option<&'static str>,
    /// `idempotency_reason`
    pub reason: Option<&'static str>,
    /// `restate_invocation_id`
    pub invocation: Option<&'a str>,
    /// `restate_cache_hit`
    pub cache_hit: Option<bool>,
    /// `tenant`
    pub tenant: Option<&'a str>,
    /// `project`
    pub project: Option<&'a str>,
    /// `endpoint`
    pub endpoint: Option<&'a str>,
    /// `original_path`, without its query
    pub original_path: Option<&'a str>,
}

impl Record<'_> {
    /// The fields as a JSON text; those without a value are left out.
    pub fn to_json(&self) -> String {
        let mut line = Object::new();
        line.text_if("idempotency_case", self.case);
        line.text_if("idempotency_key_namespaced", self.key.as_deref());
        line.text_if("idempotency_source", self.source);
        line.text_if("idempotency_policy", self.policy);
        line.text_if("idempotency_outcome", Some(self.outcome));
        line.text_if("idempotency_code", self.code);
        line.text_if("idempotency_reason", self.reason);
        line.text_if("restate_invocation_id", self.invocation);
        if let Some(hit) = self.cache_hit {
            line.boolean("restate_cache_hit", hit);
        }
        line.text_if("tenant", self.tenant);
        line.text_if("project", self.project);
        line.text_if("endpoint", self.endpoint);
        line.text_if("original_path", self.original_path);
        line.finish()
    }
}

/// A namespaced key as logs may show it; the digest is `sha256:` and 64 hexadecimal digits.
pub fn key_in_logs(form: KeyInLogs, key: &str) -> Option<String> {
    match form {
        KeyInLogs::Full => Some(key.to_owned()),
        KeyInLogs::Off => None,
        KeyInLogs::Hash => {
            let mut text = "sha256:".to_owned();
            for byte in Sha256::digest(key.as_bytes()) {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
            Some(text)
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
