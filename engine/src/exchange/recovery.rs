//! Recovery: a caller asks for the stored result of a call of its own, with the key of that call in the path (docs/contract.md
//! section 6). The key gets the present caller's namespace, so nobody can name another's result.

use super::request::{MatchedRoute, RequestHead};
use super::{Decision, Effect, Exchange, HeaderMapKind, State};
use crate::headers::{Headers, RouterHints, distinct};
use crate::identity::{self, AttributeValue, Attributes, Identity, Rules};
use crate::key::{self, RawKey};
use crate::percent::percent_decode;
use crate::policy::Policy;
use crate::policy::path::{NormalPath, PathError};
use crate::policy::recovery::{RecoveryPath, Wait};
use crate::problem::Problem;
use crate::telemetry::Case;
use std::borrow::Cow;

impl Exchange {
    /// Reads a request for a stored result, if the path is a recovery path of a route that has any. Nothing is edited yet.
    pub(super) fn recovery_request(
        &mut self,
        policy: &Policy,
        head: &RequestHead<'_>,
        (authority, path): (&str, &NormalPath<'_>),
        headers: &Headers<'_>,
        attributes: &dyn Attributes,
    ) -> Result<Option<RecoveryRequest>, Problem> {
        let Some(asked) = RecoveryPath::parse(path.as_str()) else { return Ok(None) };
        let endpoint = match attributes.route_endpoint() {
            AttributeValue::Absent => None,
            AttributeValue::Text(endpoint) => Some(endpoint),
            AttributeValue::Unusable => return Ok(None),
        };
        let found = policy.recovered(authority, endpoint.as_deref(), &asked);
        let Some((route, values)) = found else { return Ok(None) };
        let Some(target) = &route.recovery else { return Ok(None) };
        self.facts.route = Some(route.id);
        self.facts.policy = Some(route.policy.name());
        self.facts.case = Some(Case::A);
        if head.method != b"GET" {
            return Err(Problem::method_not_allowed(&["GET"]));
        }
        let raw = percent_decode(asked.key.as_bytes()).unwrap_or_default();
        let raw = RawKey::parse(&raw).map_err(Problem::key_invalid)?;
        let matched = MatchedRoute::of(route, values);
        let rules = policy.identity_of(Some(route));
        let of_scope =
            Rules { scope: matched.wider_scope(), types: &rules.types, reserved: policy.reserved_subjects() };
        let identity = identity::resolve(&rules.sources, &of_scope, headers, attributes).map_err(Problem::identity)?;
        let key = key::encode(&identity, raw.as_str()).map_err(Problem::key_invalid)?;
        let wait = if policy.recovery_wait_ms() == 0 { Wait::Output } else { asked.wait };
        let path = target
            .result_path(&matched.decoded(), &identity, &key, wait == Wait::Attach)
            .ok_or_else(|| Problem::path_ambiguous(PathError::DotSegment))?;
        Ok(Some(RecoveryRequest { identity, key, wait, path }))
    }

    /// Makes the request one to the backend for a stored result.
    pub(super) fn edit_recovery<'a>(
        &mut self,
        policy: &'a Policy,
        head: &RequestHead<'a>,
        request: RecoveryRequest,
        headers: &Headers<'a>,
        router: Option<&'static RouterHints>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let RecoveryRequest { identity, key, wait, path } = request;
        let decision =
            Decision { identity: Some(identity), key: Some(key), recovery: Some(wait), ..Decision::default() };
        // How long the router waits is the filter's to say.
        if let Some(router) = router {
            let steers = |name: &&[u8]| name.starts_with(router.prefix.as_bytes());
            let steering = distinct(headers.iter().map(|(name, _)| name).filter(steers).collect());
            effects.extend(steering.into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Request, name }));
        }
        let forward = &policy.identity_of(self.route(policy)).forward;
        decision.edit_headers(head, forward, Some("1"), effects);
        self.state = State::Forwarded(decision);
        let mut set = |name: &'static str, value: Cow<'a, [u8]>| {
            effects.push(Effect::Set { map: HeaderMapKind::Request, name, value });
        };
        set(":path", Cow::Owned(path.into_bytes()));
        if let Some(router) = router.filter(|_| wait == Wait::Attach) {
            set(router.timeout_ms, Cow::Owned(policy.recovery_wait_ms().to_string().into_bytes()));
            // To an attach Restate says 404 both for a key that it does not know and for work under way that then ends in a
            // 404 of the handler's. Asked once more it tells the second by its expiry.
            router.retry_not_found.iter().for_each(|(name, value)| set(name, Cow::Borrowed(value.as_bytes())));
        }
    }
}

/// A caller's request for the stored result of a call.
pub(super) struct RecoveryRequest {
    identity: Identity,
    /// The namespaced key of the call
    key: String,
    wait: Wait,
    /// The backend's path for the result
    path: String,
}
