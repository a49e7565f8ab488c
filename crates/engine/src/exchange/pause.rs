//! A request that waits: for what, and how it goes on. What is kept of it counts as memory of the one whose request it is
//! (docs/contract.md section 2, "Waiting"). The headers that the backend must not get are removed before the wait, so they are not kept,
//! however many a sender makes.

use super::decision::Decision;
use super::head::{EditedLines, RequestLine, is_stripped};
use super::route::{MatchedRoute, RoutedRequest};
use super::trace::TraceStep;
use super::{Effect, Exchange, HeaderMapKind, RequestFlow};
use crate::body::Body;
use crate::collision::BodyReader;
use crate::headers::{FieldValue, Headers, IDEMPOTENCY_KEY, RouterHints, distinct};
use crate::identity::Identity;
use crate::lookup::LookupAnswer;
use crate::policy::{Policy, Route};
use crate::problem::{Problem, Reason};
use crate::questions::PendingLookup;
use std::fmt;
use std::sync::Arc;

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// Its whole body.
    Body {
        /// The longest allowed body, in bytes. [`Pause::refuse_body`] handles a longer one.
        limit: u64,
    },
    /// Its end. Of the body only what `Pause::body_reader` gives is needed, so the host reads it in parts and keeps no copy.
    End {
        /// As in [`Awaits::Body`].
        limit: u64,
    },
    /// The answer to [`Pause::lookup`].
    Call {
        /// As in [`Awaits::Body`], since the body may come during the call.
        limit: u64,
    },
    /// Its whole body, which may hold its key. Nothing of it was edited, and nothing has to be kept of it.
    Key {
        /// As in [`Awaits::Body`].
        limit: u64,
    },
    /// The answer to [`Pause::lookup`], which says who its caller is. Nothing of it was edited, and nothing has to be kept of it.
    Caller {
        /// Whether it waits for its whole body, too, as in [`Awaits::Body`]: the route may need it. Otherwise the host reads nothing of
        /// the body until the request goes on, so that a body can have any length.
        limit: Option<u64>,
    },
}

impl Awaits {
    /// Whether an answer is awaited.
    pub const fn is_call(self) -> bool {
        matches!(self, Self::Call { .. } | Self::Caller { .. })
    }

    /// The longest allowed body, in bytes.
    pub const fn limit(self) -> u64 {
        match self {
            Self::Body { limit }
            | Self::End { limit }
            | Self::Key { limit }
            | Self::Call { limit }
            | Self::Caller { limit: Some(limit) } => limit,
            Self::Caller { limit: None } => u64::MAX,
        }
    }
}

/// What a request that waits gets.
#[derive(Debug)]
pub enum PauseEvent<'e> {
    /// Its whole body
    Body {
        /// The body
        body: &'e Body<'e>,
        /// Unix time in milliseconds
        now_unix_ms: u64,
    },
    /// Its end; what has read the whole body, if something has
    End(Option<BodyReader>),
    /// The answer to [`Pause::lookup`]
    Answer(LookupAnswer),
}

/// A request that goes on.
pub struct Resumed<'r, 'a> {
    /// The policy of the configuration
    pub policy: &'a Policy,
    /// The lines that were kept of it ([`Pause::kept_lines`]). For an answer they are not needed.
    pub headers: &'r Headers<'a>,
    /// What has come
    pub event: PauseEvent<'r>,
}

