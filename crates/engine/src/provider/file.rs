//! Provider files: reads a [`Provider`] from JSON, or reports all errors with their JSON pointers.

use super::crypto::{Algorithm, SignatureEncoding};
use super::identifier::{Composite, IdentifierPlace, IdentifierSource, Pattern, Slot};
use super::members::{header_name, non_empty, one_of, pointer, slot_name, stray};
use super::scheme::{Boundaries, Scheme, Signature, SignatureGrammar, SignatureSource, TimeSource, Timestamp};
use super::secret::{self, SecretForm};
use super::template::{self, TemplatePart};
use super::{KeyScope, Provider, read_headers};
use crate::json::Json;
use crate::json::cursor::{Issue, Issues, JsonCursor, ObjectCursor};
use crate::time::{Unit, Window};

impl Provider {
    /// Reads a provider file. `name` is the file's name without extension.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn read(name: &str, file: &[u8]) -> Result<Self, Vec<Issue>> {
        let json =
            Json::parse(file).map_err(|error| vec![Issue { pointer: String::new(), message: error.to_string() }])?;
        let mut issues = Issues::default();
        match Self::from_json(name, &JsonCursor::root(&json), &mut issues) {
            Some(provider) if issues.0.is_empty() => Ok(provider),
            _ => Err(issues.0),
        }
    }

    /// Reads a provider in a policy document; `None` if it has errors.
    pub fn from_json(name: &str, at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let known = [
            "$schema",
            "name",
            "docs_url",
            "schemes",
            "identifiers",
            "no_identifier",
            "key_scope",
            "other_signature_headers",
            "handler_headers",
            "max_body_bytes",
            "retry",
            "notes",
        ];
        let fields = at.fields(&known, issues)?;
        for member in ["name", "docs_url", "no_identifier"] {
            fields.get(member).and_then(|at| at.text(issues));
        }
        fields.integer("max_body_bytes", 1..=1 << 30, issues);
        fields.list("handler_headers", issues, header_name);
        fields.get("notes").and_then(|at| at.list(issues, |_| Ok(())));
        let same_body = fields.get("retry").and_then(|at| read_retry(&at, issues));
        let mut identifiers = Vec::new();
        if let Some(at) = fields.get("identifiers") {
            let items = at.items(issues).unwrap_or_default();
            let same_body = same_body != Some(false);
            identifiers = items.iter().filter_map(|item| read_slot(item, items.len() > 1, same_body, issues)).collect();
            check_names(&at, &identifiers, issues);
        }
        let scopes = [("project", KeyScope::Project), ("webhook", KeyScope::Webhook)];
        let key_scope = fields.choice("key_scope", &scopes, issues).unwrap_or_default();
        let others = fields.list("other_signature_headers", issues, header_name);
        let at = fields.need("schemes", issues)?;
        let items = at.items(issues)?;
        if items.is_empty() {
            issues.add(at.pointer.clone(), "list at least one scheme");
        }
        let mut schemes = Vec::new();
        for item in &items {
            if let Some(mut scheme) = read_scheme(item, &identifiers, issues) {
                let own = scheme.identifier.clone();
                let places = || own.iter().chain(identifiers.iter().map(|slot| &slot.place).skip(own.iter().len()));
                check_signed(&item.pointer, &scheme, places(), issues);
                scheme.compute_boundaries(&item.pointer, places(), issues);
                schemes.push(scheme);
            }
        }
        let other_signature_headers = others.unwrap_or_default();
        (schemes.len() == items.len()).then(|| Self {
            name: name.to_owned(),
            read_headers: read_headers::names(&schemes, &identifiers, &other_signature_headers),
            schemes,
            identifiers,
            key_scope,
            same_body: same_body == Some(true),
            other_signature_headers,
        })
    }
}

