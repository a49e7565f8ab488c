//! Signed callers: they sign with a scheme of a provider file, which has to cover the whole request (docs/contract.md
//! section 7).

use super::file::read_scheme;
use super::identifier::{IdentifierPlace, IdentifierSource, Slot};
use super::members::stray;
use super::scheme::{Scheme, SignatureSource, TimeSource};
use super::template::TemplatePart;
use super::{KeyScope, Provider, Verified, read_headers};
use crate::headers::{Headers, IDEMPOTENCY_KEY, is_token_byte};
use crate::json::cursor::{Issues, JsonCursor};
use crate::percent::is_unreserved;
use crate::time::Unit;

/// Algorithms with which someone who has seen one signed request can sign others.
const FORGEABLE: [(&str, &str); 2] = [
    ("token", "a token does not sign the request"),
    ("sha256-secret-first", "whoever has seen a signature of this kind can sign a longer body"),
];

impl Provider {
    /// Reads the signature scheme of a caller, in which `{id}` is the `Idempotency-Key`.
    pub fn of_caller(name: &str, at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let key = IdentifierSource::Header(IDEMPOTENCY_KEY.to_owned());
        let key = Slot {
            name: String::new(),
            pattern: None,
            unique: true,
            place: IdentifierPlace { source: key, signed: true },
        };
        let identifiers = vec![key];
        let scheme = read_scheme(at, &identifiers, issues)?;
        check(at, &scheme, issues);
        let schemes = vec![scheme];
        Some(Self {
            name: name.to_owned(),
            read_headers: read_headers::names(&schemes, &identifiers, &[]),
            schemes,
            identifiers,
            key_scope: KeyScope::Project,
            same_body: false,
            other_signature_headers: Vec::new(),
        })
    }

    /// Whether a request has the signature header of this caller.
    pub fn is_signed(&self, headers: &Headers<'_>) -> bool {
        let is_signature = |name: &[u8]| self.schemes.iter().any(|scheme| scheme.reads_signature(name));
        headers.iter().any(|(name, _)| is_signature(name))
    }

    /// A request of this caller whose signature fits: callers have one scheme.
    pub(crate) const VERIFIED_CALLER: Verified = Verified { scheme: 0, whole: None };

    /// Whether every signature covers the URL. The URL contains the authority of the request, unless the policy has a
    /// `public_base_url`.
    pub fn signs_url(&self) -> bool {
        self.schemes.iter().all(|scheme| scheme.template.contains(&TemplatePart::Url))
    }

    /// The reasons why a signature of this caller could fit several requests, as messages; `tenant` and `project` are
    /// header names.
    pub fn signature_gaps(&self, tenant: &str, project: &str) -> Vec<String> {
        let mut gaps = Vec::new();
        for scheme in &self.schemes {
            let missing = scheme.missing(tenant, project);
            if !missing.is_empty() {
                let missing = missing.join("`, `");
                gaps.push(format!("the signature has to cover the whole request: add `{missing}` to the template"));
            }
            if let Some(part) = scheme.ambiguous_part(tenant, project) {
                gaps.push(format!(
                    "`{part}` can hold the text next to it, so two requests could have the same signature: put a line \
                     break (`\\n`), which no header and no path can hold, between any two parts"
                ));
            }
        }
        gaps
    }
}

