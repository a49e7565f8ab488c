//! What a policy needs of the gateway before it, and what callers see of it: for people and tools that configure, check and describe a
//! gateway, and for the bridge in KrakenD. It is made of the document and of the policy that it became, so that nobody else reads the
//! document.

mod json;
#[cfg(feature = "describe")]
mod of_document;
mod stores;

pub use super::document::ServiceRetention;
use super::document::{DocumentMembers, PolicyKind, Unmatched};
#[cfg(feature = "describe")]
use super::{Policy, Route};
use crate::backend::BackendAbilities;
use crate::collision::Collision;
use crate::identity::IdentitySource;
use crate::policy::defaults::{BUFFER_MARGIN, GUARD, MAX_BODY_BYTES};
pub use crate::recovery::{OUTPUT, SEGMENT, Wait};
pub use crate::webhooks::document::Binding;
pub use json::needs_as_json;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

/// What a policy needs of a gateway.
#[derive(Debug, Clone, Default)]
pub struct PolicyNeeds {
    /// What the document says
    pub members: DocumentMembers,
    /// The backends: the default first, the others by their names
    pub backends: Vec<BackendNeeds>,
    /// The routes in the order of the document
    pub routes: Vec<RouteNeeds>,
    /// The identity sources of the document itself
    pub sources: Vec<IdentitySource>,
    /// Bindings of webhooks that the document lists, by their ids
    pub bindings: BTreeMap<String, Arc<Binding>>,
    /// For how long the backend keeps the results of services
    pub retentions: Vec<ServiceRetention>,
    /// The stores that the filter asks
    pub stores: Vec<StoreNeeds>,
    /// Every place of the document that names a secret
    pub secrets: Vec<SecretNeeds>,
    /// Headers of identity sources that signed callers send themselves; lower case
    pub signed_headers: BTreeSet<String>,
    /// Whether all requests that are forwarded are marked, by `mark_all` or otherwise
    pub closed: bool,
    /// The path of operations, and the index of their backend
    pub operations: Option<(String, usize)>,
    /// The beginnings of paths that no client may call
    pub reserved: Vec<String>,
    /// Headers of answers beside those that every policy has: operation ids, then those that repeat the retry advice; lower case
    pub answer_headers: Vec<String>,
    /// Whether errors of a backend are cleaned, so that they wait for their bodies
    pub cleans_errors: bool,
}

/// It has the plain members of the document as if they were its own.
impl Deref for PolicyNeeds {
    type Target = DocumentMembers;

    fn deref(&self) -> &DocumentMembers {
        &self.members
    }
}

/// What a backend needs.
#[derive(Debug, Clone)]
pub struct BackendNeeds {
    /// Its name; `None` if the document has one
    pub name: Option<String>,
    /// The JSON pointer of its object
    pub pointer: String,
    /// What it can do
    pub abilities: &'static BackendAbilities,
    /// Whether the filter writes the paths of targets
    pub rewrite_path: bool,
    /// The cluster of the filter's own calls
    pub cluster: Option<String>,
    /// Request headers that it gets although the filter would remove them
    pub keep_headers: Vec<String>,
    /// The header of answers with the operation id
    pub operation_id: Option<String>,
    /// The service that detects collisions
    pub guard: Option<GuardNeeds>,
    /// Whether some requests for it are marked
    pub marked: bool,
    /// Whether requests wait for its results
    pub waits: bool,
}

/// The service that detects collisions.
#[derive(Debug, Clone)]
pub struct GuardNeeds {
    /// Its name
    pub service: String,
    /// For how long it has to keep claims, in seconds, if the document says it
    pub retention: Option<u64>,
}

