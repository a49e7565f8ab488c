//! Recovery: a caller requests the stored result of its own earlier request, with the key of that request in the path
//! (docs/contract.md section 6). The key gets the namespace of the caller, so a caller cannot reach another caller's
//! result.

use super::decision::{CallerKey, Decision};
use super::matched_route::{MatchedRoute, refuse_dots};
use super::refusal::{misplaced_slash, no_segment, only_finite, only_get};
use super::request_head::{EditedLines, RequestHead};
use super::trace::{TraceEvent, TraceStep};
use super::{Case, Effect, Exchange, HeaderMapKind, RequestFlow, State};
use crate::headers::{Headers, RouterHints};
use crate::identity::{self, AttributeValue, Attributes, Identity, Rules};
use crate::key::{self, KeyCharset, KeyRules};
use crate::lookup::{self, InvocationQuestion, invocation};
use crate::percent::percent_decode;
use crate::policy::Policy;
use crate::policy::path::NormalPath;
use crate::policy::recovery::{RecoveryPath, Wait};
use crate::problem::{Problem, Reason};
use std::borrow::Cow;

impl Exchange {
    /// Reads a recovery request, which waits then; `None` if the path is no recovery path of a recoverable route. This makes no
    /// effects.
    pub(super) fn recovery_request(
        &mut self,
        policy: &Policy,
        head: &RequestHead<'_>,
        (authority, path): (&str, &NormalPath<'_>),
        headers: &Headers<'_>,
        attributes: &dyn Attributes,
    ) -> Result<Option<RequestFlow>, Problem> {
        let Some(recovery_path) = RecoveryPath::parse(path.as_str()) else { return Ok(None) };
        let endpoint = match policy.named_endpoint(attributes) {
            AttributeValue::Absent => None,
            AttributeValue::Text(endpoint) => Some(endpoint),
            AttributeValue::Unusable => return Ok(None),
        };
        let found = policy.recovered(authority, endpoint.as_deref(), &recovery_path);
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
        self.note(|| TraceEvent::Recovery(route.id));
        self.route_id = Some(route.id);
        self.telemetry.is_recovery = true;
        self.telemetry.policy = Some(route.policy.name());
        self.telemetry.case = Some(Case::A);
        only_get(head.line.method)?;
        head.refuse_rpc(policy.backend_of(Some(route)))?;
        self.note_policy();
        if let Some(flow) = self.await_caller(policy, (Some(route), head.line), true, headers, attributes)? {
            return Ok(Some(flow));
        }
        self.begin(TraceStep::Key);
        let raw = percent_decode(recovery_path.key.as_bytes()).unwrap_or_default();
        let any = KeyRules::default();
        let rules = route.key.as_deref().unwrap_or(&any);
        let raw = rules.charset.grammar().parse(&raw).map_err(|why| Problem::key_refused(why, rules))?;
        self.note(|| TraceEvent::KeyRead(raw.as_str().to_owned()));
        let matched = MatchedRoute::of(route, values);
        self.keep_path_values(&matched);
        let rules = policy.identity_of(Some(route));
        let holder = self.holder.clone();
        let rules_of_scope =
            Rules { scope: matched.wider_scope(), reserved: policy.reserved_subjects(), holder: holder.as_deref() };
        self.begin(TraceStep::Identity);
        let identity = identity::resolve(&rules.sources, &rules_of_scope, headers, attributes)
            .map_err(|why| Problem::identity(&why))?;
        self.note(|| TraceEvent::Identity(Box::new(identity.clone())));
        self.begin(TraceStep::Key);
        let text = key::encode(&matched.key_owner(&identity), raw.as_str()).map_err(Problem::key_invalid)?;
        self.note(|| TraceEvent::KeyNamespaced(text.clone()));
        let wait = self.granted(policy, recovery_path.wait, &identity);
        let values = matched.decoded();
        let address = target.handler_address(&values, &identity);
        let address = address.ok_or_else(no_segment)?;
        let store = policy.backend_of(Some(route)).invocations.as_ref().ok_or_else(Problem::internal_error)?;
        let lookup = InvocationQuestion::new(store, &address, &text).ok_or_else(|| Problem::request_invalid(400))?;
        let router = attributes.router();
        let key = CallerKey { caller: identity, text };
        let pending = PendingRecovery { key, wait, lookup, path: None, operation: None, router };
        self.await_invocation(policy, pending, headers).map(Some)
    }

    /// Whether the request waits for its result: only if the policy lets requests wait, and the caller has a place left.
    #[inline(never)]
    pub(super) fn granted(&mut self, policy: &Policy, wait: Wait, caller: &Identity) -> Wait {
        if wait == Wait::Output || policy.recovery_wait_ms() == 0 {
            return Wait::Output;
        }
        match self.waits.begin(caller) {
            Ok(place) => {
                self.wait_place = Some(Box::new(place));
                Wait::Attach
            }
            Err(reason) => {
                self.telemetry.forwarded_reason = Some(reason);
                Wait::Output
            }
        }
    }

    /// Has a request wait until the id of its invocation is looked up.
    fn await_invocation(
        &mut self,
        policy: &Policy,
        request: PendingRecovery,
        headers: &Headers<'_>,
    ) -> Result<RequestFlow, Problem> {
        // Its body never ends, and it is waited for.
        only_finite(headers).inspect_err(|_| self.begin(TraceStep::Body))?;
        self.state = State::AwaitsInvocation(Box::new(request));
        Ok(RequestFlow::AwaitCall { limit: self.body_limit(policy) })
    }

    /// Takes the id of the invocation. The request is forwarded when its body, if it has one, is there.
    pub(super) fn on_invocation(
        &mut self,
        mut pending: Box<PendingRecovery>,
        policy: &Policy,
        id: Result<Box<str>, Reason>,
    ) -> Result<RequestFlow, Problem> {
        self.begin(TraceStep::Stores);
        self.note_lookup(invocation::STORE, lookup::call_name(&id));
        let found = match id {
            Ok(id) => {
                pending.path = Some(pending.wait.result_path(&id));
                let operations = self.operations(policy);
                pending.operation = operations.and_then(|operations| operations.operation_id(&id, &pending.key.caller));
                Ok(RequestFlow::AwaitBody { limit: self.body_limit(policy) })
            }
            Err(reason) => Err(self.because(reason, Problem::backend_check_failed())),
        };
        // A refusal keeps the caller for telemetry.
        self.state = State::AwaitsInvocation(pending);
        found
    }

    /// Forwards a request whose invocation was looked up. Its header lines were edited before the wait.
    pub(super) fn forward_recovery<'a>(
        &mut self,
        pending: PendingRecovery,
        policy: &'a Policy,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let PendingRecovery { key, wait, path, operation, router, .. } = pending;
        let path = path.ok_or_else(Problem::internal_error)?;
        self.operation = operation;
        let decision = Decision::Recovery(key, wait);
        self.edit_recovery(policy, &EditedLines::default(), decision, path, router, effects);
        Ok(RequestFlow::Continue)
    }

