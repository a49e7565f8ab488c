//! The identity of a caller: tenant, project and subject, as types whose values always fit the grammar
//! (docs/contract.md section 3).
//!
//! Values are never changed: no case folding, no Unicode normalisation, no trimming. A value that does not fit is
//! refused.

mod metadata_json;
mod metadata_path;
mod payload;
mod source;

pub use crate::attribute_value::AttributeValue;
pub use metadata_json::MetadataJson;
pub use metadata_path::MetadataPath;
pub use payload::PayloadClaim;
#[cfg(feature = "needs")]
pub use source::SourceOrigin;
pub use source::{
    Attributes, IdentityError, IdentityFault, IdentityFinding, IdentityPlace, IdentityRefusal, IdentitySource, Rules,
    SubjectRule, asked_source, resolve,
};

use crate::percent::{UNRESERVED, percent_decode, percent_encode};
use std::borrow::Cow;
use std::fmt;

/// Longest tenant or project, in bytes.
pub const MAX_SEGMENT_LENGTH: usize = 63;
/// Longest subject id after percent-encoding, in bytes.
pub const MAX_SUBJECT_ID_LENGTH: usize = 200;
/// Longest subject type, in bytes.
pub const MAX_SUBJECT_TYPE_LENGTH: usize = 63;

/// The project segment in keys of a route with `"scope": "tenant"`.
pub const TENANT_SENTINEL: &str = "_tenant";
/// The project segment in keys of a route with `"scope": "platform"`.
pub const PLATFORM_SENTINEL: &str = "_platform";

/// The subject in keys of webhooks.
const WEBHOOKS: &str = "service:webhook-ingest";

/// The subject in keys of a route with `"subject": "none"`. No caller has it, since no type begins with `_`.
pub const NO_SUBJECT: &str = "_none:_";

/// A whole identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The customer of the platform.
    pub tenant: Tenant,
    /// The tenant's project, or the sentinel of a wider scope.
    pub project: Project,
    /// The user or machine that acts.
    pub subject: Subject,
}

/// A part of an identity, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityPart {
    /// The tenant
    Tenant,
    /// The project
    Project,
    /// The subject
    Subject,
}

impl IdentityPart {
    /// The part as policy documents name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Project => "project",
            Self::Subject => "subject",
        }
    }
}

impl fmt::Display for IdentityPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a value does not fit the grammar of its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// It is empty or too long.
    Length,
    /// It has a character that its part cannot have, begins with `_`, or is `.` or `..`.
    Characters,
    /// The subject has no type, or a type that the policy does not declare.
    SubjectType,
}

/// `[A-Za-z0-9.~-][A-Za-z0-9._~-]{0,62}`, neither `.` nor `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant(String);

/// The project segment of a namespaced key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Project {
    /// A project of the tenant; the same grammar as [`Tenant`].
    Named(String),
    /// The route acts on the tenant as a whole.
    Tenant,
    /// The route acts on the platform.
    Platform,
}

/// `{type}:{id}`, the id percent-encoded outside `[A-Za-z0-9._~-]`; or [`NO_SUBJECT`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject(String);

impl Tenant {
    /// # Errors
    /// [`Malformed`] for a value outside the grammar.
    pub fn parse<'v>(value: impl Into<Cow<'v, [u8]>>) -> Result<Self, Malformed> {
        segment(value.into()).map(Self)
    }

    /// The tenant's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Project {
    /// A named project.
    ///
    /// # Errors
    /// [`Malformed`] for a value outside the grammar, the sentinels included.
    pub fn parse<'v>(value: impl Into<Cow<'v, [u8]>>) -> Result<Self, Malformed> {
        segment(value.into()).map(Self::Named)
    }

    /// The project, or the scope's sentinel.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Tenant => TENANT_SENTINEL,
            Self::Platform => PLATFORM_SENTINEL,
        }
    }
}

fn segment(value: Cow<'_, [u8]>) -> Result<String, Malformed> {
    if value.is_empty() || value.len() > MAX_SEGMENT_LENGTH {
        return Err(Malformed::Length);
    }
    if matches!(&*value, [b'_', ..] | b"." | b"..") || !UNRESERVED.holds(&value) {
        return Err(Malformed::Characters);
    }
    String::from_utf8(value.into_owned()).map_err(|_| Malformed::Characters)
}

