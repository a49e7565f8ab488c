//! The checks between the decision about a request with a key and its way to the backend. Every such request passes
//! [`Exchange::forward_when_ready`]: without a check it is forwarded at once, else it waits in [`BackendChecks`] until they are
//! done: the claim of collision detection, then the question whether the key is in flight (docs/contract.md section 6).

use super::decision::{CallerKey, Decision};
use super::matched_route::{MatchedRoute, RoutedRequest};
use super::refusal::{body_can_be_awaited, no_segment};
use super::request_head::EditedLines;
use super::trace::TraceStep;
use super::waiting::WaitingRequest;
use super::{Effect, Exchange, PayloadDigest, RequestFlow, State};
use crate::body::Body;
use crate::collision::{self, BodyReader, Claim, ClaimVerdict, ClaimedRequest, Observation, ObservedCaller, OpenClaim};
use crate::headers::{FieldValue, Headers};
use crate::identity::Identity;
use crate::lookup::{self, OutputQuestion, PendingLookup, Progress, invocation};
use crate::policy::collision::CollisionRules;
use crate::policy::path::split_query;
use crate::policy::{Policy, Route};
use crate::problem::{Problem, Reason};
use std::sync::Arc;

/// A request that is decided and waits for checks before it is forwarded. A check that is done is `None`.
#[derive(Debug)]
pub(super) struct BackendChecks {
    pub(super) decision: Decision,
    pub(super) request: WaitingRequest,
    claim: Option<ClaimCheck>,
    /// Whether the first request with the key is in flight
    in_flight: Option<OutputQuestion>,
    /// The claim of a request that is observed, which needs its whole body at its end
    observed: Option<OpenClaim>,
}

/// How far a claim is that the request waits for.
#[derive(Debug)]
enum ClaimCheck {
    /// The body is missing.
    Open(OpenClaim),
    /// The guard has to answer.
    Made(Claim),
}

impl BackendChecks {
    /// The lookup that the next check needs.
    pub(super) const fn lookup(&self) -> Option<PendingLookup<'_>> {
        match &self.claim {
            Some(ClaimCheck::Made(claim)) => Some(PendingLookup::Claim(claim)),
            Some(ClaimCheck::Open(_)) => None,
            None => match &self.in_flight {
                Some(question) => Some(PendingLookup::Output(question)),
                None => None,
            },
        }
    }

    /// What reads the body in parts for the next check.
    pub(super) fn body_reader(&self) -> Option<BodyReader> {
        match &self.claim {
            Some(ClaimCheck::Open(claim)) => claim.body_reader(),
            Some(ClaimCheck::Made(_)) | None => None,
        }
    }

    /// What the next check waits for. When all of them are done, the request waits for its end, since the gateway passes a
    /// paused request on as a whole.
    const fn flow(&self, limit: u64) -> RequestFlow {
        match &self.claim {
            Some(ClaimCheck::Open(claim)) if claim.needs_whole_body() => RequestFlow::AwaitBody { limit },
            Some(ClaimCheck::Made(_)) => RequestFlow::AwaitCall { limit },
            Some(ClaimCheck::Open(_)) => RequestFlow::AwaitEnd { limit },
            None if self.in_flight.is_some() => RequestFlow::AwaitCall { limit },
            None if self.observed.is_some() => RequestFlow::AwaitBody { limit },
            None => RequestFlow::AwaitEnd { limit },
        }
    }
}

