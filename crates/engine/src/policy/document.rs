//! The policy document (docs/contract.md section 4): checks the names, types and grammars of its members, and adds
//! defaults. `compile` checks how members fit together.

mod answers;
mod backend;
mod callers;
mod identity;
mod keys;
mod live_secret;
mod operations;
mod recovery;
mod retention;
mod routes;
mod secrets;
mod stores;
mod webhooks;

pub use answers::Answers;
pub(crate) use backend::{BackendDocument, BackendsDocument};
pub(crate) use callers::{CallerHeaders, SignedCaller};
pub(crate) use identity::{Forward, IdentityOwner, IdentityRules};
pub use live_secret::{LiveSecret, SecretReader};
pub(crate) use recovery::RecoverySettings;
pub use retention::ServiceRetention;
pub(crate) use routes::{ApiKeyRules, Collision, RouteDocument, WebhookBlock};
pub use routes::{KeySubject, PolicyKind, Scope};
pub use secrets::Secret;
pub(crate) use stores::{KeyRegistry, OpenBao, Service, Unkey};
pub use webhooks::Binding;
pub(crate) use webhooks::{Webhooks, is_webhook_id};

use crate::headers::IDEMPOTENCY_KEY;
use crate::json::cursor::{Issues, JsonCursor, ObjectCursor};
use crate::key::KeyRules;
use std::sync::Arc;

/// Whether decisions have an effect, or are only logged and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Decisions have an effect.
    #[default]
    Enforce,
    /// Case A refusals and the key rewrite have no effect (docs/contract.md section 2).
    Shadow,
}

/// What happens to a request that no route declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unmatched {
    /// 404
    #[default]
    Reject,
    /// Forwarded; refused if it has a key.
    Prohibited,
    /// Forwarded without its key.
    HandlerInternalC,
}

/// How keys appear in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyInLogs {
    /// Unchanged.
    Full,
    /// As a SHA-256 digest.
    #[default]
    Hash,
    /// Not at all.
    Off,
}

/// The `telemetry` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telemetry {
    /// The maximum number of metric series of one VM.
    pub max_series: u64,
    /// How keys appear in logs.
    pub key_in_logs: KeyInLogs,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { max_series: 2000, key_in_logs: KeyInLogs::default() }
    }
}

/// A policy document. Invalid parts are left out, and each of them has an issue.
#[derive(Debug, Default)]
pub(crate) struct Document<'j> {
    /// `mode`
    pub mode: Mode,
    /// `unmatched`
    pub unmatched: Unmatched,
    /// `answers`, and `docs_url`
    pub answers: Answers,
    /// `identity`
    pub identity: Option<IdentityRules>,
    /// `backend` and `backends`
    pub backends: BackendsDocument<'j>,
    /// `gateway_routes`
    pub gateway_routes: bool,
    /// `mark_all`
    pub mark_all: bool,
    /// `routes`, each with its index in the document
    pub routes: Vec<(usize, RouteDocument<'j>)>,
    /// `webhooks`
    pub webhooks: Option<Webhooks>,
    /// `callers`
    pub callers: Vec<SignedCaller>,
    /// `recovery`
    pub recovery: RecoverySettings,
    /// `telemetry`
    pub telemetry: Telemetry,
    /// `key`: the rules of routes without rules of their own
    pub key: Option<Arc<KeyRules>>,
    /// `forward.parameters`: the beginning of the headers that carry path parameters; lower case
    pub parameter_prefix: Option<String>,
    /// `shadow_key_header`: the request header with the future key in shadow mode; lower case
    pub shadow_key_header: Option<String>,
    /// `retention.services`
    pub retentions: Vec<ServiceRetention>,
}

