//! Webhook providers: how they sign deliveries and where a delivery's identifier is (docs/contract.md section 5).
//!
//! A provider is a JSON file under `policies/providers/`; the engine knows the members of these files, and no provider
//! by name. A delivery is verified over the exact bytes received, then its identifier is read, then the raw key is made
//! of it. This module has no clock and makes no lookups.
//!
//! | module | subject |
//! |---|---|
//! | `file`, `scheme` | provider files and their content |
//! | `secret`, `crypto` | keys; HMAC, tokens, public-key signatures |
//! | `signature`, `template`, `verify` | reading signatures, the signed text, verification |
//! | `head` | what is known of a delivery before its body has come |
//! | `boundaries` | where the parts of a signed text end |
//! | `read_headers` | the headers that a file reads, and those that a verified delivery keeps |
//! | `identifier`, `key` | the delivery's identifier and its raw key |
//! | `member` | members of a verified body that a target names |
//! | `pasted` | what a person pasted with a secret |
//! | `form`, `url` | form bodies and URLs |
//! | `catalogue` | the files that are compiled in |
//! | `caller` | schemes of signed callers |

mod boundaries;
mod caller;
mod catalogue;
mod crypto;
mod file;
mod form;
mod head;
mod identifier;
mod key;
mod member;
mod members;
mod pasted;
mod read_headers;
mod scheme;
mod secret;
mod signature;
mod template;
mod url;
mod verify;

pub use catalogue::Catalogue;
pub use crypto::body_digest;
pub(crate) use crypto::{equal, hmac_sha_256};
pub use identifier::{Identifier, IdentifierKind, NoIdentifier};
pub use member::{BodyMember, NoMember};
pub(crate) use pasted::around;
pub use read_headers::IdentifierHeaders;

use crate::body::Body;
use crate::codes::Reason;
use crate::headers::{Headers, NameSet};
use identifier::{IdentifierPlace, IdentifierSource, Slot};
use scheme::{Scheme, SignatureSource};

/// A provider, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    name: String,
    schemes: Vec<Scheme>,
    identifiers: Vec<Slot>,
    /// The default scope of keys
    pub key_scope: KeyScope,
    /// Whether a delivery that is sent again has the same body
    same_body: bool,
    /// Headers with signatures that no scheme reads, in lower case
    other_signature_headers: Vec<String>,
    /// The headers that the file reads
    read_headers: NameSet,
}

/// The scope in which equal identifiers give the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyScope {
    /// The project
    #[default]
    Project,
    /// The webhook
    Webhook,
}

/// A webhook delivery, as it was received.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The request's method
    pub method: &'a [u8],
    /// The public URL, as the sender addressed it
    pub url: &'a [u8],
    /// The request's headers
    pub headers: &'a Headers<'a>,
    /// The body, exactly as received
    pub body: &'a Body<'a>,
}

/// A delivery whose signature fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    scheme: usize,
    /// Facts about the signed text, if its parts cannot be separated
    whole: Option<Whole>,
}

/// A signed text whose parts cannot be separated. Someone who has seen it can send it with other boundaries, so the
/// key, and whether there is one, must depend on the whole text only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Whole {
    digest: [u8; 32],
    /// The size of the first group of form fields whose names all occur in the text
    group: Option<usize>,
    /// The signed URL holds the hash of the body
    hashed: bool,
}

/// The reason why a delivery is not verified. With several schemes, the greatest reason counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerifyError {
    /// A header, or a member of the body, that the scheme needs is absent or empty
    MissingHeader,
    /// A header or member occurs twice, with different values
    AmbiguousHeader,
    /// A header or member does not fit its grammar
    MalformedHeader,
    /// A header says that the sender used another scheme
    UnsupportedScheme,
    /// There are signatures, but none of this scheme
    NoSupportedSignature,
    /// No secret can be used: none is configured, or they are empty or cannot be decoded
    SecretInvalid,
    /// The timestamp is too old
    TimestampExpired,
    /// The timestamp is too far in the future
    TimestampFuture,
    /// No signature fits
    SignatureMismatch,
    /// The signature fits, but it does not cover the body
    MissingBodyHash,
    /// The signed URL contains two hashes of the body
    AmbiguousBodyHash,
    /// The signed URL contains the hash of another body
    BodyHashMismatch,
    /// The body is not JSON, so its beginning in the signed text is not known
    BodyNotJson,
}

impl VerifyError {
    /// The reason of a refusal.
    pub const fn reason(self) -> Reason {
        match self {
            Self::MissingHeader => Reason::MissingHeader,
            Self::AmbiguousHeader => Reason::AmbiguousHeader,
            Self::MalformedHeader => Reason::MalformedHeader,
            Self::UnsupportedScheme => Reason::UnsupportedScheme,
            Self::NoSupportedSignature => Reason::NoSupportedSignature,
            Self::SecretInvalid => Reason::SecretInvalid,
            Self::TimestampExpired => Reason::TimestampExpired,
            Self::TimestampFuture => Reason::TimestampFuture,
            Self::SignatureMismatch => Reason::SignatureMismatch,
            Self::MissingBodyHash => Reason::MissingBodyHash,
            Self::AmbiguousBodyHash => Reason::AmbiguousBodyHash,
            Self::BodyHashMismatch => Reason::BodyHashMismatch,
            Self::BodyNotJson => Reason::SignedBodyNotJson,
        }
    }

