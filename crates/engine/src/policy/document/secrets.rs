//! Secrets in policy documents.

use super::live_secret::LiveSecret;
use super::texts::parse_text;
use crate::json::{Issues, Json, JsonCursor, to_text};
use crate::policy::members::{Custom, Integer, Text, members};
use std::borrow::Cow;
use std::fmt;

members! {
    variable = "variable";

    /// The variable's name.
    ENV: Text<String> { parse: parse_variable } = "env", "Environment variable", required "",
        schema r#"{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "examples": ["STRIPE_WHSEC"]}"#;
}

members! {
    live_secret = "liveSecret";

    /// The name of a generic secret at Envoy.
    SDS: Text<String> { parse: parse_text } = "sds", "Secret of SDS", required "",
        schema r##"{"$ref": "#/$defs/text", "examples": ["stripe-whsec"]}"##;

    /// Where Envoy gets the secret from: a `ConfigSource` of Envoy, which Envoy reads and this document does not check. Without it the
    /// secret is one of `static_resources.secrets` in Envoy's bootstrap.
    CONFIG_SOURCE: Custom {} = "config_source", "Source",
        schema r#"{"type": "object", "examples": [{"path_config_source": {"path": "/etc/envoy/secrets/stripe.yaml"}, "resource_api_version": "V3"}]}"#;

    /// How long a secret's previous value counts after there is a new one, in seconds. A version that is deleted in OpenBao counts no
    /// longer than the cached answer.
    ROTATION_GRACE_S: Integer { least: 0, most: 604_800, default: 3_600 } = "rotation_grace_s", "Rotation grace";
}

/// A secret, or where it is. `Debug` does not show the value (invariant I6).
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The name of a variable in the VM's environment
    Env(String),
    /// A secret that the gateway keeps up to date
    Sds(LiveSecret),
    /// The secret itself: from the environment, or from the document (`allow_inline_secrets`)
    Value(Vec<u8>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
            Self::Sds(secret) => secret.fmt(f),
            Self::Value(_) => f.write_str("Value(…)"),
        }
    }
}

/// The values of secrets at one moment.
pub(crate) struct SecretValues<'s>(Vec<Cow<'s, [u8]>>);

impl SecretValues<'_> {
    /// As providers take them.
    pub(crate) fn as_slices(&self) -> Vec<&[u8]> {
        self.0.iter().map(AsRef::as_ref).collect()
    }
}

/// The values of secrets. Those of variables were put in their places at start; SDS may have given none yet.
#[inline(never)]
pub(crate) fn secret_values(secrets: &[Secret], now_unix_ms: u64) -> SecretValues<'_> {
    let mut values = Vec::with_capacity(secrets.len());
    for secret in secrets {
        match secret {
            Secret::Value(value) => values.push(Cow::Borrowed(value.as_slice())),
            Secret::Sds(live) => values.extend(live.values(now_unix_ms).into_iter().map(Cow::Owned)),
            Secret::Env(_) => {}
        }
    }
    SecretValues(values)
}

#[inline(never)]
pub(crate) fn read_secrets(at: &JsonCursor<'_>, inline: bool, live: Live, issues: &mut Issues) -> Vec<Secret> {
    let items = at.items(issues).unwrap_or_default();
    if items.is_empty() && at.is_array() {
        issues.add(at.pointer.clone(), "name at least one secret, such as {\"env\": \"NAME\"}");
    }
    items.iter().filter_map(|item| read_secret(item, inline, live, issues)).collect()
}

/// Reads a secret. Its issues do not show the value.
#[inline(never)]
pub(crate) fn read_secret(at: &JsonCursor<'_>, inline: bool, live: Live, issues: &mut Issues) -> Option<Secret> {
    if at.is_text() {
        if !inline {
            issues.add(
                at.pointer.clone(),
                "a secret in the document is visible in the gateway's config dump: write {\"env\": \"NAME\"}, or for \
                 tests and trials add \"allow_inline_secrets\": true",
            );
            return None;
        }
        return at.parse(issues, parse_text).map(|text| Secret::Value(text.into_bytes()));
    }
    if live == Live::Allowed
        && let Json::Object(members) = at.json()
        && members.iter().any(|(name, _)| live_secret::OBJECT.names.contains(&&**name))
    {
        return read_live_secret(at, issues).map(Secret::Sds);
    }
    let fields = variable::OBJECT.read(at, issues)?;
    variable::ENV.read(&fields, issues).map(Secret::Env)
}

#[inline(never)]
fn read_live_secret(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<LiveSecret> {
    let fields = live_secret::OBJECT.read(at, issues)?;
    let name = live_secret::SDS.read(&fields, issues);
    let source = live_secret::CONFIG_SOURCE.at(&fields, issues);
    let source = source.and_then(|at| at.map(issues).map(|_| to_text(at.json())));
    let grace_s = live_secret::ROTATION_GRACE_S.read(&fields, issues);
    Some(LiveSecret::new(name?, source.unwrap_or_default(), grace_s * 1000))
}

/// Whether a secret can be one that the gateway keeps up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Live {
    /// It verifies signatures, so that it may change while requests come.
    Allowed,
    /// It is a credential, or makes the tags of operation ids.
    Refused,
}

/// Parses the name of an environment variable.
fn parse_variable(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !text.is_empty() && !text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected the name of an environment variable, [A-Za-z_][A-Za-z0-9_]*".to_owned())
    }
}
