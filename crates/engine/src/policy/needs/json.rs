//! What a host that asks the module reads of a policy, as JSON. The bridge in KrakenD has the same names in `krakend/gateway/needs.go`.
//! It is made of the document at once: [`super::PolicyNeeds`] has more, and would make the module larger by its own size.

use super::stores::{secrets, services};
use super::{SecretOrigin, Way};
use crate::identity::IdentitySource;
use crate::json::cursor::child;
use crate::json::to_text;
use crate::policy::defaults::{BUFFER_MARGIN, MAX_BODY_BYTES};
use crate::policy::document::{Document, IdentityRules};
use crate::policy::{Policy, PolicyErrors, compile};
use serde::Serialize;

/// What the policy of a document needs: `{"needs": {…}}`, or `{"errors": "…"}` with a line for each error.
pub fn needs_as_json(document: &[u8]) -> String {
    let needs = || -> Result<String, PolicyErrors> {
        let json = compile::parse(document)?;
        let (document, policy) = compile::read(&json)?;
        Ok(["{\"needs\":", &to_text(&HostNeeds::of(&document, &policy)), "}"].concat())
    };
    needs().unwrap_or_else(|errors| ["{\"errors\":", &to_text(&errors.to_string()), "}"].concat())
}

/// What a host needs. JSON pointers are those of the document.
#[derive(Serialize)]
struct HostNeeds<'n> {
    docs_url: Option<&'n str>,
    retry_headers: &'n [String],
    error_member: bool,
    gateway_routes: bool,
    wait_ms: u64,
    request_buffer: u64,
    /// The names of clusters, with the JSON pointers of the objects that name them.
    clusters: Vec<(&'n str, String)>,
    /// Variables of the environment that hold secrets.
    variables: Vec<String>,
    written_headers: Vec<String>,
    operations: Option<HostOperations<'n>>,
    sources: Vec<HostSource<'n>>,
    routes: Vec<HostRoute<'n>>,
}

#[derive(Serialize)]
struct HostOperations<'n> {
    backend: Option<&'n str>,
    ways: Vec<Way<'n>>,
}

#[derive(Serialize)]
struct HostRoute<'n> {
    endpoint: &'n str,
    hosts: &'n [String],
    backend: Option<&'n str>,
    needs_identity: bool,
    signed: bool,
    webhook: bool,
    query: &'n [String],
    ways: Vec<Way<'n>>,
    /// Its own; null if it has those of the document.
    sources: Option<Vec<HostSource<'n>>>,
}

#[derive(Serialize)]
struct HostSource<'n> {
    pointer: String,
    metadata: &'n [String],
    headers_owned_by: Option<&'n str>,
    /// The header with API keys.
    api_key: Option<&'n str>,
    /// What it reads below `metadata`, each as a path of names.
    claims: Vec<&'n [String]>,
}

impl<'n> HostNeeds<'n> {
    fn of(document: &'n Document, policy: &'n Policy) -> Self {
        let name = |backend: usize| document.backends.get(backend).name;
        let mut clusters: Vec<(&str, String)> = Vec::new();
        for (_, pointer, service) in services(document) {
            clusters.push((&service.cluster, pointer));
        }
        for backend in document.backends.iter() {
            clusters.extend(backend.cluster.as_deref().map(|cluster| (cluster, backend.pointer(""))));
        }
        let mut variables = Vec::new();
        for secret in secrets(document) {
            if let SecretOrigin::Variable(name) = secret.origin {
                variables.push(name);
            }
        }
        let mut longest = MAX_BODY_BYTES;
        let mut routes = Vec::with_capacity(document.routes.len());
        for ((index, declared), route) in document.routes.iter().zip(&policy.routes) {
            longest = longest.max(declared.max_body_bytes);
            routes.push(HostRoute {
                endpoint: declared.endpoint,
                hosts: &declared.hosts,
                backend: name(route.backend),
                needs_identity: declared.needs_identity(),
                signed: document.is_signed(declared.endpoint),
                webhook: declared.webhook.is_some(),
                query: &declared.query,
                ways: Way::of_route(&route.methods, &declared.template.to_string(), route.recovery.is_some()),
                sources: declared.identity.as_ref().map(|rules| sources(&format!("/routes/{index}/identity"), rules)),
            });
        }
        Self {
            docs_url: document.answers.docs_url.as_deref(),
            retry_headers: &document.answers.retry_headers,
            error_member: document.answers.error_member,
            gateway_routes: document.gateway_routes,
            wait_ms: document.recovery_wait_ms,
            request_buffer: longest.saturating_add(BUFFER_MARGIN),
            clusters,
            variables,
            written_headers: document.written_headers(&policy.identities),
            operations: policy.operations.as_ref().map(|operations| HostOperations {
                backend: name(operations.backend),
                ways: Way::to_result(operations.template()).into(),
            }),
            sources: document.identity.as_ref().map(|rules| sources("/identity", rules)).unwrap_or_default(),
            routes,
        }
    }
}

#[inline(never)]
fn sources<'n>(at: &str, rules: &'n IdentityRules) -> Vec<HostSource<'n>> {
    let source = |(index, source): (usize, &'n IdentitySource)| HostSource {
        pointer: child(&child(at, "sources"), &index.to_string()),
        metadata: &source.origin.metadata,
        headers_owned_by: source.origin.owner.as_deref(),
        api_key: source.api_key.as_ref().map(|place| place.header.as_str()),
        claims: source.claims().into_iter().flatten().collect(),
    };
    rules.sources.iter().enumerate().map(source).collect()
}
