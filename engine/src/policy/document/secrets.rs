//! Secrets in policy documents.

use super::parse_text;
use crate::json::{Issues, JsonCursor};
use std::fmt;

/// A secret, or the variable that holds it. `Debug` does not show the value (invariant I6).
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The name of a variable in the VM's environment
    Env(String),
    /// The secret itself: from the environment, or from the document (`allow_inline_secrets`)
    Value(Vec<u8>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
            Self::Value(_) => f.write_str("Value(…)"),
        }
    }
}

#[inline(never)]
pub(super) fn read_secrets(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Vec<Secret> {
    let items = at.items(issues).unwrap_or_default();
    if items.is_empty() && at.is_array() {
        issues.add(at.pointer.clone(), "name at least one secret, such as {\"env\": \"NAME\"}");
    }
    items.iter().filter_map(|item| read_secret(item, inline, issues)).collect()
}

/// Reads a secret. Its issues do not show the value.
#[inline(never)]
pub(super) fn read_secret(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Secret> {
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
    let fields = at.fields(&["env"], issues)?;
    fields.need_parse("env", issues, parse_variable).map(Secret::Env)
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
