//! Compares what came of a case with the model, and holds everything that the upstream got against the invariants.

use e2e::wire::{HeaderLine, shown, shown_lines};

use super::api::{DENIED_METHOD, DENIED_SERVICES, Listener};
use super::backends::{self, Backend};
use super::case::{Case, Sound};
use super::client::{CaseOutcome, End};
use super::lines;
use super::model::{self, Forwarded, ModelAnswer, Reach};
use super::upstream::{self, Record};
use super::{reading, restate_paths, spellings};

/// Everything that is wrong with a case, in words.
pub(crate) fn judge(case: &Case, expected: &ModelAnswer, outcome: &CaseOutcome, records: &[Record]) -> Vec<String> {
    let mut wrong = Vec::new();
    for record in records {
        invariants(case, record, &mut wrong);
    }
    let of = |part: &str| records.iter().filter(|record| record.part == part).collect::<Vec<_>>();
    let (first, second) = (of("1"), of("2"));
    if first.len() + second.len() < records.len() {
        wrong.push("a request that was part of a body reached the upstream".to_owned());
    }
    if first.len() > 1 || second.len() > usize::from(case.second.is_some()) {
        wrong.push(format!("{} requests were sent, and the upstream got {}", sent(case), records.len()));
    }
    if let Some(record) = second.first() {
        compare(&second_forwarded(case), record, true, &mut wrong);
    }
    match (expected.reach, first.first()) {
        (Reach::Never(why), Some(_)) => wrong.push(format!("it must not reach the upstream ({why})")),
        (Reach::Must, None) => wrong.push(format!("it must reach the upstream; the answer was {}", outcome.first())),
        (Reach::Must | Reach::Either(_), Some(record)) => {
            let whole = expected.reach == Reach::Must;
            if whole && !record.complete {
                wrong.push("the upstream got a part of it".to_owned());
            }
            if whole && record.at == Backend::Api {
                let lost = backends::lost_credentials(case, record);
                wrong.extend(lost.into_iter().map(|name| format!("the API did not get {name}")));
            }
            if let Some(forwarded) = &expected.forwarded {
                compare(forwarded, record, record.complete && case.sound() == Sound::Yes, &mut wrong);
            }
        }
        (Reach::Never(_) | Reach::Either(_), None) => {}
    }
    answers(case, expected, outcome, &mut wrong);
    wrong
}

fn sent(case: &Case) -> usize {
    1 + usize::from(case.second.is_some())
}

/// The pipelined request of `framing::second` has no token, so no identity, and goes where no key is taken.
fn second_forwarded(case: &Case) -> Forwarded {
    let at = if case.listener.has_two_backends() { Backend::Api } else { Backend::Restate };
    let target =
        if case.listener == Listener::Rewriting { "/restate/call/Devices/register" } else { "/api/v1/devices" };
    Forwarded {
        at,
        method: "POST".to_owned(),
        target: target.to_owned(),
        authority: b"api.example.com".to_vec(),
        key: None,
        identity: None,
        body: Some(Vec::new()),
    }
}

/// What the upstream got is exactly this.
fn compare(expected: &Forwarded, record: &Record, with_body: bool, wrong: &mut Vec<String>) {
    let mut differ = |what: &str, seen: &[u8], wanted: &[u8]| {
        if seen != wanted {
            wrong.push(format!("{what}: the upstream got {} instead of {}", shown(seen), shown(wanted)));
        }
    };
    let (method, target) = request_line(record);
    differ("backend", record.at.name().as_bytes(), expected.at.name().as_bytes());
    differ("method", &method, expected.method.as_bytes());
    differ("path", &target, expected.target.as_bytes());
    let all = |name: &str| upstream::lines(&record.message, name).collect::<Vec<_>>().join(&b", "[..]);
    differ("authority", &all("host"), &expected.authority);
    differ("key", &all("idempotency-key"), expected.key.as_deref().unwrap_or_default().as_bytes());
    for (index, name) in IDENTITY.iter().enumerate() {
        let wanted = expected.identity.and_then(|parts| parts.get(index).copied()).unwrap_or_default();
        differ(name, &all(name), wanted.as_bytes());
    }
    if with_body && let Some(body) = &expected.body {
        differ("body", &record.message.body, body);
    }
}

/// Tenant, project and subject, as `identity.forward` names them.
const IDENTITY: [&str; 3] = ["x-tenant-id", "x-project-id", "x-subject"];