impl Subject {
    /// Builds a subject from its type and the id of the identity source (any bytes except control characters).
    ///
    /// # Errors
    /// [`Malformed`] for a type outside `[a-z][a-z0-9_]*`, an empty id, a control byte in it, or more than
    /// [`MAX_SUBJECT_ID_LENGTH`] bytes once encoded.
    pub fn new(kind: &str, id: &[u8]) -> Result<Self, Malformed> {
        if !is_subject_type(kind) {
            return Err(Malformed::SubjectType);
        }
        if id.is_empty() {
            return Err(Malformed::Length);
        }
        if id.iter().any(u8::is_ascii_control) {
            return Err(Malformed::Characters);
        }
        let mut text = String::with_capacity(kind.len() + 1 + id.len());
        text.push_str(kind);
        text.push(':');
        percent_encode(id, &mut text);
        if text.len() > kind.len() + 1 + MAX_SUBJECT_ID_LENGTH { Err(Malformed::Length) } else { Ok(Self(text)) }
    }

    /// The subject of the keys of webhooks. No caller has it.
    pub fn webhooks() -> Self {
        Self(WEBHOOKS.to_owned())
    }

    /// The subject of keys that all callers share.
    pub fn none() -> Self {
        Self(NO_SUBJECT.to_owned())
    }

    /// Builds a subject from its type and the id in its encoded form.
    ///
    /// # Errors
    /// [`Malformed`] for anything that [`Subject::new`] cannot have made.
    pub fn from_encoded(kind: &str, id: &str) -> Result<Self, Malformed> {
        let subject = Self::new(kind, &percent_decode(id.as_bytes()).ok_or(Malformed::Characters)?)?;
        if subject.0.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':')) == Some(id) {
            Ok(subject)
        } else {
            Err(Malformed::Characters)
        }
    }

    /// `{type}:{encoded id}`
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The type, and the id as the identity source gave it.
    pub fn parts(&self) -> (&str, Vec<u8>) {
        let (kind, id) = self.0.split_once(':').unwrap_or((&self.0, ""));
        (kind, percent_decode(id.as_bytes()).unwrap_or_default())
    }
}

/// Whether `kind` can be a subject type: `[a-z][a-z0-9_]*`.
pub fn is_subject_type(kind: &str) -> bool {
    kind.len() <= MAX_SUBJECT_TYPE_LENGTH
        && kind.starts_with(|first: char| first.is_ascii_lowercase())
        && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_and_projects_fit_or_are_refused() {
        let longest = "a".repeat(63);
        for fine in ["a", "acme", "Acme-1.x~y_z", ".a", "-", "...", "~", longest.as_str()] {
            assert!(Tenant::parse(fine.as_bytes()).is_ok(), "{fine}");
            assert_eq!(Project::parse(fine.as_bytes()).unwrap().as_str(), fine);
        }
        let too_long = "a".repeat(64);
        for bad in
            ["", ".", "..", "_", "_tenant", "_platform", "a:b", "a,b", "a b", "a%41", "é", "a\0", too_long.as_str()]
        {
            let why = if bad.is_empty() || bad == too_long { Malformed::Length } else { Malformed::Characters };
            assert_eq!(Tenant::parse(bad.as_bytes()), Err(why), "{bad:?}");
            assert_eq!(Project::parse(bad.as_bytes()), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn subject_ids_are_encoded_and_bounded() {
        assert_eq!(Subject::new("user", b"a.b_c~d-1").unwrap().as_str(), "user:a.b_c~d-1");
        assert_eq!(Subject::new("user", "a:b|c%\u{e9}".as_bytes()).unwrap().as_str(), "user:a%3Ab%7Cc%25%C3%A9");
        assert_eq!(Subject::new("user", b"\xff").unwrap().as_str(), "user:%FF");
        assert_eq!(Subject::new("user", b"a:b%\xff").unwrap().parts(), ("user", b"a:b%\xff".to_vec()));
        assert!(Subject::new("user", &[b'a'; 200]).is_ok());
        assert!(Subject::new("user", &[b'a'; 201]).is_err());
        assert!(Subject::new("user", &[b':'; 66]).is_ok());
        assert!(Subject::new("user", &[b':'; 67]).is_err());
        let (kinds, ids) = (["User", "", "1a", "us-er"], ["a\x1f", "\x7f"]);
        assert_eq!(Subject::new("user", b""), Err(Malformed::Length));
        assert_eq!(Subject::new("user", &[b'a'; 201]), Err(Malformed::Length));
        for kind in kinds {
            assert_eq!(Subject::new(kind, b"a"), Err(Malformed::SubjectType), "{kind}");
        }
        for id in ids {
            assert_eq!(Subject::new("user", id.as_bytes()), Err(Malformed::Characters), "{id:?}");
        }
    }

    #[test]
    fn an_encoded_subject_has_one_spelling() {
        for id in ["a", "a%3Ab", "%FF"] {
            assert_eq!(Subject::from_encoded("user", id).unwrap().as_str(), format!("user:{id}"));
        }
        for id in ["", "%3a", "%41", "a b", "%", "%4", "%zz", "%00"] {
            assert!(Subject::from_encoded("user", id).is_err(), "{id}");
        }
    }
}
