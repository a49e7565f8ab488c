//! Evaluates a request against the policy, in the order of docs/contract.md section 2: path normalisation, closed
//! paths, recovery path, operation, endpoint, method, policy, key present, key grammar, rules for keys, identity, namespaced length.

use super::decision::{CallerKey, Decision, EnforcedDecision};
use super::keys::KeyReading;
use super::observed::{ATTEMPT, attempt};
use super::refusal::{misplaced_slash, no_segment};
use super::{Effect, Exchange, HeaderMapKind, RequestFlow, State, unmatched_name};
use crate::headers::{Headers, IDEMPOTENCY_KEY, distinct, same_name};
use crate::identity::{self, AttributeValue, Attributes, Identity, IdentityRefusal, Project, Rules};
use crate::key::{self, Form, RESERVED_PREFIX, RawKey};
use crate::percent::{percent_decode, percent_encode};
use crate::policy::authority;
use crate::policy::document::Forward;
use crate::policy::path::{NormalPath, PathError, hides_dots, split_query};
use crate::policy::target::Target;
use crate::policy::{KeyInLogs, Mode, Policy, PolicyKind, REWRITE_MARK, Route, RouteLookup, Scope, Unmatched};
use crate::problem::Problem;
use crate::provider::Provider;
use crate::telemetry::Case;
use crate::uuid::Uuid;
use std::borrow::Cow;

/// The method of a request, and its path with its query, as the client sent them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestLine<'r> {
    pub(super) method: &'r [u8],
    pub(super) target: &'r [u8],
}

/// The header lines of a request that the filter edits.
#[derive(Default)]
pub(super) struct EditedLines<'a> {
    /// The first two `Idempotency-Key` lines. Two are an error already, so further ones do not matter.
    key: [Option<&'a [u8]>; 2],
    /// The header lines to remove before the backend, sorted by their names.
    strip: Vec<(&'a [u8], &'a [u8])>,
    /// Verified headers of which one line takes the place of several equal ones
    once: Vec<(&'a str, &'a [u8])>,
}

/// The parts of a request's head that decisions need.
#[derive(Default)]
pub(super) struct RequestHead<'a> {
    pub(super) line: RequestLine<'a>,
    pub(super) authority: &'a [u8],
    pub(super) edited: EditedLines<'a>,
    /// The gateway's id of the request, if it has the length of a UUID and is the only one.
    request_id: Option<[u8; Uuid::TEXT_LENGTH]>,
    /// Which attempt the client says the request is, at most 100.
    attempt: Option<u8>,
}

impl<'a> RequestHead<'a> {
    pub(super) fn read(policy: &Policy, headers: &Headers<'a>) -> Self {
        let mut head = Self::default();
        let mut has_id = false;
        let names = policy.request_names();
        for (name, value) in headers.iter().filter(|(name, _)| names.lets_pass(name)) {
            match name {
                [b':', pseudo @ ..] => match pseudo {
                    b"method" => head.line.method = value,
                    b"path" => head.line.target = value,
                    b"authority" => head.authority = value,
                    _ => {}
                },
                _ if name == IDEMPOTENCY_KEY.as_bytes() => head.edited.add_key(value),
                _ => {
                    if name == REQUEST_ID {
                        head.request_id = value.try_into().ok().filter(|_| !has_id);
                        has_id = true;
                    } else if name == ATTEMPT {
                        head.attempt = attempt(value);
                    }
                    if is_stripped(policy, name) {
                        head.edited.strip.push((name, value));
                    }
                }
            }
        }
        head.edited.strip.sort_unstable();
        head
    }
}

impl<'a> EditedLines<'a> {
    /// Those of a request that has waited, from the lines that were kept of it. Before the wait the filter has removed what
    /// no backend gets, and the key of a request that does not use it.
    pub(super) fn of_kept(headers: &Headers<'a>) -> Self {
        let mut edited = Self::default();
        let keys = headers.iter().filter(|(name, _)| *name == IDEMPOTENCY_KEY.as_bytes());
        keys.for_each(|(_, value)| edited.add_key(value));
        edited
    }

    const fn add_key(&mut self, value: &'a [u8]) {
        match &mut self.key {
            [first @ None, _] => *first = Some(value),
            [_, second] => *second = Some(value),
        }
    }

