//! A configuration of Envoy that fits a policy: the whole bootstrap, the filter alone, or the filter's file for discovery.

use super::ext_authz::{AuthorizationService, EXT_AUTHZ};
use super::module::ModuleFile;
use super::needs::{EVERYBODY, GatewayCredential, GatewayNeeds, pattern_of};
use super::public_paths::PublicPath;
use super::template::{fill, is_literal};
use super::tokens::{KeySet, TokenProvider, rules};
use super::upstream::{BackendClusters, NamedUpstream};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::needs::BackendNeeds;
use edge_idempotency_envoy::METADATA_OBJECTS;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

const BOOTSTRAP: &str = include_str!("templates/envoy.yaml");
const CLUSTER: &str = include_str!("templates/cluster.yaml");
const ROUTE: &str = include_str!("templates/route.yaml");
const WASM: &str = include_str!("templates/wasm.yaml");
const DYNAMIC_MODULE: &str = include_str!("templates/dynamic-module.yaml");
const METADATA: &str = include_str!("templates/metadata.yaml");
const FILTER: &str = include_str!("templates/filter.yaml");
const DISCOVERY: &str = include_str!("templates/discovery.yaml");
const ECDS: &str = include_str!("templates/ecds.yaml");
const BLOCK: &str = include_str!("templates/block.yaml");
const STATS_TAGS: &str = include_str!("../../../../deploy/observability/envoy-stats-tags.yaml");

/// The header that the filter sets on requests that it marks.
const MARK: &str = "x-edge-idempotency";
/// How many connections clients may use of a backend, and how many requests may wait for one, as in deploy/demo/envoy.yaml (docs/operate.md,
/// "Clusters and their limits").
const CONNECTIONS: u32 = 4096;
/// How many questions for results may be under way a second time: the filter has the router repeat what is answered 404.
const RETRIES: u32 = 1024;

/// What a configuration of Envoy is made of, besides the policy.
#[derive(Clone, Debug)]
pub(crate) struct EnvoyPlan {
    /// What the comments call the policy
    pub(crate) source: String,
    pub(crate) policy: String,
    pub(crate) module: ModuleFile,
    /// If the module is a dynamic one, what it needs
    pub(crate) dynamic_module: Option<DynamicModuleNeeds>,
    pub(crate) upstreams: Vec<NamedUpstream>,
    pub(crate) providers: Vec<TokenProvider>,
    pub(crate) ext_authz: Option<AuthorizationService>,
    /// Paths of which no credential is asked
    pub(crate) public: Vec<PublicPath>,
    /// Where the gateway says that it works
    pub(crate) health: Option<String>,
    /// What scripts in browsers may do; null if nothing
    pub(crate) cors: Value,
    /// What it does for the clients of a protocol (`profile::parts`); null for none
    pub(crate) profile: Value,
    pub(crate) listen: (String, u16),
    pub(crate) admin: (String, u16),
    /// Standard output, if there is none
    pub(crate) access_log: Option<PathBuf>,
    /// Where the gateway reads credentials that it adds to lookups
    pub(crate) credentials: PathBuf,
    pub(crate) ca_file: PathBuf,
    pub(crate) timeout_s: u64,
    pub(crate) retries: u32,
    /// Where the gateway reads the filter's configuration
    pub(crate) ecds: Option<PathBuf>,
}

/// What a dynamic module needs of the gateway, and a WebAssembly module does not.
#[derive(Clone, Debug)]
pub(crate) struct DynamicModuleNeeds {
    /// The namespaces of metadata that identity sources read
    pub(crate) namespaces: BTreeSet<String>,
}

impl DynamicModuleNeeds {
    /// What a policy needs.
    ///
    /// # Errors
    /// No operator can name a namespace that a source reads.
    pub(crate) fn of(policy: &Policy) -> Result<Self, String> {
        if let Some(path) = policy.metadata_paths().find(|path| !path.has_operator()) {
            return Err(format!(
                "a dynamic module gets metadata by Envoy's operator DYNAMIC_METADATA, which cannot name the namespace `{}`: \
                 leave --dynamic-module out, or let the source read another namespace or headers",
                path.namespace()
            ));
        }
        Ok(Self { namespaces: policy.metadata_namespaces() })
    }
}