impl Exchange {
    /// Forwards a decided request, or has it wait for its checks. This is the only way from the decision about a key to
    /// [`Exchange::forward`]. `body` is the whole body, if it is known already.
    pub(super) fn forward_when_ready<'a>(
        &mut self,
        policy: &'a Policy,
        decision: Decision,
        request: &RoutedRequest<'_, 'a>,
        body: Option<&Body<'_>>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let RoutedRequest { matched, headers, .. } = *request;
        if let Some((route, key)) = matched.route.zip(decision.own_key()) {
            let rules = route.collision.as_deref();
            let mut claim = rules.and_then(|rules| open_claim(rules, key, request));
            let mut check = None;
            if rules.is_some_and(|rules| rules.waits) {
                let claim = claim.take().ok_or_else(no_segment)?;
                check = Some(match body {
                    Some(body) => ClaimCheck::Made(claim.with_whole_body(body)),
                    None => ClaimCheck::Open(claim),
                });
            }
            // In shadow mode the backend does not have the namespaced key, so nothing is asked.
            let in_flight = match &decision {
                Decision::Keyed(key) => in_flight(policy, route, key, matched),
                _ => None,
            };
            if check.is_some() || in_flight.is_some() {
                let request = WaitingRequest::of(request);
                let pending = BackendChecks { decision, request, claim: check, in_flight, observed: claim };
                return self.await_checks(route, pending, headers);
            }
            self.observation = claim.and_then(|claim| observation(claim, route, &key.caller, headers, body));
        }
        self.forward(decision, policy, request, effects)
    }

    /// Has a request wait for its checks, of which there is at least one.
    fn await_checks(
        &mut self,
        route: &Route,
        pending: BackendChecks,
        headers: &Headers<'_>,
    ) -> Result<RequestFlow, Problem> {
        let limit = route.max_body_bytes;
        let flow = pending.flow(limit);
        // A refusal keeps the decision for telemetry.
        self.state = State::AwaitsChecks(Box::new(pending));
        body_can_be_awaited(headers, limit).inspect_err(|_| self.begin(TraceStep::Body))?;
        Ok(flow)
    }

    /// Takes the whole body of a request that waits for it.
    pub(super) fn on_whole_body<'a>(
        &mut self,
        mut pending: Box<BackendChecks>,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &Body<'_>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        match pending.claim.take() {
            Some(ClaimCheck::Open(claim)) => self.await_claim(pending, claim.with_whole_body(body), policy),
            Some(ClaimCheck::Made(claim)) => self.await_claim(pending, claim, policy),
            None => self.forward_pending(*pending, policy, headers, Some(body), effects),
        }
    }

    /// Takes the end of the request: the claim gets its body, or the request is forwarded if every check is done.
    pub(super) fn on_request_end<'a>(
        &mut self,
        mut pending: Box<BackendChecks>,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: Option<BodyReader>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        match (pending.claim.take(), body) {
            (Some(ClaimCheck::Open(claim)), Some(body)) => self.await_claim(pending, claim.with_body(body), policy),
            (Some(ClaimCheck::Made(claim)), _) => self.await_claim(pending, claim, policy),
            (None, _) => self.forward_pending(*pending, policy, headers, None, effects),
            // The host has read no body for the claim.
            (Some(ClaimCheck::Open(_)), None) => {
                self.state = State::AwaitsChecks(pending);
                Err(Problem::internal_error())
            }
        }
    }

    /// Has a request wait for the guard's answer to its claim.
    fn await_claim(
        &mut self,
        mut pending: Box<BackendChecks>,
        claim: Claim,
        policy: &Policy,
    ) -> Result<RequestFlow, Problem> {
        let route = self.known_route(policy)?;
        pending.claim = Some(ClaimCheck::Made(claim));
        let flow = pending.flow(route.max_body_bytes);
        self.state = State::AwaitsChecks(pending);
        Ok(flow)
    }

    /// Takes the fingerprint of the first claim under the request's key.
    pub(super) fn on_first_claim(
        &mut self,
        mut pending: Box<BackendChecks>,
        policy: &Policy,
        first: &Result<Box<str>, Reason>,
    ) -> Result<RequestFlow, Problem> {
        let route = self.known_route(policy)?;
        let checked = match pending.claim.take_if(|claim| matches!(claim, ClaimCheck::Made(_))) {
            Some(ClaimCheck::Made(claim)) => {
                let compared = self.compare(&claim, first);
                self.telemetry.payload = Some(PayloadDigest::Compared(claim.fingerprint));
                compared
            }
            // No claim was made. An answer must not take the place of a claim that waits for the body.
            Some(ClaimCheck::Open(_)) | None => Err(Problem::internal_error()),
        };
        self.end_check(pending, checked, route)
    }

    /// Refuses a request whose key was used with another request, and one that cannot be compared.
    fn compare(&mut self, claim: &Claim, first: &Result<Box<str>, Reason>) -> Result<(), Problem> {
        let verdict = claim.verdict(first);
        self.begin(TraceStep::Stores);
        self.note_lookup(collision::STORE, verdict.name());
        match verdict {
            ClaimVerdict::Match => Ok(()),
            ClaimVerdict::Mismatch => Err(Problem::key_reused()),
            ClaimVerdict::Unknown(reason) => Err(self.because(reason, Problem::backend_check_failed())),
        }
    }

    /// Takes the answer how far the first request with the key is.
    pub(super) fn on_in_flight(
        &mut self,
        mut pending: Box<BackendChecks>,
        policy: &Policy,
        progress: Result<Progress, Reason>,
    ) -> Result<RequestFlow, Problem> {
        let route = self.known_route(policy)?;
        self.begin(TraceStep::Stores);
        let is_asked = pending.claim.is_none() && pending.in_flight.take().is_some();
        let checked = match progress {
            // Nothing was asked.
            _ if !is_asked => Err(Problem::internal_error()),
            Ok(Progress::Processing) => Err(Problem::key_in_flight()),
            Ok(_) | Err(_) => Ok(()),
        };
        if is_asked {
            self.note_lookup(invocation::STORE, lookup::call_name(&progress));
        }
        self.end_check(pending, checked, route)
    }

    /// Says what the request waits for after a check.
    fn end_check(
        &mut self,
        pending: Box<BackendChecks>,
        checked: Result<(), Problem>,
        route: &Route,
    ) -> Result<RequestFlow, Problem> {
        let flow = pending.flow(route.max_body_bytes);
        // A refusal keeps the decision for telemetry.
        self.state = State::AwaitsChecks(pending);
        checked.map(|()| flow)
    }

    /// Forwards a request whose checks are done.
    fn forward_pending<'a>(
        &mut self,
        pending: BackendChecks,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: Option<&Body<'_>>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let route = self.known_route(policy)?;
        let BackendChecks { decision, request, observed, .. } = pending;
        let mut edited = EditedLines::of_kept(headers);
        self.strip_unsigned(&mut edited, policy, headers);
        let observed = observed.zip(decision.identity());
        self.observation = observed.and_then(|(claim, caller)| observation(claim, route, caller, headers, body));
        let matched = request.matched(route);
        self.forward(decision, policy, &request.routed(&matched, &edited, headers), effects)
    }
}

/// The question whether the first request with the key is in flight, if the route refuses duplicates then.
fn in_flight(
    policy: &Policy,
    route: &Route,
    key: &CallerKey,
    matched: &MatchedRoute<'_, '_>,
) -> Option<OutputQuestion> {
    let store = policy.backend_of(Some(route)).invocations.as_ref()?;
    OutputQuestion::of_key(store, route.in_flight.as_ref()?, &matched.decoded(), &key.caller, &key.text)
}

/// The claim of a request, without its body. `None` if its target has no object key for this request, which is refused when
/// the path is rewritten.
#[inline(never)]
fn open_claim(rules: &CollisionRules, key: &CallerKey, request: &RoutedRequest<'_, '_>) -> Option<OpenClaim> {
    let RoutedRequest { line, path, matched, headers, .. } = *request;
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