impl<'j> Document<'j> {
    /// Reads a document and adds every problem to `issues`.
    pub(crate) fn read(root: &JsonCursor<'j>, issues: &mut Issues) -> Self {
        let known = [
            "$schema",
            "version",
            "mode",
            "unmatched",
            "docs_url",
            "identity",
            "backend",
            "backends",
            "gateway_routes",
            "mark_all",
            "answers",
            "routes",
            "webhooks",
            "callers",
            "recovery",
            "retention",
            "telemetry",
            "key",
            "forward",
            "shadow_key_header",
            "allow_inline_secrets",
        ];
        let Some(fields) = root.fields(&known, issues) else { return Self::default() };
        fields.get("$schema").and_then(|at| at.text(issues));
        if let Some(at) = fields.need_or_advise("version", ": write `\"version\": 1`", issues) {
            at.integer(1..=1, issues);
        }
        let inline = fields.boolean("allow_inline_secrets", issues).unwrap_or_default();
        let retentions = fields.get("retention").and_then(|at| retention::read(&at, issues));
        let forward = fields.get("forward").and_then(|at| at.fields(&["parameters"], issues));
        let docs_url = fields.parse("docs_url", issues, parse_url);
        let items = fields.need("routes", issues).and_then(|at| at.items(issues)).unwrap_or_default();
        Self {
            mode: read_mode(&fields, issues).unwrap_or_default(),
            unmatched: fields.choice("unmatched", &UNMATCHED, issues).unwrap_or_default(),
            answers: match fields.get("answers") {
                Some(at) => Answers::read(&at, docs_url, issues),
                None => Answers { docs_url, ..Answers::default() },
            },
            identity: fields
                .get("identity")
                .map(|at| IdentityRules::read(&at, IdentityOwner::Document { inline }, issues).unwrap_or_default()),
            backends: BackendsDocument::read(&fields, inline, issues),
            gateway_routes: fields.boolean("gateway_routes", issues).unwrap_or_default(),
            mark_all: fields.boolean("mark_all", issues).unwrap_or_default(),
            routes: {
                // The iterator cannot know how many routes are valid, and would make room for more of them again and again.
                let mut routes = Vec::with_capacity(items.len());
                let read = |(index, at)| RouteDocument::read(at, issues).map(|route| (index, route));
                routes.extend(items.iter().enumerate().filter_map(read));
                routes
            },
            webhooks: fields.get("webhooks").and_then(|at| Webhooks::read(&at, inline, issues)),
            callers: fields.get("callers").map(|at| callers::read(&at, inline, issues)).unwrap_or_default(),
            recovery: fields.get("recovery").map(|at| RecoverySettings::read(&at, issues)).unwrap_or_default(),
            telemetry: fields.get("telemetry").and_then(|at| read_telemetry(&at, issues)).unwrap_or_default(),
            key: read_key(&fields, issues),
            parameter_prefix: forward.and_then(|at| at.parse("parameters", issues, parse_prefix)),
            shadow_key_header: fields.parse("shadow_key_header", issues, parse_key_header),
            retentions: retentions.unwrap_or_default(),
        }
    }
}

const UNMATCHED: [(&str, Unmatched); 3] = [
    ("REJECT", Unmatched::Reject),
    ("PROHIBITED", Unmatched::Prohibited),
    ("HANDLER_INTERNAL_C", Unmatched::HandlerInternalC),
];

fn read_mode(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Option<Mode> {
    fields.get("mode")?.choice(&[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)], issues)
}

fn read_key(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Option<Arc<KeyRules>> {
    fields.get("key").map(|at| Arc::new(KeyRules::read(&at, issues).unwrap_or_default()))
}

/// Parses the beginning of the headers that carry path parameters. Every header that begins so is removed from clients'
/// requests, so the beginning has to be particular.
fn parse_prefix(text: &str) -> Result<String, String> {
    const TAKEN: [&str; 6] = ["x-edge-", "x-envoy-", "x-forwarded-", "x-http-", "x-request-", "x-restate-"];
    let words = text.strip_prefix("x-").and_then(|rest| rest.strip_suffix('-'));
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !words.is_some_and(|words| words.split('-').all(is_word)) {
        Err("expected the beginning of a header name in lower case, such as `x-path-`".to_owned())
    } else if TAKEN.iter().any(|taken| text.starts_with(taken)) {
        Err(format!("headers that begin with `{text}` already have a meaning: choose another beginning"))
    } else {
        Ok(text.to_owned())
    }
}

/// Parses the name of a request header that nothing else uses, for a namespaced key.
fn parse_key_header(text: &str) -> Result<String, String> {
    const FAMILIES: [&str; 12] = [
        "accept",
        "access-control-",
        "content-",
        "if-",
        "proxy-",
        "sec-",
        "x-b3-",
        "x-edge-",
        "x-envoy-",
        "x-forwarded-",
        "x-http-",
        "x-restate-",
    ];
    const TAKEN: [&str; 24] = [
        IDEMPOTENCY_KEY,
        "authorization",
        "cache-control",
        "connection",
        "cookie",
        "date",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "origin",
        "range",
        "referer",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "x-api-key",
        "x-method-override",
        "x-request-id",
    ];
    let name = parse_header_name(text)?;
    if name.contains('_') {
        Err("write the header with - instead of _: many servers and proxies drop names with _".to_owned())
    } else if FAMILIES.iter().any(|family| name.starts_with(family)) || TAKEN.contains(&name.as_str()) {
        Err(format!("`{name}` already has a meaning: choose another header, such as `x-idempotency-key`"))
    } else {
        Ok(name)
    }
}

/// The beginnings of names that no fingerprint has: keys, what Restate knows, and what proxies write.
const UNCOMPARED_FAMILIES: [&str; 6] =
    ["idempotency-", "idempotent-", "x-restate-", "x-forwarded-", "x-envoy-", "x-b3-"];

/// Headers that no fingerprint has: those of the connection, credentials, what is new in each attempt, and what is in it anyway.
const UNCOMPARED: [&str; 22] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-api-key",
    super::REWRITE_MARK,
    "x-request-id",
    "x-retry-attempt",
];