/// Names that never reach the upstream from a client, `_` read as `-`.
const NEVER: [&str; 5] =
    ["x-edge-idempotency", "x-http-method-override", "x-http-method", "x-method-override", "x-original-method"];

/// Names that never reach Restate.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "origin", "x-api-key"];

/// Lines that begin as those do by which a client would tell Envoy what to do, and that Envoy itself adds.
const FROM_ENVOY: [&str; 2] = ["x-envoy-expected-rq-timeout-ms", "x-envoy-external-address"];

/// What holds for every request at the upstream, whatever the model says.
fn invariants(case: &Case, record: &Record, wrong: &mut Vec<String>) {
    let (method, target) = request_line(record);
    let message = &record.message;
    let path = reading::path_behind(&target);
    if case.listener.has_two_backends() {
        let has_key = message.headers.iter().any(|(name, _)| name == "idempotency-key");
        let method = String::from_utf8_lossy(&method).into_owned();
        wrong.extend(backends::astray(record.at, &method, &target, has_key));
    } else if case.listener.rewrites() {
        let mut segments = path.split('/').skip(1);
        let first = segments.next().unwrap_or_default();
        let service = if first == "restate" { segments.nth(1).unwrap_or_default() } else { first };
        if DENIED_SERVICES.contains(&service) {
            wrong.push(format!("RBAC denies every way to {service}"));
        }
    } else if case.listener.unmatched().is_some() {
        restate_path(case, &target, wrong);
    } else if case.listener.is_guarded() && case.listener.normalises() {
        if model::denied_path(&path) {
            wrong.push(format!("RBAC denies the path {path}, as it is read"));
        }
        let decoded_first = reading::path_behind_decoded_first(&target);
        if model::denied_path(&decoded_first) {
            wrong.push(format!("RBAC denies the path {decoded_first}, as who decodes the whole first reads it"));
        }
    }
    if case.listener.is_guarded() && !case.listener.rewrites() && method == DENIED_METHOD.as_bytes() {
        wrong.push(format!("RBAC denies the method {DENIED_METHOD}"));
    }
    let hosts: Vec<&[u8]> = upstream::lines(message, "host").collect();
    let [host] = hosts.as_slice() else {
        wrong.push(format!("{} host lines at the upstream", hosts.len()));
        return;
    };
    if spellings::is_other_spelling(case.listener.routes(), &String::from_utf8_lossy(host)) {
        wrong.push(format!("another spelling of a declared host: {}", shown(host)));
    }
    if case.listener.is_guarded() && model::denied_host(host) {
        wrong.push(format!("RBAC denies the host {}", shown(host)));
    }
    if case.listener.is_guarded() && !case.listener.rewrites() && path == "/api/v1/vault" {
        wrong.push("only hosts that RBAC denies have the path /api/v1/vault".to_owned());
    }
    if record.at == Backend::Restate {
        let (_, query) = reading::split_query(&target);
        let query = String::from_utf8_lossy(query.unwrap_or_default()).into_owned();
        if query.split(['&', ';']).any(model::steers) {
            wrong.push(format!("the query steers Restate: {query}"));
        }
        if upstream::lines(message, "content-type").any(model::is_rpc_type) {
            wrong.push("Restate gives it to a gRPC service".to_owned());
        }
    }
    let lengths = upstream::lines(message, "content-length").count();
    let encodings = upstream::lines(message, "transfer-encoding").count();
    if lengths + encodings > 1 {
        wrong.push(format!("{lengths} lengths and {encodings} encodings at the upstream"));
    }
    let identity = if record.part == "1" { model::identity(case.token) } else { None };
    named(case, record.at, (&message.headers, "header"), identity, wrong);
    named(case, record.at, (&message.trailers, "trailer"), None, wrong);
    if record.at == Backend::Api && !case.listener.has_two_backends() {
        wrong.push("the listener has no such backend".to_owned());
    }
}

/// What Restate would do with a path: it splits it as it is.
fn restate_path(case: &Case, target: &[u8], wrong: &mut Vec<String>) {
    let path = String::from_utf8_lossy(reading::split_query(target).0).into_owned();
    let is_declared = model::is_declared(case.listener, &path);
    if let Some(why) = restate_paths::closed(case.listener, &path, is_declared) {
        wrong.push(format!("{path} is closed: {why}"));
    }
    let decoded_first = reading::path_behind_decoded_first(target);
    let first = decoded_first.split('/').nth(1).unwrap_or_default();
    if first == "restate" || (case.listener.has_restate_paths() && first == restate_paths::GUARD) {
        wrong.push(format!("{decoded_first} is closed, as who decodes the whole first reads it"));
    }
}

