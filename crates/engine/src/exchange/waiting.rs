//! A request that waits: which of its header lines are kept until it goes on, and whose memory they take
//! (docs/contract.md section 2, "Waiting"). The headers that the backend must not get are removed before the wait, so
//! they are not kept, however many a sender makes.

use super::matched_route::{MatchedRoute, RoutedRequest};
use super::request_head::{EditedLines, RequestLine, is_stripped};
use super::{Effect, Exchange, HeaderMapKind, State};
use crate::headers::{FieldValue, Headers, IDEMPOTENCY_KEY, distinct};
use crate::identity::Identity;
use crate::policy::path::split_query;
use crate::policy::{Policy, Route};
use std::sync::Arc;

/// Who takes the memory that a waiting request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiter {
    /// Nobody has verified who sends it. The text is the webhook id, or the signed caller, that the request names; it is
    /// empty while nobody knows whether there is such a webhook.
    Unverified(Arc<str>),
    /// A verified caller of this tenant.
    Tenant(Arc<str>),
}

/// What was read and decided of a request before it waits, so that nothing is decided again when the wait is over.
///
/// All of it is counted as memory that the request takes ([`Exchange::carried_bytes`]).
#[derive(Debug)]
pub(super) struct WaitingRequest {
    method: Box<[u8]>,
    /// The path with its query, as the client sent it
    target: Box<[u8]>,
    /// The normalised path, where the client has spelled it in another way
    normal_path: Option<Box<str>>,
    /// The values of the path's parameters, with a slash between two of them. No value has one.
    values: Box<str>,
}

impl WaitingRequest {
    /// What is kept of a request with its route.
    #[inline(never)]
    pub(super) fn of(request: &RoutedRequest<'_, '_>) -> Self {
        let RoutedRequest { line, path, matched, .. } = request;
        let is_normal = split_query(line.target).0 == path.as_bytes();
        Self {
            method: line.method.into(),
            target: line.target.into(),
            normal_path: (!is_normal).then(|| (*path).into()),
            values: matched.values.join("/").into(),
        }
    }

    pub(super) fn line(&self) -> RequestLine<'_> {
        RequestLine { method: &self.method, target: &self.target }
    }

    /// The route of the request, with the values of the path's parameters.
    pub(super) fn matched<'p>(&self, route: &'p Route) -> MatchedRoute<'p, '_> {
        let values = if self.values.is_empty() { Vec::new() } else { self.values.split('/').collect() };
        MatchedRoute::of(route, values)
    }

    /// The request as it goes on. `headers` are the lines that were kept of it.
    pub(super) fn routed<'r, 'a>(
        &'r self,
        matched: &'r MatchedRoute<'a, 'r>,
        edited: &'r EditedLines<'a>,
        headers: &'r Headers<'a>,
    ) -> RoutedRequest<'r, 'a> {
        let as_sent = || std::str::from_utf8(split_query(&self.target).0).unwrap_or_default();
        let path = self.normal_path.as_deref().unwrap_or_else(as_sent);
        RoutedRequest { line: self.line(), path, matched, edited, headers }
    }

    fn counted(&self) -> usize {
        self.method.len() + self.target.len() + self.normal_path.as_deref().map_or(0, str::len) + self.values.len()
    }
}

/// A request that waits until its signature can be verified.
#[derive(Debug)]
pub(super) struct UnverifiedRequest {
    pub(super) request: WaitingRequest,
    /// The beginning of the URL that the sender used, `https://api.example.com`; `None` if the policy has it
    origin: Option<Box<[u8]>>,
}

impl UnverifiedRequest {
    /// What is kept of a request to this authority.
    #[inline(never)]
    pub(super) fn of(policy: &Policy, request: &RoutedRequest<'_, '_>, authority: &[u8]) -> Self {
        let origin = || {
            let is_http = matches!(request.headers.field(":scheme"), FieldValue::One(b"http"));
            let scheme: &[u8] = if is_http { b"http://" } else { b"https://" };
            // The authority was checked: if it could contain a slash, the signed path could begin in it.
            [scheme, authority].concat().into()
        };
        let origin = policy.public_base_url().is_none().then(origin);
        Self { request: WaitingRequest::of(request), origin }
    }

    /// The URL that the sender used. `public_base_url` corrects scheme and host if a proxy in front of the gateway changed
    /// them.
    pub(super) fn url(&self, policy: &Policy) -> Vec<u8> {
        let base = || policy.public_base_url().unwrap_or_default().as_bytes();
        [self.origin.as_deref().unwrap_or_else(base), &self.request.target].concat()
    }

    fn counted(&self) -> usize {
        self.request.counted() + self.origin.as_deref().map_or(0, <[u8]>::len)
    }
}

impl Exchange {
    /// How many bytes of the request's head the exchange itself keeps while the request waits.
    pub fn carried_bytes(&self) -> usize {
        match &self.state {
            State::AwaitsDelivery(delivery) => delivery.request.as_ref().map_or(0, UnverifiedRequest::counted),
            State::AwaitsSignedBody(waiting) => waiting.request.counted(),
            State::AwaitsChecks(pending) => pending.request.counted(),
            State::AwaitsCaller(request) => request.counted(),
            // The path of the result takes the place of the request's own.
            _ => 0,
        }
    }

