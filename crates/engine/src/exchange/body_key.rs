//! A request whose body may hold its key waits for the body before anything is decided about it. Then it is evaluated again from the
//! beginning, with what the body holds: nothing has to be kept of it meanwhile.

use super::caller::Caller;
use super::head::IncomingRequest;
use super::pause::{Awaits, Continuation, Pause, PauseEvent, Resumed};
use super::refusal::body_can_be_awaited;
use super::route::MatchedRoute;
use super::trace::TraceStep;
use super::{Effect, Exchange, RequestFlow};
use crate::headers::{FieldValue, Headers};
use crate::identity::Identity;
use crate::key::{KeyError, KeyRules, find_in_body};
use crate::policy::{Mode, PolicyKind, Route};
use crate::problem::Problem;

/// The route of a request whose key may be in the body.
fn with_key_in_body<'p>(matched: &MatchedRoute<'p, '_>) -> Option<&'p Route> {
    matched.route.filter(|route| matched.kind.is_case_a() && route.key.as_deref().is_some_and(KeyRules::reads_body))
}

/// Whether the filter looks for the key of a request in its body. In shadow mode it does so only if the length of the body is known
/// and fits, since nothing may be refused.
pub(crate) fn reads_body_key(matched: &MatchedRoute<'_, '_>, headers: &Headers<'_>) -> bool {
    with_key_in_body(matched).is_some_and(|route| match matched.mode {
        Mode::Enforce => true,
        Mode::Shadow => {
            headers.content_length().is_some_and(|length| length <= route.max_body_bytes)
                && headers.field("upgrade") == FieldValue::Absent
        }
    })
}

/// Has a request wait for its body, if that may hold the key and was not read. `Some`: it waits.
///
/// # Errors
/// The body cannot be waited for, or the key is required and the caller is not known.
pub(crate) fn await_body_key(
    exchange: &mut Exchange,
    incoming: IncomingRequest<'_, '_>,
    matched: &MatchedRoute<'_, '_>,
) -> Result<Option<RequestFlow>, Problem> {
    let IncomingRequest { policy, headers, attributes } = incoming;
    if exchange.body_key.is_some() || exchange.leaves_body || !reads_body_key(matched, headers) {
        return Ok(None);
    }
    let limit = matched.route.map_or(0, |route| route.max_body_bytes);
    let caller = Caller::of(exchange, policy, matched.route, headers, attributes).resolve();
    if let (PolicyKind::RequiredA, Mode::Enforce, Err(why)) = (matched.kind, matched.mode, &caller) {
        exchange.begin(TraceStep::Identity);
        return Err(Problem::identity(why));
    }
    if let Ok(caller) = &caller {
        exchange.facts.verified_identity = Some(caller.clone());
    }
    if headers.have_coding() {
        // The backend would read another text.
        exchange.body_key = Some(Box::new(Err(KeyError::BodyNotJson)));
        return Ok(None);
    }
    exchange.begin(TraceStep::Body);
    body_can_be_awaited(headers, limit)?;
    let is_watched = matched.mode == Mode::Shadow;
    Ok(Some(Pause::until(Awaits::Key { limit }, ReadsKey { caller: caller.ok(), is_watched })))
}

/// What enforcing would say of a request in shadow mode whose body may hold the key and was not read. `Some(None)`: nobody knows.
pub(crate) fn unread_body(matched: &MatchedRoute<'_, '_>, headers: &Headers<'_>) -> Option<Option<Problem>> {
    with_key_in_body(matched).map(|route| body_can_be_awaited(headers, route.max_body_bytes).err())
}

/// A request whose body is read for its key.
struct ReadsKey {
    /// Its caller, if that is known
    caller: Option<Identity>,
    /// Whether it is in shadow mode
    is_watched: bool,
}

impl Continuation for ReadsKey {
    fn caller(&self) -> Option<&Identity> {
        self.caller.as_ref()
    }

    fn may_go_on(&self) -> bool {
        self.is_watched
    }

    fn resume<'a>(
        self: Box<Self>,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        _: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let PauseEvent::Body { body, .. } = resumed.event else { return Err(Problem::internal_error()) };
        let route = exchange.known_route(resumed.policy)?;
        let places = route.key.as_deref().map(|rules| &*rules.from).unwrap_or_default();
        exchange.body_key = Some(Box::new(find_in_body(places, body)));
        Ok(RequestFlow::Again)
    }
}