    /// Removes the headers that `provider` reads from a verified request, in every spelling. Only a header that `kept` names
    /// stays, as one line.
    #[inline(never)]
    pub(super) fn strip_unverified(
        &mut self,
        policy: &Policy,
        provider: &Provider,
        kept: &dyn Fn(&[u8]) -> Option<&'a str>,
        headers: &Headers<'a>,
    ) {
        let is_concerned =
            |name: &[u8]| provider.reads(name) && !is_stripped(policy, name) && !policy.keeps_header(name);
        for (name, value) in headers.iter().filter(|(name, _)| is_concerned(name)) {
            if self.once.iter().any(|(known, _)| known.as_bytes() == name) {
                continue;
            }
            let lines = || headers.iter().filter(|(other, _)| *other == name).map(|(_, value)| value.trim_ascii());
            match kept(name) {
                Some(_) if lines().nth(1).is_none() => {}
                // A signature accepts equal lines. An identifier that the filter did not need can be in different ones.
                Some(kept) if lines().all(|other| other == value.trim_ascii()) => {
                    self.once.push((kept, value.trim_ascii()));
                }
                _ => self.strip.push((name, value)),
            }
        }
        self.strip.sort_unstable();
    }

    /// The names of the header lines to remove, without duplicates.
    fn stripped_names(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let mut before = None;
        let names = self.strip.iter().map(|(name, _)| *name);
        names.filter(move |name| before.replace(*name) != Some(*name))
    }

    /// Whether one of these lines has the name, and this value. A repeated line counts as two.
    fn has_only(&self, name: &str, value: &str) -> bool {
        let mut lines = self.strip.iter().filter(|(line, _)| *line == name.as_bytes());
        lines.next().is_some_and(|(_, sent)| *sent == value.as_bytes()) && lines.next().is_none()
    }

    pub(super) fn key_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.key.into_iter().flatten()
    }

    const fn has_key(&self) -> bool {
        self.key[0].is_some()
    }
}

/// The header with the gateway's id of the request.
const REQUEST_ID: &[u8] = b"x-request-id";
/// Whether headers with this name are removed. [`Decision`] decides about the exact name `idempotency-key`.
pub(super) fn is_stripped(policy: &Policy, name: &[u8]) -> bool {
    same_name(IDEMPOTENCY_KEY, name) || policy.strip().contains(name)
}

/// A request with its route.
#[derive(Clone, Copy)]
pub(super) struct RoutedRequest<'r, 'a> {
    pub(super) line: RequestLine<'r>,
    /// The normalised path, without the query
    pub(super) path: &'r str,
    pub(super) matched: &'r MatchedRoute<'a, 'r>,
    pub(super) edited: &'r EditedLines<'a>,
    pub(super) headers: &'r Headers<'a>,
}

/// The route of a request, or the policy for unmatched requests.
pub(super) struct MatchedRoute<'p, 'r> {
    pub(super) kind: PolicyKind,
    mode: Mode,
    scope: Scope,
    pub(super) route: Option<&'p Route>,
    /// Whether a key is removed, and not refused, where none is allowed.
    strips_prohibited: bool,
    pub(super) values: Vec<&'r str>,
}

impl<'p, 'r> MatchedRoute<'p, 'r> {
    /// A route and the values of its path parameters.
    pub(super) fn of(route: &'p Route, values: Vec<&'r str>) -> Self {
        Self {
            kind: route.policy,
            mode: route.mode,
            scope: route.scope,
            route: Some(route),
            strips_prohibited: route.strips_prohibited,
            values,
        }
    }

    /// The project segment of a scope wider than a project.
    pub(super) const fn wider_scope(&self) -> Option<Project> {
        wider_scope(self.scope)
    }

