//! The checks between the decision about a request with a key and its way to the backend: the claim of collision detection, then the
//! question whether the key is in flight (docs/contract.md section 6). Every such request passes [`forward_when_ready`]: without a
//! check it is sent at once, else it waits in [`BackendChecks`] until they are done.

use super::decision::Decision;
use super::head::EditedLines;
use super::pause::{Awaits, Continuation, KeptRequest, Pause, PauseEvent, Resumed};
use super::refusal::{body_can_be_awaited, no_segment};
use super::route::{MatchedRoute, RoutedRequest};
use super::send::send;
use super::trace::TraceStep;
use super::{Effect, Exchange, PayloadDigest, RequestFlow};
use crate::backend::restate::Progress;
use crate::body::Body;
use crate::collision::CollisionRules;
use crate::collision::{self, BodyReader, Claim, ClaimVerdict, ClaimedRequest, Observation, ObservedCaller, OpenClaim};
use crate::headers::{FieldValue, Headers};
use crate::identity::Identity;
use crate::lookup::LookupAnswer;
use crate::policy::path::split_query;
use crate::policy::{Mode, Policy, Route};
use crate::problem::{Problem, Reason};
use crate::questions::{self, OutputQuestion, PendingLookup};
use std::sync::Arc;

/// A request that is decided and waits for checks before it is forwarded. A check that is done is `None`.
struct BackendChecks {
    decision: Decision,
    request: KeptRequest,
    claim: Option<ClaimCheck>,
    /// Whether the first request with the key is in flight
    in_flight: Option<OutputQuestion>,
    /// The claim of a request that is observed, which needs its whole body at its end
    observed: Option<OpenClaim>,
}

/// How far a claim is that the request waits for.
enum ClaimCheck {
    /// The body is missing.
    Open(OpenClaim),
    /// The guard has to answer.
    Made(Claim),
}

/// What comes after an event.
enum NextCheck<'b> {
    /// The request waits.
    Wait,
    /// Every check is done; the whole body, if it is known.
    Send(Option<&'b Body<'b>>),
}

/// Sends a decided request, or has it wait for its checks. This is the only way from the decision about a key to [`send`]. `body` is the
/// whole body, if it is known already.
pub(crate) fn forward_when_ready<'a>(
    exchange: &mut Exchange,
    policy: &'a Policy,
    decision: Decision,
    request: &RoutedRequest<'_, 'a>,
    body: Option<&Body<'_>>,
    effects: &mut Vec<Effect<'a>>,
) -> Result<RequestFlow, Problem> {
    let RoutedRequest { matched, headers, .. } = *request;
    if let Some((route, key)) = matched.route.zip(decision.own_key()) {
        let rules = route.collision.as_deref();
        let mut claim = rules.and_then(|rules| open_claim(rules, &decision, request));
        let mut check = None;
        if rules.is_some_and(|rules| rules.waits) {
            let claim = claim.take().ok_or_else(no_segment)?;
            check = Some(match body {
                Some(body) => ClaimCheck::Made(claim.with_whole_body(body)),
                None => ClaimCheck::Open(claim),
            });
        }
        let in_flight = in_flight(policy, route, &decision, request);
        if check.is_some() || in_flight.is_some() {
            // A refusal keeps the decision for telemetry.
            if let Err(problem) = body_can_be_awaited(headers, route.max_body_bytes) {
                exchange.begin(TraceStep::Body);
                exchange.keep(decision);
                return Err(problem);
            }
            let request = KeptRequest::of(request);
            let checks = BackendChecks { decision, request, claim: check, in_flight, observed: claim };
            return Ok(Pause::until(checks.awaits(route.max_body_bytes), checks));
        }
        exchange.observation = claim.and_then(|claim| observation(claim, route, &key.caller, headers, body));
    }
    send(exchange, decision, policy, request, effects)
}

