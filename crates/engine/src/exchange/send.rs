//! Edits a request for the backend: method, path, key, identity headers, and what the backend does not get.

use super::decision::{Decision, EnforcedDecision};
use super::head::{EditedLines, RequestLine, is_stripped};
use super::refusal::no_segment;
use super::route::{MatchedRoute, RoutedRequest};
use super::trace::TraceStep;
use super::{Effect, Exchange, HeaderMapKind, RequestFlow};
use crate::backend::{Backend, restate};
use crate::bytes::equal;
use crate::headers::{Headers, IDEMPOTENCY_KEY, distinct};
use crate::identity::{Identity, Project};
use crate::percent::percent_decode;
use crate::policy::document::Forward;
use crate::policy::path::NormalPath;
use crate::policy::target::Target;
use crate::policy::{Policy, REWRITE_MARK};
use crate::problem::Problem;
use std::borrow::Cow;

/// Edits the request for the backend, by the decision: it goes there.
pub(crate) fn send<'a>(
    exchange: &mut Exchange,
    decision: Decision,
    policy: &'a Policy,
    request: &RoutedRequest<'_, 'a>,
    effects: &mut Vec<Effect<'a>>,
) -> Result<RequestFlow, Problem> {
    let edited = decision.edit(policy, request, effects);
    if edited.is_err() {
        // The target has no path for these values.
        exchange.begin(TraceStep::Route);
    }
    exchange.forwarded(decision);
    edited.map(|()| RequestFlow::Continue)
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
        let backend = policy.backend_of(matched.route);
        let listed = matched.route.map(|route| route.query.as_slice()).unwrap_or_default();
        let query = KeptQuery::of(backend, target.is_some(), listed);
        let method = target.and_then(|_| backend.target_method(line.method));
        if let Some(method) = method {
            let value = Cow::Borrowed(method.as_bytes());
            effects.push(Effect::Set { map: HeaderMapKind::Request, name: ":method", value });
        }
        if rewritten.is_some() || !policy.only_watches() {
            edit_path(line, path, rewritten.ok_or(backend.abilities().keeps_slashes), &query, effects);
        }
        let forward = &policy.identity_of(matched.route).forward;
        let mut added = matched.parameters();
        if let (Some(name), Some(EnforcedDecision::Keyed(key))) = (policy.shadow_key_header.as_deref(), self.shadowed())
        {
            added.push((name, key.text.clone().into_bytes()));
        }
        if let (Some(name), Self::Keyed(key)) = (&policy.backend_of(matched.route).key_header, self) {
            added.push((name, key.text.clone().into_bytes()));
        }
        self.edit_headers(edited, forward, policy.mark_of(matched.route), added, effects);
        Ok(())
    }

    /// The target's path, without a query.
    fn rewrite<'p>(&self, target: &'p Target, matched: &MatchedRoute<'_, '_>) -> Result<Cow<'p, str>, Problem> {
        let mut values = matched.decoded();
        values.extend_from_slice(&matched.members);
        target.path(&values, self.identity()).ok_or_else(no_segment)
    }

    /// Edits the headers for the backend. `added` are the headers with the path's parameters, and those that repeat the key.
    pub(crate) fn edit_headers<'a>(
        &self,
        edited: &EditedLines<'a>,
        forward: &'a Forward,
        mark: Option<&'a str>,
        added: Vec<(&'a str, Vec<u8>)>,
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
        for (name, value) in added {
            set(name, Cow::Owned(value));
        }
        if let Some(value) = mark {
            set(REWRITE_MARK, Cow::Borrowed(value.as_bytes()));
        }
        if let Some(key) = key {
            set(IDEMPOTENCY_KEY, Cow::Owned(key.as_bytes().to_vec()));
        }
        if !self.sends_key() && edited.has_key() {
            effects.push(Effect::Remove { map: HeaderMapKind::Request, name: IDEMPOTENCY_KEY.as_bytes() });
        }
        // Setting a header replaces all lines of that name, so those need no removal.
        let edits = effects.len();
        for name in edited.stripped_names() {
            let is_set =
                |effect: &Effect<'_>| matches!(effect, Effect::Set { name: set, .. } if set.as_bytes() == name);
            let is_forwarded = forwarded.iter().flatten().any(|set| set.as_bytes() == name);
            if !is_forwarded && !effects.iter().take(edits).any(is_set) {
                effects.push(Effect::Remove { map: HeaderMapKind::Request, name });
            }
        }
    }
}