    /// The target, if the path is rewritten.
    pub(super) fn target(&self) -> Option<&'p Target> {
        self.route?.target.as_deref()
    }

    /// The values of the path's parameters, decoded.
    pub(super) fn decoded(&self) -> Vec<Vec<u8>> {
        // The path is normalised, so its escapes are well formed.
        self.values.iter().map(|value| percent_decode(value.as_bytes()).unwrap_or_default()).collect()
    }

    /// The headers that carry the path's parameters to the backend. A value is percent-encoded except for unreserved
    /// characters, so it has one spelling and no control byte.
    #[inline(never)]
    fn parameters(&self) -> Vec<(&'p str, Vec<u8>)> {
        let names = self.route.map(|route| route.parameter_headers.as_slice()).unwrap_or_default();
        let encoded = |(name, value): (&'p String, &&str)| {
            let mut text = String::with_capacity(value.len());
            // The path is normalised, so its escapes are well formed.
            percent_encode(&percent_decode(value.as_bytes()).unwrap_or_default(), &mut text);
            (name.as_str(), text.into_bytes())
        };
        names.iter().zip(&self.values).map(encoded).collect()
    }

    /// The value of a path parameter, still escaped.
    pub(super) fn value(&self, name: &str) -> Option<&'r str> {
        let index = self.route?.template.parameters().position(|parameter| parameter == name)?;
        self.values.get(index).copied()
    }
}

/// The project segment of a scope wider than a project.
pub(super) const fn wider_scope(scope: Scope) -> Option<Project> {
    match scope {
        Scope::Project => None,
        Scope::Tenant => Some(Project::Tenant),
        Scope::Platform => Some(Project::Platform),
    }
}

