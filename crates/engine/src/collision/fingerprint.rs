//! The fingerprint of a request. Every release and every instance has to compute the same one, because a claim of one
//! is compared with a claim of another (`crates/engine/tests/golden/fingerprints.json`).

use crate::body::Body;
use crate::headers::Headers;
use crate::json::canonical::canonical;
use crate::json::scan::Pointer;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// The version of the fingerprint. A change of what is hashed changes it, and then fingerprints of different versions
/// are not compared.
pub(super) const VERSION: char = '1';

/// What a fingerprint has beside the body.
pub(crate) struct ClaimedRequest<'r> {
    /// As the client sent it
    pub(crate) method: &'r [u8],
    /// The normalised path of the client, without its query
    pub(crate) path: &'r str,
    /// The query as the client sent it, without `?`; empty if there is none
    pub(crate) query: &'r [u8],
    /// The values of the `content-type` lines, in order
    pub(crate) content_types: Vec<&'r [u8]>,
    /// The header lines as the client sent them, for `compared`
    pub(crate) headers: &'r Headers<'r>,
    /// The headers that are compared, too
    pub(crate) compared: &'r Compared,
}

/// A fingerprint that still lacks the body.
#[derive(Debug)]
pub(super) struct OpenFingerprint {
    digest: Sha256,
    /// That of [`Compared`]
    tag: String,
    /// The members that are left out, if the route's `fingerprint` is `json`
    json: Option<Arc<[Pointer]>>,
}

/// A fingerprint.
pub(super) struct Fingerprint {
    /// How the body was hashed
    form: BodyForm,
    /// That of [`Compared`]
    tag: String,
    /// SHA-256 of the request
    pub(super) digest: [u8; 32],
}

/// As the guard gets it: the version, the form of the body (`r`, `j` or `x`), the tag of the headers that are compared, a full stop and
/// the digest in base64url.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            BodyForm::Raw => 'r',
            BodyForm::Json => 'j',
            BodyForm::NoJson => 'x',
        };
        write!(f, "{VERSION}{form}{}.{}", self.tag, BASE64_URL_SAFE_NO_PAD.encode(self.digest))
    }
}

/// How the body of a fingerprint was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyForm {
    /// Its bytes, because the route says `raw`
    Raw,
    /// Its canonical JSON
    Json,
    /// Its bytes, because it has no canonical JSON
    NoJson,
}

/// Reads the body of a request, and keeps none of it.
#[derive(Debug)]
pub struct BodyReader {
    form: BodyForm,
    digest: Sha256,
}

impl BodyReader {
    /// Takes the next part.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.digest.update(part);
    }

    /// A whole body. `json`: the members that are left out, if the route's `fingerprint` is `json`.
    fn of(body: &Body<'_>, json: Option<&[Pointer]>) -> Self {
        let of = |form| {
            let mut reader = Self { form, digest: Sha256::new() };
            body.pieces().iter().for_each(|piece| reader.push(piece));
            reader
        };
        match json.map(|without| canonical(body.bytes(), without)) {
            None => of(BodyForm::Raw),
            Some(Some(text)) => Self { form: BodyForm::Json, digest: Sha256::new_with_prefix(text) },
            Some(None) => of(BodyForm::NoJson),
        }
    }
}

impl OpenFingerprint {
    /// The fingerprint of a request. `json`: whether the route's `fingerprint` is `json`.
    pub(super) fn of(request: &ClaimedRequest<'_>, json: bool) -> Self {
        let mut digest = Sha256::new();
        let fields = [request.method, request.path.as_bytes(), request.query];
        fields.into_iter().for_each(|field| prefixed(&mut digest, field));
        digest.update((request.content_types.len() as u64).to_be_bytes());
        request.content_types.iter().for_each(|field| prefixed(&mut digest, field));
        if !request.compared.names.is_empty() {
            digest.update(compared_lines(request));
        }
        let json = json.then(|| Arc::clone(&request.compared.without));
        Self { digest, tag: request.compared.tag.clone(), json }
    }

    /// What reads the body in parts; `None` if the whole body has to be in memory.
    pub(super) fn body_reader(&self) -> Option<BodyReader> {
        self.json.is_none().then(|| BodyReader { form: BodyForm::Raw, digest: Sha256::new() })
    }

    /// Whether the whole body has to be in memory.
    pub(super) const fn needs_whole_body(&self) -> bool {
        self.json.is_some()
    }

    /// Reads a whole body.
    pub(super) fn read(&self, body: &Body<'_>) -> BodyReader {
        BodyReader::of(body, self.json.as_deref())
    }

    /// The fingerprint with this body.
    pub(super) fn with_body(self, body: BodyReader) -> Fingerprint {
        let Self { mut digest, tag, .. } = self;
        // Its length is fixed and it is the last part, so the parts before it can be told apart.
        digest.update(body.digest.finalize());
        Fingerprint { form: body.form, tag, digest: digest.finalize().into() }
    }

    /// The fingerprint with the whole body.
    pub(super) fn with_whole_body(self, body: &Body<'_>) -> Fingerprint {
        let body = self.read(body);
        self.with_body(body)
    }
}

/// The lines of the headers that are compared, for each header behind its name and their number.
#[inline(never)]
fn compared_lines(request: &ClaimedRequest<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let mut add = |number: usize, bytes: &[u8]| {
        text.extend_from_slice(&(number as u64).to_be_bytes());
        text.extend_from_slice(bytes);
    };
    for name in &request.compared.names {
        let lines = || request.headers.iter().filter(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value);
        add(name.len(), name.as_bytes());
        add(lines().count(), &[]);
        lines().for_each(|value| add(value.len(), value));
    }
    text
}

/// Adds the number of the field's bytes, as eight bytes, and the field.
#[inline(never)]
pub(super) fn prefixed(digest: &mut Sha256, field: &[u8]) {
    digest.update((field.len() as u64).to_be_bytes());
    digest.update(field);
}

/// What the policy says of what is compared: headers beside `content-type`, and members of JSON bodies that are not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Their names in lower case, in alphabetical order
    pub(crate) names: Box<[String]>,
    /// The members of JSON bodies that are left out
    pub(crate) without: Arc<[Pointer]>,
    /// What tells fingerprints of this comparison from those of others: 8 characters of `A-Z a-z 0-9 _ -`; empty if neither headers nor
    /// members are named
    pub(crate) tag: String,
}

impl Compared {
    /// `headers`: in lower case, each of them once. `without`: JSON pointers, each with its text.
    #[inline(never)]
    pub(crate) fn of(headers: &[String], without: &[(String, Pointer)]) -> Self {
        // No name of a header begins with a slash.
        let (names, pointers) = (in_order(headers), in_order(without.iter().map(|(text, _)| text)));
        let mut text = Vec::new();
        for part in names.iter().chain(&pointers) {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        let digest: [u8; 32] = Sha256::digest(text.as_slice()).into();
        let tag = digest.first_chunk::<6>().filter(|_| !text.is_empty());
        Self {
            tag: tag.map(|tag| BASE64_URL_SAFE_NO_PAD.encode(tag)).unwrap_or_default(),
            names: names.into(),
            without: without.iter().map(|(_, pointer)| pointer.clone()).collect(),
        }
    }
}

/// Texts in alphabetical order. They are few, and a sort would be code of its own in the module.
fn in_order<'t>(texts: impl IntoIterator<Item = &'t String>) -> Vec<String> {
    let mut sorted: Vec<String> = Vec::new();
    for text in texts {
        sorted.insert(sorted.partition_point(|other| other < text), text.clone());
    }
    sorted
}