/// Reports members that a provider's scheme may have and a caller's may not.
fn check(at: &JsonCursor<'_>, scheme: &Scheme, issues: &mut Issues) {
    let Some(fields) = at.map(issues) else { return };
    let algorithm = fields.get("algorithm");
    if let Some(text) = algorithm.as_ref().and_then(|at| at.text(issues))
        && let Some((_, why)) = FORGEABLE.iter().find(|(name, _)| *name == text)
    {
        issues.add(format!("{}/algorithm", at.pointer), format!("{why}: sign with hmac-sha256"));
    }
    if !matches!(scheme.signature.source, SignatureSource::Headers(_)) {
        issues
            .add(format!("{}/signature", at.pointer), "a caller's signature is in a `header`, or in one of `headers`");
    }
    match &scheme.timestamp {
        None => {
            fields.need("timestamp", issues);
        }
        Some(timestamp) if matches!(timestamp.source, TimeSource::Json(_)) => {
            issues.add(format!("{}/timestamp", at.pointer), "a caller's timestamp is in a `header`, or in a `pair`");
        }
        Some(_) => {}
    }
    let nothing = "is not supported for signed callers, which sign their key and their body";
    stray(&fields, &["identifier", "body_hash", "boundaries"], nothing, issues);
    let is_unsupported = |part: &TemplatePart| {
        matches!(part, TemplatePart::Json { .. } | TemplatePart::SortedForm | TemplatePart::HubspotUrl)
    };
    if scheme.template.iter().any(is_unsupported) {
        issues.add(
            format!("{}/template", at.pointer),
            "a caller can sign `{method}`, `{path}` or `{url}`, `{timestamp}`, `{id}`, `{header:…}` and `{body}`, but no \
             value that is read out of these",
        );
    }
}

impl Scheme {
    fn reads_signature(&self, name: &[u8]) -> bool {
        match &self.signature.source {
            SignatureSource::Headers(names) => names.iter().any(|header| header.as_bytes() == name),
            _ => false,
        }
    }

    /// The parts of a request that the template does not contain.
    fn missing(&self, tenant: &str, project: &str) -> Vec<String> {
        let has = |wanted: &dyn Fn(&TemplatePart) -> bool| self.template.iter().any(wanted);
        let header = |wanted: &str| has(&|part| matches!(part, TemplatePart::Header(name) if name == wanted));
        let needed = [
            (has(&|part| *part == TemplatePart::Method), "{method}".to_owned()),
            (has(&|part| matches!(part, TemplatePart::Path | TemplatePart::Url)), "{path}".to_owned()),
            (has(&|part| self.is_timestamp(part)), "{timestamp}".to_owned()),
            (has(&is_key), "{id}".to_owned()),
            (header(tenant), format!("{{header:{tenant}}}")),
            (header(project), format!("{{header:{project}}}")),
            (has(&|part| *part == TemplatePart::Body), "{body}".to_owned()),
        ];
        needed.into_iter().filter(|(exists, _)| !exists).map(|(_, name)| name).collect()
    }

    /// A part without a known boundary: the literal text next to it could be a piece of it.
    fn ambiguous_part(&self, tenant: &str, project: &str) -> Option<String> {
        let (mut left, mut literal, mut behind_body) = (None, "", false);
        for part in &self.template {
            if let TemplatePart::Literal(text) = part {
                literal = text;
                continue;
            }
            if let Some(left) = left {
                let edge = if behind_body { part } else { left };
                if literal.bytes().all(|byte| self.holds(edge, byte, tenant, project)) {
                    return Some(edge.to_string());
                }
            }
            behind_body |= *part == TemplatePart::Body;
            (left, literal) = (Some(part), "");
        }
        None
    }

    /// Whether a part can contain a byte.
    fn holds(&self, part: &TemplatePart, byte: u8, tenant: &str, project: &str) -> bool {
        let in_digits = matches!(&self.timestamp, Some(timestamp) if matches!(timestamp.window.unit, Unit::Seconds | Unit::Milliseconds));
        match part {
            TemplatePart::Body => true,
            TemplatePart::Method => is_token_byte(byte),
            _ if self.is_timestamp(part) && in_digits => byte.is_ascii_digit(),
            TemplatePart::Header(name) if name == tenant || name == project => is_unreserved(byte),
            // No host accepts these bytes in a header or a path.
            _ => !matches!(byte, b'\n' | b'\r' | b'\0'),
        }
    }
}

fn is_key(part: &TemplatePart) -> bool {
    match part {
        TemplatePart::Id => true,
        TemplatePart::Header(name) => name == IDEMPOTENCY_KEY,
        _ => false,
    }
}
