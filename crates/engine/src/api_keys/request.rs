//! The registry is asked whose the key is before anything is decided about the request. Then the request is evaluated again from the
//! beginning, with what the registry says: nothing has to be kept of it meanwhile.

use crate::exchange::{
    Awaits, Caller, Continuation, Effect, Exchange, Pause, PauseEvent, RequestFlow, RequestLine, Resumed, TraceStep,
    body_can_be_awaited,
};
use crate::headers::{FieldValue, Headers};
use crate::identity::{self, Attributes};
use crate::lookup::{KeyQuestion, LookupAnswer, LookupFailure, LookupRequest, StoreKind};
use crate::policy::{Policy, Route};
use crate::problem::{Problem, Reason};
use crate::questions::PendingLookup;
use std::sync::Arc;

/// A request whose caller may be known by an API key.
pub(crate) struct Asked<'r, 'p> {
    /// Its route, if it has one
    pub(crate) route: Option<&'p Route>,
    pub(crate) line: RequestLine<'r>,
    /// Whether its route has it wait for its whole body later on
    pub(crate) may_wait: bool,
    pub(crate) headers: &'r Headers<'r>,
    pub(crate) attributes: &'r dyn Attributes,
}

/// Finds out whose the request is, where a source of the identity is the registry of API keys. `Some`: the request waits for the registry.
///
/// # Errors
/// The request has no caller and needs one, or its API key is malformed.
pub(crate) fn await_caller(
    exchange: &mut Exchange,
    policy: &Policy,
    asked: &Asked<'_, '_>,
) -> Result<Option<RequestFlow>, Problem> {
    let Asked { route, line, may_wait, headers, attributes } = *asked;
    let rules = policy.identity_of(route);
    let Some(place) = rules.api_keys() else { return Ok(None) };
    exchange.begin(TraceStep::Identity);
    if exchange.holder.is_some() {
        return Ok(None);
    }
    match identity::asked_source(&rules.sources, headers, attributes) {
        Some(source) if source.api_key.is_none() => Ok(None),
        Some(_) => {
            let key =
                place.find(headers).map_err(|why| exchange.with_reason(why, Problem::api_key_invalid(Some(place))))?;
            let key = key.ok_or_else(Problem::internal_error)?;
            let permissions = route.and_then(|route| route.api_key.permissions.clone());
            let question = KeyQuestion { key, permissions };
            // What waits later on waits for its whole body, and a gateway lets a body go on as a whole or as it comes. A body
            // that cannot be waited for is refused when the caller is known.
            let limit = route.filter(|_| may_wait).map(|route| route.max_body_bytes);
            let limit = limit.filter(|limit| body_can_be_awaited(headers, *limit).is_ok());
            Ok(Some(Pause::until(Awaits::Caller { limit }, AsksHolder(LookupRequest::about_key(question)))))
        }
        None if is_preflight(line, headers) || route.is_some_and(|route| route.api_key.is_optional) => Ok(None),
        None => {
            let resolved = Caller::of(exchange, policy, route, headers, attributes).resolve_in(None);
            Err(resolved.err().map_or_else(Problem::internal_error, |why| Problem::identity(&why)))
        }
    }
}

/// A request that waits for what the registry says of its API key.
struct AsksHolder(LookupRequest);

impl Continuation for AsksHolder {
    fn lookup(&self) -> Option<PendingLookup<'_>> {
        Some(PendingLookup::Store(&self.0))
    }

    fn sender(&self, _: &Policy) -> Arc<str> {
        // The digest of the key, without the permissions.
        format!("api key:{}", self.0.key.split(' ').next().unwrap_or_default()).into()
    }

    fn carried_bytes(&self) -> usize {
        self.0.counted()
    }

    fn resume<'a>(
        self: Box<Self>,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        _: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let PauseEvent::Answer(LookupAnswer::Holder(answer)) = resumed.event else {
            return Err(Problem::internal_error());
        };
        exchange.note_lookup(StoreKind::ApiKeys.name(), answer.name());
        match answer.result {
            Ok(holder) => {
                exchange.holder = Some(holder);
                Ok(RequestFlow::Again)
            }
            Err(why) => Err(match why {
                LookupFailure::Unknown(reason) => {
                    let place = resumed.policy.identity_of(exchange.route(resumed.policy)).api_keys();
                    exchange.with_reason(reason, Problem::api_key_invalid(place))
                }
                LookupFailure::Forbidden(reason) => exchange.with_reason(reason, Problem::api_key_forbidden()),
                LookupFailure::RateLimited { seconds } => {
                    exchange.with_reason(Reason::ApiKeyRateLimited, Problem::rate_limited(seconds))
                }
                LookupFailure::Unavailable(reason) => exchange.with_reason(reason, Problem::backend_check_failed()),
            }),
        }
    }
}

/// Whether it is a browser's preflight request, which has no credentials (Fetch standard, CORS-preflight fetch).
fn is_preflight(line: RequestLine<'_>, headers: &Headers<'_>) -> bool {
    let has = |name: &str| headers.field(name) != FieldValue::Absent;
    line.method == b"OPTIONS" && has("origin") && has("access-control-request-method")
}
