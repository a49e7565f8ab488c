//! The behaviour cases of `tests/cases`, in a real Envoy: one gateway for some files, one listener for each policy.
//!
//! A case states what reaches the filter. Claims arrive in a signed token; metadata that no token can bring is left there
//! by a filter in front, and route metadata stands on the gateway's route.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::behaviour::{answer, asks_for_upgrade, listener_for, request};
use e2e::callers::signed_at;
use e2e::config::ListenerSpec;
use e2e::deliveries::now;
use e2e::gateway::{
    ADDED_TO_REPLIES, ADDED_TO_REQUESTS, Seen, TOLD_TO_THE_ROUTER, TestEnvironment, TestGateway, is_added,
};
use e2e::runner::{Group, Test, sharing};
use serde_json::Value;
use testkit::cases::{Case, CaseFile, CaseOutcome, compare, directory, load_dir};
use testkit::http::{Headers, Message};

/// How a request gets to the filter.
#[derive(Clone, Copy, Debug)]
enum Transport {
    Http1,
    Http2,
    /// Not at all: Envoy refuses it with this status before any filter sees it, and shows here that it does.
    Refused(u16),
}

/// Cases that do not go over HTTP/1.1: file, case, how, and why.
const EXCEPTIONS: [(&str, &str, Transport, &str); 4] = [
    ("keys", "many lines of 60,000 bytes", Transport::Refused(431), "Envoy takes 60 KiB of headers in all"),
    ("paths", "; is ambiguous", Transport::Refused(400), "no request line begins a path so"),
    ("paths", "a method nobody knows", Transport::Http2, "Envoy's HTTP/1.1 parser has a list of methods"),
    ("paths", "methods are case-sensitive", Transport::Http2, "likewise"),
];

/// So many files share a gateway, because its start takes longer than the cases of a file.
const FILES_OF_A_GATEWAY: usize = 12;

/// Of a file's cases `make test` sends the first, and after it each of this number. `make test-all` sends the rest.
const SAMPLE: usize = 12;
/// The part's files share fewer gateways.
const SAMPLED_FILES_OF_A_GATEWAY: usize = 25;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let files = load_dir(&directory()).map_err(|error| anyhow!(error))?;
    for (file, case, _, _) in EXCEPTIONS {
        let known = files.iter().any(|known| known.name == file && known.cases.iter().any(|known| known.name == case));
        ensure!(known, "{file}::{case} is to go another way, and is no case");
    }
    let sample = files.chunks(SAMPLED_FILES_OF_A_GATEWAY).map(|files| of_files(files, "sample", |n| n % SAMPLE == 0));
    let rest = files.chunks(FILES_OF_A_GATEWAY).map(|files| of_files(files, "rest", |n| n % SAMPLE != 0));
    sample.chain(rest).collect()
}

/// Whether the policy asks a registry who holds an API key.
fn has_api_keys(case: &Case) -> bool {
    let policy: Value = serde_json::from_slice(&case.policy).unwrap_or_default();
    let mut sources = policy.pointer("/identity/sources").and_then(Value::as_array).into_iter().flatten();
    sources.any(|source| source.get("unkey").is_some())
}

/// A case, what it is sent to and how, and the claims of its token.
struct PlannedCase {
    name: String,
    case: Case,
    listener: String,
    claims: Option<Value>,
    transport: Transport,
}

/// The cases of these files whose number `is_of_part`.
fn of_files(files: &[CaseFile], part: &str, is_of_part: impl Fn(usize) -> bool) -> Result<Group> {
    let mut listeners: Vec<(String, ListenerSpec)> = Vec::new();
    let mut environment: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut planned, mut elsewhere) = (Vec::new(), Vec::new());
    let numbered =
        files.iter().flat_map(|file| file.cases.iter().enumerate().map(move |(n, case)| (&file.name, n, case)));
    for (file, _, case) in numbered.filter(|(_, n, _)| is_of_part(*n)) {
        let mut name = format!("{part}::{file}::{}", case.name);
        // Envoy's clock is the real one: wasm-tests runs these, tests/webhooks signs its deliveries anew, and so does
        // `run_case` what a caller signed.
        if case.now_unix_ms.is_some() && signed_at(case, now()).is_none() {
            elsewhere.push(format!("{name} (not here: it sets the clock)"));
            continue;
        }
        // The gateway here has no stores; tests/lookups and tests/api_keys have them. A refused upgrade asks none, unless its caller has an
        // API key.
        let asks_none = asks_for_upgrade(case) && case.upstream.is_none() && !has_api_keys(case);
        if case.lookups.is_some() && !asks_none {
            elsewhere.push(format!("{name} (not here: it looks up)"));
            continue;
        }
        for (variable, value) in &case.environment {
            let other = environment.insert(variable, value).filter(|other| other != value);
            ensure!(other.is_none(), "{name}: a case of the same gateway has another value of {variable}");
        }
        let (listener, claims) = listener_for(case);
        let known = listeners.iter().find(|(_, known)| *known == listener).map(|(name, _)| name.clone());
        let listener = known.unwrap_or_else(|| {
            let name = format!("listener-{}", listeners.len());
            listeners.push((name.clone(), listener));
            name
        });
        let listed = EXCEPTIONS.iter().find(|(in_file, named, ..)| in_file == file && *named == case.name);
        let transport = listed.map_or(Transport::Http1, |(_, _, transport, _)| *transport);
        if let Some((_, _, Transport::Refused(status), why)) = listed {
            name.push_str(&format!(" (never reaches the filter, Envoy answers {status}: {why})"));
        }
        planned.push(PlannedCase { name, case: case.clone(), listener, claims, transport });
    }
    let tests = planned.into_iter().map(|PlannedCase { name, case, listener, claims, transport }| {
        Test::new(name, move |gateway| run_case(gateway, &listener, &case, claims.as_ref(), transport))
    });
    let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let around = TestEnvironment { environment, ..TestEnvironment::default() };
    let group = sharing(move || TestGateway::start_within(&around, &listeners), tests.collect());
    Ok(elsewhere.into_iter().fold(group, Group::leaving_out))
}

