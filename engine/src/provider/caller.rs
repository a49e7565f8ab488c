//! Signed callers: a scheme of a provider file that has to cover a whole request (docs/contract.md section 7).

use super::file::read_scheme;
use super::identifier::{IdentifierPlace, IdentifierSource, Slot};
use super::members::stray;
use super::scheme::{Scheme, SignatureSource, TimeSource};
use super::template::TemplatePart;
use super::{KeyScope, Provider};
use crate::headers::{Headers, IDEMPOTENCY_KEY, is_token_byte};
use crate::json::cursor::{Issues, JsonCursor};
use crate::percent::is_unreserved;
use crate::time::Unit;

/// Schemes of which whoever has seen one signed request can make others.
const FORGEABLE: [(&str, &str); 2] = [
    ("token", "a token covers nothing of the request"),
    ("sha256-secret-first", "who has seen a signature of this kind can sign a longer body"),
];

impl Provider {
    /// Reads how a caller signs: a scheme in which `{id}` is the `Idempotency-Key`.
    pub fn of_caller(name: &str, at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let key = IdentifierSource::Header(IDEMPOTENCY_KEY.to_owned());
        let key = Slot { name: String::new(), pattern: None, place: IdentifierPlace { source: key, signed: true } };
        let identifiers = vec![key];
        let scheme = read_scheme(at, &identifiers, issues)?;
        check(at, &scheme, issues);
        let schemes = vec![scheme];
        Some(Self {
            name: name.to_owned(),
            schemes,
            identifiers,
            key_scope: KeyScope::Project,
            same_body: false,
            other_signature_headers: Vec::new(),
        })
    }

    /// Whether a request brings a signature that could be this caller's.
    pub fn is_signed(&self, headers: &Headers<'_>) -> bool {
        let is_signature = |name: &[u8]| self.schemes.iter().any(|scheme| scheme.reads_signature(name));
        headers.iter().any(|(name, _)| is_signature(name))
    }

    /// Whether every signature covers the URL. That holds the authority as the client sent it, unless the policy puts a
    /// fixed `public_base_url` in its place.
    pub fn signs_url(&self) -> bool {
        self.schemes.iter().all(|scheme| scheme.template.contains(&TemplatePart::Url))
    }

    /// What keeps this caller's signature from meaning one request only, in words; `tenant` and `project` are the
    /// headers that name them.
    pub fn signature_gaps(&self, tenant: &str, project: &str) -> Vec<String> {
        let mut gaps = Vec::new();
        for scheme in &self.schemes {
            let missing = scheme.missing(tenant, project);
            if !missing.is_empty() {
                let missing = missing.join("`, `");
                gaps.push(format!("the signature has to cover the whole request; the template lacks `{missing}`"));
            }
            if let Some(part) = scheme.blurred(tenant, project) {
                gaps.push(format!(
                    "`{part}` can hold what stands beside it, so that two requests could have one signature: put a line \
                     break (`\\n`), which no header and no path can hold, between any two parts"
                ));
            }
        }
        gaps
    }
}

/// What a provider's scheme may say and a caller's may not.
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
    let nothing = "is nothing to a caller, which signs its key and its body";
    stray(&fields, &["identifier", "body_hash", "boundaries"], nothing, issues);
    let strange = |part: &TemplatePart| {
        matches!(part, TemplatePart::Json { .. } | TemplatePart::SortedForm | TemplatePart::HubspotUrl)
    };
    if scheme.template.iter().any(strange) {
        issues.add(
            format!("{}/template", at.pointer),
            "a caller signs `{method}`, `{path}` or `{url}`, `{timestamp}`, `{id}`, `{header:…}` and `{body}`, nothing \
             that has to be read out of them",
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

    /// The parts that a whole request has and the template has not.
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
        needed.into_iter().filter(|(there, _)| !there).map(|(_, name)| name).collect()
    }

    /// A part whose end, or behind the body whose beginning, cannot be told from the literal text beside it.
    fn blurred(&self, tenant: &str, project: &str) -> Option<String> {
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

    /// Whether the text of a part can hold a byte.
    fn holds(&self, part: &TemplatePart, byte: u8, tenant: &str, project: &str) -> bool {
        let in_digits = matches!(&self.timestamp, Some(timestamp) if matches!(timestamp.window.unit, Unit::Seconds | Unit::Milliseconds));
        match part {
            TemplatePart::Body => true,
            TemplatePart::Method => is_token_byte(byte),
            _ if self.is_timestamp(part) && in_digits => byte.is_ascii_digit(),
            TemplatePart::Header(name) if name == tenant || name == project => is_unreserved(byte),
            // What no host lets into a header or a path.
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