impl Exchange {
    /// Handles the request's trailers: names that are removed from the headers are removed here too.
    pub fn request_trailers<'a>(&mut self, policy: &'a Policy, trailers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        // No signature covers a trailer.
        let (backend, verifier) = (self.backend(policy), self.verifier(policy));
        let is_removed =
            |name: &&[u8]| is_stripped(backend, name) || verifier.is_some_and(|provider| provider.reads(name));
        let names = trailers.iter().map(|(name, _)| name).filter(is_removed).collect();
        let removed = distinct(names).into_iter();
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::RequestTrailers, name }));
    }
}

/// Which parameters of the query the backend gets (docs/contract.md section 4).
enum KeptQuery<'p> {
    /// All of them, as they came
    All,
    /// All but those that steer Restate. Without a target the path does not lead there where the filter writes Restate's paths; the
    /// gateway may do it all the same.
    NotSteering,
    /// Those of the list. `semicolons`: they separate parameters, too
    Listed { names: &'p [String], semicolons: bool },
}

impl<'p> KeptQuery<'p> {
    const fn of(backend: &Backend, to_target: bool, names: &'p [String]) -> Self {
        match (backend.abilities().has_steering_query, to_target) {
            (true, false) if backend.rewrite_path => Self::NotSteering,
            (false, false) => Self::All,
            (semicolons, _) => Self::Listed { names, semicolons },
        }
    }

    /// What the backend gets of a query; `None` for nothing.
    fn cut<'q>(&self, query: &'q [u8]) -> Option<Cow<'q, [u8]>> {
        let parts = |semicolons: bool| query.split(move |byte| *byte == b'&' || semicolons && *byte == b';');
        let kept: Vec<&[u8]> = match self {
            Self::All => return Some(Cow::Borrowed(query)),
            Self::NotSteering if !parts(true).any(is_steering) => return Some(Cow::Borrowed(query)),
            Self::NotSteering => parts(true).filter(|part| !is_steering(part)).collect(),
            Self::Listed { names, semicolons } => parts(*semicolons).filter(|part| is_listed(part, names)).collect(),
        };
        (!kept.is_empty()).then(|| Cow::Owned(kept.join(&b'&')))
    }
}

/// Sets the path if it changes: the target's path, or the normalised path, for a backend that keeps slashes with the client's; with
/// what the backend gets of the query. `rewritten`: the target's path, or whether the backend keeps slashes.
fn edit_path<'a>(
    line: RequestLine<'_>,
    path: &str,
    rewritten: Result<Cow<'a, str>, bool>,
    kept: &KeptQuery<'_>,
    effects: &mut Vec<Effect<'a>>,
) {
    let RequestLine { target, raw_path: raw, query, .. } = line;
    let query_kept = query.and_then(|query| kept.cut(query));
    let is_same_query = query_kept.as_deref() == query;
    let is_normal = equal(raw, path.as_bytes());
    let spelled = match &rewritten {
        Err(true) if !is_normal => NormalPath::parse(raw).ok(),
        _ => None,
    };
    let path = spelled.as_ref().map_or(path, NormalPath::with_slashes);
    let value: Cow<'a, [u8]> = match (rewritten, query_kept) {
        (Err(_), _) if is_normal && is_same_query => return,
        (Ok(path), Some(query)) => Cow::Owned([path.as_bytes(), &query].join(&b'?')),
        (Ok(Cow::Borrowed(fixed)), None) => Cow::Borrowed(fixed.as_bytes()),
        (Ok(Cow::Owned(path)), None) => Cow::Owned(path.into_bytes()),
        (Err(_), Some(query)) => Cow::Owned([path.as_bytes(), &query].join(&b'?')),
        (Err(_), None) => Cow::Owned(path.as_bytes().to_vec()),
    };
    if value != target {
        effects.push(Effect::Set { map: HeaderMapKind::Request, name: ":path", value });
    }
}

/// The name of a query parameter, decoded as in a form (`+` is a space); `None` if its escapes are malformed.
fn parameter_name(part: &[u8]) -> Option<Vec<u8>> {
    let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
    let plain: Vec<u8> = name.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&plain)
}

fn is_listed(part: &[u8], listed: &[String]) -> bool {
    !listed.is_empty() && parameter_name(part).is_some_and(|name| listed.iter().any(|listed| listed.as_bytes() == name))
}

/// Whether a parameter steers Restate. One whose escapes are malformed may do so for a reader that forgives it.
fn is_steering(part: &[u8]) -> bool {
    parameter_name(part).is_none_or(|name| restate::steers(&name))
}