impl BackendChecks {
    /// What the next check waits for. When all of them are done, the request waits for its end, since the gateway passes a
    /// paused request on as a whole.
    const fn awaits(&self, limit: u64) -> Awaits {
        match &self.claim {
            Some(ClaimCheck::Open(claim)) if claim.needs_whole_body() => Awaits::Body { limit },
            Some(ClaimCheck::Made(_)) => Awaits::Call { limit },
            Some(ClaimCheck::Open(_)) => Awaits::End { limit },
            None if self.in_flight.is_some() => Awaits::Call { limit },
            None if self.observed.is_some() => Awaits::Body { limit },
            None => Awaits::End { limit },
        }
    }

    /// Takes what has come.
    fn take<'b>(&mut self, exchange: &mut Exchange, event: PauseEvent<'b>) -> Result<NextCheck<'b>, Problem> {
        match event {
            PauseEvent::Body { body, .. } => match self.claim.take() {
                Some(ClaimCheck::Open(claim)) => self.claim = Some(ClaimCheck::Made(claim.with_whole_body(body))),
                Some(made) => self.claim = Some(made),
                None => return Ok(NextCheck::Send(Some(body))),
            },
            PauseEvent::End(reader) => match (self.claim.take(), reader) {
                (Some(ClaimCheck::Open(claim)), Some(body)) => {
                    self.claim = Some(ClaimCheck::Made(claim.with_body(body)));
                }
                (Some(ClaimCheck::Made(claim)), _) => self.claim = Some(ClaimCheck::Made(claim)),
                // The host has read no body for the claim.
                (Some(ClaimCheck::Open(_)), None) => return Err(Problem::internal_error()),
                (None, _) => return Ok(NextCheck::Send(None)),
            },
            PauseEvent::Answer(LookupAnswer::FirstClaim(first)) => self.compare(exchange, &first)?,
            PauseEvent::Answer(LookupAnswer::Output(progress)) => self.take_progress(exchange, progress)?,
            PauseEvent::Answer(_) => return Err(Problem::internal_error()),
        }
        Ok(NextCheck::Wait)
    }

    /// Refuses a request whose key was used with another request, and one that cannot be compared. `first`: the fingerprint of the first
    /// claim under its key.
    fn compare(&mut self, exchange: &mut Exchange, first: &Result<Box<str>, Reason>) -> Result<(), Problem> {
        // An answer must not take the place of a claim that waits for the body.
        let Some(ClaimCheck::Made(claim)) = self.claim.take_if(|claim| matches!(claim, ClaimCheck::Made(_))) else {
            return Err(Problem::internal_error());
        };
        let verdict = claim.verdict(first);
        exchange.begin(TraceStep::Stores);
        exchange.note_lookup(collision::STORE, verdict.name());
        exchange.facts.payload = Some(PayloadDigest::Compared(claim.fingerprint));
        match verdict {
            ClaimVerdict::Match => Ok(()),
            ClaimVerdict::Mismatch => Err(Problem::key_reused()),
            ClaimVerdict::Unknown(reason) => Err(exchange.with_reason(reason, Problem::backend_check_failed())),
        }
    }

    /// Takes the answer how far the first request with the key is.
    fn take_progress(&mut self, exchange: &mut Exchange, progress: Result<Progress, Reason>) -> Result<(), Problem> {
        exchange.begin(TraceStep::Stores);
        // Nothing was asked.
        if self.claim.is_some() || self.in_flight.take().is_none() {
            return Err(Problem::internal_error());
        }
        exchange.note_lookup(questions::STORE, questions::call_name(&progress));
        match progress {
            Ok(Progress::Processing) => Err(Problem::key_in_flight()),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl Continuation for BackendChecks {
    fn lookup(&self) -> Option<PendingLookup<'_>> {
        match &self.claim {
            Some(ClaimCheck::Made(claim)) => Some(PendingLookup::Claim(claim)),
            Some(ClaimCheck::Open(_)) => None,
            None => self.in_flight.as_ref().map(PendingLookup::Output),
        }
    }

    fn body_reader(&self) -> Option<BodyReader> {
        match &self.claim {
            Some(ClaimCheck::Open(claim)) => claim.body_reader(),
            Some(ClaimCheck::Made(_)) | None => None,
        }
    }

    fn caller(&self) -> Option<&Identity> {
        self.decision.identity()
    }

    fn carried_bytes(&self) -> usize {
        self.request.counted()
    }

    fn into_decision(self: Box<Self>) -> Option<Decision> {
        Some(self.decision)
    }

    fn resume<'a>(
        mut self: Box<Self>,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let Resumed { policy, headers, event } = resumed;
        let next = exchange.known_route(policy).and_then(|route| Ok((route, self.take(exchange, event)?)));
        let (route, body) = match next {
            Ok((route, NextCheck::Send(body))) => (route, body),
            Ok((route, NextCheck::Wait)) => return Ok(Pause::boxed(self.awaits(route.max_body_bytes), self)),
            Err(problem) => {
                // A refusal keeps the decision for telemetry.
                exchange.keep(self.decision);
                return Err(problem);
            }
        };
        let Self { decision, request, observed, .. } = *self;
        let mut edited = EditedLines::of_kept(headers);
        edited.strip_unsigned(exchange, policy, headers);
        let observed = observed.zip(decision.identity());
        exchange.observation = observed.and_then(|(claim, caller)| observation(claim, route, caller, headers, body));
        let matched = request.matched(route);
        send(exchange, decision, policy, &request.routed(&matched, &edited, headers), effects)
    }
}