/// What a route needs.
#[derive(Debug, Clone)]
pub struct RouteNeeds {
    /// Its name
    pub endpoint: String,
    /// Its path, as the document writes it
    pub path: String,
    /// Its methods, as the document lists them
    pub methods: Vec<String>,
    /// Its hosts; none for all
    pub hosts: Vec<String>,
    /// Its policy
    pub policy: PolicyKind,
    /// The index of its backend
    pub backend: usize,
    /// Its target, as the document writes it
    pub target: Option<String>,
    /// The path that the filter writes, with `x` for an object key that differs
    pub rewritten: Option<String>,
    /// The parameters of the query that reach the target; `None` if all of them reach the backend
    pub query: Option<Vec<String>>,
    /// Whether it takes deliveries of webhooks
    pub webhook: bool,
    /// The provider of these, if the route has one only
    pub provider: Option<String>,
    /// Whether signed callers may call it
    pub signed: bool,
    /// Whether it takes keys of callers
    pub keyed: bool,
    /// Whether results can be asked for by their keys
    pub recovery: bool,
    /// What a used key leads to with another request
    pub collision: Collision,
    /// Whether a request is refused while another one with its key is in flight
    pub refuses_in_flight: bool,
    /// Whether keys may be in bodies
    pub key_in_body: bool,
    /// The longest body that is waited for, in bytes
    pub max_body_bytes: u64,
    /// Whether a `Location` is made from the bodies of answers
    pub reads_answers: bool,
    /// Whether it cleans errors, if it says so itself
    pub clean_errors: Option<bool>,
    /// Whether it takes escaped slashes, in a parameter's value or in the key of a request for a result
    pub encoded_slash: bool,
    /// Whether the rules for its keys are its own
    pub own_key: bool,
    /// Its own identity sources; `None` if it has those of the document
    pub sources: Option<Vec<IdentitySource>>,
}

/// A store that the filter asks.
#[derive(Debug, Clone)]
pub struct StoreNeeds {
    /// What it is for
    pub used_for: StoreUse,
    /// Its JSON pointer
    pub pointer: String,
    /// The cluster
    pub cluster: String,
    /// Whether the document has the credential. Without it the gateway adds one
    pub has_credential: bool,
}

/// What a store is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreUse {
    /// Bindings of webhooks, in Unkey
    Bindings,
    /// Secrets of webhooks, in OpenBao
    Secrets,
    /// Holders of API keys, in Unkey
    ApiKeys,
}

impl StoreUse {
    /// The member of the store with its credential.
    pub const fn credential(self) -> &'static str {
        match self {
            Self::Bindings | Self::ApiKeys => "root_key",
            Self::Secrets => "token",
        }
    }
}

/// A place of the document that names a secret.
#[derive(Debug, Clone)]
pub struct SecretNeeds {
    /// Its JSON pointer
    pub pointer: String,
    /// Where the secret is
    pub origin: SecretOrigin,
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretOrigin {
    /// In the document itself
    Document,
    /// In this variable of the environment
    Variable(String),
    /// Under this name at the gateway's secret discovery service
    Discovered {
        /// The name
        name: String,
        /// Whether the gateway has to ask another machine for it
        is_asked: bool,
    },
}

/// A method and a path of a route or of operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Way<'n> {
    /// The method
    pub method: &'n str,
    /// The path, as the document writes it
    pub path: String,
    /// For a request for a result: whether it waits
    pub result: Option<Wait>,
}

impl<'n> Way<'n> {
    /// Those of a route.
    fn of_route(methods: &'n [String], path: &str, recovers: bool) -> Vec<Self> {
        let own = methods.iter().map(|method| Self { method, path: path.to_owned(), result: None });
        let mut ways: Vec<Self> = own.collect();
        if recovers {
            let base = path.strip_suffix('/').unwrap_or(path);
            ways.extend(Self::to_result([base, "/", SEGMENT, "/{key}"].concat()));
        }
        ways
    }

    /// The ways to ask for the result at a path.
    fn to_result(path: String) -> [Self; 2] {
        let output = [path.as_str(), "/", OUTPUT].concat();
        [(path, Wait::Attach), (output, Wait::Output)].map(|(path, wait)| Self {
            method: "GET",
            path,
            result: Some(wait),
        })
    }
}

#[cfg(feature = "describe")]
impl Policy {
    /// What it needs of a gateway.
    pub const fn needs(&self) -> &PolicyNeeds {
        &self.needs
    }

    /// What one of its routes needs.
    pub fn needs_of(&self, route: &Route) -> Option<&RouteNeeds> {
        self.needs.routes.get(route.id)
    }

    /// The routes, in the order of the document.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }
}