/// How a request goes on after a wait: what was decided of it, and what it needs.
pub(crate) trait Continuation {
    /// The lookup that it waits for.
    fn lookup(&self) -> Option<PendingLookup<'_>> {
        None
    }

    /// What reads the body in parts.
    fn body_reader(&self) -> Option<BodyReader> {
        None
    }

    /// The verified caller.
    fn caller(&self) -> Option<&Identity> {
        None
    }

    /// Whom the request names as its sender, if nobody has verified who sends it.
    fn sender(&self, _policy: &Policy) -> Arc<str> {
        Arc::default()
    }

    /// How many bytes of the request's head it keeps.
    fn carried_bytes(&self) -> usize {
        0
    }

    /// Whether none of its lines is kept, since it is refused in any case.
    fn is_refused(&self) -> bool {
        false
    }

    /// Whether the request's `Idempotency-Key` lines are no key of the client's, and do not get to the backend.
    fn drops_key(&self) -> bool {
        false
    }

    /// Whether it goes on without what it waits for, if there is no memory for it.
    fn may_go_on(&self) -> bool {
        false
    }

    /// The headers that control the gateway's router, which the filter sets when the request goes on.
    fn router(&self) -> Option<&'static RouterHints> {
        None
    }

    /// The decision, if there is one.
    fn into_decision(self: Box<Self>) -> Option<Decision> {
        None
    }

    /// Goes on, with what has come.
    ///
    /// # Errors
    /// The request is refused, or did not wait for this, which no host does.
    fn resume<'a>(
        self: Box<Self>,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem>;
}

/// What a decided request waits for before it is forwarded.
pub(crate) trait Check {
    /// What it waits for. `limit`: the longest body of the route, in bytes.
    fn awaits(&self, limit: u64) -> Awaits;

    /// The lookup that it waits for.
    fn lookup(&self) -> Option<PendingLookup<'_>> {
        None
    }

    /// What reads the body in parts.
    fn body_reader(&self) -> Option<BodyReader> {
        None
    }

    /// Takes what has come; `None` when the request may go on. The effects edit the request's headers.
    ///
    /// # Errors
    /// The request is refused, or did not wait for this, which no host does.
    fn take(
        self: Box<Self>,
        exchange: &mut Exchange,
        event: PauseEvent<'_>,
        effects: &mut Vec<Effect<'_>>,
    ) -> Result<Option<Box<dyn Check>>, Problem>;
}

/// A request whose caller is known, and which is evaluated again; with whom it names as its sender.
struct AnotherLook(Arc<str>);

impl Continuation for AnotherLook {
    fn sender(&self, _: &Policy) -> Arc<str> {
        Arc::clone(&self.0)
    }

    fn resume<'a>(
        self: Box<Self>,
        _: &mut Exchange,
        _: Resumed<'_, 'a>,
        _: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        Ok(RequestFlow::Again)
    }
}

/// A request that waits.
pub struct Pause {
    awaits: Awaits,
    continuation: Box<dyn Continuation>,
}

/// Without what goes on, whose text the module would have for nothing.
impl fmt::Debug for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.awaits.fmt(f)
    }
}

impl Pause {
    /// Has a request wait.
    pub(crate) fn until(awaits: Awaits, continuation: impl Continuation + 'static) -> RequestFlow {
        Self::boxed(awaits, Box::new(continuation))
    }

    /// As [`Pause::until`], for one that has waited before.
    pub(crate) fn boxed(awaits: Awaits, continuation: Box<dyn Continuation>) -> RequestFlow {
        RequestFlow::Paused(Self { awaits, continuation })
    }

    /// Has a request wait for its end, which is evaluated again then: its caller is known.
    pub(crate) fn before_another_look(limit: u64, sender: Arc<str>) -> Self {
        Self { awaits: Awaits::End { limit }, continuation: Box::new(AnotherLook(sender)) }
    }

    /// Whether it goes on without what it waits for, if there is no memory for it.
    pub(crate) fn may_go_on(&self) -> bool {
        self.continuation.may_go_on()
    }

    /// Whom it names as its sender, if nobody has verified who sends it.
    pub(crate) fn sender(&self, policy: &Policy) -> Arc<str> {
        self.continuation.sender(policy)
    }

    /// What it waits for.
    pub const fn awaits(&self) -> Awaits {
        self.awaits
    }

