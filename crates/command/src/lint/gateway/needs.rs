//! What a policy needs of a gateway, as far as more than one of its members says it.

use crate::render::browsers::exposed;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::identity::{IdentityPlace, IdentitySource};
use edge_idempotency_engine::policy::needs::{PolicyNeeds, RouteNeeds};
use std::collections::BTreeSet;
use std::ops::Deref;

/// What a policy needs of a gateway.
#[derive(Debug)]
pub(super) struct CheckedNeeds {
    policy: PolicyNeeds,
    /// The buffer for the greatest body that the filter waits for; `None` if it waits for none
    pub(super) buffer: Option<u64>,
    /// The hosts of all routes
    pub(super) route_hosts: BTreeSet<String>,
    /// The beginnings of paths that the filter writes, if it rewrites any
    pub(super) rewritten: BTreeSet<String>,
    /// How long a request for a result waits, in milliseconds; `None` without such requests
    pub(super) result_wait_ms: Option<u64>,
    /// The metadata that identity sources read: namespace and first key
    pub(super) metadata: BTreeSet<(String, String)>,
    /// The headers that identity sources read
    pub(super) headers: BTreeSet<OwnedHeaders>,
    /// Paths of marked requests, with `x` for what stands in braces: those that the filter writes, one for each target, and those of
    /// routes whose backend is not the default; each with the value of its mark
    pub(super) samples: Vec<(String, String)>,
    /// The values of the mark
    pub(super) marks: Vec<String>,
    /// Paths of requests whose bodies the filter waits for, with `x` for what stands in braces
    pub(super) waiting: Vec<String>,
    /// Whether the filter keeps headers back until a body is there
    pub(super) keeps_headers: bool,
    /// The namespaces of metadata that identity sources read and an operator can name
    pub(super) namespaces: BTreeSet<String>,
    /// The first of the others
    pub(super) nameless: Option<String>,
}

/// Headers that name the caller.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedHeaders {
    /// The filter that sets them
    pub(super) owner: String,
    /// Their names
    pub(super) names: BTreeSet<String>,
    /// Whether it is one header with the payload of a token
    pub(super) is_payload: bool,
}

impl OwnedHeaders {
    fn of(source: &IdentitySource) -> Option<Self> {
        let names = source.places().into_iter().filter_map(|(_, place)| place.and_then(IdentityPlace::header));
        Some(Self {
            owner: source.origin.owner.clone()?,
            names: names.map(str::to_owned).collect(),
            is_payload: source.payload_header().is_some(),
        })
    }
}

impl Deref for CheckedNeeds {
    type Target = PolicyNeeds;

    fn deref(&self) -> &PolicyNeeds {
        &self.policy
    }
}

impl CheckedNeeds {
    /// What a policy needs.
    pub(super) fn of(policy: &Policy) -> Self {
        let needs = policy.needs();
        let waiting = || needs.routes.iter().filter(|route| route.waits_for_body());
        let first_segment = |path: &String| format!("/{}/", path.split('/').nth(1).unwrap_or_default());
        let sample = |route: &RouteNeeds| {
            let path = route.rewritten.clone().or_else(|| (route.backend != 0).then(|| route.sample()))?;
            Some((path, needs.backend_of(route)?.mark().to_owned()))
        };
        let pair = |source: &IdentitySource| match source.origin.metadata.as_slice() {
            [namespace, key, ..] => Some((namespace.clone(), key.clone())),
            _ => None,
        };
        let waits_for_answers = |route: &RouteNeeds| route.reads_answers || route.clean_errors == Some(true);
        Self {
            buffer: needs.buffer_for(waiting()),
            route_hosts: needs.routes.iter().flat_map(|route| route.hosts.iter().cloned()).collect(),
            rewritten: needs.routes.iter().filter_map(|route| route.rewritten.as_ref()).map(first_segment).collect(),
            result_wait_ms: needs.routes.iter().any(|route| route.recovery).then_some(needs.recovery_wait_ms),
            metadata: needs.all_sources().filter_map(pair).collect(),
            headers: needs.all_sources().filter_map(OwnedHeaders::of).collect(),
            samples: needs.routes.iter().filter_map(sample).collect(),
            marks: needs.backends.iter().map(|backend| backend.mark().to_owned()).collect(),
            waiting: waiting().map(RouteNeeds::sample).collect(),
            keeps_headers: needs.cleans_errors
                || needs.backends.iter().any(|backend| backend.abilities.cleans_errors)
                || needs.routes.iter().any(|route| route.waits_for_body() || waits_for_answers(route)),
            namespaces: policy
                .metadata_paths()
                .filter(|path| path.has_operator())
                .map(|path| path.namespace().to_owned())
                .collect(),
            nameless: policy.metadata_paths().find(|path| !path.has_operator()).map(|path| path.namespace().to_owned()),
            policy: needs.clone(),
        }
    }

    /// A path of the backend at which requests wait for results, if any do.
    pub(super) fn waits(&self) -> Option<&'static str> {
        self.backends.iter().any(|backend| backend.waits).then_some("/restate/attach/x")
    }

    /// The first route that is so.
    pub(super) fn first(&self, is_so: impl Fn(&RouteNeeds) -> bool) -> Option<&str> {
        self.routes.iter().find(|route| is_so(route)).map(|route| route.endpoint.as_str())
    }

    /// The headers of answers that clients read.
    pub(super) fn exposed(&self) -> Vec<&str> {
        exposed(self)
    }
}
