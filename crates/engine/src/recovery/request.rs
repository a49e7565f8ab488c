//! The request for a stored result. It waits for the id of the invocation, and then it is turned into the backend's request for its
//! result.

use super::path::{RecoveryPath, Wait};
use super::result::StoredResult;
use crate::api_keys::{Asked, await_caller};
use crate::exchange::{
    Awaits, Caller, CallerKey, Case, Continuation, Decision, EditedLines, Effect, Exchange, IncomingRequest,
    MatchedRoute, Pause, PauseEvent, Place, RequestFlow, RequestHead, Resumed, TraceEvent, TraceStep, misplaced_slash,
    no_segment, only_finite, only_get, refuse_dots,
};
use crate::headers::RouterHints;
use crate::identity::{AttributeValue, Identity};
use crate::key::{self, KeyCharset, KeyRules};
use crate::lookup::LookupAnswer;
use crate::percent::percent_decode;
use crate::policy::RequestUrl;
use crate::problem::Problem;
use crate::questions::{self, InvocationQuestion, PendingLookup};

/// Reads a request for a stored result, which waits then; `None` if the path is no recovery path of a recoverable route. This makes no
/// effects.
pub(crate) fn recovery_request(
    exchange: &mut Exchange,
    incoming: IncomingRequest<'_, '_>,
    head: &RequestHead<'_>,
    url: RequestUrl<'_, '_>,
) -> Result<Option<RequestFlow>, Problem> {
    let IncomingRequest { policy, headers, attributes } = incoming;
    let path = url.path;
    let Some(recovery_path) = RecoveryPath::parse(path.as_str()) else { return Ok(None) };
    let endpoint = match policy.named_endpoint(attributes) {
        AttributeValue::Absent => None,
        AttributeValue::Text(endpoint) => Some(endpoint),
        AttributeValue::Unusable => return Ok(None),
    };
    let found = policy.recovered(url.authority, endpoint.as_deref(), &recovery_path);
    let Some((route, values)) = found else { return Ok(None) };
    if policy.is_closed_declared(route, path.as_str()) {
        return Err(Problem::not_found());
    }
    if recovery_path.base.contains("%2F") && !route.encoded_slash {
        return Err(misplaced_slash());
    }
    let is_visible = route.key.as_ref().is_some_and(|rules| rules.charset == KeyCharset::Visible);
    if let Some(why) = path.needs_visible_key().filter(|_| !is_visible) {
        return Err(Problem::path_ambiguous(why));
    }
    refuse_dots(&values)?;
    let Some(target) = &route.recovery else { return Ok(None) };
    exchange.note(|| TraceEvent::Recovery(route.id));
    exchange.place = Place::Recovery(route.id);
    exchange.policy_name = Some(route.policy.name());
    exchange.facts.case = Some(Case::A);
    only_get(head.line.method)?;
    head.refuse_rpc(policy.backend_of(Some(route)))?;
    exchange.note_policy();
    let asked = Asked { route: Some(route), line: head.line, may_wait: true, headers, attributes };
    if let Some(flow) = await_caller(exchange, policy, &asked)? {
        return Ok(Some(flow));
    }
    exchange.begin(TraceStep::Key);
    let raw = percent_decode(recovery_path.key.as_bytes()).unwrap_or_default();
    let any = KeyRules::default();
    let rules = route.key.as_deref().unwrap_or(&any);
    let raw = rules.charset.grammar().parse(&raw).map_err(|why| Problem::key_refused(why, rules))?;
    exchange.note(|| TraceEvent::KeyRead(raw.as_str().to_owned()));
    let matched = MatchedRoute::of(route, values);
    exchange.keep_path_values(&matched);
    exchange.begin(TraceStep::Identity);
    let identity = Caller::of(exchange, policy, Some(route), headers, attributes).resolve();
    let identity = identity.map_err(|why| Problem::identity(&why))?;
    exchange.note(|| TraceEvent::Identity(Box::new(identity.clone())));
    exchange.begin(TraceStep::Key);
    let text = key::encode(&matched.key_owner(&identity), raw.as_str()).map_err(Problem::key_invalid)?;
    exchange.note(|| TraceEvent::KeyNamespaced(text.clone()));
    let wait = exchange.granted(policy, recovery_path.wait, &identity);
    let address = target.handler_address(&matched.decoded(), &identity);
    let address = address.ok_or_else(no_segment)?;
    let store = policy.backend_of(Some(route)).invocations.as_ref().ok_or_else(Problem::internal_error)?;
    let lookup = InvocationQuestion::new(store, &address, &text).ok_or_else(|| Problem::request_invalid(400))?;
    // Its body never ends, and it is waited for.
    only_finite(headers).inspect_err(|_| exchange.begin(TraceStep::Body))?;
    let key = CallerKey { caller: identity, text, syntax: None };
    let waiting = WaitingRecovery { key, wait, lookup, found: None, router: attributes.router() };
    Ok(Some(Pause::until(Awaits::Call { limit: route.max_body_bytes }, waiting)))
}

