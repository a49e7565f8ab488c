//! The signature schemes of a provider file.

use super::crypto::{Algorithm, SignatureEncoding};
use super::identifier::{IdentifierPlace, IdentifierSource};
use super::secret::SecretForm;
use super::template::TemplatePart;
use crate::json::scan::Pointer;
use crate::time::Window;

/// A signature scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) algorithm: Algorithm,
    pub(super) secret: SecretForm,
    pub(super) signature: Signature,
    pub(super) timestamp: Option<Timestamp>,
    /// Empty for tokens
    pub(super) template: Vec<TemplatePart>,
    /// The `boundaries` of the file, if it has the member
    pub(super) boundaries: Option<Boundaries>,
    /// Indices of template parts, each with a byte that the part must not contain
    pub(super) forbidden_bytes: Vec<(usize, u8)>,
    /// Headers that must have this value
    pub(super) required: Vec<(String, String)>,
    /// Whether the URL may be signed with or without its port
    pub(super) any_port: bool,
    /// The query parameter with the SHA-256 of the body; bodies that are not forms need it
    pub(super) body_hash: Option<String>,
    /// Replaces the first identifier of the provider
    pub(super) identifier: Option<IdentifierPlace>,
}

/// How the parts of a template are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundaries {
    /// By the timestamp
    Timestamp,
    /// By the body, which has to be a JSON object or array
    JsonBody,
    /// Not at all: keys are digests of the whole signed text
    Absent,
}

/// The place, the grammar and the encoding of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) source: SignatureSource,
    pub(super) grammar: SignatureGrammar,
    pub(super) encoding: SignatureEncoding,
}

/// Where signatures are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignatureSource {
    /// In any of these headers
    Headers(Vec<String>),
    /// In headers with this name and a number from 1 to 100
    Numbered(String),
    /// In the JSON body
    Json(Pointer),
}

/// The grammar of a header with signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignatureGrammar {
    /// One signature after a prefix
    Single(String),
    /// `key=value` items; the key of signatures may be there more than once
    Pairs {
        /// Between items
        separator: u8,
        /// The key of signatures
        key: String,
    },
    /// `version,signature` items
    Versions {
        /// Between items
        separator: u8,
        /// The version that counts
        version: String,
    },
}

/// The place of the timestamp, and the allowed distance from now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timestamp {
    pub(super) source: TimeSource,
    pub(super) window: Window,
}

/// Where a timestamp is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TimeSource {
    /// In a header of its own
    Header(String),
    /// In the signature header, under this key
    Pair(String),
    /// In the JSON body
    Json(Pointer),
}

impl Scheme {
    /// Whether the signature covers an identifier at `source`; `first`: `{id}` in the template is this identifier.
    pub(super) fn covers(&self, source: &IdentifierSource, first: bool) -> bool {
        let has = |wanted: fn(&TemplatePart) -> bool| self.template.iter().any(wanted);
        match source {
            IdentifierSource::Header(name) => self.template.iter().any(|part| match part {
                TemplatePart::Id => first,
                TemplatePart::Header(other) => other == name,
                _ => false,
            }),
            IdentifierSource::Json { place, .. } => {
                self.body_hash.is_some()
                    || self.template.iter().any(|part| match part {
                        TemplatePart::Body => true,
                        TemplatePart::Json { place: other, .. } => other == place,
                        _ => false,
                    })
            }
            IdentifierSource::Form(_) => has(|part| matches!(part, TemplatePart::Body | TemplatePart::SortedForm)),
        }
    }

    /// Whether the signature covers the whole body.
    pub(super) fn covers_body(&self) -> bool {
        self.body_hash.is_some()
            || self.template.iter().any(|part| matches!(part, TemplatePart::Body | TemplatePart::SortedForm))
    }

    /// Whether a part of the template is the timestamp.
    pub(super) fn is_timestamp(&self, part: &TemplatePart) -> bool {
        match (part, self.timestamp.as_ref().map(|timestamp| &timestamp.source)) {
            (TemplatePart::Timestamp, _) => true,
            (TemplatePart::Header(name), Some(TimeSource::Header(header))) => name == header,
            (TemplatePart::Json { place, .. }, Some(TimeSource::Json(other))) => place == other,
            _ => false,
        }
    }

    /// Whether verification needs to parse the body.
    pub(super) fn parses_body(&self) -> bool {
        self.boundaries == Some(Boundaries::JsonBody)
            || matches!(self.signature.source, SignatureSource::Json(_))
            || matches!(&self.timestamp, Some(Timestamp { source: TimeSource::Json(_), .. }))
            || self.template.iter().any(|part| matches!(part, TemplatePart::Json { .. } | TemplatePart::SortedForm))
    }
}