    fn body_limit(&self, policy: &Policy) -> u64 {
        self.route(policy).map_or(0, |route| route.max_body_bytes)
    }

    /// Turns the request into the backend's request for a stored result.
    pub(super) fn edit_recovery<'a>(
        &mut self,
        policy: &'a Policy,
        edited: &EditedLines<'a>,
        decision: Decision,
        path: String,
        router: Option<&'static RouterHints>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let waits = decision.stored_result() == Some(Wait::Attach);
        let forward = &policy.identity_of(self.route(policy)).forward;
        decision.edit_headers(edited, forward, Some(&self.backend(policy).mark), Vec::new(), effects);
        self.state = State::Forwarded(decision);
        let mut set = |name: &'static str, value: Cow<'a, [u8]>| {
            effects.push(Effect::Set { map: HeaderMapKind::Request, name, value });
        };
        set(":path", Cow::Owned(path.into_bytes()));
        if let Some(router) = router.filter(|_| waits) {
            set(router.timeout_ms, Cow::Owned(policy.recovery_wait_ms().to_string().into_bytes()));
            // Restate's attach returns 404 for an unknown key, and also for work under way that ends with a 404 of the
            // handler. Only the reply to a repeated request tells them apart: the handler's 404 then has an expiry header.
            router.retry_not_found.iter().for_each(|(name, value)| set(name, Cow::Borrowed(value.as_bytes())));
        }
    }
}

/// A recovery request that waits for the id of its invocation.
#[derive(Debug)]
pub(super) struct PendingRecovery {
    /// The key of the earlier request
    pub(super) key: CallerKey,
    wait: Wait,
    /// The lookup of the invocation
    lookup: InvocationQuestion,
    /// The path of the result at the backend, when the id is known
    path: Option<String>,
    /// The operation id that the client sees, if the policy has operations and the id is known
    operation: Option<String>,
    pub(super) router: Option<&'static RouterHints>,
}

impl PendingRecovery {
    /// The lookup that the request waits for.
    pub(super) fn pending(&self) -> Option<&InvocationQuestion> {
        self.path.is_none().then_some(&self.lookup)
    }
}
