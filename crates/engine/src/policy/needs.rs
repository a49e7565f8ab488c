//! What a policy needs of the gateway before it, and what callers see of it: for people and tools that configure, check and describe a
//! gateway. It is made of the document and of the policy that it became, so that nobody else reads the document. The module does not have
//! it (feature `describe`).

use super::document::{
    BackendDocument, Collision, Document, Mode, PolicyKind, RouteDocument, Secret, Service, Unmatched,
};
pub use super::document::{Binding, ServiceRetention};
use super::{Policy, Route};
use crate::backend::BackendAbilities;
use crate::identity::IdentitySource;
use crate::json::cursor::child;
use crate::key::KeyCharset;
use crate::policy::defaults::{BUFFER_MARGIN, GUARD};
use crate::policy::target::target_parts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a policy needs of a gateway.
#[derive(Debug, Clone, Default)]
pub struct PolicyNeeds {
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
    /// The document's mode
    pub mode: Mode,
    /// Whether the gateway's routes may name endpoints
    pub gateway_routes: bool,
    /// Whether every request that is forwarded is marked
    pub mark_all: bool,
    /// Whether all of those are marked, by `mark_all` or otherwise
    pub closed: bool,
    /// `unmatched`, unless requests that no route declares are refused
    pub forwards_unmatched: Option<&'static str>,
    /// How long a request for a result waits, in milliseconds
    pub wait_ms: u64,
    /// The path of operations, and the index of their backend
    pub operations: Option<(String, usize)>,
    /// The beginnings of paths that no client may call
    pub reserved: Vec<String>,
    /// Headers of answers beside those that every policy has: operation ids, then those that repeat the retry advice; lower case
    pub answer_headers: Vec<String>,
    /// The longest body of an answer that a `Location` is made from, in bytes
    pub max_answer_bytes: u64,
    /// Whether errors of a backend are cleaned, so that they wait for their bodies
    pub cleans_errors: bool,
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
    /// Whether signed callers may call it
    pub signed: bool,
    /// Whether it takes keys of callers
    pub keyed: bool,
    /// Whether results can be asked for by their keys
    pub recovery: bool,
    /// Whether requests are compared with earlier ones, also without an effect
    pub claims: bool,
    /// Whether a request with a used key is refused if it is another one
    pub compares: bool,
    /// Whether such requests are forwarded while nobody can compare them
    pub forwards_unchecked: bool,
    /// Whether a request is refused while another one with its key is in flight
    pub refuses_in_flight: bool,
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
    /// What the policy needs that a document without errors became. Its callers and bindings are still in the document.
    pub(super) fn of(document: &Document, policy: &Policy) -> Self {
        let mut others: Vec<_> = document.backends.iter().enumerate().skip(1).collect();
        others.sort_by_key(|(_, backend)| backend.name);
        let ordered = document.backends.iter().enumerate().take(1).chain(others);
        let (numbers, declared): (Vec<usize>, Vec<&BackendDocument>) = ordered.unzip();
        let place = |number: usize| numbers.iter().position(|other| *other == number).unwrap_or_default();
        let routes = document.routes.iter().zip(&policy.routes);
        let routes: Vec<RouteNeeds> = routes
            .map(|((_, declared), route)| {
                let backend = document.backends.get(route.backend);
                RouteNeeds::of(declared, route, place(route.backend), backend, document)
            })
            .collect();
        let operations =
            policy.operations.as_ref().map(|operations| (operations.template(), place(operations.backend)));
        let wait_ms = document.recovery.wait_ms;
        let backends: Vec<BackendNeeds> = declared
            .iter()
            .enumerate()
            .map(|(index, declared)| {
                let own = || routes.iter().filter(|route| route.backend == index);
                let has_operations = operations.as_ref().is_some_and(|(_, backend)| *backend == index);
                BackendNeeds {
                    name: declared.name.map(str::to_owned),
                    pointer: declared.pointer(""),
                    abilities: declared.abilities(),
                    rewrite_path: declared.rewrite_path,
                    cluster: declared.cluster.clone(),
                    keep_headers: declared.keep_headers.clone(),
                    operation_id: declared.operation_id.as_ref().map(|id| id.to.clone()),
                    guard: declared
                        .guard
                        .as_ref()
                        .map(|guard| GuardNeeds { service: guard.service.clone(), retention: guard.retention }),
                    // A request for a stored result is marked, too.
                    marked: document.mark_all
                        || has_operations
                        || own().any(|route| route.is_marked() || route.target.is_some()),
                    waits: wait_ms > 0 && (has_operations || own().any(|route| route.recovery)),
                }
            })
            .collect();
        let all_marked = !routes.is_empty() && routes.iter().all(RouteNeeds::is_marked);
        let ids: BTreeSet<&String> = backends.iter().filter_map(|backend| backend.operation_id.as_ref()).collect();
        let cleans = document.answers.clean_errors;
        let mut needs = Self {
            stores: stores(document),
            secrets: secrets(document),
            sources: document.identity.iter().flat_map(|rules| &rules.sources).cloned().collect(),
            bindings: document.webhooks.as_ref().map(|webhooks| webhooks.bindings.clone()).unwrap_or_default(),
            retentions: document.retentions.clone(),
            signed_headers: BTreeSet::new(),
            mode: document.mode,
            gateway_routes: document.gateway_routes,
            mark_all: document.mark_all,
            closed: document.mark_all || document.unmatched == Unmatched::Reject && all_marked,
            forwards_unmatched: match document.unmatched {
                Unmatched::Reject => None,
                Unmatched::Prohibited => Some(PolicyKind::Prohibited.name()),
                Unmatched::HandlerInternalC => Some(PolicyKind::HandlerInternalC.name()),
            },
            wait_ms,
            operations,
            reserved: reserved(document, policy),
            answer_headers: ids.into_iter().chain(&document.answers.retry_headers).cloned().collect(),
            max_answer_bytes: document.answers.max_body_bytes,
            cleans_errors: cleans.unwrap_or(backends.iter().any(|backend| backend.abilities.cleans_errors))
                || routes.iter().any(|route| route.clean_errors == Some(true)),
            backends,
            routes,
        };
        let signs = |name: &&str| document.callers.iter().any(|caller| caller.signature.reads(name.as_bytes()));
        let headers = needs.all_sources().flat_map(IdentitySource::places).filter_map(|(_, place)| place?.header());
        needs.signed_headers = headers.filter(signs).map(str::to_owned).collect();
        needs
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
        Some((route, self.max_answer_bytes.saturating_add(BUFFER_MARGIN)))
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
    fn of(declared: &RouteDocument, route: &Route, backend: usize, own: &BackendDocument, document: &Document) -> Self {
        let rewrites = own.rewrite_path;
        let key = declared.key.as_ref().or(document.key.as_ref());
        let is_visible = key.is_some_and(|rules| rules.charset == KeyCharset::Visible);
        Self {
            endpoint: declared.endpoint.to_owned(),
            path: declared.template.to_string(),
            methods: match &declared.methods {
                Some(methods) => methods.iter().map(|method| method.0.clone()).collect(),
                None => route.methods.to_vec(),
            },
            hosts: declared.hosts.clone(),
            policy: declared.policy,
            backend,
            target: declared.target.map(str::to_owned),
            rewritten: declared
                .target
                .filter(|_| rewrites)
                .map(|target| [own.kind.target_prefix(declared.one_way), "/", &sample_target(target)].concat()),
            query: declared.target.filter(|_| rewrites).map(|_| declared.query.clone()),
            webhook: declared.webhook.is_some(),
            signed: document.callers.iter().any(|caller| caller.routes.iter().any(|name| name == declared.endpoint)),
            keyed: declared.policy.is_case_a() && declared.webhook.is_none(),
            recovery: route.recovery.is_some(),
            claims: declared.collision != Collision::Off,
            compares: declared.collision == Collision::Enforce,
            forwards_unchecked: declared.collision == Collision::Enforce && declared.guard_failure == Some(false),
            refuses_in_flight: declared.in_flight_conflict,
            max_body_bytes: declared.max_body_bytes,
            reads_answers: route.answer.as_ref().is_some_and(super::answer::AnswerMapping::reads_body),
            clean_errors: declared.clean_errors,
            encoded_slash: declared.encoded_slash || route.recovery.is_some() && is_visible,
            own_key: declared.key.is_some(),
            sources: declared.identity.as_ref().map(|rules| rules.sources.clone()),
        }
    }

    /// Whether keys reach its backend: those of callers, or those that are made of deliveries.
    pub fn sends_keys(&self) -> bool {
        !matches!(self.policy, PolicyKind::Prohibited | PolicyKind::HandlerInternalC)
    }

    /// The service of its target.
    pub fn service(&self) -> Option<&str> {
        self.target.as_ref()?.split('/').next()
    }

    /// Whether its requests are marked.
    pub fn is_marked(&self) -> bool {
        self.backend != 0 || self.rewritten.is_some()
    }

    /// Whether its requests wait for their bodies (docs/contract.md, sections 5 to 7).
    pub fn waits_for_body(&self) -> bool {
        self.webhook || self.signed || self.compares || self.refuses_in_flight
    }

    /// Its path with `x` for each segment that holds a parameter.
    pub fn sample(&self) -> String {
        let segments = self.path.split('/').map(|segment| if segment.contains('{') { "x" } else { segment });
        segments.collect::<Vec<_>>().join("/")
    }
}

fn stores(document: &Document) -> Vec<StoreNeeds> {
    let store = |used_for, pointer: String, service: &Service| StoreNeeds {
        used_for,
        pointer,
        cluster: service.cluster.clone(),
        has_credential: service.credential.is_some(),
    };
    services(document).map(|(used_for, pointer, service)| store(used_for, pointer, service)).collect()
}

fn services<'d>(document: &'d Document) -> impl Iterator<Item = (StoreUse, String, &'d Service)> {
    let webhooks = document.webhooks.as_ref();
    let unkey = webhooks.and_then(|webhooks| webhooks.unkey.as_ref()).map(|unkey| &unkey.service);
    let openbao = webhooks.and_then(|webhooks| webhooks.openbao.as_ref()).map(|openbao| &openbao.service);
    let sources = document.identity.iter().flat_map(|rules| rules.sources.iter().enumerate());
    let asking = sources.filter(|(_, source)| source.api_key.is_some()).map(|(index, _)| index).next();
    let registry = document.identity.as_ref().and_then(|rules| rules.registry.as_ref()?.1.as_ref());
    let own = |used_for, name: &str, service: Option<&'d Service>| {
        service.map(|service| (used_for, child("/webhooks", name), service))
    };
    let api_keys = asking
        .zip(registry)
        .map(|(index, unkey)| (StoreUse::ApiKeys, format!("/identity/sources/{index}/unkey"), &unkey.service));
    let of_webhooks = [own(StoreUse::Bindings, "unkey", unkey), own(StoreUse::Secrets, "openbao", openbao)];
    of_webhooks.into_iter().flatten().chain(api_keys)
}