impl EnvoyPlan {
    /// The whole bootstrap.
    ///
    /// # Errors
    /// Upstreams are missing or too many; the sentence says what to write.
    pub(crate) fn bootstrap(&self, needs: &GatewayNeeds) -> Result<String, String> {
        needs.check_api_keys()?;
        let backends = needs.clusters_of(&self.upstreams)?;
        let default = backends.first().map(|backend| backend.requests.as_str()).unwrap_or_default();
        let mut values = self.values(needs)?;
        let listed = self.providers.iter().map(|provider| {
            let (file, url) = match &provider.keys {
                KeySet::File(path) => (Some(path), None),
                KeySet::Url(url, cluster) => (None, Some((url, &cluster.name))),
            };
            json!({
                "key": provider.places.key, "metadata": provider.places.metadata, "header": provider.places.header, "issuer": provider.issuer, "audiences": provider.audiences, "file": file,
                "url": url.map(|(url, _)| url), "cluster": url.map(|(_, cluster)| cluster),
            })
        });
        let ext_authz = self.ext_authz.as_ref().map(|service| service.values(needs, &self.upstreams)).transpose()?;
        let public = self.public.iter().map(|path| json!({"name": path.text(), "match": path.matches()}));
        let unset = needs.owners_without_payloads();
        let owners = needs.owners.iter().map(|(name, headers)| {
            let unset = unset.iter().find(|(owner, _)| owner == name).map(|(_, headers)| headers);
            let (kept, removed): (Vec<_>, Vec<_>) =
                headers.iter().partition(|name| needs.signed_headers.contains(*name));
            let everybody = name == EVERYBODY;
            let present = unset.is_none() || everybody || ext_authz.is_some() && name == EXT_AUTHZ;
            json!({"name": name, "headers": unset, "removed": removed, "kept": kept, "present": present, "everybody": everybody})
        });
        let mut routes: Vec<_> = needs.routes.iter().filter(|route| route.webhook).collect();
        routes.sort_by_key(|route| std::cmp::Reverse((!route.hosts.is_empty(), pattern_of(route).rank())));
        let webhooks = routes.iter().map(|route| {
            // Without the mark a delivery leads to the default backend only, and nowhere if its own is another one.
            json!({
                "endpoint": route.endpoint, "match": {"safe_regex": {"regex": pattern_of(route).regex(false, true)}},
                "closed": needs.closed || route.backend != 0,
            })
        });
        let filter = match &self.ecds {
            Some(path) => fill(DISCOVERY, &json!({"ecds": path, "type_url": values.get("type_url")}))?,
            None => fill(FILTER, &values)?,
        };
        let preflight =
            !needs.closed || needs.routes.iter().any(|route| route.methods.iter().any(|method| method == "OPTIONS"));
        extend(
            &mut values,
            json!({
                "passes_tokens": needs.passes_tokens(),
                "behind": needs.described(),
                "stats_config": Self::stats_config(),
                "listen": {"host": self.listen.0, "port": self.listen.1},
                "admin": {"host": self.admin.0, "port": self.admin.1},
                "owners": owners.collect::<Vec<_>>(),
                "other_metadata": needs.other_metadata.iter().filter(|name| ext_authz.is_none() || *name != EXT_AUTHZ).collect::<Vec<_>>(),
                "signed": needs.routes.iter().filter(|route| route.signed).map(|route| &route.path).collect::<Vec<_>>(),
                "ext_authz": ext_authz,
                "public": public.collect::<Vec<_>>(),
                "health": self.health,
                "cors": self.cors,
                "profile": {"title": self.profile.get("title"), "replies": self.profile.get("replies"), "echo": self.profile.get("echo")},
                "timeout_s": self.timeout_s,
                "wait_ms": needs.recovery_wait_ms,
                "access_log": self.access_log,
                "providers": listed.collect::<Vec<_>>(),
                "preflight": preflight,
                "rules": rules(needs, &self.providers, &self.public),
                "webhooks": webhooks.collect::<Vec<_>>(),
                "filter": filter.trim_end(),
                "route": self.route(default)?,
                "waits": self.waits(needs, &backends)?,
                "marked": self.marked(needs, &backends)?,
                "closed": needs.closed,
                "reserved": needs.reserved.iter().map(|path| closed_match(path)).collect::<Vec<_>>(),
                "clusters": self.clusters(needs, &backends)?.into_iter().map(|(_, text)| text).collect::<Vec<_>>(),
            }),
        );
        fill(BOOTSTRAP, &values)
    }

