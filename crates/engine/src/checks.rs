//! The checks between the decision about a request with a key and its way to the backend, in their order: collision detection, then the
//! question whether the key is in flight (docs/contract.md section 6). Every such request passes [`forward_when_ready`]: without a
//! check it is sent at once, else it waits in [`BackendChecks`] until they are done.

use crate::body::Body;
use crate::collision::{BodyReader, CollisionChecks, Observation, OpenClaim};
use crate::exchange::{
    Awaits, Check, Continuation, Decision, EditedLines, Effect, Exchange, KeptRequest, MatchedRoute, Pause, PauseEvent,
    RequestFlow, Resumed, RoutedRequest, TraceStep, body_can_be_awaited, reads_body_key, send,
};
use crate::headers::Headers;
use crate::identity::Identity;
use crate::in_flight::InFlightCheck;
use crate::policy::{Mode, Policy, Route};
use crate::problem::Problem;
use crate::questions::PendingLookup;
use std::collections::VecDeque;

/// A request that is decided and waits for checks before it is forwarded.
struct BackendChecks {
    decision: Decision,
    request: KeptRequest,
    /// Those that are not done, in their order
    checks: VecDeque<Box<dyn Check>>,
    /// The claim of a request that is observed, which needs its whole body at its end
    observed: Option<OpenClaim>,
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
        let CollisionChecks { check, observed } = CollisionChecks::of(route, &decision, request, body)?;
        let mut checks = VecDeque::from_iter(check);
        if let Some(check) = InFlightCheck::of(policy, route, &decision, request) {
            checks.push_back(Box::new(check));
        }
        if !checks.is_empty() {
            // A refusal keeps the decision for telemetry.
            if let Err(problem) = body_can_be_awaited(headers, route.max_body_bytes) {
                exchange.begin(TraceStep::Body);
                exchange.keep(decision);
                return Err(problem);
            }
            let request = KeptRequest::of(request);
            let checks = BackendChecks { decision, request, checks, observed };
            return Ok(Pause::until(checks.awaits(route.max_body_bytes), checks));
        }
        exchange.observation =
            observed.and_then(|claim| Observation::of_request(claim, route, &key.caller, headers, body));
    }
    send(exchange, decision, policy, request, effects)
}

impl BackendChecks {
    /// What the next check waits for. When all of them are done, the request waits for its end, since the gateway passes a
    /// paused request on as a whole.
    fn awaits(&self, limit: u64) -> Awaits {
        match self.checks.front() {
            Some(check) => check.awaits(limit),
            None if self.observed.is_some() => Awaits::Body { limit },
            None => Awaits::End { limit },
        }
    }

    /// Takes what has come.
    fn take<'b>(
        &mut self,
        exchange: &mut Exchange,
        event: PauseEvent<'b>,
        effects: &mut Vec<Effect<'_>>,
    ) -> Result<NextCheck<'b>, Problem> {
        let (is_end, body) = match &event {
            PauseEvent::Body { body, .. } => (true, Some(*body)),
            PauseEvent::End(_) => (true, None),
            PauseEvent::Answer(_) => (false, None),
        };
        if let Some(check) = self.checks.pop_front() {
            if let Some(next) = check.take(exchange, event, effects)? {
                self.checks.push_front(next);
            }
        } else if !is_end {
            // Nothing was asked.
            return Err(Problem::internal_error());
        }
        Ok(if is_end && self.checks.is_empty() { NextCheck::Send(body) } else { NextCheck::Wait })
    }
}

impl Continuation for BackendChecks {
    fn lookup(&self) -> Option<PendingLookup<'_>> {
        self.checks.front()?.lookup()
    }

    fn body_reader(&self) -> Option<BodyReader> {
        self.checks.front()?.body_reader()
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
        let next = exchange.known_route(policy).and_then(|route| Ok((route, self.take(exchange, event, effects)?)));
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
        exchange.observation =
            observed.and_then(|(claim, caller)| Observation::of_request(claim, route, caller, headers, body));
        let matched = request.matched(route);
        send(exchange, decision, policy, &request.routed(&matched, &edited, headers), effects)
    }
}

/// Whether a request may wait for its whole body once its caller is known, by its route and its key.
pub(crate) fn may_wait(matched: &MatchedRoute<'_, '_>, edited: &EditedLines<'_>, headers: &Headers<'_>) -> bool {
    let waits = |route: &Route| {
        let has_key = edited.has_key() || route.key.as_ref().is_some_and(|rules| !rules.from.is_empty());
        has_key && (route.in_flight.is_some() || route.collision.as_ref().is_some_and(|rules| rules.waits))
    };
    let checks = matched.kind.is_case_a() && matched.mode == Mode::Enforce && matched.route.is_some_and(waits);
    checks || reads_body_key(matched, headers)
}
