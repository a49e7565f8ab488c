//! Callers with API keys (docs/contract.md section 3). The registry is asked whose the key is before anything is decided about
//! the request. Then the request is evaluated again from the beginning, with what the registry says: nothing has to be kept of
//! it meanwhile.

use super::matched_route::MatchedRoute;
use super::refusal::body_can_be_awaited;
use super::request_head::{EditedLines, RequestLine};
use super::trace::{TraceEvent, TraceStep};
use super::{Exchange, RequestFlow, State};
use crate::headers::{FieldValue, Headers};
use crate::identity::{self, Attributes, KeyHolder, Rules};
use crate::lookup::{KeyQuestion, LookupFailure, LookupRequest, StoreAnswer, StoreKind};
use crate::policy::document::IdentityRules;
use crate::policy::{Mode, Policy, Route};
use crate::problem::{Problem, Reason};
use std::sync::Arc;

impl Exchange {
    /// Finds out whose the request is, where a source of the identity is the registry of API keys. `Some`: the request waits
    /// for the registry. `may_wait`: its route has it wait for its whole body later on.
    ///
    /// # Errors
    /// The request has no caller and needs one, or its API key is malformed.
    #[inline(never)]
    pub(super) fn await_caller(
        &mut self,
        policy: &Policy,
        (route, line): (Option<&Route>, RequestLine<'_>),
        may_wait: bool,
        headers: &Headers<'_>,
        attributes: &dyn Attributes,
    ) -> Result<Option<RequestFlow>, Problem> {
        let rules = policy.identity_of(route);
        let Some(place) = rules.api_keys() else { return Ok(None) };
        self.begin(TraceStep::Identity);
        if self.holder.is_some() {
            if let Some((store, result)) = self.telemetry.lookups.last().copied() {
                self.note(|| TraceEvent::Lookup { store, result });
            }
            return Ok(None);
        }
        match identity::asked_source(&rules.sources, headers, attributes) {
            Some(source) if source.api_key.is_none() => Ok(None),
            Some(_) => {
                let key =
                    place.find(headers).map_err(|why| self.because(why, Problem::api_key_invalid(Some(place))))?;
                let key = key.ok_or_else(Problem::internal_error)?;
                let permissions = route.and_then(|route| route.api_key.permissions.clone());
                let question = KeyQuestion { key, permissions };
                self.state = State::AwaitsCaller(Box::new(LookupRequest::about_key(question)));
                // What waits later on waits for its whole body, and a gateway lets a body go on as a whole or as it comes. A body
                // that cannot be waited for is refused when the caller is known.
                let limit = route.filter(|_| may_wait).map(|route| route.max_body_bytes);
                let limit = limit.filter(|limit| body_can_be_awaited(headers, *limit).is_ok());
                Ok(Some(RequestFlow::AwaitCaller { limit }))
            }
            None if is_preflight(line, headers) || route.is_some_and(|route| route.api_key.is_optional) => Ok(None),
            None => Err(without_caller(policy, rules, headers, attributes)),
        }
    }

    /// The header with the request's API key, if its backend gets it: the registry was asked about it.
    pub(super) fn kept_key_header<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        let place = policy.identity_of(self.route(policy)).api_keys().filter(|_| self.holder.is_some())?;
        let backend = self.backend(policy);
        let keeps = backend.abilities().gets_credentials && backend.keeps_header(place.header.as_bytes());
        keeps.then_some(place.header.as_str())
    }

    /// Takes what the registry says of the API key. The request is evaluated again.
    #[inline(never)]
    pub(super) fn on_holder(
        &mut self,
        policy: &Policy,
        answer: StoreAnswer<Arc<KeyHolder>>,
    ) -> Result<RequestFlow, Problem> {
        self.note_lookup(StoreKind::ApiKeys.name(), answer.name());
        match answer.result {
            Ok(holder) => {
                self.holder = Some(holder);
                Ok(RequestFlow::Again)
            }
            Err(why) => Err(match why {
                LookupFailure::Unknown(reason) => {
                    let place = policy.identity_of(self.route(policy)).api_keys();
                    self.because(reason, Problem::api_key_invalid(place))
                }
                LookupFailure::Forbidden(reason) => self.because(reason, Problem::api_key_forbidden()),
                LookupFailure::RateLimited { seconds } => {
                    self.because(Reason::ApiKeyRateLimited, Problem::rate_limited(seconds))
                }
                LookupFailure::Unavailable(reason) => self.because(reason, Problem::backend_check_failed()),
            }),
        }
    }
}

/// Whether a request waits for its whole body once its caller is known, by its route and its key (docs/contract.md section 6).
pub(super) fn may_wait(matched: &MatchedRoute<'_, '_>, edited: &EditedLines<'_>) -> bool {
    let waits = |route: &Route| route.in_flight.is_some() || route.collision.as_ref().is_some_and(|rules| rules.waits);
    edited.has_key() && matched.kind.is_case_a() && matched.mode == Mode::Enforce && matched.route.is_some_and(waits)
}

/// Whether it is a browser's preflight request, which has no credentials (Fetch standard, CORS-preflight fetch).
fn is_preflight(line: RequestLine<'_>, headers: &Headers<'_>) -> bool {
    let has = |name: &str| headers.field(name) != FieldValue::Absent;
    line.method == b"OPTIONS" && has("origin") && has("access-control-request-method")
}

/// The problem of a request of which no source has a value.
#[inline(never)]
fn without_caller(
    policy: &Policy,
    rules: &IdentityRules,
    headers: &Headers<'_>,
    attributes: &dyn Attributes,
) -> Problem {
    let rules_of_scope = Rules { scope: None, reserved: policy.reserved_subjects(), holder: None };
    let resolved = identity::resolve(&rules.sources, &rules_of_scope, headers, attributes);
    resolved.err().map_or_else(Problem::internal_error, |why| Problem::identity(&why))
}