/// Keys, identities and what no client may claim.
fn named(
    case: &Case,
    at: Backend,
    (found, kind): (&[HeaderLine], &str),
    identity: Option<[&'static str; 3]>,
    wrong: &mut Vec<String>,
) {
    for (name, value) in found {
        let plain = name.to_ascii_lowercase().replace('_', "-");
        let text = String::from_utf8_lossy(value).into_owned();
        if plain == "idempotency-key" {
            let own = identity.and_then(|identity| {
                let raw = text.strip_prefix(&model::namespaced(identity, ""))?;
                reading::is_raw_key(raw).then_some(raw)
            });
            let sent = |raw: &str| {
                let quoted = format!("\"{raw}\"");
                case.lines.iter().any(|line| {
                    let value = String::from_utf8_lossy(&line.value).into_owned();
                    let value = value.trim();
                    line.name.eq_ignore_ascii_case("idempotency-key") && (value == raw || value.starts_with(&quoted))
                }) || raw == lines::key(case.number)
            };
            if name != "idempotency-key" || !own.is_some_and(sent) {
                wrong.push(format!("a key in the {kind} {name}: {text}, which is not the caller's own"));
            }
        }
        if let Some(place) = IDENTITY.iter().position(|known| *known == plain) {
            let own = identity.and_then(|parts| parts.get(place).copied());
            if own != Some(text.as_str()) || *name != plain {
                wrong.push(format!("an identity in the {kind} {name}: {text}"));
            }
        }
        let told_to_envoy = plain.starts_with("x-envoy-") && !FROM_ENVOY.contains(&plain.as_str());
        // The API gets what a browser and its own callers tell it.
        let is_credential = CREDENTIALS.contains(&plain.as_str()) || plain.starts_with("x-restate-");
        if NEVER.contains(&plain.as_str()) || (is_credential && at == Backend::Restate) || told_to_envoy {
            wrong.push(format!("the {kind} {name} of a client"));
        }
    }
    let count = |wanted: &str| found.iter().filter(|(name, _)| name == wanted).count();
    for name in IDENTITY.iter().chain(&["idempotency-key"]) {
        if count(name) > 1 {
            wrong.push(format!("{} lines {name}", count(name)));
        }
    }
}

/// What the client was told fits what became of the request.
fn answers(case: &Case, expected: &ModelAnswer, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
    let status = outcome.first().status();
    if expected.reach == Reach::Must && status != Some(200) {
        wrong.push(format!("it must be answered 200; the answer was {}", outcome.first()));
    }
    // The end of a broken body may come after the upstream was asked, and then it is the upstream's failure to Envoy.
    let broken = case.sound() == Sound::Broken;
    if status.is_some_and(|status| status >= 500 && status != 501 && status != 505) && !broken {
        wrong.push(format!("the answer was {}", outcome.first()));
    }
    if let End::Failed(error) = outcome.first() {
        wrong.push(format!("there was no answer: {error}"));
    }
    if outcome.answers.len() > sent(case) {
        wrong.push(format!("{} answers to {} requests", outcome.answers.len(), sent(case)));
    }
}

/// Method and target of a request at the upstream.
fn request_line(record: &Record) -> (Vec<u8>, Vec<u8>) {
    let mut parts = record.message.start.splitn(2, |byte| *byte == b' ');
    let method = parts.next().unwrap_or_default().to_vec();
    let rest = parts.next().unwrap_or_default();
    (method, rest.strip_suffix(b" HTTP/1.1").unwrap_or(rest).to_vec())
}

/// Requests at the upstream, for a report.
pub(crate) fn shown_records(records: &[Record]) -> String {
    if records.is_empty() {
        return "  the upstream got nothing".to_owned();
    }
    let one = |record: &Record| {
        let message = &record.message;
        let end = if record.complete { "" } else { "\n    and then no more of it" };
        let trailers = shown_lines(&message.trailers);
        format!(
            "  the upstream ({}) got {}{}\n    body {}{trailers}{end}",
            record.at.name(),
            shown(&message.start),
            shown_lines(&message.headers),
            shown(&message.body)
        )
    };
    records.iter().map(one).collect::<Vec<_>>().join("\n")
}
