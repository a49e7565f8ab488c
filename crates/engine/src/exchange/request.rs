//! Evaluates a request against the policy, in the order of docs/contract.md section 2: path normalisation, closed
//! paths, recovery path, operation, endpoint, method, policy, key present, key grammar, rules for keys, identity, namespaced length.

use super::api_key::may_wait;
use super::decision::{CallerKey, Decision, EnforcedDecision};
use super::keys::KeyReading;
use super::matched_route::{MatchedRoute, RoutedRequest};
use super::request_head::{EditedLines, RequestHead};
use super::trace::{TraceEvent, TraceStep};
use super::{Case, Effect, Exchange, RequestFlow};
use crate::headers::Headers;
use crate::identity::{self, Attributes, Identity, IdentityRefusal, Rules};
use crate::key::{self, KeySyntax};
use crate::policy::authority;
use crate::policy::path::{NormalPath, PathError, split_query};
use crate::policy::recovery::request_path;
use crate::policy::target::Target;
use crate::policy::{KeyInLogs, Mode, Policy, PolicyKind};
use crate::problem::Problem;

impl Exchange {
    /// Decides about a request from its head, and edits it if it is forwarded.
    pub(super) fn evaluate_request<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let mut head = RequestHead::read(policy, headers);
        self.telemetry.request_id = head.request_id;
        self.telemetry.attempt = head.attempt;
        let (raw_path, query) = split_query(head.line.target);
        self.protocol = head.protocol.or_connect_get(head.line.method, query);
        if policy.key_in_logs() == KeyInLogs::Full {
            self.telemetry.sent_path = Some(String::from_utf8_lossy(raw_path).into_owned());
        }
        self.begin(TraceStep::Path);
        let (path, authority) = match self.place(policy, &head, raw_path, query) {
            Ok(place) => place,
            Err(why) => {
                let matched =
                    self.watched(policy, head.line.target, Problem::path_ambiguous(why), policy.only_watches())?;
                return self.decide(policy, &mut head, ("", &matched), headers, attributes, effects);
            }
        };
        if policy.is_closed(path.as_str()) {
            self.note(|| TraceEvent::Closed);
            return Err(Problem::not_found());
        }
        self.begin(TraceStep::Route);
        let target = (authority, &path);
        if let Some(flow) = self.recovery_request(policy, &head, target, headers, attributes)? {
            return Ok(flow);
        }
        if let Some(why) = path.needs_visible_key() {
            return Err(Problem::path_ambiguous(why));
        }
        if let Some(flow) = self.operation_request(policy, &mut head, &path, headers, attributes, effects)? {
            return Ok(flow);
        }
        let matched = self.match_route(policy, &head, target, attributes)?;
        self.decide(policy, &mut head, (path.as_str(), &matched), headers, attributes, effects)
    }

    /// The path and the authority of a request, as every program reads them.
    fn place<'r>(
        &mut self,
        policy: &Policy,
        head: &RequestHead<'r>,
        raw_path: &'r [u8],
        query: Option<&[u8]>,
    ) -> Result<(NormalPath<'r>, &'r str), PathError> {
        let path = request_path(raw_path)?;
        self.note(|| TraceEvent::NormalPath(path.as_str().to_owned()));
        // A `#` after the query would be forwarded, but it is not in the URL that a signature covers.
        if query.is_some_and(|query| query.contains(&b'#')) {
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
    fn decide<'a>(
        &mut self,
        policy: &'a Policy,
        head: &mut RequestHead<'a>,
        (path, matched): (&str, &MatchedRoute<'a, '_>),
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        head.refuse_rpc(policy.backend_of(matched.route))?;
        head.edited.choose(policy, policy.backend_of(matched.route));
        if let Some(name) = self.kept_key_header(policy) {
            head.edited.keep(name);
        }
        self.note_policy();
        let line = head.line;
        let request = RoutedRequest { line, path, matched, edited: &head.edited, headers };
        let now_unix_ms = || attributes.now_unix_ms();
        if let Some(block) = matched.route.and_then(|route| route.webhook.as_ref()) {
            return self.await_delivery(policy, block, &request, head.authority, &now_unix_ms);
        }
        if let Some(caller) = matched.route.and_then(|route| policy.signer(route, headers)) {
            return self.await_signed(caller, policy, &request, head.authority, &now_unix_ms);
        }
        let may_wait = may_wait(matched, &head.edited);
        if let Some(flow) = self.await_caller(policy, (matched.route, line), may_wait, headers, attributes)? {
            return Ok(flow);
        }
        let (rules, holder) = (policy.identity_of(matched.route), self.holder.clone());
        let resolve = || {
            let rules_of_scope =
                Rules { scope: matched.wider_scope(), reserved: policy.reserved_subjects(), holder: holder.as_deref() };
            identity::resolve(&rules.sources, &rules_of_scope, headers, attributes)
        };
        let keys = KeyReading::of_clients(matched.route.and_then(|route| route.key.as_deref()), &now_unix_ms);
        let decision = self.apply_key_policy(policy, &head.edited, matched, &keys, &resolve)?;
        self.forward_when_ready(policy, decision, &request, None, effects)
    }

    /// Decides about key and identity. This makes no effects.
    pub(super) fn apply_key_policy<'p>(
        &mut self,
        policy: &Policy,
        edited: &EditedLines<'_>,
        matched: &MatchedRoute<'_, '_>,
        keys: &KeyReading<'_>,
        resolve: &dyn Fn() -> Result<Identity, IdentityRefusal<'p>>,
    ) -> Result<Decision, Problem> {
        let mut decision = match &matched.refused {
            Some(problem) => shadow(EnforcedDecision::Refused(problem.clone(), None), edited),
            None => self.evaluate_key(policy, matched, edited, keys, resolve)?,
        };
        if decision.identity().is_none() {
            let needed = matched.target().is_some_and(Target::needs_identity);
            let tagged = self.operations(policy).is_some() && matched.target().is_some();
            if needed || tagged || policy.identity_of(matched.route).forward.names().next().is_some() {
                self.begin(TraceStep::Identity);
                match resolve() {
                    Ok(identity) => {
                        self.note(|| TraceEvent::Identity(Box::new(identity.clone())));
                        decision.add_identity(identity);
                    }
                    Err(why) if needed => return Err(Problem::identity(&why)),
                    Err(_) => {}
                }
            }
        }
        Ok(decision)
    }

    /// Checks policy, key present, key grammar, identity and namespaced length. In shadow mode a failed check has no
    /// effect, except that a key which looks like a namespaced one is removed.
    fn evaluate_key<'p>(
        &mut self,
        policy: &Policy,
        matched: &MatchedRoute<'_, '_>,
        edited: &EditedLines<'_>,
        keys: &KeyReading<'_>,
        resolve: &dyn Fn() -> Result<Identity, IdentityRefusal<'p>>,
    ) -> Result<Decision, Problem> {
        self.begin(TraceStep::Key);
        if !edited.has_key() {
            self.note(|| TraceEvent::NoKey);
        }
        // Restate would run a key of the client's that enforcing removes.
        let keeps = || matched.mode == Mode::Shadow && !policy.backend_of(matched.route).abilities().acts_on_raw_keys;
        let stripped = || match keeps() {
            true => shadow(EnforcedDecision::Unkeyed(None), edited),
            false => Decision::default(),
        };
        match matched.kind {
            PolicyKind::HandlerInternalC => {
                self.telemetry.case = Some(Case::C);
                self.note(|| TraceEvent::KeyUnread);
                return Ok(stripped());
            }
            PolicyKind::RequiredA => self.telemetry.case = Some(Case::A),
            PolicyKind::Accepted if edited.has_key() => self.telemetry.case = Some(Case::A),
            _ => {}
        }
        let result = self.namespaced(matched, edited, keys, resolve);
        if matched.mode == Mode::Enforce {
            return result.map(|key| key.map_or_else(Decision::default, Decision::Keyed));
        }
        let enforced = match result {
            Ok(Some(key)) => EnforcedDecision::Keyed(key),
            Ok(None) => EnforcedDecision::Unkeyed(None),
            Err(problem) => {
                self.note(|| TraceEvent::WouldBeRefused(Box::new(problem.clone())));
                EnforcedDecision::Refused(Box::new(problem), None)
            }
        };
        Ok(shadow(enforced, edited))
    }

    /// The namespaced key; `None` if the request goes on without a key.
    fn namespaced<'p>(
        &mut self,
        matched: &MatchedRoute<'_, '_>,
        edited: &EditedLines<'_>,
        keys: &KeyReading<'_>,
        resolve: &dyn Fn() -> Result<Identity, IdentityRefusal<'p>>,
    ) -> Result<Option<CallerKey>, Problem> {
        if matched.kind == PolicyKind::Prohibited {
            if !edited.has_key() {
                return Ok(None);
            }
            self.note(|| TraceEvent::KeyProhibited);
            return Err(Problem::key_prohibited());
        }
        self.telemetry.key_read = true;
        self.telemetry.key_syntax = KeySyntax::of(edited.key_lines());
        if let Some(syntax) = self.telemetry.key_syntax {
            self.note(|| TraceEvent::KeySent(syntax));
        }
        let Some((raw, _)) = keys.read(edited).map_err(|why| keys.problem(why))? else {
            return if matched.kind == PolicyKind::RequiredA { Err(Problem::key_required()) } else { Ok(None) };
        };
        self.telemetry.source = Some("header");
        self.note(|| TraceEvent::KeyRead(raw.as_str().to_owned()));
        self.begin(TraceStep::Identity);
        let caller = resolve().map_err(|why| Problem::identity(&why))?;
        self.note(|| TraceEvent::Identity(Box::new(caller.clone())));
        self.begin(TraceStep::Key);
        let text = key::encode(&matched.key_owner(&caller), raw.as_str()).map_err(Problem::key_invalid)?;
        self.note(|| TraceEvent::KeyNamespaced(text.clone()));
        Ok(Some(CallerKey { caller, text }))
    }
}

/// The decision about a request in shadow mode: it keeps its key, unless that looks like a namespaced one.
fn shadow(enforced: EnforcedDecision, edited: &EditedLines<'_>) -> Decision {
    let sends_key = matches!(edited.key, [Some(line), None] if !key::is_forged(line));
    Decision::Shadow { enforced, sends_key }
}