/// Parses the name of a request header that can be a part of a request's meaning.
fn parse_fingerprint_header(text: &str) -> Result<String, String> {
    let name = parse_header_name(text)?;
    if name.contains('_') {
        Err("write the header with - instead of _: `_` counts as `-`, and many proxies drop such names".to_owned())
    } else if name == "content-type" {
        Err("every fingerprint has `content-type`: remove it from this list".to_owned())
    } else if UNCOMPARED.contains(&name.as_str()) || UNCOMPARED_FAMILIES.iter().any(|family| name.starts_with(family)) {
        Err(format!(
            "`{name}` says nothing of what the client wants: credentials, keys, and headers of connections, proxies and attempts \
             may differ between two attempts at the same request. Name headers such as `if-match`"
        ))
    } else {
        Ok(name)
    }
}

#[inline(never)]
fn read_telemetry(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Telemetry> {
    let fields = at.fields(&["max_series", "key_in_logs"], issues)?;
    let default = Telemetry::default();
    let forms = [("full", KeyInLogs::Full), ("hash", KeyInLogs::Hash), ("off", KeyInLogs::Off)];
    Some(Telemetry {
        max_series: fields.integer("max_series", 1..=1_000_000, issues).unwrap_or(default.max_series),
        key_in_logs: fields.choice("key_in_logs", &forms, issues).unwrap_or(default.key_in_logs),
    })
}

/// Parses a duration such as `30s`, `15m`, `24h` or `7d` into seconds.
///
/// # Errors
/// A sentence that says what to write.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)))
        .and_then(|(count, seconds)| {
            let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
            count.parse::<u64>().ok().filter(|count| digits && *count > 0)?.checked_mul(seconds)
        })
        .ok_or_else(|| "expected a duration, a number and a unit, such as `30s`, `15m`, `24h` or `7d`".to_owned())
}

/// Parses an absolute http or https URL that fits into a header.
fn parse_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected an absolute http or https URL without a fragment".to_owned())
    }
}

/// The most headers in a list: each of them is one more edit of an error, or lines that a waiting request keeps.
const MAX_HEADER_NAMES: usize = 8;

/// Reads a list of a few header names, each of them once.
#[inline(never)]
fn read_header_names(
    at: &JsonCursor<'_>,
    parse: fn(&str) -> Result<String, String>,
    issues: &mut Issues,
) -> Vec<String> {
    let names = at.list(issues, parse).unwrap_or_default();
    if names.len() > MAX_HEADER_NAMES {
        issues.add(&at.pointer, "the list may have at most 8 headers");
    }
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|other| other == name) {
            issues.add(&at.pointer, format!("`{name}` is in the list twice"));
        }
    }
    names
}

/// Parses a header name into lower case. RFC 9110 allows `*` in a name, but here it is a mistake.
fn parse_header_name(text: &str) -> Result<String, String> {
    if crate::headers::is_field_name(text) && !text.contains('*') {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected a header name".to_owned())
    }
}

/// Checks a name that fits into metrics and logs.
fn check_name(text: &str) -> Result<&str, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=128).contains(&text.len()) && !text.starts_with('_') && text.bytes().all(plain) {
        Ok(text)
    } else {
        Err("a name has 1 to 128 characters of A-Z a-z 0-9 . _ - and does not begin with _".to_owned())
    }
}

/// Parses a name that fits into metrics and logs.
fn parse_name(text: &str) -> Result<String, String> {
    check_name(text).map(str::to_owned)
}

/// Checks that a text is not empty.
fn check_text(text: &str) -> Result<&str, String> {
    if text.is_empty() || text.contains('\0') { Err("expected a text that is not empty".to_owned()) } else { Ok(text) }
}

/// Parses a text that is not empty.
fn parse_text(text: &str) -> Result<String, String> {
    check_text(text).map(str::to_owned)
}