    /// The lookup that it waits for.
    pub fn lookup(&self) -> Option<PendingLookup<'_>> {
        self.continuation.lookup()
    }

    /// Whether lines are kept of the request, which goes on with these ([`Pause::kept_lines`]).
    pub(crate) const fn keeps_lines(&self) -> bool {
        !matches!(self.awaits, Awaits::Caller { .. } | Awaits::Key { .. })
    }

    /// What reads the body of a request that waits for its end; `None` if nothing of the body is needed.
    pub(crate) fn body_reader(&self) -> Option<BodyReader> {
        self.continuation.body_reader().filter(|_| matches!(self.awaits, Awaits::End { .. }))
    }

    /// The verified caller of the request.
    pub(crate) fn caller(&self) -> Option<&Identity> {
        self.continuation.caller()
    }

    /// How many bytes of the request's head are kept beside [`Pause::kept_lines`].
    pub fn carried_bytes(&self) -> usize {
        self.continuation.carried_bytes()
    }

    /// Who takes the memory for the request.
    pub fn waiter(&self, policy: &Policy) -> Waiter {
        match self.caller() {
            Some(identity) => Waiter::Tenant(identity.tenant.as_str().into()),
            None => Waiter::Unverified(self.continuation.sender(policy)),
        }
    }

    pub(super) fn into_decision(self) -> Option<Decision> {
        self.continuation.into_decision()
    }

    /// Goes on with what has come. The effects edit the request's headers. The flow may be another pause.
    pub fn resume<'a>(
        self,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let result = self.continuation.resume(exchange, resumed, effects);
        exchange.flow_of(result, effects)
    }

    /// Refuses a body that is longer than the limit.
    pub fn refuse_body(self, exchange: &mut Exchange, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        exchange.begin(TraceStep::Body);
        let problem = Problem::body_too_large(self.awaits.limit());
        exchange.end_pause(self);
        exchange.flow_of(Err(problem), effects)
    }

    /// Refuses a request that has to wait, because the waiting requests use all of the memory that they may use. `reason`
    /// says which of them.
    pub(crate) fn refuse_memory(
        self,
        exchange: &mut Exchange,
        reason: Reason,
        effects: &mut Vec<Effect<'_>>,
    ) -> RequestFlow {
        exchange.end_pause(self);
        let problem = exchange.with_reason(reason, Problem::dependency_unavailable());
        exchange.flow_of(Err(problem), effects)
    }

    /// The header lines that are read when the wait is over: those that what verifies the request reads, and those that the route
    /// compares.
    pub fn kept_lines<'a>(&self, exchange: &Exchange, policy: &Policy, headers: &Headers<'a>) -> Headers<'a> {
        let signature = exchange.verifier(policy).filter(|_| !self.continuation.is_refused());
        let Some(signature) = signature else { return Headers::default() };
        let rules = exchange.route(policy).and_then(|route| route.collision.as_deref());
        let is_compared = |name: &[u8]| rules.is_some_and(|rules| rules.compares(name));
        let mut kept: Vec<(&[u8], &[u8])> = Vec::new();
        for (name, value) in headers.iter() {
            if is_compared(name) || signature.reads_line(name) && adds(&kept, (name, value)) {
                kept.push((name, value));
            }
        }
        Headers::new(kept)
    }

    /// Removes the headers of the request which the backend must not get whatever the wait brings.
    pub(crate) fn edit_before_wait<'a>(
        &self,
        exchange: &Exchange,
        policy: &'a Policy,
        headers: &Headers<'a>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let (drops_key, router) = (self.continuation.drops_key(), self.continuation.router());
        let steers = |name: &[u8]| router.is_some_and(|router| name.starts_with(router.prefix.as_bytes()));
        let signature = exchange.verifier(policy);
        let (backend, names) = (exchange.backend(policy), policy.request_names());
        // Other spellings of what verification reads.
        let looks_signed = |name: &[u8]| {
            signature.is_some_and(|signature| signature.reads(name) && !signature.reads_line(name))
                && !backend.keeps_header(name)
        };
        let kept = exchange.kept_key_header(policy);
        let is_removed = |name: &&[u8]| match *name {
            name if kept.is_some_and(|kept| kept.as_bytes() == name) => false,
            name if name == IDEMPOTENCY_KEY.as_bytes() => drops_key,
            name => names.may_match(name) && is_stripped(backend, name) || looks_signed(name) || steers(name),
        };
        let removed = distinct(headers.iter().map(|(name, _)| name).filter(is_removed).collect());
        effects.extend(removed.into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Request, name }));
    }
}

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
/// All of it is counted as memory that the request takes ([`Pause::carried_bytes`]).
#[derive(Debug)]
pub(crate) struct KeptRequest {
    method: Box<[u8]>,
    /// The path with its query, as the client sent it
    target: Box<[u8]>,
    /// The normalised path, where the client has spelled it in another way
    normal_path: Option<Box<str>>,
    /// The values of the path's parameters, with a slash between two of them. No value has one.
    values: Box<str>,
}

