//! The policy document (docs/contract.md section 4): checks the names, types and grammars of its members, and adds
//! defaults. `compile` checks how members fit together.

mod answers;
mod backend;
mod callers;
mod identity;
mod routes;
mod secrets;
mod stores;
mod webhooks;

pub use answers::Answers;
pub(crate) use backend::{Backend, BackendKind, OperationId};
pub(crate) use callers::{Caller, CallerHeaders};
pub(crate) use identity::{Forward, IdentityRules};
pub(crate) use routes::{Collision, RouteDocument, WebhookBlock};
pub use routes::{PolicyKind, Scope};
pub use secrets::Secret;
pub(crate) use stores::{OpenBao, Service, Unkey};
pub(crate) use webhooks::{Binding, Webhooks, is_webhook_id};

use crate::json::cursor::{Issues, JsonCursor, ObjectCursor, suggestion};

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
pub(crate) struct Document {
    /// `mode`
    pub mode: Mode,
    /// `unmatched`
    pub unmatched: Unmatched,
    /// `answers`, and `docs_url`
    pub answers: Answers,
    /// `identity`
    pub identity: Option<IdentityRules>,
    /// `backend`
    pub backend: Backend,
    /// `routes`, each with its index in the document
    pub routes: Vec<(usize, RouteDocument)>,
    /// `webhooks`
    pub webhooks: Option<Webhooks>,
    /// `callers`
    pub callers: Vec<Caller>,
    /// `recovery.wait_ms`, in milliseconds
    pub recovery_wait_ms: u64,
    /// `telemetry`
    pub telemetry: Telemetry,
}

impl Document {
    /// Reads a document and adds every problem to `issues`.
    pub(crate) fn read(root: &JsonCursor<'_>, issues: &mut Issues) -> Self {
        let known = [
            "$schema",
            "version",
            "mode",
            "unmatched",
            "docs_url",
            "identity",
            "backend",
            "answers",
            "routes",
            "webhooks",
            "callers",
            "recovery",
            "retention",
            "telemetry",
            "allow_inline_secrets",
        ];
        let Some(fields) = root.fields(&known, issues) else { return Self::default() };
        fields.get("$schema").and_then(|at| at.text(issues));
        if let Some(at) = fields.need("version", issues) {
            at.integer(1..=1, issues);
        }
        let inline = fields.boolean("allow_inline_secrets", issues).unwrap_or_default();
        let recovery = fields.get("recovery").and_then(|at| at.fields(&["wait_ms"], issues));
        let wait_ms = recovery.and_then(|recovery| recovery.integer("wait_ms", 0..=600_000, issues));
        if let Some(at) = fields.get("retention") {
            read_retention(&at, issues);
        }
        let docs_url = fields.parse("docs_url", issues, parse_url);
        let routes = fields.need("routes", issues).and_then(|at| at.items(issues)).unwrap_or_default();
        Self {
            mode: read_mode(&fields, issues).unwrap_or_default(),
            unmatched: fields.choice("unmatched", &UNMATCHED, issues).unwrap_or_default(),
            answers: match fields.get("answers") {
                Some(at) => Answers::read(&at, docs_url, issues),
                None => Answers { docs_url, ..Answers::default() },
            },
            identity: fields.get("identity").map(|at| IdentityRules::read(&at, issues).unwrap_or_default()),
            backend: fields.get("backend").and_then(|at| Backend::read(&at, issues)).unwrap_or_default(),
            routes: routes
                .iter()
                .enumerate()
                .filter_map(|(index, at)| RouteDocument::read(at, issues).map(|route| (index, route)))
                .collect(),
            webhooks: fields.get("webhooks").and_then(|at| Webhooks::read(&at, inline, issues)),
            callers: fields.get("callers").map(|at| callers::read(&at, inline, issues)).unwrap_or_default(),
            recovery_wait_ms: wait_ms.unwrap_or(RECOVERY_WAIT_MS),
            telemetry: fields.get("telemetry").and_then(|at| read_telemetry(&at, issues)).unwrap_or_default(),
        }
    }
}

/// The default of `recovery.wait_ms`.
const RECOVERY_WAIT_MS: u64 = 30_000;

const UNMATCHED: [(&str, Unmatched); 3] = [
    ("REJECT", Unmatched::Reject),
    ("PROHIBITED", Unmatched::Prohibited),
    ("HANDLER_INTERNAL_C", Unmatched::HandlerInternalC),
];

fn read_mode(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Option<Mode> {
    fields.get("mode")?.choice(&[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)], issues)
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

#[inline(never)]
fn read_retention(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<()> {
    let fields = at.fields(&["classes", "services"], issues)?;
    let mut classes = Vec::new();
    if let Some(map) = fields.get("classes").and_then(|at| at.map(issues)) {
        for (name, at) in map.entries() {
            at.parse(issues, parse_duration);
            classes.push(name);
        }
    }
    if let Some(map) = fields.get("services").and_then(|at| at.map(issues)) {
        for (_, at) in map.entries() {
            let Some(service) = at.fields(&["class", "on_max_attempts"], issues) else { continue };
            if let Some(at) = service.need("class", issues) {
                at.parse(issues, |class| {
                    if classes.contains(&class) {
                        Ok(())
                    } else {
                        let near = suggestion(class, classes.iter().copied());
                        Err(format!("no class `{}` in /retention/classes{near}", class.replace('\n', " ")))
                    }
                });
            }
            service.choice("on_max_attempts", &[("kill", ()), ("pause", ())], issues);
        }
    }
    Some(())
}

/// Parses a duration such as `30s`, `15m`, `24h` or `7d` into seconds.
fn parse_duration(text: &str) -> Result<u64, String> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)))
        .and_then(|(count, seconds)| {
            let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
            count.parse::<u64>().ok().filter(|count| digits && *count > 0)?.checked_mul(seconds)
        })
        .ok_or_else(|| "a duration is a count and a unit: `30s`, `15m`, `24h`, `7d`".to_owned())
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

/// Parses a header name into lower case. RFC 9110 allows `*` in a name, but here it is a mistake.
fn parse_header_name(text: &str) -> Result<String, String> {
    if crate::headers::is_field_name(text) && !text.contains('*') {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected a header name".to_owned())
    }
}

/// Parses a name that fits into metrics and logs.
fn parse_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=128).contains(&text.len()) && !text.starts_with('_') && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("a name is 1 to 128 of A-Z a-z 0-9 . _ - and does not begin with _".to_owned())
    }
}

/// Parses a text that is not empty.
fn parse_text(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains('\0') { Err("expected some text".to_owned()) } else { Ok(text.to_owned()) }
}
