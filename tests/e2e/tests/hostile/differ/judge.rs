//! Holds everything that the upstream got against rules that are written from docs/ and the RFCs. Which requests the filter lets in, and
//! as what, is proved without a gateway; here a request that nothing was done to has to arrive as its route says.

use e2e::reading;
use e2e::wire::{HeaderLine, shown, shown_lines};

use super::api::{
    ADMIN, DENIED, DENIED_METHOD, DENIED_PREFIX, DENIED_SERVICES, INTERNAL, Keys, Listener, PRIVATE, ROUTES, Route,
};
use super::case::{Case, Class, Protocol, Sound, Token};
use super::client::{CaseOutcome, End};
use super::lines;
use super::upstream::{self, Record};

/// What the upstream gets of a request.
#[derive(Debug)]
struct Forwarded {
    method: &'static str,
    target: String,
    authority: &'static str,
    key: Option<String>,
    identity: Option<[&'static str; 3]>,
    body: Vec<u8>,
}

/// Whose token it is.
const fn identity(token: Token) -> Option<[&'static str; 3]> {
    match token {
        Token::One => Some(["acme", "shop", "user:u1"]),
        Token::Other => Some(["globex", "shop", "user:u2"]),
        Token::Missing | Token::Expired | Token::Forged | Token::Garbage => None,
    }
}

/// A key in the namespace of a token's owner.
fn namespaced([tenant, project, subject]: [&str; 3], raw: &str) -> String {
    format!("t-{tenant}:{project}:{subject}:{raw}")
}

/// Whether the request is what its route takes, however it is framed: then it has to arrive, if no rule of RBAC denies it.
fn is_whole(case: &Case) -> bool {
    let is_framed = case.mutations.iter().all(|(class, _)| *class == Class::Framing);
    is_framed && case.sound() == Sound::Yes && case.hosts == [case.route.example.0.as_bytes()]
}

/// What becomes of such a request; nothing if a rule denies it.
fn expected(case: &Case) -> Option<Forwarded> {
    let Case { listener, route, .. } = *case;
    let by_path = listener != Listener::AsWritten && denied_path(route.example.1);
    if route.method == DENIED_METHOD || denied_host(route.example.0.as_bytes()) || by_path {
        return None;
    }
    let identity = identity(Token::One)?;
    let has_key = case.lines.iter().any(|line| line.name == "idempotency-key");
    let rewrites = listener == Listener::Rewriting;
    Some(Forwarded {
        method: if rewrites && route.method == "PUT" { "POST" } else { route.method },
        target: if rewrites { called(route, identity) } else { route.example.1.to_owned() },
        authority: route.example.0,
        key: has_key.then(|| namespaced(identity, &lines::key(case.number))),
        identity: Some(identity),
        body: match case.protocol {
            Protocol::Http1 => case.framing.payload.clone().unwrap_or_default(),
            Protocol::Http2 => case.frames.data.concat(),
        },
    })
}

/// The path that calls the handler of a route's example.
fn called(route: &Route, [tenant, ..]: [&str; 3]) -> String {
    let values = route.path.split('/').zip(route.example.1.split('/')).filter(|(name, _)| name.starts_with('{'));
    let target = route.target.replace("{tenant}", tenant);
    format!("/restate/call/{}", values.fold(target, |target, (name, value)| target.replace(name, value)))
}

/// Whether a rule denies this host, or an authority from which the gateway took a port or a dot and that still has one.
fn denied_host(authority: &[u8]) -> bool {
    let text = String::from_utf8_lossy(authority);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if text.ends_with('.') || digits.ends_with(':') {
        return true;
    }
    let host = reading::host_behind(authority);
    let lower = host.to_ascii_lowercase();
    host == ADMIN || lower == INTERNAL || lower.ends_with(PRIVATE)
}

/// Whether a rule denies this path.
fn denied_path(path: &str) -> bool {
    path == DENIED || path.starts_with(DENIED_PREFIX) || path.starts_with(&format!("{DENIED}/by-idempotency-key/"))
}

/// Whether an authority is a host of the policy in another letter case, with a port or with a final dot.
fn is_other_spelling(authority: &str) -> bool {
    let plain = reading::host_behind(authority.as_bytes()).to_ascii_lowercase();
    let is_of = |host: &&str| host.strip_prefix('*').map_or(plain == *host, |suffix| plain.ends_with(suffix));
    plain != authority && ROUTES.iter().flat_map(|route| route.hosts).any(is_of)
}

/// Whether a query parameter steers Restate.
fn steers(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default();
    let name = String::from_utf8_lossy(&reading::decoded(name.as_bytes())).to_ascii_lowercase();
    ["delay", "delaysec", "limit-key"].contains(&name.as_str())
}

/// Why no route sends such a request, if none does.
fn undeclared(listener: Listener, method: &str, target: &[u8], has_key: bool) -> Option<String> {
    let path = reading::path_behind(target);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let of_target = |route: &&Route| {
        let names: Vec<&str> = route.target.split('/').collect();
        parts.starts_with(&["restate", "call"])
            && parts.len() == names.len() + 2
            && parts.get(2) == names.first()
            && parts.last() == names.last()
    };
    let of_path = |route: &&Route| {
        let names: Vec<&str> = route.path.split('/').skip(1).collect();
        let fits = |(name, part): (&&str, &&str)| name.starts_with('{') || name == part;
        names.len() == parts.len()
            && names.iter().zip(&parts).all(fits)
            && (route.method == method || (route.method, method) == ("GET", "HEAD"))
    };
    let takes = |route: &Route| match route.keys {
        Keys::Required => has_key,
        Keys::Accepted => true,
        Keys::Internal | Keys::Prohibited => !has_key,
    };
    let is_sent = match (listener, parts.as_slice()) {
        (Listener::Rewriting, ["restate", "attach" | "output", _]) => method == "GET" && !has_key,
        (Listener::Rewriting, _) => ROUTES.iter().filter(of_target).any(takes),
        _ => ROUTES.iter().filter(of_path).any(takes),
    };
    (!is_sent)
        .then(|| format!("no route sends {method} {path}, {}", if has_key { "with a key" } else { "without one" }))
}

/// Everything that is wrong with a case, in words.
pub(crate) fn judge(case: &Case, outcome: &CaseOutcome, records: &[Record]) -> Vec<String> {
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
        compare(&second_forwarded(case), record, &mut wrong);
    }
    let is_nobodys = matches!(case.token, Token::Expired | Token::Forged | Token::Garbage);
    if !first.is_empty() && (is_nobodys || case.sound() == Sound::No) {
        wrong.push("it must not reach the upstream: a token that does not verify, or malformed framing".to_owned());
    }
    let must = if is_whole(case) { expected(case) } else { None };
    match (&must, first.first()) {
        (Some(forwarded), Some(record)) if record.complete => compare(forwarded, record, &mut wrong),
        (Some(_), _) => {
            wrong.push(format!("it must reach the upstream as a whole; the answer was {}", outcome.first()))
        }
        (None, Some(_)) if is_whole(case) => wrong.push("RBAC denies it".to_owned()),
        (None, _) => {}
    }
    answers(case, must.is_some(), outcome, &mut wrong);
    wrong
}