fn run_case(
    gateway: &TestGateway,
    listener: &str,
    case: &Case,
    claims: Option<&Value>,
    transport: Transport,
) -> Result<()> {
    let signed = signed_at(case, now());
    let case = signed.as_ref().unwrap_or(case);
    let mut request = request(&case.request)?;
    if let Some(claims) = claims {
        request = request.bearer(&gateway.token(claims)?);
    }
    let answer = answer(&case.response)?;
    let logged = gateway.log()?.len();
    let mut seen = match transport {
        Transport::Http1 | Transport::Refused(_) => gateway.http1_answered(listener, &request, &answer)?,
        Transport::Http2 => gateway.http2_answered(listener, &request, &answer)?,
    };
    if let Transport::Refused(status) = transport {
        ensure!(seen.received.is_empty(), "the upstream got\n{}", seen.upstream());
        let by_filter = seen.reply.text_header("content-type") == Some("application/problem+json");
        ensure!(seen.reply.status == status && !by_filter, "Envoy does not refuse it with {status}: {:?}", seen.reply);
        return Ok(());
    }

    if is_asked_again(case) {
        let again = seen.received.pop().context("the upstream got nothing")?;
        ensure!(seen.received.as_slice() == [again], "the upstream is not asked twice:\n{}", seen.upstream());
    }
    let differences = compare(&comparable(case), &outcome(seen));
    if differences.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = differences.iter().map(ToString::to_string).collect();
    let log = gateway.log()?;
    let since = log.get(logged..).filter(|log| !log.is_empty()).unwrap_or("  (nothing)");
    bail!("{}\n  Envoy's log meanwhile:\n{since}", list.join("\n  "))
}

/// Whether the filter has Envoy's router ask once more when it gets this answer.
fn is_asked_again(case: &Case) -> bool {
    let codes = case.upstream.as_ref().and_then(|upstream| upstream.headers.get("x-envoy-retriable-status-codes"));
    let status = case.response.headers.get(":status");
    codes.is_some() && codes == status
}

/// The case without the lines that are Envoy's own, and without series and record, which other tests read.
fn comparable(case: &Case) -> Case {
    let mut case = case.clone();
    if let Some(upstream) = &mut case.upstream {
        ADDED_TO_REQUESTS.iter().for_each(|(name, _)| upstream.headers.remove(name));
        TOLD_TO_THE_ROUTER.iter().for_each(|name| upstream.headers.remove(name));
    }
    case.client.headers.retain(|(name, _)| !is_added(&ADDED_TO_REPLIES, name));
    (case.metrics, case.record) = (None, None);
    case
}

fn outcome(seen: Seen) -> CaseOutcome {
    let mut outcome = CaseOutcome::default();
    for received in seen.received {
        let mut headers = Headers::from([(":method", received.method)]);
        headers.add(":path", received.target);
        headers.add(":authority", received.authority);
        received.headers.into_iter().for_each(|(name, value)| headers.add(&name, value));
        let trailers = Some(received.trailers.into_iter().collect());
        let message = Message { headers, body: received.body, trailers, complete: true };
        if outcome.upstream.replace(message).is_some() {
            outcome.failures.push("the upstream got more than one request".to_owned());
        }
    }
    let mut headers = Headers::from([(":status", seen.reply.status.to_string())]);
    for (name, value) in seen.reply.headers {
        if !is_added(&ADDED_TO_REPLIES, &name) {
            headers.add(&name, value);
        }
    }
    let trailers = Some(seen.reply.trailers.into_iter().collect());
    outcome.client = Some(Message { headers, body: seen.reply.body, trailers, complete: true });
    outcome
}
