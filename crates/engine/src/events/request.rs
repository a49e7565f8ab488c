//! A request is decided from its head. The lines of [`decide`] have the order of docs/contract.md section 2.

use crate::api_keys::{Asked, await_caller};
use crate::checks::{forward_when_ready, may_wait};
use crate::exchange::{
    Caller, Effect, Exchange, IncomingRequest, KeyReading, MatchedRoute, RequestFlow, RequestHead, RoutedRequest,
    Stage, TraceEvent, TraceStep, await_body_key, decide_key,
};
use crate::headers::Headers;
use crate::identity::Attributes;
use crate::operations::operation_request;
use crate::policy::authority;
use crate::policy::path::{NormalPath, PathError};
use crate::policy::{KeyInLogs, Mode, Policy, RequestUrl};
use crate::problem::Problem;
use crate::recovery::recovery_request;
use crate::recovery::request_path;
use crate::signed_callers::await_signed;
use crate::webhooks::await_delivery;

impl Exchange {
    /// Handles the request's headers. If the flow is [`RequestFlow::Continue`], the effects turn them into the headers
    /// for the backend. If the request waits, they are the edits that are made before the wait, and what follows is decided
    /// on `Pause::kept_lines`.
    pub fn request_headers<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let result = decide(self, IncomingRequest { policy, headers, attributes }, effects);
        let flow = self.flow_of(result, effects);
        if self.stage() == Stage::RequestDecided && self.identity().is_none() {
            self.identify(policy, headers, attributes);
        }
        if let RequestFlow::Paused(pause) = &flow
            && pause.keeps_lines()
        {
            pause.edit_before_wait(self, policy, headers, effects);
        }
        flow
    }
}

/// Decides about a request from its head, and edits it if it is forwarded.
fn decide<'a>(
    exchange: &mut Exchange,
    incoming: IncomingRequest<'_, 'a>,
    effects: &mut Vec<Effect<'a>>,
) -> Result<RequestFlow, Problem> {
    let IncomingRequest { policy, headers, attributes } = incoming;
    let mut head = RequestHead::read(policy, headers);
    exchange.request_id = head.request_id;
    exchange.facts.attempt = head.attempt;
    exchange.protocol = head.protocol.or_connect_get(head.line.method, head.line.query);
    if policy.key_in_logs == KeyInLogs::Full {
        exchange.facts.sent_path = Some(String::from_utf8_lossy(head.line.raw_path).into_owned());
    }
    exchange.begin(TraceStep::Path);
    let (path, authority) = match read_url(exchange, policy, &head) {
        Ok(read) => read,
        Err(why) => {
            let problem = Problem::path_ambiguous(why);
            let matched = exchange.watched(policy, head.line, problem, policy.only_watches())?;
            return apply_policy(exchange, incoming, &mut head, "", &matched, effects);
        }
    };
    if policy.is_closed(path.as_str()) {
        exchange.note(|| TraceEvent::Closed);
        return Err(Problem::not_found());
    }
    exchange.begin(TraceStep::Route);
    let url = RequestUrl { authority, path: &path };
    if let Some(flow) = recovery_request(exchange, incoming, &head, url)? {
        return Ok(flow);
    }
    if let Some(why) = path.needs_visible_key() {
        return Err(Problem::path_ambiguous(why));
    }
    if let Some(flow) = operation_request(exchange, incoming, &mut head, &path, effects)? {
        return Ok(flow);
    }
    let matched = exchange.match_route(policy, &head, url, attributes)?;
    apply_policy(exchange, incoming, &mut head, path.as_str(), &matched, effects)
}

/// The path and the authority of a request, as every program reads them.
fn read_url<'r>(
    exchange: &mut Exchange,
    policy: &Policy,
    head: &RequestHead<'r>,
) -> Result<(NormalPath<'r>, &'r str), PathError> {
    let path = request_path(head.line.raw_path)?;
    exchange.note(|| TraceEvent::NormalPath(path.as_str().to_owned()));
    // A `#` after the query would be forwarded, but it is not in the URL that a signature covers.
    if head.line.query.is_some_and(|query| query.contains(&b'#')) {
        return Err(PathError::Forbidden);
    }
    let authority = authority::parse(head.authority)?;
    if policy.is_respelled(authority) {
        return Err(PathError::HostSpelling);
    }
    // Without recoveries no path has a visible key.
    match path.needs_visible_key().filter(|_| policy.only_watches()) {
        Some(why) => Err(why),
        None => Ok((path, authority)),
    }
}

/// Decides about a request whose route is known, by its normalised path.
fn apply_policy<'a>(
    exchange: &mut Exchange,
    incoming: IncomingRequest<'_, 'a>,
    head: &mut RequestHead<'a>,
    path: &str,
    matched: &MatchedRoute<'a, '_>,
    effects: &mut Vec<Effect<'a>>,
) -> Result<RequestFlow, Problem> {
    let IncomingRequest { policy, headers, attributes } = incoming;
    head.refuse_rpc(policy.backend_of(matched.route))?;
    head.edited.limit_to(policy, policy.backend_of(matched.route));
    if let Some(name) = exchange.kept_key_header(policy) {
        head.edited.keep(name);
    }
    exchange.note_policy();
    let line = head.line;
    let request = RoutedRequest { line, path, matched, edited: &head.edited, headers };
    let now_unix_ms = || attributes.now_unix_ms();
    if let Some(block) = matched.route.and_then(|route| route.webhook.as_ref()) {
        return await_delivery(exchange, policy, block, &request, head.authority, &now_unix_ms);
    }
    if let Some(caller) = matched.route.and_then(|route| policy.signers(route, headers).next()) {
        return await_signed(exchange, caller, policy, &request, head.authority, &now_unix_ms);
    }
    let may_wait = may_wait(matched, &head.edited, headers);
    let asked = Asked { route: matched.route, line, may_wait, headers, attributes };
    if let Some(flow) = await_caller(exchange, policy, &asked)? {
        return Ok(flow);
    }
    if let Some(flow) = await_body_key(exchange, incoming, matched)? {
        return Ok(flow);
    }
    let caller = Caller::of(exchange, policy, matched.route, headers, attributes);
    let keys = KeyReading::of_clients(policy.key_rules(matched.route), &now_unix_ms);
    let decision = decide_key(exchange, policy, &request, &keys, &caller)?;
    if matched.mode == Mode::Shadow {
        policy.key_places().iter().for_each(|name| head.edited.keep_sent_key(name));
    }
    let request = RoutedRequest { line, path, matched, edited: &head.edited, headers };
    forward_when_ready(exchange, policy, decision, &request, None, effects)
}
