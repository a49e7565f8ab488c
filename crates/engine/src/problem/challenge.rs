//! What a request without a valid credential should bring: the challenges of `WWW-Authenticate`, which every 401 has (RFC 9110
//! section 15.5.2), and words for the problem document (docs/contract.md section 8). Of the policy they name no more than the header
//! of API keys, which clients set.

use crate::api_keys::ApiKeyPlace;
use crate::identity::{IdentityPlace, IdentitySource};
use std::borrow::Cow;

/// The challenge to who signs: a webhook's sender or a signed caller.
pub(super) const SIGNATURE: &str = "Signature realm=\"api\"";
/// The challenge where tokens count (RFC 6750 section 3), and where the policy does not tell what a filter before this one takes.
const BEARER: &str = "Bearer realm=\"api\"";
/// The same for one that does not count (RFC 6750 section 3.1).
const BEARER_INVALID: &str = "Bearer realm=\"api\", error=\"invalid_token\"";

/// A kind of credential that a policy takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credential<'p> {
    /// A token
    Token,
    /// An API key
    ApiKey(&'p ApiKeyPlace),
    /// What another filter of the gateway takes
    Other,
}

impl<'p> Credential<'p> {
    /// What a source of identities reads.
    pub(super) fn of(source: &'p IdentitySource) -> Self {
        let is_header = |place: Option<&IdentityPlace>| matches!(place, Some(IdentityPlace::Header(_)));
        match &source.api_key {
            Some(place) => Self::ApiKey(place),
            None if source.places().iter().any(|(_, place)| is_header(*place)) => Self::Other,
            None => Self::Token,
        }
    }

    /// Its challenge.
    fn challenge(self) -> Cow<'static, str> {
        match self {
            Self::Token | Self::Other => BEARER.into(),
            Self::ApiKey(place) if place.is_bearer() => BEARER.into(),
            Self::ApiKey(place) => format!("ApiKey realm=\"api\", header=\"{}\"", place.header).into(),
        }
    }

    /// Its challenge after one that is not valid.
    pub(super) fn challenge_to_invalid(self) -> Cow<'static, str> {
        match self.challenge() {
            Cow::Borrowed(BEARER) => BEARER_INVALID.into(),
            other => other,
        }
    }

    /// Its name in a sentence.
    fn words(self) -> Cow<'static, str> {
        match self {
            Self::Token => "a bearer token".into(),
            Self::ApiKey(place) if place.is_bearer() => "an API key as a bearer token".into(),
            Self::ApiKey(place) => format!("an API key in the header {}", place.header).into(),
            Self::Other => "credentials".into(),
        }
    }
}

/// The challenges of several credentials, each once, as the value of one header line.
pub(super) fn challenges<'p>(credentials: impl Iterator<Item = Credential<'p>>) -> Cow<'static, str> {
    joined(credentials.map(Credential::challenge), ", ").unwrap_or(BEARER.into())
}

/// The names of several credentials, each once.
pub(super) fn words<'p>(credentials: impl Iterator<Item = Credential<'p>>) -> Cow<'static, str> {
    joined(credentials.map(Credential::words), " or ").unwrap_or("credentials".into())
}

fn joined(texts: impl Iterator<Item = Cow<'static, str>>, separator: &str) -> Option<Cow<'static, str>> {
    let mut distinct: Vec<Cow<'static, str>> = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    match distinct.as_slice() {
        [] => None,
        [_] => distinct.pop(),
        several => Some(several.join(separator).into()),
    }
}
