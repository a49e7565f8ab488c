//! Requests as a host shows them to the engine, and what becomes of them: effects are applied as a proxy does.

// A test says what went wrong by panicking.
#![allow(clippy::panic, reason = "a failure is a panic")]

use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::identity::Attributes;
use edge_idempotency_engine::lookup::Lookups;
use edge_idempotency_engine::problem::Problem;
use edge_idempotency_engine::{Awaits, Effect, Exchange, HeaderMapKind, PauseEvent, Policy, RequestFlow, Resumed};
use simulated_stores::SimulatedStores;
use std::fmt;

use crate::attributes::JsonAttributes;
use crate::stores::answer;

/// A header line; hosts give names in lower case.
pub type OwnedLine = (Vec<u8>, Vec<u8>);

/// One request.
#[derive(Clone, Default)]
pub struct Request {
    /// Its header lines, pseudo headers among them.
    pub headers: Vec<OwnedLine>,
    /// Its body.
    pub body: Vec<u8>,
    /// Its trailer lines.
    pub trailers: Vec<OwnedLine>,
    /// What the gateway knows about it.
    pub attributes: JsonAttributes,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |f: &mut fmt::Formatter<'_>, lines: &[OwnedLine]| {
            lines
                .iter()
                .try_for_each(|(name, value)| writeln!(f, "  {}: {}", name.escape_ascii(), value.escape_ascii()))
        };
        writeln!(f, "request")?;
        lines(f, &self.headers)?;
        writeln!(f, "  body {}\n  trailers", self.body.escape_ascii())?;
        lines(f, &self.trailers)?;
        writeln!(f, "  metadata {}\n  endpoint {:?}", self.attributes.metadata, self.attributes.endpoint)
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The backend gets these headers and trailers.
    Forwarded {
        /// All its header lines.
        headers: Vec<OwnedLine>,
        /// All its trailer lines.
        trailers: Vec<OwnedLine>,
    },
    /// The client gets this.
    Refused(Problem),
    /// The sender of a webhook gets 200 with this sentence.
    Acknowledged(String),
}

/// Runs a request through the engine, its body and trailers too; `attributes` stand in for those of the request.
///
/// # Panics
/// The engine's effects contradict its decision.
pub fn run(policy: &Policy, request: &Request, attributes: &dyn Attributes) -> (Exchange, Verdict) {
    run_with(policy, request, attributes, &SimulatedStores::default())
}

/// As [`run`], with what registry, secret store, guard and Restate answer.
///
/// # Panics
/// The engine's effects contradict its decision.
pub fn run_with(
    policy: &Policy,
    request: &Request,
    attributes: &dyn Attributes,
    stores: &SimulatedStores,
) -> (Exchange, Verdict) {
    let mut exchange = Exchange::new();
    let headers = borrowed(&request.headers);
    let mut effects = Vec::new();
    let flow = decide(&mut exchange, policy, (&headers, &request.body), attributes, stores, &mut effects);
    if matches!(flow, RequestFlow::Replied) {
        let problem = match effects.as_slice() {
            [Effect::Reply(problem)] => problem,
            [Effect::Acknowledge(detail)] => {
                assert_eq!(exchange.refusal(), None);
                let detail = detail.clone();
                return (exchange, Verdict::Acknowledged(detail));
            }
            _ => panic!("a reply and nothing else: {effects:?}"),
        };
        let problem = problem.clone();
        assert_eq!(exchange.refusal(), Some(&*problem));
        return (exchange, Verdict::Refused(*problem));
    }
    assert!(matches!(flow, RequestFlow::Continue), "{flow:?}");
    assert_eq!(exchange.refusal(), None);
    let headers = applied(&effects, HeaderMapKind::Request, &request.headers);
    let trailers = borrowed(&request.trailers);
    let mut effects = Vec::new();
    exchange.request_trailers(policy, &trailers, &mut effects);
    let trailers = applied(&effects, HeaderMapKind::RequestTrailers, &request.trailers);
    (exchange, Verdict::Forwarded { headers, trailers })
}