/// Whether a request waits for its whole body once its caller is known, by its route and its key.
pub(crate) fn may_wait(matched: &MatchedRoute<'_, '_>, edited: &EditedLines<'_>) -> bool {
    let waits = |route: &Route| route.in_flight.is_some() || route.collision.as_ref().is_some_and(|rules| rules.waits);
    edited.has_key() && matched.kind.is_case_a() && matched.mode == Mode::Enforce && matched.route.is_some_and(waits)
}

/// The question whether the first request with the key is in flight, if the route refuses duplicates then. In shadow mode the backend does
/// not have the namespaced key, so nothing is asked.
fn in_flight(
    policy: &Policy,
    route: &Route,
    decision: &Decision,
    request: &RoutedRequest<'_, '_>,
) -> Option<OutputQuestion> {
    let Decision::Keyed(key) = decision else { return None };
    let target = route.in_flight.as_ref()?;
    let store = policy.backend_of(Some(route)).invocations.as_ref()?;
    OutputQuestion::of_key(store, target, &request.matched.decoded(), &key.caller, &key.text)
}

/// The claim of a request, without its body. `None` if its target has no object key for this request, which is refused when
/// the path is rewritten.
fn open_claim(rules: &CollisionRules, decision: &Decision, request: &RoutedRequest<'_, '_>) -> Option<OpenClaim> {
    let RoutedRequest { line, path, matched, headers, .. } = *request;
    let key = decision.own_key()?;
    let address = rules.target.handler_address(&matched.decoded(), &key.caller)?;
    let (_, query) = split_query(line.target);
    let content_types = headers.iter().filter(|(name, _)| *name == b"content-type").map(|(_, value)| value);
    let claimed = ClaimedRequest {
        method: line.method,
        path,
        query: query.unwrap_or_default(),
        content_types: content_types.collect(),
        headers,
        compared: &rules.headers,
    };
    Some(OpenClaim::new(Arc::clone(&rules.guard), &key.text, &address, rules.json, &claimed))
}

/// The observation of a request; `None` if its body has no end, because it asks for an upgraded connection.
fn observation(
    claim: OpenClaim,
    route: &Route,
    caller: &Identity,
    headers: &Headers<'_>,
    body: Option<&Body<'_>>,
) -> Option<Box<Observation>> {
    if headers.field("upgrade") != FieldValue::Absent {
        return None;
    }
    let caller = ObservedCaller {
        tenant: caller.tenant.as_str().to_owned(),
        project: caller.project.as_str().to_owned(),
        endpoint: route.endpoint.clone(),
    };
    Some(Box::new(Observation::new(claim, body, route.max_body_bytes, caller)))
}
