//! The members of a policy document that decide what callers see, beside what the engine tells of a route.

use crate::lints::backends::{BackendAt, Backends};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::{OPERATION_ID, Route};
use serde::Deserialize;
use serde_json::Value;

/// A policy that starts, and members of its document.
pub(crate) struct DescribedPolicy {
    /// The policy
    pub(crate) policy: Policy,
    document: DescribedDocument,
}

/// A policy document.
#[derive(Debug, Deserialize)]
struct DescribedDocument {
    #[serde(default)]
    unmatched: Option<String>,
    #[serde(flatten)]
    backends: Backends<DescribedBackend>,
    #[serde(default)]
    answers: DescribedAnswers,
    #[serde(default)]
    identity: Option<DescribedIdentity>,
    routes: Vec<DescribedRoute>,
}

/// A backend.
#[derive(Debug, Deserialize)]
pub(crate) struct DescribedBackend {
    kind: String,
    #[serde(default)]
    operation_id: Option<String>,
    #[serde(default)]
    operations: Option<OperationsPath>,
}

/// `operations` of a backend.
#[derive(Debug, Deserialize)]
struct OperationsPath {
    path: String,
}

/// `answers`.
#[derive(Debug, Default, Deserialize)]
struct DescribedAnswers {
    #[serde(default)]
    retry_headers: Vec<String>,
    #[serde(default)]
    error_member: bool,
}

/// `identity`.
#[derive(Debug, Deserialize)]
struct DescribedIdentity {
    sources: Vec<DescribedSource>,
}

/// An identity source.
#[derive(Debug, Deserialize)]
struct DescribedSource {
    #[serde(default)]
    unkey: Option<Value>,
}

/// A route.
#[derive(Debug, Deserialize)]
struct DescribedRoute {
    #[serde(default)]
    backend: Option<String>,
    #[serde(default)]
    collision: Option<String>,
    #[serde(default)]
    in_flight: Option<String>,
    #[serde(default)]
    identity: Option<Value>,
    #[serde(default)]
    hosts: Vec<String>,
}

impl DescribedPolicy {
    /// A policy and its document, which the engine has accepted.
    ///
    /// # Errors
    /// A member that is read here has another type than the engine's; the sentence says so.
    pub(crate) fn new(policy: Policy, document: Value) -> Result<Self, String> {
        let document = serde_json::from_value(document).map_err(|error| {
            format!("this command cannot read the policy, although the filter starts with it: {error}")
        })?;
        Ok(Self { policy, document })
    }

    /// The routes in the order of the document.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Route> {
        (0..self.document.routes.len()).filter_map(|id| self.policy.route(id))
    }

    /// Whether a request that no route declares is refused.
    pub(crate) fn refuses_unmatched(&self) -> bool {
        self.document.unmatched.as_deref().is_none_or(|unmatched| unmatched == "REJECT")
    }

    /// The hosts that routes name, each as one host of those that it stands for.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> =
            self.document.routes.iter().flat_map(|route| &route.hosts).map(|host| host.replace('*', "host")).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// The path of operations, if callers can ask for the answer of an operation by its id.
    pub(crate) fn operations_path(&self) -> Option<&str> {
        let mut backends = self.document.backends.iter();
        backends.find_map(|backend| Some(backend.value.operations.as_ref()?.path.as_str()))
    }

    /// The headers that repeat the retry advice.
    pub(crate) fn retry_headers(&self) -> &[String] {
        &self.document.answers.retry_headers
    }

    /// Whether problem documents have the member `error`.
    pub(crate) const fn has_error_member(&self) -> bool {
        self.document.answers.error_member
    }

    /// Whether the route's backend is Restate.
    pub(crate) fn is_restate(&self, route: &Route) -> bool {
        self.backend(route).is_some_and(|backend| backend.value.kind == "restate")
    }

    /// Whether one of the backends is Restate.
    pub(crate) fn has_restate(&self) -> bool {
        self.document.backends.iter().any(|backend| backend.value.kind == "restate")
    }

    /// The response header with the operation's id, if the backend of the route has one.
    pub(crate) fn operation_id_header(&self, route: &Route) -> Option<&str> {
        let backend = self.backend(route)?;
        let has_one = backend.value.operation_id.is_some() || backend.value.kind == "restate";
        has_one.then_some(OPERATION_ID)
    }

    /// Whether a request with a used key is refused if it is another request.
    pub(crate) fn compares_requests(&self, route: &Route) -> bool {
        self.described(route).is_some_and(|described| described.collision.as_deref() == Some("enforce"))
    }

    /// Whether a request is refused while another one with its key is in flight.
    pub(crate) fn refuses_in_flight(&self, route: &Route) -> bool {
        self.described(route).is_some_and(|described| described.in_flight.as_deref() == Some("conflict"))
    }

    /// Whether a registry of API keys says who calls the route.
    pub(crate) fn asks_registry(&self, route: &Route) -> bool {
        let is_own = self.described(route).is_some_and(|described| described.identity.is_some());
        let sources = self.document.identity.as_ref().map(|identity| identity.sources.as_slice()).unwrap_or_default();
        !is_own && sources.iter().any(|source| source.unkey.is_some())
    }

    fn described(&self, route: &Route) -> Option<&DescribedRoute> {
        self.document.routes.get(route.id)
    }

    fn backend(&self, route: &Route) -> Option<BackendAt<'_, DescribedBackend>> {
        self.document.backends.of(self.described(route).and_then(|described| described.backend.as_deref()))
    }
}