/// Reads `retry.same_body_on_resend`. The other members of `retry` are notes for people.
fn read_retry(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<bool> {
    let known = at.map(issues).and_then(|fields| fields.get("same_body_on_resend"));
    known.filter(|at| !at.is_null()).and_then(|at| at.boolean(issues))
}

/// Reports slots with the same name, and a pattern on the first slot. A slot name is shorter than any webhook id, so
/// keys cannot mix the two up.
fn check_names(at: &JsonCursor<'_>, slots: &[Slot], issues: &mut Issues) {
    for (index, slot) in slots.iter().enumerate() {
        if slots.iter().take(index).any(|other| other.name == slot.name) {
            issues.add(format!("{}/{index}/slot", at.pointer), "another slot has this name: rename one of the two");
        }
    }
    if slots.first().is_some_and(|first| first.pattern.is_some()) {
        issues.add(
            format!("{}/0/pattern", at.pointer),
            "the first slot is the one for identifiers that fit no other slot's pattern, so it has no pattern: remove it",
        );
    }
}

/// Reads a slot. `named`: there are others. `same_body`: every attempt may have the same body.
#[inline(never)]
fn read_slot(at: &JsonCursor<'_>, named: bool, same_body: bool, issues: &mut Issues) -> Option<Slot> {
    let known = [
        "slot",
        "pattern",
        "header",
        "json",
        "single",
        "type",
        "form",
        "dash",
        "signed",
        "of",
        "unique",
        "same_on_retry",
        "same_on_resend",
        "source",
    ];
    let fields = at.fields(&known, issues)?;
    let unique = fields.get("unique").filter(|at| !at.is_null()).and_then(|at| at.boolean(issues));
    if unique == Some(false) && !same_body {
        issues.add(
            format!("{}/unique", at.pointer),
            "an identifier that is not unique needs the body beside it, and `retry.same_body_on_resend` says that each attempt \
             has another body: leave the identifier out, and say why in `no_identifier`",
        );
    }
    let name = match fields.get("slot") {
        Some(at) => at.parse(issues, slot_name)?,
        None if named => {
            fields.need("slot", issues);
            return None;
        }
        None => String::new(),
    };
    let pattern = fields.parse("pattern", issues, Pattern::parse);
    let place = read_place(&fields, issues)?;
    Some(Slot { name, pattern, unique: unique != Some(false), place })
}

#[inline(never)]
fn read_place(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Option<IdentifierPlace> {
    let signed = fields.need("signed", issues).and_then(|at| at.boolean(issues));
    let single = fields.boolean("single", issues).unwrap_or_default();
    let types = [("string", false), ("integer", true)];
    let integer = fields.choice("type", &types, issues).unwrap_or_default();
    let (kind, at) = one_of(fields, &["header", "json", "form"], issues)?;
    if kind != "json" {
        stray(fields, &["single", "type"], "works only together with `json`", issues);
    }
    if kind != "form" {
        stray(fields, &["dash"], "works only together with `form`", issues);
    }
    let source = match (kind, at) {
        ("header", at) => IdentifierSource::Header(at.parse(issues, header_name)?),
        ("json", at) => IdentifierSource::Json { place: at.parse(issues, |text| pointer(text, single))?, integer },
        (_, at) => IdentifierSource::Form(read_composites(&at, fields, issues)?),
    };
    Some(IdentifierPlace { source, signed: signed? })
}

#[inline(never)]
fn read_composites(at: &JsonCursor<'_>, fields: &ObjectCursor<'_>, issues: &mut Issues) -> Option<Vec<Composite>> {
    let dash = fields.get("dash").and_then(|at| at.text(issues));
    let mut composites = Vec::new();
    let items = at.items(issues)?;
    if items.is_empty() {
        issues.add(at.pointer.clone(), "list at least one group of fields");
    }
    for item in items {
        let names = item.list(issues, non_empty)?;
        let dashed = match dash {
            Some(name) => names.iter().position(|other| other == name),
            None => names.len().checked_sub(1),
        };
        let Some(dashed) = dashed else {
            issues.add(item.pointer, "name at least one field, and also the field of `dash`");
            continue;
        };
        composites.push(Composite { names, dashed });
    }
    Some(composites)
}

/// Reads a scheme. `{id}` in its template is the first of `identifiers`.
pub(super) fn read_scheme(at: &JsonCursor<'_>, identifiers: &[Slot], issues: &mut Issues) -> Option<Scheme> {
    let known = [
        "algorithm",
        "secret",
        "signature",
        "timestamp",
        "template",
        "require_headers",
        "boundaries",
        "port",
        "body_hash",
        "identifier",
    ];
    let fields = at.fields(&known, issues)?;
    let algorithm = fields.need("algorithm", issues).and_then(|at| at.choice(ALGORITHMS, issues));
    let signature = fields.need("signature", issues).and_then(|at| read_signature(&at, algorithm, issues));
    let timestamp = fields.get("timestamp").and_then(|at| read_timestamp(&at, issues));
    let template = match algorithm {
        Some(Algorithm::Token) => Some(Vec::new()),
        _ => fields.need_parse("template", issues, template::parse),
    };
    if algorithm == Some(Algorithm::Token) {
        stray(
            &fields,
            &["template", "boundaries", "port", "body_hash"],
            "is not supported for a token, which signs nothing",
            issues,
        );
    }
    let mut required = Vec::new();
    if let Some(map) = fields.get("require_headers").and_then(|at| at.map(issues)) {
        for (name, at) in map.entries() {
            match (header_name(name), at.text(issues)) {
                (Ok(name), Some(value)) => required.push((name, value.to_owned())),
                (Err(message), _) => issues.add(at.pointer, message),
                _ => {}
            }
        }
    }
    let scheme = Scheme {
        algorithm: algorithm?,
        secret: fields.get("secret").and_then(|at| read_secret(&at, issues)).unwrap_or_default(),
        signature: signature?,
        timestamp,
        template: template?,
        boundaries: fields.choice("boundaries", &BOUNDARIES, issues),
        forbidden_bytes: Vec::new(),
        required,
        any_port: fields.choice("port", &PORTS, issues).unwrap_or_default(),
        body_hash: fields.parse("body_hash", issues, non_empty),
        identifier: match fields.get("identifier") {
            Some(at) => Some(read_own_identifier(&at, issues)?),
            None => None,
        },
    };
    check_scheme(&fields, &scheme, identifiers, issues);
    Some(scheme)
}

fn read_own_identifier(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<IdentifierPlace> {
    read_place(&at.fields(&["header", "json", "single", "type", "form", "dash", "signed"], issues)?, issues)
}

/// Reports members of a scheme that do not fit together.
#[inline(never)]
fn check_scheme(fields: &ObjectCursor<'_>, scheme: &Scheme, identifiers: &[Slot], issues: &mut Issues) {
    let mut wrong = |member: &str, message: &str| issues.add(format!("{}/{member}", fields.pointer), message);
    let has = |wanted: fn(&TemplatePart) -> bool| scheme.template.iter().any(wanted);
    if has(|part| *part == TemplatePart::Timestamp) && scheme.timestamp.is_none() {
        wrong("template", "`{timestamp}` in the template needs the member `timestamp`");
    }
    if let Some(Timestamp { source: TimeSource::Pair(_), .. }) = &scheme.timestamp
        && !matches!(scheme.signature.grammar, SignatureGrammar::Pairs { .. })
    {
        wrong("timestamp/pair", "a timestamp in a pair needs a signature header of pairs: add `signature/pairs`");
    }
    let first = scheme.identifier.as_ref().or_else(|| identifiers.first().map(|slot| &slot.place));
    if has(|part| *part == TemplatePart::Id)
        && !matches!(first, Some(IdentifierPlace { source: IdentifierSource::Header(_), .. }))
    {
        wrong("template", "`{id}` means the first identifier, which has to be in a header");
    }
    if !has(|part| *part == TemplatePart::Url) && scheme.algorithm != Algorithm::Token {
        for member in ["port", "body_hash"].iter().filter(|member| fields.get(member).is_some()) {
            wrong(
                member,
                "this member changes the signed URL, and the template has no `{url}`: remove the member, or add \
                 `{url}`",
            );
        }
    }
    if scheme.identifier.is_some() && identifiers.is_empty() {
        wrong("identifier", "it replaces the first of the provider's `identifiers`, and the provider has none");
    }
}

/// Reports identifiers whose `signed` does not agree with the template.
#[inline(never)]
fn check_signed<'p>(
    pointer: &str,
    scheme: &Scheme,
    places: impl Iterator<Item = &'p IdentifierPlace>,
    issues: &mut Issues,
) {
    for (index, place) in places.enumerate() {
        if scheme.covers(&place.source, index == 0) != place.signed {
            issues.add(
                format!("{pointer}/template"),
                format!(
                    "the signature {} identifier {index}: correct `signed` of that identifier",
                    if place.signed { "does not cover" } else { "covers" }
                ),
            );
        }
    }
}

const BOUNDARIES: [(&str, Boundaries); 3] =
    [("timestamp", Boundaries::Timestamp), ("json_body", Boundaries::JsonBody), ("none", Boundaries::Absent)];

const PORTS: [(&str, bool); 2] = [("as_addressed", false), ("any", true)];

const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("hmac-sha256", Algorithm::HmacSha256),
    ("hmac-sha1", Algorithm::HmacSha1),
    ("hmac-sha512", Algorithm::HmacSha512),
    ("sha256-secret-first", Algorithm::Sha256SecretFirst),
    ("token", Algorithm::Token),
    ("ed25519", Algorithm::Ed25519),
    ("ecdsa-p256", Algorithm::EcdsaP256),
];

#[inline(never)]
fn read_secret(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<SecretForm> {
    let fields = at.fields(&["encoding", "prefix", "prefix_required", "begins"], issues)?;
    let encodings = [
        ("raw", secret::SecretEncoding::Raw),
        ("base64", secret::SecretEncoding::Base64),
        ("base64_or_raw", secret::SecretEncoding::Base64OrRaw),
        ("hex", secret::SecretEncoding::Hex),
        ("spki", secret::SecretEncoding::Spki),
    ];
    let prefix = fields.parse("prefix", issues, non_empty);
    if fields.get("prefix").is_none() {
        stray(&fields, &["prefix_required"], "works only together with `prefix`", issues);
    }
    Some(SecretForm {
        encoding: fields.choice("encoding", &encodings, issues).unwrap_or_default(),
        prefix,
        prefix_required: fields.boolean("prefix_required", issues).unwrap_or_default(),
        begins: fields.list("begins", issues, non_empty).unwrap_or_default(),
    })
}

#[inline(never)]
fn read_signature(at: &JsonCursor<'_>, algorithm: Option<Algorithm>, issues: &mut Issues) -> Option<Signature> {
    let known = ["header", "headers", "numbered_headers", "json", "prefix", "pairs", "versions", "encoding"];
    let fields = at.fields(&known, issues)?;
    let (kind, at) = one_of(&fields, &["header", "headers", "numbered_headers", "json"], issues)?;
    if kind == "json" {
        stray(&fields, &["prefix", "pairs", "versions"], "works only with signatures in headers", issues);
    } else if fields.get("pairs").is_some() || fields.get("versions").is_some() {
        stray(&fields, &["prefix"], "works only with a header that holds one signature", issues);
    }
    if algorithm == Some(Algorithm::Token) {
        stray(&fields, &["encoding"], "is not supported for a token, which is compared as it is", issues);
    }
    let source = match (kind, at) {
        ("header", at) => SignatureSource::Headers(vec![at.parse(issues, header_name)?]),
        ("headers", at) => {
            let names = at.list(issues, header_name)?;
            if names.is_empty() {
                issues.add(at.pointer, "list at least one header");
            }
            SignatureSource::Headers(names)
        }
        ("numbered_headers", at) => SignatureSource::Numbered(at.parse(issues, header_name)?),
        (_, at) => SignatureSource::Json(at.parse(issues, |text| pointer(text, true))?),
    };
    let prefix = fields.parse("prefix", issues, non_empty).unwrap_or_default();
    let grammar = match (fields.get("pairs"), fields.get("versions")) {
        (Some(at), None) => {
            let (separator, key) = read_items(&at, "key", issues)?;
            SignatureGrammar::Pairs { separator, key }
        }
        (None, Some(at)) => {
            let (separator, version) = read_items(&at, "version", issues)?;
            SignatureGrammar::Versions { separator, version }
        }
        (None, None) => SignatureGrammar::Single(prefix),
        (Some(_), Some(at)) => {
            issues.add(at.pointer, "a header holds either pairs or versions: remove one of the two members");
            return None;
        }
    };
    let encodings = [
        ("hex", SignatureEncoding::Hex),
        ("hex_any_case", SignatureEncoding::HexAnyCase),
        ("base64", SignatureEncoding::Base64),
    ];
    let encoding = match algorithm {
        // A token has no encoding.
        Some(Algorithm::Token) => SignatureEncoding::Hex,
        _ => fields.need("encoding", issues)?.choice(&encodings, issues)?,
    };
    Some(Signature { source, grammar, encoding })
}

/// Reads `{"separator": ",", "key": "v1"}`; the second member is called `member`.
fn read_items(at: &JsonCursor<'_>, member: &str, issues: &mut Issues) -> Option<(u8, String)> {
    let fields = at.fields(&["separator", member], issues)?;
    let separator = fields.need("separator", issues)?.parse(issues, |text| match text.as_bytes() {
        [byte] if byte.is_ascii_punctuation() || *byte == b' ' => Ok(*byte),
        _ => Err("expected one character".to_owned()),
    });
    Some((separator?, fields.need(member, issues)?.parse(issues, non_empty)?))
}

#[inline(never)]
fn read_timestamp(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Timestamp> {
    let fields = at.fields(&["header", "pair", "json", "unit", "max_age_s", "max_ahead_s"], issues)?;
    let source = match one_of(&fields, &["header", "pair", "json"], issues)? {
        ("header", at) => TimeSource::Header(at.parse(issues, header_name)?),
        ("pair", at) => TimeSource::Pair(at.parse(issues, non_empty)?),
        (_, at) => TimeSource::Json(at.parse(issues, |text| pointer(text, true))?),
    };
    let units =
        [("s", Unit::Seconds), ("ms", Unit::Milliseconds), ("rfc3339", Unit::Rfc3339), ("http_date", Unit::HttpDate)];
    let unit = fields.need("unit", issues)?.choice(&units, issues)?;
    let bound = |at: JsonCursor<'_>, issues: &mut Issues| {
        at.integer(1..=86_400, issues).and_then(|bound| u32::try_from(bound).ok())
    };
    let max_age_s = bound(fields.need("max_age_s", issues)?, issues)?;
    let max_ahead_s = fields.get("max_ahead_s").and_then(|at| bound(at, issues)).unwrap_or(max_age_s);
    Some(Timestamp { source, window: Window { unit, max_age_s, max_ahead_s } })
}