    /// Whether the receiver has to fix the problem. Then the sender may send the same delivery again.
    pub const fn is_receivers_fault(self) -> bool {
        matches!(self, Self::SecretInvalid)
    }
}

/// The value of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header<'a> {
    Absent,
    /// One line, or several equal ones; without outer whitespace
    One(&'a [u8]),
    /// Several lines with different values.
    Ambiguous,
}

impl<'a> Delivery<'a> {
    fn header(&self, name: &str) -> Header<'a> {
        let mut found = Header::Absent;
        for (_, value) in self.headers.iter().filter(|(line, _)| *line == name.as_bytes()) {
            let value = value.trim_ascii();
            match found {
                Header::Absent => found = Header::One(value),
                Header::One(other) if other == value => {}
                _ => return Header::Ambiguous,
            }
        }
        found
    }

    /// Whether the content type says that the body is a form.
    fn is_form(&self) -> bool {
        self.media_type().is_some_and(|media| media.eq_ignore_ascii_case(b"application/x-www-form-urlencoded"))
    }

    /// Whether there is a content type that is not a JSON type (`application/json`, `…+json` and so on).
    fn is_not_json(&self) -> bool {
        let is_json = |media: &[u8]| media.windows(4).any(|part| part.eq_ignore_ascii_case(b"json"));
        self.media_type().is_some_and(|media| !media.is_empty() && !is_json(media))
    }

    /// The content type without its parameters.
    fn media_type(&self) -> Option<&'a [u8]> {
        let Header::One(value) = self.header("content-type") else { return None };
        value.split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii)
    }
}

impl Provider {
    /// The provider's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its deliveries have identifiers.
    pub fn has_identifier(&self) -> bool {
        !self.identifiers.is_empty()
    }

    /// The identifier of a verified delivery; `None` if the provider sends none.
    ///
    /// # Errors
    /// The reason why this delivery has none.
    pub fn identifier(&self, delivery: &Delivery<'_>, verified: &Verified) -> Result<Option<Identifier>, NoIdentifier> {
        if let Some(whole) = &verified.whole {
            if let Some(fields) = whole.group {
                return Ok(Some(Identifier::of_signed_text(&whole.digest, fields)));
            }
            // Someone could send a captured form with another content type and parts that the signature does not cover.
            if self.has_identifier() && (!whole.hashed || delivery.is_form()) {
                return Err(NoIdentifier::Missing);
            }
        }
        identifier::find(self.places(self.schemes.get(verified.scheme)), delivery)
    }

    /// Whether by default the key of a delivery is bound to its body. This is so if another event can have the same
    /// identifier; or if the signature covers the body and not the identifier, since someone could replace the identifier,
    /// and the provider sends the same body again.
    pub fn binds_body(&self, verified: &Verified, identifier: &Identifier) -> bool {
        let covered = self.schemes.get(verified.scheme).is_some_and(Scheme::covers_body);
        let unique = self.identifiers.get(identifier.slot).is_none_or(|slot| slot.unique);
        !unique || self.same_body && covered && !identifier.signed
    }

    /// Whether [`Provider::binds_body`] can be true for a delivery.
    pub fn may_bind_body(&self) -> bool {
        let binds = |scheme: &Scheme| scheme.covers_body() && self.places(Some(scheme)).any(|place| !place.signed);
        self.identifiers.iter().any(|slot| !slot.unique) || self.same_body && self.schemes.iter().any(binds)
    }

    /// The places of identifiers in deliveries of a scheme.
    fn places<'p>(&'p self, scheme: Option<&'p Scheme>) -> impl Iterator<Item = &'p IdentifierPlace> {
        let own = scheme.and_then(|scheme| scheme.identifier.as_ref());
        let others = self.identifiers.iter().map(|slot| &slot.place).skip(usize::from(own.is_some()));
        own.into_iter().chain(others)
    }

    /// Whether verification or the identifier needs to parse the body. Such a body must not be compressed.
    pub fn parses_body(&self) -> bool {
        let in_body = |place: &IdentifierPlace| !matches!(place.source, IdentifierSource::Header(_));
        self.identifiers.iter().any(|slot| in_body(&slot.place))
            || self.schemes.iter().any(|scheme| scheme.parses_body() || scheme.identifier.as_ref().is_some_and(in_body))
    }

    /// The names of headers with signatures or tokens, in lower case; a name that ends in `*` is a prefix.
    pub fn signature_headers(&self) -> Vec<String> {
        let mut all = self.other_signature_headers.clone();
        for scheme in &self.schemes {
            match &scheme.signature.source {
                SignatureSource::Headers(headers) => all.extend(headers.iter().cloned()),
                SignatureSource::Numbered(prefix) => all.push(format!("{prefix}*")),
                SignatureSource::Json(_) => {}
            }
        }
        let mut names = Vec::with_capacity(all.len());
        for name in all {
            if let Err(index) = names.binary_search(&name) {
                names.insert(index, name);
            }
        }
        names
    }

    /// The name of the header for `{id}`.
    fn first_header<'p>(&'p self, scheme: &'p Scheme) -> Option<&'p str> {
        let place = scheme.identifier.as_ref().or_else(|| self.identifiers.first().map(|slot| &slot.place))?;
        match &place.source {
            IdentifierSource::Header(name) => Some(name),
            _ => None,
        }
    }
}