    /// The filter alone: an entry of `http_filters`, or the file that discovery reads.
    ///
    /// # Errors
    /// None that a policy can bring about.
    pub(crate) fn filter_only(&self, needs: &GatewayNeeds) -> Result<String, String> {
        let mut values = self.values(needs)?;
        if self.ecds.is_some() {
            return fill(ECDS, &values);
        }
        let filter = fill(FILTER, &values)?;
        let owners = needs.owners.iter().map(|(name, headers)| json!({"name": name, "headers": headers}));
        let around = json!({
            "filter": filter.trim_end(), "clusters": needs.clusters().into_keys().collect::<Vec<_>>(), "passes_tokens": needs.passes_tokens(), "tokens": needs.tokens,
            "sds": needs.discovered().next().is_some(), "payloads": needs.payloads, "owners": owners.collect::<Vec<_>>(), "other_metadata": needs.other_metadata,
        });
        extend(&mut values, around);
        fill(BLOCK, &values)
    }

    /// What all templates have in common.
    pub(crate) fn values(&self, needs: &GatewayNeeds) -> Result<Value, String> {
        if let Some((_, name, _)) = needs.discovered().next().filter(|_| self.dynamic_module.is_none()) {
            return Err(format!(
                "the policy names a secret of SDS ({name}), and Envoy gives a WebAssembly module none: add --dynamic-module, or write \
                 {{\"env\": \"NAME\"}} into the policy"
            ));
        }
        let policy = self.policy.trim_end();
        let literal = is_literal(policy);
        let module = json!({"path": self.module.path, "sha256": self.module.sha256, "hashed_name": self.module.hashed_name, "is_fetched": self.module.is_fetched()});
        let mut values = json!({
            "source": self.source,
            "module": module,
            "variables": needs.variables().into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "policy_text": literal.then_some(policy),
            "policy_quoted": policy,
            "buffer": needs.longest(),
            "marks": needs.marks(),
            "backends": needs.backends.iter().filter(|own| own.marked).filter_map(|own| own.name.as_ref()).collect::<Vec<_>>(),
            "idle_s": self.idle_s(needs),
            "escaped_slashes": needs.escaped_slashes(),
            "cleans_errors": needs.cleans_errors,
        });
        let (template, extension, record, namespaces) = match &self.dynamic_module {
            None => (WASM, "wasm.v3.Wasm", "%TYPED_CEL(filter_state['wasm.edge_idempotency'])%", None),
            Some(dynamic_module) => {
                let namespaces = Some(&dynamic_module.namespaces).filter(|namespaces| !namespaces.is_empty());
                let record = "%TYPED_CEL(metadata.typed_filter_metadata['edge_idempotency'])%";
                (DYNAMIC_MODULE, "dynamic_modules.v3.DynamicModuleFilter", record, namespaces)
            }
        };
        let typed = fill(template, &values)?;
        let metadata = namespaces
            .map(|namespaces| {
                let ecds = self.ecds.is_some();
                fill(METADATA, &json!({"objects": METADATA_OBJECTS, "namespaces": namespaces, "ecds": ecds}))
            })
            .transpose()?;
        extend(
            &mut values,
            json!({
                "dynamic_module": self.dynamic_module.is_some(),
                "typed": typed.trim_end(),
                "type_url": format!("type.googleapis.com/envoy.extensions.filters.http.{extension}"),
                "record": record,
                "metadata": metadata.as_deref().map(str::trim_end),
            }),
        );
        Ok(values)
    }

    /// How long a stream may be idle: a minute more than anything waits.
    pub(crate) fn idle_s(&self, needs: &GatewayNeeds) -> u64 {
        self.timeout_s.max(needs.recovery_wait_ms.div_ceil(1000)) + 60
    }

    /// What a route does that leads to the backend.
    ///
    /// # Errors
    /// None that a policy can bring about.
    pub(crate) fn route(&self, cluster: &str) -> Result<String, String> {
        let route = fill(ROUTE, &json!({"cluster": cluster, "timeout_s": self.timeout_s, "retries": self.retries}))?;
        Ok(route.trim_end().to_owned())
    }

    /// The routes of requests that the filter marks: for each backend the name, what the route matches, and what it does.
    ///
    /// # Errors
    /// None that a policy can bring about.
    pub(crate) fn marked(&self, needs: &GatewayNeeds, clusters: &[BackendClusters]) -> Result<Value, String> {
        let own = needs.backends.iter().zip(clusters).filter(|(backend, _)| backend.marked);
        own.map(|(backend, clusters)| self.marked_route("backend", "/", backend, &clusters.requests)).collect()
    }