impl KeptRequest {
    /// What is kept of a request with its route.
    pub(crate) fn of(request: &RoutedRequest<'_, '_>) -> Self {
        let RoutedRequest { line, path, matched, .. } = request;
        let is_normal = line.raw_path == path.as_bytes();
        Self {
            method: line.method.into(),
            target: line.target.into(),
            normal_path: (!is_normal).then(|| (*path).into()),
            values: matched.values.join("/").into(),
        }
    }

    pub(crate) fn line(&self) -> RequestLine<'_> {
        RequestLine::new(&self.method, &self.target)
    }

    /// The route of the request, with the values of the path's parameters.
    pub(crate) fn matched<'p>(&self, route: &'p Route) -> MatchedRoute<'p, '_> {
        let values = if self.values.is_empty() { Vec::new() } else { self.values.split('/').collect() };
        MatchedRoute::of(route, values)
    }

    /// The request as it goes on. `headers` are the lines that were kept of it.
    pub(crate) fn routed<'r, 'a>(
        &'r self,
        matched: &'r MatchedRoute<'a, 'r>,
        edited: &'r EditedLines<'a>,
        headers: &'r Headers<'a>,
    ) -> RoutedRequest<'r, 'a> {
        let as_sent = || std::str::from_utf8(self.line().raw_path).unwrap_or_default();
        let path = self.normal_path.as_deref().unwrap_or_else(as_sent);
        RoutedRequest { line: self.line(), path, matched, edited, headers }
    }

    pub(crate) fn counted(&self) -> usize {
        self.method.len() + self.target.len() + self.normal_path.as_deref().map_or(0, str::len) + self.values.len()
    }
}

/// A request that waits until its signature can be verified.
#[derive(Debug)]
pub(crate) struct UnverifiedRequest {
    pub(crate) request: KeptRequest,
    /// The beginning of the URL that the sender used, `https://api.example.com`; `None` if the policy has it
    origin: Option<Box<[u8]>>,
}

impl UnverifiedRequest {
    /// What is kept of a request to this authority.
    pub(crate) fn of(policy: &Policy, request: &RoutedRequest<'_, '_>, authority: &[u8]) -> Self {
        let origin = || {
            let is_http = matches!(request.headers.field(":scheme"), FieldValue::One(b"http"));
            let scheme: &[u8] = if is_http { b"http://" } else { b"https://" };
            // The authority was checked: if it could contain a slash, the signed path could begin in it.
            [scheme, authority].concat().into()
        };
        let origin = policy.public_base_url().is_none().then(origin);
        Self { request: KeptRequest::of(request), origin }
    }

    /// The URL that the sender used. `public_base_url` corrects scheme and host if a proxy in front of the gateway changed
    /// them.
    pub(crate) fn url(&self, policy: &Policy) -> Vec<u8> {
        let base = || policy.public_base_url().unwrap_or_default().as_bytes();
        [self.origin.as_deref().unwrap_or_else(base), &self.request.target].concat()
    }

    pub(crate) fn counted(&self) -> usize {
        self.request.counted() + self.origin.as_deref().map_or(0, <[u8]>::len)
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
