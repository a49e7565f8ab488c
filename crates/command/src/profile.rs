//! Profiles: what a protocol says of keys and of the errors about them (`policies/profiles/`). `check` compares policies with one, and
//! `render` writes what Envoy does for it.

use crate::input::read;
use edge_idempotency_engine::policy;
use edge_idempotency_engine::problem::{Code, Reason};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// Name and content of each file, sorted by name.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/profiles.rs"));

/// A profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// What it is for, and what the gateway does not do
    pub(crate) about: String,
    pub(crate) document: ProfileDocument,
    /// What the protocol asks of routes
    pub(crate) route: Vec<ProfileRule>,
    #[serde(default)]
    pub(crate) retention: Option<ProfileRetention>,
    #[serde(default)]
    pub(crate) echo: Option<ProfileEcho>,
    /// The refusals that have a form of the protocol's own; all others stay problem documents
    pub(crate) errors: Vec<ProfileError>,
}

/// The text that a profile follows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileDocument {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) url: String,
}

/// A member of a route, and what it may be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileRule {
    /// Its JSON pointer in the route
    pub(crate) member: String,
    /// The values that fit, the usual one first. The order of a list does not count
    #[serde(default)]
    pub(crate) is: Vec<Value>,
    /// For a list: it fits if it has one of these
    #[serde(default)]
    pub(crate) any: Vec<String>,
    pub(crate) section: String,
}

/// For how long answers have to be kept at least.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileRetention {
    pub(crate) seconds: u64,
    pub(crate) section: String,
}

/// A header of the request that its answer repeats as the client wrote it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileEcho {
    pub(crate) header: String,
    pub(crate) section: String,
}

/// How a refusal is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileError {
    /// The filter's code, or code, full stop and reason
    pub(crate) code: String,
    pub(crate) section: String,
    /// Without it the filter's own status stays
    #[serde(default)]
    pub(crate) status: Option<u16>,
    pub(crate) body: Value,
}

impl Profile {
    /// Finds one: a name, or the path of a file.
    ///
    /// # Errors
    /// There is none, or it is malformed; the sentence says what to write.
    pub(crate) fn find(text: &str) -> Result<Self, String> {
        if let Some((_, content)) = FILES.iter().find(|(name, _)| *name == text) {
            return Self::parse(content.as_bytes());
        }
        if text.contains(['/', '.']) {
            return Self::parse(&read(Path::new(text))?);
        }
        let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        Err(format!("no such profile; there are {}, and files (./{text}.json)", names.join(", ")))
    }

    fn parse(content: &[u8]) -> Result<Self, String> {
        let profile: Self = serde_json::from_slice(content).map_err(|error| error.to_string())?;
        let schema = schema();
        if let Some(rule) = profile.route.iter().find(|rule| in_schema(&schema, &rule.member).is_none()) {
            return Err(format!("routes have no member {}", rule.member));
        }
        match profile.errors.iter().find(|error| !is_code(&error.code)) {
            Some(error) => Err(format!("the filter has no code {}", error.code)),
            None => Ok(profile),
        }
    }

    /// The name and version of its text.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.document.name, self.document.version)
    }
}

/// Whether the filter refuses requests with this code, or with this code and reason.
fn is_code(text: &str) -> bool {
    let (name, reason) = text.split_once('.').map_or((text, None), |(name, reason)| (name, Some(reason)));
    let has = |known: &Reason| known.codes().iter().any(|code| code.name() == name);
    Code::ALL.iter().any(|code| code.name() == name)
        && reason.is_none_or(|reason| Reason::ALL.iter().any(|known| known.name() == reason && has(known)))
}

/// The JSON Schema of policy documents.
pub(crate) fn schema() -> Value {
    serde_json::from_str(&policy::schema()).unwrap_or_default()
}

/// What the schema says of a member of routes.
pub(crate) fn in_schema<'s>(schema: &'s Value, member: &str) -> Option<&'s Value> {
    let definition = |node: &'s Value| match node.get("$ref").and_then(Value::as_str) {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')),
        None => Some(node),
    };
    member
        .trim_start_matches('/')
        .split('/')
        .try_fold(schema.pointer("/$defs/route")?, |node, name| definition(node)?.get("properties")?.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_read_and_a_slip_is_named() {
        for (name, content) in FILES {
            assert!(Profile::find(name).is_ok(), "{name}: {:?}", Profile::find(name));
            for (right, wrong, told) in [
                ("\"member\": \"/key/", "\"member\": \"/keys/", "routes have no member /keys/"),
                ("\"code\": \"idempotency_key_reused\"", "\"code\": \"idempotency_key_reuse\"", "no code"),
                ("\"code\": \"idempotency_key_invalid\"", "\"code\": \"idempotency_key_invalid.old\"", "no code"),
                ("\"about\"", "\"abuot\"", "abuot"),
            ] {
                let slip = content.replace(right, wrong);
                let error = Profile::parse(slip.as_bytes()).err();
                assert_eq!(error.is_some(), slip != *content, "{name}: {wrong}");
                assert!(error.is_none_or(|error| error.contains(told)), "{name}: {wrong}");
            }
        }
        assert!(Profile::find("acp2").unwrap_err().contains("acp, adcp, ietf, stripe, ucp"));
    }
}