fn sent(case: &Case) -> usize {
    1 + usize::from(case.second.is_some())
}

/// The pipelined request of `framing::second` has no token, so no identity, and goes where no key is taken.
fn second_forwarded(case: &Case) -> Forwarded {
    let rewrites = case.listener == Listener::Rewriting;
    let target = if rewrites { "/restate/call/Devices/register" } else { "/api/v1/devices" };
    Forwarded {
        method: "POST",
        target: target.to_owned(),
        authority: "api.example.com",
        key: None,
        identity: None,
        body: Vec::new(),
    }
}

/// What the upstream got is exactly this.
fn compare(expected: &Forwarded, record: &Record, wrong: &mut Vec<String>) {
    let mut differ = |what: &str, seen: &[u8], wanted: &[u8]| {
        if seen != wanted {
            wrong.push(format!("{what}: the upstream got {} instead of {}", shown(seen), shown(wanted)));
        }
    };
    let (method, target) = request_line(record);
    differ("method", &method, expected.method.as_bytes());
    differ("path", &target, expected.target.as_bytes());
    let all = |name: &str| upstream::lines(&record.message, name).collect::<Vec<_>>().join(&b", "[..]);
    differ("authority", &all("host"), expected.authority.as_bytes());
    differ("key", &all("idempotency-key"), expected.key.as_deref().unwrap_or_default().as_bytes());
    for (index, name) in IDENTITY.iter().enumerate() {
        let wanted = expected.identity.and_then(|parts| parts.get(index).copied()).unwrap_or_default();
        differ(name, &all(name), wanted.as_bytes());
    }
    differ("body", &record.message.body, &expected.body);
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

/// What holds for every request at the upstream.
fn invariants(case: &Case, record: &Record, wrong: &mut Vec<String>) {
    let (method, target) = request_line(record);
    let message = &record.message;
    let path = reading::path_behind(&target);
    let rewrites = case.listener == Listener::Rewriting;
    let has_key = message.headers.iter().any(|(name, _)| name == "idempotency-key");
    wrong.extend(undeclared(case.listener, &String::from_utf8_lossy(&method), &target, has_key));
    if rewrites {
        let service = path.split('/').nth(3).unwrap_or_default();
        if DENIED_SERVICES.contains(&service) {
            wrong.push(format!("RBAC denies every way to {service}"));
        }
    } else if case.listener == Listener::Plain {
        if denied_path(&path) {
            wrong.push(format!("RBAC denies the path {path}, as it is read"));
        }
        let decoded_first = reading::path_behind_decoded_first(&target);
        if denied_path(&decoded_first) {
            wrong.push(format!("RBAC denies the path {decoded_first}, as who decodes the whole first reads it"));
        }
    }
    if !rewrites && method == DENIED_METHOD.as_bytes() {
        wrong.push(format!("RBAC denies the method {DENIED_METHOD}"));
    }
    let hosts: Vec<&[u8]> = upstream::lines(message, "host").collect();
    let [host] = hosts.as_slice() else {
        wrong.push(format!("{} host lines at the upstream", hosts.len()));
        return;
    };
    if is_other_spelling(&String::from_utf8_lossy(host)) {
        wrong.push(format!("another spelling of a declared host: {}", shown(host)));
    }
    if denied_host(host) {
        wrong.push(format!("RBAC denies the host {}", shown(host)));
    }
    if !rewrites && path == "/api/v1/vault" {
        wrong.push("only hosts that RBAC denies have the path /api/v1/vault".to_owned());
    }
    let (_, query) = reading::split_query(&target);
    let query = query.map(|query| String::from_utf8_lossy(query).into_owned());
    if query.is_some_and(|query| !rewrites || query.split(['&', ';']).any(steers)) {
        wrong.push("a query that steers Restate, or that no route lists".to_owned());
    }
    let is_rpc = |value: &[u8]| String::from_utf8_lossy(value).to_ascii_lowercase().contains("application/grpc");
    if upstream::lines(message, "content-type").any(is_rpc) {
        wrong.push("Restate gives it to a gRPC service".to_owned());
    }
    let lengths = upstream::lines(message, "content-length").count();
    let encodings = upstream::lines(message, "transfer-encoding").count();
    if lengths + encodings > 1 {
        wrong.push(format!("{lengths} lengths and {encodings} encodings at the upstream"));
    }
    let identity = if record.part == "1" { identity(case.token) } else { None };
    named(case, (&message.headers, "header"), identity, wrong);
    named(case, (&message.trailers, "trailer"), None, wrong);
}

/// Keys, identities and what no client may claim.
fn named(
    case: &Case,
    (found, kind): (&[HeaderLine], &str),
    identity: Option<[&'static str; 3]>,
    wrong: &mut Vec<String>,
) {
    for (name, value) in found {
        let plain = name.to_ascii_lowercase().replace('_', "-");
        let text = String::from_utf8_lossy(value).into_owned();
        if plain == "idempotency-key" {
            let own = identity.and_then(|identity| {
                let raw = text.strip_prefix(&namespaced(identity, ""))?;
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
        let is_credential = CREDENTIALS.contains(&plain.as_str()) || plain.starts_with("x-restate-");
        if NEVER.contains(&plain.as_str()) || is_credential || told_to_envoy {
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
fn answers(case: &Case, must: bool, outcome: &CaseOutcome, wrong: &mut Vec<String>) {
    let status = outcome.first().status();
    if must && status != Some(200) {
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
            "  the upstream got {}{}\n    body {}{trailers}{end}",
            shown(&message.start),
            shown_lines(&message.headers),
            shown(&message.body)
        )
    };
    records.iter().map(one).collect::<Vec<_>>().join("\n")
}
