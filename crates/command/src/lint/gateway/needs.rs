//! What a policy needs of a gateway.

use super::mark::ONLY_MARK;
use crate::lints::backends::Backends;
use crate::lints::view::KeyView;
use crate::render::browsers::exposed;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::defaults::{BUFFER_MARGIN, MAX_BODY_BYTES, WAIT_MS};
use edge_idempotency_engine::policy::target_parts;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a policy needs of a gateway.
#[derive(Debug)]
pub(super) struct CheckedNeeds {
    /// The buffer for the greatest body that the filter waits for; `None` if it waits for none
    pub(super) buffer: Option<u64>,
    /// Names of variables, with a place in the document that names them
    pub(super) variables: BTreeMap<String, String>,
    /// Names of clusters, with the place in the document that names them
    pub(super) clusters: BTreeMap<String, String>,
    /// The first route with `hosts`
    pub(super) hosts: Option<String>,
    /// The hosts of all routes
    pub(super) route_hosts: BTreeSet<String>,
    /// What the policy does with requests that no route declares, if it forwards them
    pub(super) forwards_unmatched: Option<String>,
    /// The beginnings of paths that the filter writes, if it rewrites any
    pub(super) rewritten: BTreeSet<String>,
    /// How long a request for a result waits, in milliseconds; `None` without such requests
    pub(super) wait_ms: Option<u64>,
    /// The metadata that identity sources read: namespace and first key
    pub(super) metadata: BTreeSet<(String, String)>,
    /// The headers that identity sources read
    pub(super) headers: BTreeSet<OwnedHeaders>,
    /// Paths of marked requests, with `x` for what stands in braces: those that the filter writes, one for each target, and those of
    /// routes whose backend is not the default; each with the value of its mark
    pub(super) samples: Vec<(String, String)>,
    /// The values of the mark
    pub(super) marks: Vec<String>,
    /// Whether every request that the filter forwards is marked
    pub(super) mark_all: bool,
    /// Paths of requests whose bodies the filter waits for, with `x` for what stands in braces
    pub(super) waiting: Vec<String>,
    /// The first route whose answer's `Location` is made out of the answer's body
    pub(super) answer: Option<String>,
    /// The clusters of the filter's own calls to backends, with their places in the document
    pub(super) calls: BTreeMap<String, String>,
    /// The first route that takes escaped slashes, in a parameter's value or in the key of a recovery path
    pub(super) encoded_slash: Option<String>,
    /// A path of the backend at which requests wait for results, if any do
    pub(super) waits: Option<&'static str>,
    /// Whether the backend is an API of its own
    pub(super) is_generic: bool,
    /// Whether the filter keeps headers back until a body is there
    pub(super) keeps_headers: bool,
    /// The namespaces of metadata that identity sources read and an operator can name
    pub(super) namespaces: BTreeSet<String>,
    /// The first of the others
    pub(super) nameless: Option<String>,
    /// Where the document names secrets of SDS, and whether Envoy has to ask for them
    pub(super) sds: Vec<(String, bool)>,
    /// The first route that takes keys of callers
    pub(super) keyed: Option<String>,
    /// The headers of answers that clients read
    pub(super) exposed: Vec<String>,
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

#[derive(Deserialize)]
struct PolicyOfGateway {
    #[serde(flatten)]
    backends: Backends<BackendOfGateway>,
    routes: Vec<RouteOfGateway>,
    #[serde(default)]
    key: Option<KeyView>,
    #[serde(default)]
    unmatched: Option<String>,
    #[serde(default)]
    mark_all: bool,
    #[serde(default)]
    identity: Option<IdentityOfGateway>,
    #[serde(default)]
    callers: BTreeMap<String, CallerOfGateway>,
    #[serde(default)]
    recovery: RecoveryOfGateway,
    #[serde(default)]
    answers: AnswersOfGateway,
}

#[derive(Default, Deserialize)]
struct AnswersOfGateway {
    #[serde(default)]
    clean_errors: Option<bool>,
}

#[derive(Deserialize)]
struct BackendOfGateway {
    kind: String,
    #[serde(default)]
    rewrite_path: bool,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    operations: Option<Value>,
}

#[derive(Deserialize)]
struct RouteOfGateway {
    endpoint: String,
    path: String,
    policy: String,
    #[serde(default)]
    backend: Option<String>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    webhook: Option<Value>,
    #[serde(default)]
    collision: Option<String>,
    #[serde(default)]
    in_flight: Option<String>,
    #[serde(default)]
    recovery: Option<bool>,
    #[serde(default)]
    max_body_bytes: Option<u64>,
    #[serde(default)]
    identity: Option<IdentityOfGateway>,
    #[serde(default)]
    one_way: bool,
    #[serde(default)]
    answer: AnswerOfGateway,
    #[serde(default)]
    encoded_slash: bool,
    #[serde(default)]
    key: Option<KeyView>,
    #[serde(default)]
    clean_errors: Option<bool>,
}

#[derive(Default, Deserialize)]
struct AnswerOfGateway {
    #[serde(default)]
    location: Option<String>,
}

#[derive(Deserialize)]
struct IdentityOfGateway {
    #[serde(default)]
    sources: Vec<SourceOfGateway>,
}

#[derive(Deserialize)]
struct SourceOfGateway {
    #[serde(default)]
    metadata: Vec<String>,
    #[serde(default)]
    headers_owned_by: Option<String>,
    #[serde(default)]
    payload_header: Option<String>,
    #[serde(default)]
    tenant: Value,
    #[serde(default)]
    project: Value,
    #[serde(default)]
    subject: Value,
}

impl SourceOfGateway {
    fn headers(&self) -> Option<OwnedHeaders> {
        let fields = [Some(&self.tenant), Some(&self.project), Some(&self.subject), self.subject.get("field")];
        let names = match &self.payload_header {
            Some(header) => BTreeSet::from([header.clone()]),
            None => fields.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        Some(OwnedHeaders { owner: self.headers_owned_by.clone()?, names, is_payload: self.payload_header.is_some() })
    }
}

#[derive(Deserialize)]
struct CallerOfGateway {
    #[serde(default)]
    routes: Vec<String>,
}

#[derive(Default, Deserialize)]
struct RecoveryOfGateway {
    #[serde(default)]
    wait_ms: Option<u64>,
}

impl CheckedNeeds {
    /// Reads a document, which the engine has accepted as this policy; `None` if it cannot be read.
    pub(super) fn read(text: &str, policy: &Policy) -> Option<Self> {
        let whole: Value = serde_json::from_str(text).ok()?;
        let document: PolicyOfGateway = serde_json::from_value(whole.clone()).ok()?;
        let called: BTreeSet<&String> = document.callers.values().flat_map(|caller| &caller.routes).collect();
        let waits = |route: &&RouteOfGateway| {
            route.webhook.is_some()
                || route.collision.as_deref() == Some("enforce")
                || route.in_flight.as_deref() == Some("conflict")
                || called.contains(&route.endpoint)
        };
        let bodies = document.routes.iter().filter(waits).map(|route| route.max_body_bytes.unwrap_or(MAX_BODY_BYTES));
        let mut variables = BTreeMap::new();
        collect_variables(&whole, "", &mut variables);
        let mut clusters = BTreeMap::new();
        for store in crate::stores::of(&whole) {
            if let Some(name) = store.cluster() {
                clusters.insert(name.to_owned(), store.pointer.clone());
            }
        }
        let calls =
            document.backends.iter().filter_map(|backend| Some((backend.value.cluster.clone()?, backend.pointer)));
        let calls: BTreeMap<String, String> = calls.collect();
        clusters.extend(calls.clone());
        let backend_of = |route: &RouteOfGateway| document.backends.of(route.backend.as_deref());
        let is_restate =
            |route: &RouteOfGateway| backend_of(route).is_some_and(|backend| backend.value.kind == "restate");
        // The target that the filter writes into the path.
        let written = |route: &RouteOfGateway| {
            let target = sample_target(
                route.target.as_ref().filter(|_| backend_of(route).is_some_and(|own| own.value.rewrite_path))?,
            );
            Some(match (is_restate(route), route.one_way) {
                (true, false) => format!("/restate/call/{target}"),
                (true, true) => format!("/restate/send/{target}"),
                (false, _) => format!("/{target}"),
            })
        };
        let rewritten = document.routes.iter().filter_map(|route| {
            let path = written(route)?;
            let first = path.split('/').nth(1).unwrap_or_default();
            Some(format!("/{first}/"))
        });
        let default = document.backends.of(None);
        let is_default = |route: &RouteOfGateway| {
            backend_of(route).map(|backend| backend.name) == default.as_ref().map(|backend| backend.name)
        };
        let samples = document.routes.iter().filter_map(|route| {
            let own = || Some(sample(&route.path)).filter(|_| !is_default(route));
            let mark = backend_of(route).and_then(|backend| backend.name).unwrap_or(ONLY_MARK);
            Some((written(route).or_else(own)?, mark.to_owned()))
        });
        let recovers = |route: &RouteOfGateway| {
            is_restate(route)
                && route.target.is_some()
                && ["REQUIRED_A", "ACCEPTED"].contains(&route.policy.as_str())
                && route.webhook.is_none()
                && route.recovery != Some(false)
        };
        let has_operations = document.backends.iter().any(|backend| backend.value.operations.is_some());
        let is_visible = |route: &RouteOfGateway| {
            let key = route.key.as_ref().or(document.key.as_ref());
            key.and_then(|key| key.charset.as_deref()) == Some("visible")
        };
        let slashes = |route: &&RouteOfGateway| route.encoded_slash || (recovers(route) && is_visible(route));
        let waits_at = (has_operations || document.routes.iter().any(recovers)).then_some("/restate/attach/x");
        let own = document.routes.iter().filter_map(|route| route.identity.as_ref());
        let sources: Vec<_> = document.identity.iter().chain(own).flat_map(|identity| &identity.sources).collect();
        let shaped = |route: &&RouteOfGateway| {
            route.answer.location.as_ref().is_some_and(|location| location.contains("{body:"))
        };
        let pair = |source: &SourceOfGateway| match source.metadata.as_slice() {
            [namespace, key, ..] => Some((namespace.clone(), key.clone())),
            _ => None,
        };
        let mut sds = Vec::new();
        collect_secrets_of_sds(&whole, "", &mut sds);
        let is_keyed = |route: &&RouteOfGateway| {
            ["REQUIRED_A", "ACCEPTED"].contains(&route.policy.as_str()) && route.webhook.is_none()
        };
        let cleans = |route: &RouteOfGateway| route.clean_errors == Some(true);
        let keeps_headers = document.backends.iter().any(|backend| backend.value.kind == "restate")
            || document.answers.clean_errors == Some(true)
            || document.routes.iter().any(|route| waits(&route) || shaped(&route) || cleans(route));
        Some(Self {
            buffer: bodies.max().map(|bytes| bytes.saturating_add(BUFFER_MARGIN)),
            variables,
            clusters,
            hosts: document.routes.iter().find(|route| !route.hosts.is_empty()).map(|route| route.endpoint.clone()),
            route_hosts: document.routes.iter().flat_map(|route| route.hosts.iter().cloned()).collect(),
            forwards_unmatched: document.unmatched.clone().filter(|unmatched| unmatched != "REJECT"),
            rewritten: rewritten.collect(),
            wait_ms: document.routes.iter().any(recovers).then(|| document.recovery.wait_ms.unwrap_or(WAIT_MS)),
            metadata: sources.iter().copied().filter_map(pair).collect(),
            headers: sources.iter().filter_map(|source| source.headers()).collect(),
            samples: samples.collect(),
            marks: document.backends.iter().map(|own| own.name.unwrap_or(ONLY_MARK).to_owned()).collect(),
            mark_all: document.mark_all,
            waiting: document.routes.iter().filter(waits).map(|route| sample(&route.path)).collect(),
            answer: document.routes.iter().find(shaped).map(|route| route.endpoint.clone()),
            calls,
            encoded_slash: document.routes.iter().find(slashes).map(|route| route.endpoint.clone()),
            waits: waits_at.filter(|_| document.recovery.wait_ms != Some(0)),
            is_generic: document.backends.iter().any(|backend| backend.value.kind == "generic"),
            keeps_headers,
            namespaces: policy
                .metadata_paths()
                .filter(|path| path.has_operator())
                .map(|path| path.namespace().to_owned())
                .collect(),
            nameless: policy.metadata_paths().find(|path| !path.has_operator()).map(|path| path.namespace().to_owned()),
            sds,
            keyed: document.routes.iter().find(is_keyed).map(|route| route.endpoint.clone()),
            exposed: exposed(&whole),
        })
    }
}

/// A target with `x` in the place of an object key that holds a placeholder.
fn sample_target(target: &str) -> String {
    match target_parts(target) {
        Some((service, Some(key), handler)) if key.contains('{') => format!("{service}/x/{handler}"),
        _ => target.to_owned(),
    }
}

/// A path with `x` in the place of each segment that holds a parameter.
fn sample(template: &str) -> String {
    let segments = template.split('/').map(|segment| if segment.contains('{') { "x" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// The places of a document with `{"sds": NAME, …}`.
fn collect_secrets_of_sds(value: &Value, pointer: &str, found: &mut Vec<(String, bool)>) {
    match value {
        Value::Object(members) => {
            if members.get("sds").is_some_and(Value::is_string) {
                found.push((pointer.to_owned(), members.contains_key("config_source")));
            }
            for (name, value) in members {
                collect_secrets_of_sds(value, &format!("{pointer}/{}", crate::lints::view::token(name)), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_secrets_of_sds(item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Every `{"env": NAME}` of a document.
fn collect_variables(value: &Value, pointer: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            if let (Some(Value::String(name)), 1) = (members.get("env"), members.len()) {
                found.entry(name.clone()).or_insert_with(|| pointer.to_owned());
            }
            for (name, value) in members {
                collect_variables(value, &format!("{pointer}/{}", crate::lints::view::token(name)), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_variables(item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}
