//! How a provider signs, as its file says it.

use super::boundaries::Boundaries;
use super::crypto::{Algorithm, Encoding};
use super::identifier::Source;
use super::json::Pointer;
use super::secret::SecretForm;
use super::template::Part;
use super::time::Window;

/// One way to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) algorithm: Algorithm,
    pub(super) secret: SecretForm,
    pub(super) signature: Signature,
    pub(super) timestamp: Option<Timestamp>,
    /// Empty for tokens
    pub(super) template: Vec<Part>,
    /// How the parts of the template are told apart, where the file says so
    pub(super) boundaries: Option<Boundaries>,
    /// Parts of the template, each with a byte at which it ends and which it therefore must not hold
    pub(super) ends: Vec<(usize, u8)>,
    /// Headers that have to be there with this value
    pub(super) required: Vec<(String, String)>,
    /// The URL is signed with its port or without it
    pub(super) any_port: bool,
    /// The query parameter with the SHA-256 of the body; a body that is no form needs it
    pub(super) body_hash: Option<String>,
    /// Stands in for the first identifier
    pub(super) identifier: Option<Place>,
}

/// Where signatures are and how they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) source: SignatureSource,
    pub(super) grammar: Grammar,
    pub(super) encoding: Encoding,
}

/// Where signatures are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignatureSource {
    /// In any of these headers
    Headers(Vec<String>),
    /// In headers of this name and a number from 1 to 100
    Numbered(String),
    /// In the JSON body
    Json(Pointer),
}

/// The grammar of a header with signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grammar {
    /// One signature behind a prefix
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

/// Where the timestamp is, and how far from now it may be.
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

/// Where an identifier is, and whether the signature covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) source: Source,
    pub(super) signed: bool,
}

impl Scheme {
    /// Whether the signature covers an identifier at `source`; `first` says that `{id}` means it.
    pub(super) fn covers(&self, source: &Source, first: bool) -> bool {
        let has = |wanted: fn(&Part) -> bool| self.template.iter().any(wanted);
        match source {
            Source::Header(name) => self.template.iter().any(|part| match part {
                Part::Id => first,
                Part::Header(other) => other == name,
                _ => false,
            }),
            Source::Json { place, .. } => {
                self.body_hash.is_some()
                    || self.template.iter().any(|part| match part {
                        Part::Body => true,
                        Part::Json { place: other, .. } => other == place,
                        _ => false,
                    })
            }
            Source::Form(_) => has(|part| matches!(part, Part::Body | Part::SortedForm)),
        }
    }

    /// Whether the signature covers the whole body.
    pub(super) fn covers_body(&self) -> bool {
        self.body_hash.is_some() || self.template.iter().any(|part| matches!(part, Part::Body | Part::SortedForm))
    }

    /// Whether a part of the template is the timestamp.
    pub(super) fn is_timestamp(&self, part: &Part) -> bool {
        match (part, self.timestamp.as_ref().map(|timestamp| &timestamp.source)) {
            (Part::Timestamp, _) => true,
            (Part::Header(name), Some(TimeSource::Header(header))) => name == header,
            (Part::Json { place, .. }, Some(TimeSource::Json(other))) => place == other,
            _ => false,
        }
    }

    /// Whether something of the body has to be read to verify.
    pub(super) fn parses_body(&self) -> bool {
        self.boundaries == Some(Boundaries::JsonBody)
            || matches!(self.signature.source, SignatureSource::Json(_))
            || matches!(&self.timestamp, Some(Timestamp { source: TimeSource::Json(_), .. }))
            || self.template.iter().any(|part| matches!(part, Part::Json { .. } | Part::SortedForm))
    }
}