/// Gives the exchange a request's headers, and then its body and the answers to its lookups as it asks for them.
fn decide<'a>(
    exchange: &mut Exchange,
    policy: &'a Policy,
    (headers, body): (&Headers<'a>, &[u8]),
    attributes: &'a dyn Attributes,
    stores: &SimulatedStores,
    effects: &mut Vec<Effect<'a>>,
) -> RequestFlow {
    let (mut lookups, now) = (Lookups::of(policy), attributes.now_unix_ms());
    let all = headers;
    let mut flow = exchange.request_headers(policy, all, attributes, effects);
    let none = Headers::default();
    if let Some(Awaits::Caller { .. }) = flow.awaits() {
        let RequestFlow::Paused(pause) = flow else { return flow };
        let lookup = pause.lookup().and_then(|lookup| answer(stores, lookups.as_mut(), lookup, now));
        let Some(answer) = lookup else { panic!("the policy has no registry of API keys") };
        let resumed = Resumed { policy, headers: &none, event: PauseEvent::Answer(answer) };
        flow = pause.resume(exchange, resumed, effects);
        if matches!(flow, RequestFlow::Again) {
            flow = exchange.request_headers(policy, all, attributes, effects);
        }
    }
    if let Some(Awaits::Key { limit }) = flow.awaits() {
        let RequestFlow::Paused(pause) = flow else { return flow };
        let event = PauseEvent::Body { body: &Body::of(body), now_unix_ms: now };
        flow = match body.len() as u64 > limit {
            true => pause.refuse_body(exchange, effects),
            false => pause.resume(exchange, Resumed { policy, headers: &none, event }, effects),
        };
        if matches!(flow, RequestFlow::Again) {
            flow = exchange.request_headers(policy, all, attributes, effects);
        }
    }
    let mut kept = None;
    loop {
        let RequestFlow::Paused(pause) = flow else { return flow };
        let headers = kept.get_or_insert_with(|| pause.kept_lines(exchange, policy, all));
        flow = match pause.awaits() {
            Awaits::Body { limit } | Awaits::End { limit } if body.len() as u64 > limit => {
                pause.refuse_body(exchange, effects)
            }
            Awaits::Body { .. } | Awaits::End { .. } => {
                let event = PauseEvent::Body { body: &Body::of(body), now_unix_ms: now };
                pause.resume(exchange, Resumed { policy, headers, event }, effects)
            }
            Awaits::Call { .. } => {
                let Some(lookup) = pause.lookup() else { panic!("it waits for no lookup") };
                let answer = answer(stores, lookups.as_mut(), lookup, now);
                let Some(answer) = answer else { panic!("the policy has no store for a lookup") };
                pause.resume(exchange, Resumed { policy, headers, event: PauseEvent::Answer(answer) }, effects)
            }
            Awaits::Caller { .. } | Awaits::Key { .. } => panic!("a request is evaluated again once for each"),
        };
    }
}

fn borrowed(lines: &[OwnedLine]) -> Headers<'_> {
    Headers::new(lines.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect())
}

/// A proxy's header map after the effects: setting replaces every line of a name, removing removes every line.
///
/// # Panics
/// An effect is not one of a forwarded request's `wanted` map.
fn applied(effects: &[Effect<'_>], wanted: HeaderMapKind, lines: &[OwnedLine]) -> Vec<OwnedLine> {
    let mut lines = lines.to_vec();
    for effect in effects {
        match effect {
            Effect::Set { map, name, value } => {
                assert_eq!(*map, wanted);
                lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name.as_bytes()));
                lines.push((name.as_bytes().to_vec(), value.to_vec()));
            }
            Effect::Remove { map, name } => {
                assert_eq!(*map, wanted);
                lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name));
            }
            Effect::Body(_) => panic!("a request's body stays as it is"),
            Effect::Reply(_) | Effect::Acknowledge(_) => panic!("a reply that ended nothing: {effect:?}"),
        }
    }
    lines
}