/// A request for a stored result that waits for the id of its invocation.
struct WaitingRecovery {
    /// The key of the earlier request
    key: CallerKey,
    wait: Wait,
    /// The lookup of the invocation
    lookup: InvocationQuestion,
    /// The invocation, when its id is known
    found: Option<FoundInvocation>,
    router: Option<&'static RouterHints>,
}

/// The invocation of an earlier request.
struct FoundInvocation {
    /// The path of the result at the backend
    path: String,
    /// The operation id that the client sees, if the policy has operations
    operation: Option<String>,
}

impl Continuation for WaitingRecovery {
    fn lookup(&self) -> Option<PendingLookup<'_>> {
        self.found.is_none().then_some(PendingLookup::Invocation(&self.lookup))
    }

    fn caller(&self) -> Option<&Identity> {
        Some(&self.key.caller)
    }

    fn drops_key(&self) -> bool {
        true
    }

    fn router(&self) -> Option<&'static RouterHints> {
        self.router
    }

    fn into_decision(self: Box<Self>) -> Option<Decision> {
        Some(Decision::Unkeyed(Some(self.key.caller)))
    }

    /// Takes the id of the invocation; then, with its body, the request is forwarded. Its header lines were edited before the wait.
    fn resume<'a>(
        mut self: Box<Self>,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let Resumed { policy, event, .. } = resumed;
        let problem = match (event, self.found.take()) {
            (PauseEvent::Body { .. }, Some(FoundInvocation { path, operation })) => {
                exchange.operation = operation;
                let decision = Decision::Recovery(self.key, self.wait);
                let result = StoredResult { path, router: self.router };
                result.send(exchange, policy, &EditedLines::default(), decision, effects);
                return Ok(RequestFlow::Continue);
            }
            (PauseEvent::Answer(LookupAnswer::Invocation(id)), None) => {
                exchange.begin(TraceStep::Stores);
                exchange.note_lookup(questions::STORE, questions::call_name(&id));
                match id {
                    Ok(id) => {
                        let operations = exchange.operations(policy);
                        let operation =
                            operations.and_then(|operations| operations.operation_id(&id, &self.key.caller));
                        self.found = Some(FoundInvocation { path: self.wait.result_path(&id), operation });
                        let limit = exchange.route(policy).map_or(0, |route| route.max_body_bytes);
                        return Ok(Pause::boxed(Awaits::Body { limit }, self));
                    }
                    Err(reason) => exchange.with_reason(reason, Problem::backend_check_failed()),
                }
            }
            _ => Problem::internal_error(),
        };
        // A refusal keeps the caller for telemetry.
        exchange.keep(Decision::Unkeyed(Some(self.key.caller)));
        Err(problem)
    }
}