    /// The verified caller of a request, or of a response, that waits.
    pub(crate) fn waiting_caller(&self) -> Option<&Identity> {
        match &self.state {
            State::AwaitsChecks(pending) => pending.decision.identity(),
            State::AwaitsInvocation(recovery) => Some(&recovery.key.caller),
            State::AwaitsProgress(decision, ..) => decision.identity(),
            _ => None,
        }
    }

    /// Who takes the memory for the request, which waits.
    #[inline(never)]
    pub fn waiter(&self, policy: &Policy) -> Waiter {
        if let Some(identity) = self.waiting_caller() {
            return Waiter::Tenant(identity.tenant.as_str().into());
        }
        Waiter::Unverified(match &self.state {
            // The digest of the key, without the permissions.
            State::AwaitsCaller(request) => {
                format!("api key:{}", request.key.split(' ').next().unwrap_or_default()).into()
            }
            State::AwaitsDelivery(delivery) => delivery.webhook_id.clone(),
            State::AwaitsSignedBody(waiting) => {
                let name =
                    policy.callers().get(waiting.caller).map(|caller| caller.signature.name()).unwrap_or_default();
                // No webhook id has a colon.
                format!("caller:{name}").into()
            }
            _ => Arc::default(),
        })
    }

    /// The header lines that are read when the wait is over.
    #[inline(never)]
    pub fn kept_lines<'a>(&self, policy: &Policy, headers: &Headers<'a>) -> Headers<'a> {
        let caller = match &self.state {
            State::AwaitsSignedBody(waiting) => policy.callers().get(waiting.caller),
            _ => None,
        };
        let signature = match &self.state {
            State::AwaitsDelivery(delivery) if delivery.request.is_err() => return Headers::default(),
            State::AwaitsDelivery(delivery) => policy.provider(&delivery.provider),
            // It covers the headers with tenant and project, too.
            State::AwaitsSignedBody(_) => caller.map(|caller| &caller.signature),
            // A verified request's repeated lines become one.
            State::AwaitsChecks(_) => {
                self.signed_caller.and_then(|caller| policy.callers().get(caller)).map(|caller| &caller.signature)
            }
            _ => return Headers::default(),
        };
        let Some(signature) = signature else { return Headers::default() };
        // A fingerprint holds every line.
        let rules = self.route(policy).and_then(|route| route.collision.as_deref()).filter(|_| caller.is_some());
        let is_compared = |name: &[u8]| {
            rules.is_some_and(|rules| {
                name == b"content-type" || rules.headers.names.iter().any(|compared| compared.as_bytes() == name)
            })
        };
        let mut kept: Vec<(&[u8], &[u8])> = Vec::new();
        for (name, value) in headers.iter() {
            if is_compared(name) || signature.reads_line(name) && adds(&kept, (name, value)) {
                kept.push((name, value));
            }
        }
        Headers::new(kept)
    }

    /// Removes the headers of a request that waits, which the backend must not get whatever the wait brings.
    #[inline(never)]
    pub(super) fn edit_before_wait<'a>(
        &self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let is_delivery = matches!(self.state, State::AwaitsDelivery(_));
        let (is_recovery, router) = match &self.state {
            State::AwaitsInvocation(recovery) => (true, recovery.router),
            _ => (false, None),
        };
        let steers = |name: &[u8]| router.is_some_and(|router| name.starts_with(router.prefix.as_bytes()));
        let signature = match &self.state {
            State::AwaitsDelivery(delivery) => policy.provider(&delivery.provider),
            _ => self.signed_caller.and_then(|caller| policy.callers().get(caller)).map(|caller| &caller.signature),
        };
        let (backend, names) = (self.backend(policy), policy.request_names());
        // Other spellings of what verification reads.
        let looks_signed = |name: &[u8]| {
            signature.is_some_and(|signature| signature.reads(name) && !signature.reads_line(name))
                && !backend.keeps_header(name)
        };
        let kept = self.kept_key_header(policy);
        let is_removed = |name: &&[u8]| match *name {
            name if kept.is_some_and(|kept| kept.as_bytes() == name) => false,
            // The key of a delivery, and of a request for a result, is not the client's.
            name if name == IDEMPOTENCY_KEY.as_bytes() => is_delivery || is_recovery,
            name => names.may_match(name) && is_stripped(backend, name) || looks_signed(name) || steers(name),
        };
        let removed = distinct(headers.iter().map(|(name, _)| name).filter(is_removed).collect());
        effects.extend(removed.into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Request, name }));
    }
}

/// Whether a line tells more than the lines that are kept of its name: a header counts as absent, as one value, or as
/// ambiguous, and a repeated line is ambiguous where a line must not be repeated.
fn adds(kept: &[(&[u8], &[u8])], (name, value): (&[u8], &[u8])) -> bool {
    let mut same = kept.iter().filter(|(other, _)| *other == name).map(|(_, value)| value.trim_ascii());
    match (same.next(), same.next()) {
        (Some(first), Some(second)) => first == second && first != value.trim_ascii() && same.next().is_none(),
        _ => true,
    }
}