impl PolicyNeeds {
    /// `unmatched`, unless requests that no route declares are refused.
    pub fn forwards_unmatched(&self) -> Option<&'static str> {
        (self.unmatched != Unmatched::Reject).then(|| self.unmatched.name())
    }

    /// The ways to ask for the result of an operation; none without operations.
    pub fn operation_ways(&self) -> Vec<Way<'_>> {
        self.operations.iter().flat_map(|(path, _)| Way::to_result(path.clone())).collect()
    }

    /// All identity sources, the document's first.
    pub fn all_sources(&self) -> impl Iterator<Item = &IdentitySource> {
        self.sources.iter().chain(self.routes.iter().filter_map(|route| route.sources.as_ref()).flatten())
    }

    /// The header with API keys, if a source reads them; lower case.
    pub fn api_keys(&self) -> Option<&str> {
        self.sources.iter().find_map(|source| Some(source.api_key.as_ref()?.header.as_str()))
    }

    /// Whether the registry of API keys is asked who calls this route.
    pub fn asks_registry(&self, route: &RouteNeeds) -> bool {
        route.sources.is_none() && self.api_keys().is_some()
    }

    /// The backend of a route.
    pub fn backend_of(&self, route: &RouteNeeds) -> Option<&BackendNeeds> {
        self.backends.get(route.backend)
    }

    /// The clusters that the filter calls, each with the JSON pointer of an object that names it.
    pub fn clusters(&self) -> BTreeMap<&str, &str> {
        let stores = self.stores.iter().map(|store| (store.cluster.as_str(), store.pointer.as_str()));
        stores.chain(self.called_backends()).collect()
    }

    /// The same of backends alone.
    pub fn called_backends(&self) -> BTreeMap<&str, &str> {
        let named = self.backends.iter();
        named.filter_map(|backend| Some((backend.cluster.as_deref()?, backend.pointer.as_str()))).collect()
    }

    /// The variables that hold secrets, each with the first JSON pointer that names it, in the order of these.
    pub fn variables(&self) -> Vec<(&str, &str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for secret in &self.secrets {
            if let SecretOrigin::Variable(name) = &secret.origin
                && found.iter().all(|(known, _)| known != name)
            {
                found.push((name, &secret.pointer));
            }
        }
        found
    }

    /// The secrets of the gateway's secret discovery service: JSON pointer, name, and whether another machine is asked.
    pub fn discovered(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.secrets.iter().filter_map(|secret| match &secret.origin {
            SecretOrigin::Discovered { name, is_asked } => Some((secret.pointer.as_str(), name.as_str(), *is_asked)),
            SecretOrigin::Document | SecretOrigin::Variable(_) => None,
        })
    }

    /// How much the gateway has to buffer for the longest body of these routes and answers, in bytes.
    pub fn buffer_for<'n>(&self, routes: impl Iterator<Item = &'n RouteNeeds>) -> Option<u64> {
        routes.map(|route| route.max_body_bytes).max().map(|bytes| bytes.saturating_add(BUFFER_MARGIN))
    }

    /// The first route with a `Location` that is made from the bodies of answers, and how much the gateway has to buffer for one.
    pub fn answer_buffer(&self) -> Option<(&RouteNeeds, u64)> {
        let route = self.routes.iter().find(|route| route.reads_answers)?;
        Some((route, MAX_BODY_BYTES + BUFFER_MARGIN))
    }

    /// The first backend with a guard. The guards of several backends are the same.
    pub fn guarded(&self) -> Option<(&BackendNeeds, &GuardNeeds)> {
        self.backends.iter().find_map(|backend| Some((backend, backend.guard.as_ref()?)))
    }

    /// The name of the guard's service, also where the document has none.
    pub fn guard_name(&self) -> &str {
        self.guarded().map_or(GUARD, |(_, guard)| &guard.service)
    }
}

impl BackendNeeds {
    /// The value of the mark on requests for it.
    pub fn mark(&self) -> &str {
        self.name.as_deref().unwrap_or("1")
    }
}

impl RouteNeeds {
    /// Whether keys reach its backend: those of callers, or those that are made of deliveries.
    pub fn sends_keys(&self) -> bool {
        !matches!(self.policy, PolicyKind::Prohibited | PolicyKind::HandlerInternalC)
    }

    /// Its methods and paths, then those of requests for its results.
    pub fn ways(&self) -> Vec<Way<'_>> {
        Way::of_route(&self.methods, &self.path, self.recovery)
    }

    /// The service of its target.
    pub fn service(&self) -> Option<&str> {
        self.target.as_ref()?.split('/').next()
    }

    /// Whether its requests are marked.
    pub fn is_marked(&self) -> bool {
        self.backend != 0 || self.rewritten.is_some()
    }

    /// Whether its requests wait for their bodies (docs/contract.md, sections 3 and 5 to 7).
    pub fn waits_for_body(&self) -> bool {
        self.webhook || self.signed || self.key_in_body || self.collision.refuses() || self.refuses_in_flight
    }

    /// Its path with `x` for each segment that holds a parameter.
    pub fn sample(&self) -> String {
        let segments = self.path.split('/').map(|segment| if segment.contains('{') { "x" } else { segment });
        segments.collect::<Vec<_>>().join("/")
    }
}