impl Exchange {
    /// Decides about a request from its head, and edits it if it is forwarded.
    pub(super) fn evaluate_request<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let head = RequestHead::read(policy, headers);
        self.facts.request_id = head.request_id;
        self.facts.attempt = head.attempt;
        let (raw_path, query) = split_query(head.line.target);
        if policy.key_in_logs() == KeyInLogs::Full {
            self.facts.sent_path = Some(String::from_utf8_lossy(raw_path).into_owned());
        }
        let path = NormalPath::parse(raw_path).map_err(Problem::path_ambiguous)?;
        // A `#` after the query would be forwarded, but it is not in the URL that a signature covers.
        if query.is_some_and(|query| query.contains(&b'#')) {
            return Err(Problem::path_ambiguous(PathError::Forbidden));
        }
        let authority = authority::parse(head.authority).map_err(Problem::path_ambiguous)?;
        if policy.is_respelled(authority) {
            return Err(Problem::path_ambiguous(PathError::HostSpelling));
        }
        if policy.is_closed(path.as_str()) {
            return Err(Problem::not_found());
        }
        let target = (authority, &path);
        if let Some(recovery) = self.recovery_request(policy, &head, target, headers, attributes)? {
            return self.await_invocation(policy, recovery, headers);
        }
        if let Some(flow) = self.operation_request(policy, &head, &path, headers, attributes, effects)? {
            return Ok(flow);
        }
        let matched = self.match_route(policy, &head, target, attributes)?;
        let line = head.line;
        let request = RoutedRequest { line, path: path.as_str(), matched: &matched, edited: &head.edited, headers };
        let now_unix_ms = || attributes.now_unix_ms();
        if let Some(block) = matched.route.and_then(|route| route.webhook.as_ref()) {
            return self.await_delivery(policy, block, &request, head.authority, &now_unix_ms);
        }
        if let Some(caller) = matched.route.and_then(|route| policy.signer(route, headers)) {
            return self.await_signed(caller, policy, &request, head.authority, &now_unix_ms);
        }
        let rules = policy.identity_of(matched.route);
        let resolve = || {
            let rules_of_scope =
                Rules { scope: matched.wider_scope(), types: &rules.types, reserved: policy.reserved_subjects() };
            identity::resolve(&rules.sources, &rules_of_scope, headers, attributes)
        };
        let keys = KeyReading::of_clients(matched.route.and_then(|route| route.key.as_deref()), &now_unix_ms);
        let decision = self.apply_key_policy(policy, &head.edited, &matched, &keys, &resolve)?;
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
        let mut decision = self.evaluate_key(matched, edited, keys, resolve)?;
        if decision.identity().is_none() {
            let needed = matched.target().is_some_and(Target::needs_identity);
            let tagged = policy.operations().is_some() && matched.target().is_some();
            if needed || tagged || policy.identity_of(matched.route).forward.names().next().is_some() {
                match resolve() {
                    Ok(identity) => decision.add_identity(identity),
                    Err(why) if needed => return Err(Problem::identity(&why)),
                    Err(_) => {}
                }
            }
        }
        Ok(decision)
    }

    /// Edits the request for the backend, by the decision.
    #[inline(never)]
    pub(super) fn forward<'a>(
        &mut self,
        decision: Decision,
        policy: &'a Policy,
        request: &RoutedRequest<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let edited = decision.edit(policy, request, effects);
        self.state = State::Forwarded(decision);
        edited.map(|()| RequestFlow::Continue)
    }

    /// Finds the route by endpoint, path and method.
    fn match_route<'p, 'r>(
        &mut self,
        policy: &'p Policy,
        head: &RequestHead<'_>,
        (authority, path): (&str, &'r NormalPath<'_>),
        attributes: &dyn Attributes,
    ) -> Result<MatchedRoute<'p, 'r>, Problem> {
        let named = policy.named_endpoint(attributes);
        let is_named = !matches!(named, AttributeValue::Absent);
        let declared = match named {
            AttributeValue::Absent => policy.declared(authority, path.as_str(), head.line.method),
            AttributeValue::Text(endpoint) => {
                let place = (authority, path.as_str());
                policy.named(&endpoint, place, head.line.method).ok_or_else(Problem::policy_invalid)?
            }
            AttributeValue::Unusable => return Err(Problem::policy_invalid()),
        };
        // Only the value of a path parameter may contain an escaped slash, and only where the route says so.
        let has_misplaced_slash = |route: &Route, values: &[&str]| {
            path.has_encoded_slash() && !(route.encoded_slash && values.iter().any(|value| value.contains("%2F")))
        };
        match declared {
            RouteLookup::Route(route, _) if route.target.is_none() && policy.is_closed_respelled(path.as_str()) => {
                Err(Problem::not_found())
            }
            RouteLookup::Route(route, values) => {
                self.facts.route = Some(route.id);
                self.facts.policy = Some(route.policy.name());
                if has_misplaced_slash(route, &values) {
                    return Err(misplaced_slash());
                }
                refuse_dots(&values)?;
                let matched = MatchedRoute::of(route, values);
                self.keep_path_values(&matched);
                Ok(matched)
            }
            RouteLookup::OtherReading => Err(Problem::path_ambiguous(PathError::OtherReading)),
            RouteLookup::OtherMethods(methods) => Err(Problem::method_not_allowed(&methods)),
            RouteLookup::Nothing if path.has_encoded_slash() => Err(misplaced_slash()),
            // The path may be that of another route, whose policy would not be applied.
            RouteLookup::Nothing if is_named => Err(Problem::not_found()),
            RouteLookup::Nothing => {
                self.facts.policy = Some(unmatched_name(policy.unmatched()));
                let kind = match policy.unmatched() {
                    Unmatched::Reject => return Err(Problem::not_found()),
                    _ if policy.is_closed_undeclared(path.as_str()) || policy.is_closed_respelled(path.as_str()) => {
                        return Err(Problem::not_found());
                    }
                    Unmatched::Prohibited => PolicyKind::Prohibited,
                    Unmatched::HandlerInternalC => PolicyKind::HandlerInternalC,
                };
                Ok(MatchedRoute {
                    kind,
                    mode: policy.mode(),
                    scope: Scope::Project,
                    route: None,
                    strips_prohibited: policy.strips_prohibited(),
                    values: Vec::new(),
                })
            }
        }
    }

    /// Checks policy, key present, key grammar, identity and namespaced length. In shadow mode a failed check has no
    /// effect, except that a key which looks like a namespaced one is removed.
    fn evaluate_key<'p>(
        &mut self,
        matched: &MatchedRoute<'_, '_>,
        edited: &EditedLines<'_>,
        keys: &KeyReading<'_>,
        resolve: &dyn Fn() -> Result<Identity, IdentityRefusal<'p>>,
    ) -> Result<Decision, Problem> {
        match matched.kind {
            PolicyKind::HandlerInternalC => {
                self.facts.case = Some(Case::C);
                return Ok(Decision::default());
            }
            PolicyKind::Prohibited if matched.strips_prohibited => return Ok(Decision::default()),
            PolicyKind::RequiredA => self.facts.case = Some(Case::A),
            PolicyKind::Accepted if edited.has_key() => self.facts.case = Some(Case::A),
            _ => {}
        }
        let result = self.namespaced(matched, edited, keys, resolve);
        if matched.mode == Mode::Enforce {
            return result.map(|key| key.map_or_else(Decision::default, Decision::Keyed));
        }
        let enforced = match result {
            Ok(Some(key)) => EnforcedDecision::Keyed(key),
            Ok(None) => EnforcedDecision::Unkeyed(None),
            Err(problem) => EnforcedDecision::Refused(Box::new(problem), None),
        };
        let forged = |line: &[u8]| key::unwrapped(line).starts_with(RESERVED_PREFIX.as_bytes());
        let sends_key = matches!(edited.key, [Some(line), None] if !forged(line));
        Ok(Decision::Shadow { enforced, sends_key })
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
            return if edited.has_key() { Err(Problem::key_prohibited()) } else { Ok(None) };
        }
        self.facts.key_read = true;
        self.facts.form = Form::of(edited.key_lines());
        let Some((raw, _)) = keys.read(edited).map_err(|why| keys.problem(why))? else {
            return if matched.kind == PolicyKind::RequiredA { Err(Problem::key_required()) } else { Ok(None) };
        };
        self.facts.source = Some("header");
        let caller = resolve().map_err(|why| Problem::identity(&why))?;
        let text = key::encode(&caller, RawKey::as_str(raw)).map_err(Problem::key_invalid)?;
        Ok(Some(CallerKey { caller, text }))
    }
}