    /// The same for requests that wait for results.
    ///
    /// # Errors
    /// None that a policy can bring about.
    pub(crate) fn waits(&self, needs: &GatewayNeeds, clusters: &[BackendClusters]) -> Result<Value, String> {
        let waiting =
            needs.backends.iter().zip(clusters).filter_map(|(backend, own)| Some((backend, own.waits.as_ref()?)));
        waiting.map(|(backend, cluster)| self.marked_route("waits", "/restate/attach/", backend, cluster)).collect()
    }

    fn marked_route(&self, what: &str, prefix: &str, backend: &BackendNeeds, cluster: &str) -> Result<Value, String> {
        let (name, asked) = match &backend.name {
            Some(name) => (format!("{what}-{name}"), json!({"name": MARK, "string_match": {"exact": name}})),
            None => (what.to_owned(), json!({"name": MARK, "present_match": true})),
        };
        Ok(
            json!({"name": name, "named": backend.name.is_some(), "match": {"prefix": prefix, "headers": [asked]}, "route": self.route(cluster)?}),
        )
    }

    /// The tags that the filter's metrics need.
    pub(crate) fn stats_config() -> String {
        STATS_TAGS.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// The clusters with their names, those of the upstreams first.
    ///
    /// # Errors
    /// None that a policy can bring about.
    pub(crate) fn clusters(
        &self,
        needs: &GatewayNeeds,
        backends: &[BackendClusters],
    ) -> Result<Vec<(String, String)>, String> {
        let keys = self.providers.iter().filter_map(|provider| match &provider.keys {
            KeySet::Url(_, cluster) => Some(cluster),
            KeySet::File(_) => None,
        });
        let all = self.upstreams.iter().flat_map(|upstream| {
            let own = backends.iter().filter(|backend| backend.given == upstream.name);
            let others: BTreeSet<&String> = own
                .flat_map(|backend| [Some(&backend.requests), backend.waits.as_ref()].into_iter().flatten())
                .collect();
            let others = others.into_iter().filter(|name| **name != upstream.name);
            let others = others.map(|name| NamedUpstream { name: name.clone(), ..upstream.clone() });
            others.chain([upstream.clone()]).collect::<Vec<_>>()
        });
        let text = |upstream: NamedUpstream| {
            let values = json!({"cluster": self.cluster(&upstream, needs, backends), "ca_file": self.ca_file});
            fill(CLUSTER, &values).map(|text| (upstream.name, text.trim_end().to_owned()))
        };
        let service = self.ext_authz.iter().map(|service| service.upstream.clone());
        all.chain(keys.cloned()).chain(service).map(text).collect()
    }

    fn cluster(&self, upstream: &NamedUpstream, needs: &GatewayNeeds, backends: &[BackendClusters]) -> Value {
        let is_waits = backends.iter().any(|backend| backend.waits.as_ref() == Some(&upstream.name));
        let is_requests = backends.iter().any(|backend| backend.requests == upstream.name);
        let is_given = needs.backends.iter().any(|backend| backend.cluster.as_ref() == Some(&upstream.name));
        let is_called = needs.stores.iter().any(|store| store.cluster == upstream.name)
            || self.ext_authz.as_ref().is_some_and(|service| service.upstream.name == upstream.name)
            || is_given && !is_requests;
        let purpose = match (is_waits, is_requests, is_given) {
            (true, ..) => Some("requests that wait for results"),
            (_, true, _) => Some("requests of clients"),
            (_, _, true) => Some("the filter's own calls (`cluster` of the policy's backend)"),
            _ => None,
        };
        let credential = needs.credential(&upstream.name).map(|GatewayCredential { name, header, prefix }| {
            json!({"name": name, "header": header, "prefix": prefix, "file": self.credentials.join(format!("{name}.json"))})
        });
        json!({
            "name": upstream.name, "address": upstream.is_address(), "host": upstream.host, "port": upstream.port,
            "tls": upstream.tls, "connect_s": if is_called { 1 } else { 5 }, "credential": credential, "purpose": purpose,
            "grpc": self.ext_authz.as_ref().is_some_and(|service| service.grpc && service.upstream.name == upstream.name),
            "connections": (is_waits || is_requests).then_some(CONNECTIONS), "retries": is_waits.then_some(RETRIES),
        })
    }
}

/// What a route matches that closes a path of the backend's own.
fn closed_match(path: &str) -> Value {
    let kind = if path.ends_with('.') { "prefix" } else { "path_separated_prefix" };
    json!({kind: path})
}

fn extend(values: &mut Value, more: Value) {
    if let (Value::Object(values), Value::Object(more)) = (values, more) {
        values.extend(more);
    }
}