fn secrets(document: &Document) -> Vec<SecretNeeds> {
    let mut found = Vec::new();
    let mut add = |pointer: String, secret: &Secret| {
        let origin = match secret {
            Secret::Env(name) => SecretOrigin::Variable(name.clone()),
            Secret::Sds(live) => {
                SecretOrigin::Discovered { name: live.name.clone(), is_asked: !live.source.is_empty() }
            }
            Secret::Value(_) => SecretOrigin::Document,
        };
        found.push(SecretNeeds { pointer, origin });
    };
    let (registries, of_webhooks): (Vec<_>, Vec<_>) =
        services(document).partition(|(used_for, ..)| *used_for == StoreUse::ApiKeys);
    let mut add_credential = |(used_for, pointer, service): (StoreUse, String, &Service)| {
        if let Some(secret) = &service.credential {
            add(child(&pointer, used_for.credential()), secret);
        }
    };
    registries.into_iter().chain(of_webhooks).for_each(&mut add_credential);
    for backend in document.backends.iter() {
        let Some(operations) = &backend.operations else { continue };
        let at = child(&backend.pointer("operations"), "secret");
        for (index, secret) in operations.secrets.iter().enumerate() {
            add(if operations.secrets.len() == 1 { at.clone() } else { format!("{at}/{index}") }, secret);
        }
    }
    let bindings = document.webhooks.iter().flat_map(|webhooks| &webhooks.bindings);
    let bindings = bindings.map(|(id, binding)| (child("/webhooks/static", id), &binding.secrets));
    let callers = document.callers.iter().map(|caller| (child("/callers", &caller.name), &caller.secrets));
    for (at, secrets) in bindings.chain(callers) {
        secrets.iter().enumerate().for_each(|(index, secret)| add(format!("{at}/secrets/{index}"), secret));
    }
    found
}

/// The paths of backends themselves, then the guard, then what the document closes.
fn reserved(document: &Document, policy: &Policy) -> Vec<String> {
    let declared = &document.backends.default.reserved_paths;
    let all = &policy.backend.reserved_paths;
    let own = all.iter().take(all.len() - declared.len());
    let guard = document.backends.iter().find_map(|backend| backend.guard.as_ref());
    let guard = guard.map(|guard| format!("/{}", guard.service));
    own.cloned().chain(guard).chain(declared.iter().cloned()).collect()
}

/// A target with `x` in the place of an object key that holds a placeholder.
fn sample_target(target: &str) -> String {
    match target_parts(target) {
        Some((service, Some(key), handler)) if key.contains('{') => format!("{service}/x/{handler}"),
        _ => target.to_owned(),
    }
}