/// Refuses values of path parameters that are `.` or `..`, or have one of them, or nothing, between escaped slashes. The path as
/// a whole shows these only where the value is a whole segment.
pub(super) fn refuse_dots(values: &[&str]) -> Result<(), Problem> {
    match values.iter().any(|value| hides_dots(value)) {
        true => Err(no_segment()),
        false => Ok(()),
    }
}

impl Decision {
    /// Edits the request for the backend.
    fn edit<'a>(
        &self,
        policy: &'a Policy,
        request: &RoutedRequest<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<(), Problem> {
        let RoutedRequest { line, path, matched, edited, .. } = *request;
        effects.reserve(8);
        let target = matched.target();
        let rewritten = target.map(|target| self.rewrite(target, matched)).transpose()?;
        let listed = matched.route.map(|route| route.query.as_slice()).unwrap_or_default();
        let method = target.and_then(|_| policy.backend_of(matched.route).target_method(line.method));
        if let Some(method) = method {
            let value = Cow::Borrowed(method.as_bytes());
            effects.push(Effect::Set { map: HeaderMapKind::Request, name: ":method", value });
        }
        edit_path(line.target, path, rewritten, listed, effects);
        let forward = &policy.identity_of(matched.route).forward;
        self.edit_headers(edited, forward, rewritten_mark(target), matched.parameters(), effects);
        Ok(())
    }

    /// The target's path, without a query.
    fn rewrite<'p>(&self, target: &'p Target, matched: &MatchedRoute<'_, '_>) -> Result<Cow<'p, str>, Problem> {
        target.path(&matched.decoded(), self.identity()).ok_or_else(no_segment)
    }

    /// Edits the headers for the backend. `parameters` are the headers with the path's parameters.
    #[inline(never)]
    pub(super) fn edit_headers<'a>(
        &self,
        edited: &EditedLines<'a>,
        forward: &'a Forward,
        mark: Option<&'static str>,
        parameters: Vec<(&'a str, Vec<u8>)>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let project = |identity: &'_ Identity| matches!(identity.project, Project::Named(_));
        let named = |name: &'a Option<String>, is_known: bool| name.as_deref().filter(|_| is_known);
        let identity = self.identity();
        let forwarded = [
            named(&forward.tenant, identity.is_some()),
            named(&forward.project, identity.is_some_and(project)),
            named(&forward.subject, identity.is_some()),
        ];
        let key = match self {
            Self::Keyed(key) => Some(&key.text),
            _ => None,
        };
        if !self.sends_key() && edited.has_key() {
            effects.push(Effect::Remove { map: HeaderMapKind::Request, name: IDEMPOTENCY_KEY.as_bytes() });
        }
        // Setting a header replaces all lines of that name, so those need no removal.
        let is_set = |name: &[u8]| {
            let is_name = |set: &&str| set.as_bytes() == name;
            forwarded.iter().flatten().any(is_name)
                || parameters.iter().any(|(set, _)| is_name(set))
                || mark.is_some() && is_name(&REWRITE_MARK)
                || key.is_some() && is_name(&IDEMPOTENCY_KEY)
        };
        let removed = edited.stripped_names().filter(|name| !is_set(name));
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::Request, name }));
        let mut set = |name: &'a str, value: Cow<'a, [u8]>| {
            effects.push(Effect::Set { map: HeaderMapKind::Request, name, value });
        };
        if let Some(identity) = identity {
            let values = [identity.tenant.as_str(), identity.project.as_str(), identity.subject.as_str()];
            for (name, value) in forwarded.into_iter().zip(values) {
                // A gateway that writes claims into headers has often set this one.
                if let Some(name) = name.filter(|name| !edited.has_only(name, value)) {
                    set(name, Cow::Owned(value.as_bytes().to_vec()));
                }
            }
        }
        for (name, value) in &edited.once {
            set(name, Cow::Borrowed(value));
        }
        for (name, value) in parameters {
            set(name, Cow::Owned(value));
        }
        if let Some(value) = mark {
            set(REWRITE_MARK, Cow::Borrowed(value.as_bytes()));
        }
        if let Some(key) = key {
            set(IDEMPOTENCY_KEY, Cow::Owned(key.as_bytes().to_vec()));
        }
    }
}

impl Exchange {
    /// Handles the request's trailers: names that are removed from the headers are removed here too.
    pub fn request_trailers<'a>(&mut self, policy: &'a Policy, trailers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        // No signature covers a trailer.
        let verifier = self.verifier(policy);
        let is_removed =
            |name: &&[u8]| is_stripped(policy, name) || verifier.is_some_and(|provider| provider.reads(name));
        let names = trailers.iter().map(|(name, _)| name).filter(is_removed).collect();
        let removed = distinct(names).into_iter();
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::RequestTrailers, name }));
    }
}

const fn rewritten_mark(target: Option<&Target>) -> Option<&'static str> {
    if target.is_some() { Some("1") } else { None }
}

/// Sets the path if it changes: the target's path with the listed query parameters, or the normalised path with the
/// unchanged query.
fn edit_path<'a>(
    target: &[u8],
    path: &str,
    rewritten: Option<Cow<'a, str>>,
    listed: &[String],
    effects: &mut Vec<Effect<'a>>,
) {
    let (raw, query) = split_query(target);
    let value: Cow<'a, [u8]> = match rewritten {
        Some(path) => {
            let pairs = query.unwrap_or_default().split(|byte| *byte == b'&').filter(|pair| is_listed(pair, listed));
            let pairs: Vec<&[u8]> = pairs.collect();
            match path {
                path if !pairs.is_empty() => Cow::Owned([path.as_bytes(), &pairs.join(&b'&')].join(&b'?')),
                Cow::Borrowed(fixed) => Cow::Borrowed(fixed.as_bytes()),
                Cow::Owned(path) => Cow::Owned(path.into_bytes()),
            }
        }
        None => {
            if raw == path.as_bytes() {
                return;
            }
            match query {
                Some(query) => Cow::Owned([path.as_bytes(), query].join(&b'?')),
                None => Cow::Owned(path.as_bytes().to_vec()),
            }
        }
    };
    if value != target {
        effects.push(Effect::Set { map: HeaderMapKind::Request, name: ":path", value });
    }
}

/// Whether the name of a query parameter, decoded as in a form (`+` is a space), is in the list.
fn is_listed(pair: &[u8], listed: &[String]) -> bool {
    if listed.is_empty() {
        return false;
    }
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    let plain: Vec<u8> = name.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&plain).is_some_and(|name| listed.iter().any(|listed| listed.as_bytes() == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::REQUEST_NAMES;

    /// [`RequestHead::read`] sees no other names than those of the policy and these.
    #[test]
    fn the_gate_knows_every_name_that_is_read() {
        let read: [&[u8]; 6] = [b":method", b":path", b":authority", IDEMPOTENCY_KEY.as_bytes(), REQUEST_ID, ATTEMPT];
        assert!(read.iter().all(|name| REQUEST_NAMES.iter().any(|known| known.as_bytes() == *name)));
    }
}
