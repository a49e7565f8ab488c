//! A krakend.json that fits a policy: one endpoint for each method and path that the policy has, and for each way to ask for a
//! result. The bridge checks the same when KrakenD starts.
//!
//! | module | subject |
//! |---|---|
//! | `validator` | who verifies which tokens |
//! | `webhooks` | the headers of deliveries that handlers read |
//! | `paths` | paths as KrakenD's router can serve them |
//! | `router` | the endpoints without which the router would not find some paths |

mod paths;
mod router;
mod validator;
mod webhooks;

use super::browsers::cors;
use super::json_text::compact_json;
use super::needs::GatewayNeeds;
use super::upstream::NamedUpstream;
use edge_idempotency_engine::policy::needs::{RouteNeeds, Wait, Way};
use paths::{ParameterNames, anonymous, krakend_path};
use router::{Served, added};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use validator::TokenValidator;

/// The name of the bridge in krakend.json.
const BRIDGE: &str = "edge-idempotency";
/// The endpoint's name of requests for operations.
const OPERATIONS: &str = "_operations";
/// A name that never resolves (RFC 6761): without the bridge nothing reaches a backend.
const NOWHERE: &str = "http://edge-idempotency.invalid";
/// What a request for a stored result takes besides its wait.
const MARGIN_MS: u64 = 2_000;
/// How long the bridge waits for an upstream's answer if nothing is said.
const UPSTREAM_S: u64 = 60;
/// Methods that KrakenD answers by itself.
const OF_KRAKEND: [&str; 2] = ["HEAD", "OPTIONS"];

/// What a krakend.json is made of, besides the policy.
#[derive(Clone, Debug)]
pub(crate) struct KrakendPlan {
    pub(crate) name: String,
    /// What the comments call the policy
    pub(crate) source: String,
    pub(crate) document: Value,
    pub(crate) module: String,
    pub(crate) policy_file: String,
    pub(crate) plugins: Option<String>,
    pub(crate) port: u16,
    /// Origins whose scripts may call the API
    pub(crate) origins: Vec<String>,
    /// Networks of the proxies before KrakenD
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) metrics: String,
    pub(crate) upstreams: Vec<NamedUpstream>,
    pub(crate) issuers: Vec<String>,
    pub(crate) key_sets: Vec<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) algorithms: Vec<String>,
    /// Endpoints that only signed callers use
    pub(crate) without_token: Vec<String>,
    /// Headers that the backend reads on every endpoint
    pub(crate) headers: Vec<String>,
    /// Providers whose webhooks are looked up
    pub(crate) webhook_providers: Vec<String>,
    pub(crate) timeout_s: u64,
}

/// What one entry of `endpoints` is made of.
struct EndpointPlan<'p> {
    method: &'p str,
    path: String,
    /// The name in the policy
    name: &'p str,
    upstream: &'p str,
    /// A request for a stored result waits for it
    waits: bool,
    /// The parameters of the query that KrakenD lets through
    query: Vec<&'p str>,
}

/// An endpoint for a part of another one's paths.
fn part(endpoint: &Map<String, Value>, path: &str, behind: &str) -> Map<String, Value> {
    let own = format!("The endpoint before for these paths alone: KrakenD's router does not go back from {behind}.");
    let comment = match endpoint.get("@comment").and_then(Value::as_str) {
        Some(other) => format!("{own} {other}"),
        None => own,
    };
    let mut part = endpoint.clone();
    part.shift_remove("@comment");
    part.shift_insert(0, "@comment".to_owned(), json!(comment));
    part.insert("endpoint".to_owned(), json!(path));
    if let Some(pattern) = part.get_mut("backend").and_then(|backend| backend.pointer_mut("/0/url_pattern")) {
        *pattern = json!(path);
    }
    part
}

/// The parameters of the query that a route needs. KrakenD removes all others. A signature can cover all of a delivery's.
fn query(route: &RouteNeeds) -> Vec<&str> {
    match &route.query {
        Some(names) if !route.webhook => names.iter().map(String::as_str).collect(),
        _ => vec!["*"],
    }
}

impl KrakendPlan {
    /// The whole krakend.json.
    ///
    /// # Errors
    /// KrakenD cannot serve the policy, or an option is missing; the sentence says what to write.
    pub(crate) fn configuration(&self, needs: &GatewayNeeds) -> Result<String, String> {
        self.check(needs)?;
        let upstreams = needs.upstreams(&self.upstreams)?;
        let upstream = |backend: usize| upstreams.get(backend).map(String::as_str).unwrap_or_default();
        let (mut endpoints, mut validators, mut names) = (Vec::new(), Vec::new(), ParameterNames::default());
        // The numbers and paths of endpoints by their methods.
        let mut served: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
        for route in &needs.routes {
            let (main, validator) = (upstream(route.backend), self.validator(route, needs)?);
            let own = self.backend_headers(route, needs, validator.is_some())?;
            for Way { method, path, result } in route.ways() {
                if OF_KRAKEND.contains(&method) {
                    continue;
                }
                let path = names.unify(&krakend_path(&path));
                served.entry(method.to_owned()).or_default().push((endpoints.len(), path.clone()));
                let query = if result.is_none() { query(route) } else { Vec::new() };
                let waits = result == Some(Wait::Attach);
                let plan = EndpointPlan { method, path, name: &route.endpoint, upstream: main, waits, query };
                let mut endpoint = self.endpoint(&plan, needs, validator.as_ref(), &own);
                if let Some(comment) = self.comment(route, needs, validator.is_some()) {
                    endpoint.shift_insert(0, "@comment".to_owned(), json!(comment));
                }
                endpoints.push(endpoint);
            }
            validators.extend(validator);
        }
        if let Some((_, backend)) = &needs.operations {
            let validator = self.claims_validator(OPERATIONS, needs, &needs.sources)?;
            for Way { method, path, result } in needs.operation_ways() {
                let path = names.unify(&krakend_path(&path));
                served.entry(method.to_owned()).or_default().push((endpoints.len(), path.clone()));
                let (upstream, query, waits) = (upstream(*backend), Vec::new(), result == Some(Wait::Attach));
                let plan = EndpointPlan { method, path, name: OPERATIONS, upstream, waits, query };
                let own: Vec<String> = needs.api_keys().into_iter().map(str::to_owned).collect();
                endpoints.push(self.endpoint(&plan, needs, validator.as_ref(), &own));
            }
            validators.extend(validator);
        }
        let endpoints = Self::with_those_that_the_router_needs(endpoints, &served, &mut names)?;
        Ok(compact_json(&self.service(needs, &endpoints, &validators)))
    }

    /// The endpoints, each followed by those that serve a part of its paths, which KrakenD's router would not bring to it.
    fn with_those_that_the_router_needs(
        endpoints: Vec<Map<String, Value>>,
        served: &BTreeMap<String, Vec<(usize, String)>>,
        names: &mut ParameterNames,
    ) -> Result<Vec<Map<String, Value>>, String> {
        let mut more: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
        for (method, paths) in served {
            let own: Vec<Served> =
                paths.iter().map(|(_, path)| Served { path: path.clone(), of: path.clone() }).collect();
            let added = added(&own).map_err(|(loser, taker)| {
                format!(
                    "KrakenD cannot serve this policy as it is:\n  give one of {method} {loser} and {method} {taker} another path: KrakenD's \
                     router does not go back from a parameter, and too many endpoints would have to be added for what the second takes \
                     from the first"
                )
            })?;
            for one in added {
                if let Some((number, _)) = paths.get(one.owner) {
                    more.entry(*number).or_default().push((names.unify(&one.path), format!("{method} {}", one.behind)));
                }
            }
        }
        let mut all = Vec::new();
        for (number, endpoint) in endpoints.into_iter().enumerate() {
            let parts: Vec<_> = more
                .remove(&number)
                .into_iter()
                .flatten()
                .map(|(path, behind)| part(&endpoint, &path, &behind))
                .collect();
            all.push(endpoint);
            all.extend(parts);
        }
        Ok(all)
    }

    /// Endpoints of the policy that KrakenD answers 405 to, since it has no others than these methods: HEAD and OPTIONS.
    pub(crate) fn unserved(needs: &GatewayNeeds) -> impl Iterator<Item = &str> {
        let of_krakend = |route: &&RouteNeeds| route.methods.iter().any(|method| OF_KRAKEND.contains(&method.as_str()));
        needs.routes.iter().filter(of_krakend).map(|route| route.endpoint.as_str())
    }

    /// The members of the service, and the endpoints.
    fn service(&self, needs: &GatewayNeeds, endpoints: &[Map<String, Value>], validators: &[TokenValidator]) -> Value {
        let longest = self.timeout_s.max(Self::wait_s(needs));
        let upstream = |one: &NamedUpstream| {
            let url = one.url();
            if longest > UPSTREAM_S { json!({"url": url, "timeout_ms": longest * 1000}) } else { json!({"url": url}) }
        };
        let upstreams: Map<String, Value> =
            self.upstreams.iter().map(|one| (one.name.clone(), upstream(one))).collect();
        let comment = format!(
            "Made by `edge-idempotency render krakend` from {}. Make it anew when the policy changes. Look at the places that say \
             CHECK.",
            self.source
        );
        let mut whole = Map::new();
        let mut add = |name: &str, value: Value| drop(whole.insert(name.to_owned(), value));
        add("$schema", json!("https://www.krakend.io/schema/v2.13/krakend.json"));
        add("@comment", json!(comment));
        add("version", json!(3));
        add("name", json!(self.name));
        add(
            "@port",
            json!(
                "CHECK: KrakenD speaks no TLS here. Put what ends TLS before it, or add `tls` with your certificate."
            ),
        );
        add("port", json!(self.port));
        add("timeout", json!(format!("{}s", self.timeout_s)));
        add("read_header_timeout", json!("10s"));
        add("read_timeout", json!("60s"));
        if let Some(folder) = &self.plugins {
            add("plugin", json!({"folder": folder, "pattern": ".so"}));
        }
        let mut extra = Map::new();
        extra.insert("router".to_owned(), self.router(needs));
        extra.insert("telemetry/logging".to_owned(), json!({"level": "INFO", "stdout": true, "prefix": "[KRAKEND]"}));
        // KrakenD's schema lets a plugin's configuration stand beside the names of the plugins.
        let own = json!({
            "module": self.module, "policy_file": self.policy_file, "upstreams": upstreams, "metrics_listen": self.metrics
        });
        extra.insert("plugin/http-server".to_owned(), json!({"name": [BRIDGE], BRIDGE: own}));
        if !self.origins.is_empty() {
            extra.insert("security/cors".to_owned(), self.cors(needs));
        }
        if let Some(check) = TokenValidator::check(validators) {
            extra.insert("@auth/validator".to_owned(), json!(check));
        }
        add("extra_config", Value::Object(extra));
        add(
            "@endpoints",
            json!(
                "CHECK: what input_headers does not list does not reach your backend. Add the other headers that it reads (--header \
                 NAME); never Idempotency-Key, which the bridge writes by itself."
            ),
        );
        add("endpoints", json!(endpoints));
        Value::Object(whole)
    }

    /// Switches of KrakenD's router.
    fn router(&self, needs: &GatewayNeeds) -> Value {
        let mut router = json!({"disable_redirect_fixed_path": true, "disable_redirect_trailing_slash": true});
        let more = if self.trusted_proxies.is_empty() {
            json!({
                "@forwarded_by_client_ip": "Clients connect here directly: the address that they claim in X-Forwarded-For is not \
                    believed. CHECK: behind another proxy give --trusted-proxy with its network.",
                "forwarded_by_client_ip": false,
            })
        } else {
            json!({"forwarded_by_client_ip": true, "trusted_proxies": self.trusted_proxies})
        };
        let log = json!({
            "@disable_access_log": "KrakenD's access log has the paths of requests for results, and these hold keys. The bridge \
                writes a record of each request (log_records).",
            "disable_access_log": true,
        });
        let log = needs.routes.iter().any(|route| route.recovery).then_some(log);
        if let Some(members) = router.as_object_mut() {
            for more in [Some(more), log].into_iter().flatten() {
                members.extend(more.as_object().cloned().unwrap_or_default());
            }
        }
        router
    }

    /// KrakenD's CORS. It stands before the router, so it answers preflight requests too.
    fn cors(&self, needs: &GatewayNeeds) -> Value {
        let rules = cors(needs, &self.origins);
        let list = |name: &str| {
            let text = rules.get(name).and_then(Value::as_str).unwrap_or_default();
            json!(text.split(", ").filter(|name| !OF_KRAKEND.contains(name)).collect::<Vec<_>>())
        };
        json!({
            "allow_origins": self.origins, "allow_methods": list("methods"),
            "@allow_headers": "CHECK: add the other headers that your scripts send, and below those that they read. If they send \
                cookies, add `allow_credentials`.",
            "allow_headers": list("allowed"), "expose_headers": list("exposed"), "max_age": "10m",
        })
    }

    /// How long a request for a stored result takes at most, in seconds.
    fn wait_s(needs: &GatewayNeeds) -> u64 {
        (needs.recovery_wait_ms + MARGIN_MS).div_ceil(1000)
    }

    /// What KrakenD cannot have.
    fn check(&self, needs: &GatewayNeeds) -> Result<(), String> {
        let mut problems = Vec::new();
        if !needs.gateway_routes {
            problems.push(
                "write \"gateway_routes\": true: KrakenD chooses the endpoint, and the bridge tells the module its name".to_owned(),
            );
        }
        if let Some((_, name, _)) = needs.discovered().next() {
            problems.push(format!(
                "write {{\"env\": \"NAME\"}} in the place of the secret of SDS ({name}): KrakenD has none"
            ));
        }
        for (owner, headers) in &needs.owners {
            problems.push(format!(
                "remove the identity sources whose headers {owner} owns ({}): KrakenD has no such filter, so a client could set them",
                headers.join(", ")
            ));
        }
        if needs.api_keys().is_some() && needs.sources.iter().any(|source| !source.origin.metadata.is_empty()) {
            problems.push(
                "give routes whose callers have tokens an `identity` of their own, and leave `unkey` alone in the document's: KrakenD \
                 refuses who has no token where it asks for one, so a route takes tokens or API keys"
                    .to_owned(),
            );
        }
        let paths = needs.all_sources().map(|source| &source.origin.metadata).filter(|path| !path.is_empty());
        let sources: BTreeSet<String> = paths.map(|path| json!(path).to_string()).collect();
        if sources.len() > 1 {
            problems.push(format!(
                "give all identity sources the same `metadata` path: behind KrakenD they read the claims of one token, and these read {}",
                sources.into_iter().collect::<Vec<_>>().join(" and ")
            ));
        }
        let mut ways: BTreeMap<(&str, String), &RouteNeeds> = BTreeMap::new();
        for route in &needs.routes {
            for method in &route.methods {
                let other = ways.entry((method, anonymous(&krakend_path(&route.path)))).or_insert(route);
                if other.endpoint != route.endpoint {
                    problems.push(format!(
                        "give one of {} and {} another path: KrakenD chooses neither by host nor by the text before a parameter, so \
                         {method} {} is both",
                        other.endpoint, route.endpoint, route.path
                    ));
                }
            }
        }
        let lacking = needs.stores.iter().filter(|store| !store.has_credential);
        let lacking: BTreeSet<_> = lacking.map(|store| (&store.cluster, store.used_for.credential())).collect();
        problems.extend(lacking.into_iter().map(|(cluster, member)| {
            format!(
                "write `{member}` of the store behind {cluster}, as {{\"env\": NAME}}: KrakenD adds no credentials to the module's calls"
            )
        }));
        if problems.is_empty() {
            Ok(())
        } else {
            Err(format!("KrakenD cannot serve this policy as it is:\n  {}", problems.join("\n  ")))
        }
    }

    /// The headers that the backend of a route reads.
    fn backend_headers(&self, route: &RouteNeeds, needs: &GatewayNeeds, token: bool) -> Result<Vec<String>, String> {
        let backend = needs.backend_of(route);
        let mut headers = backend.map(|backend| backend.keep_headers.clone()).unwrap_or_default();
        if token && backend.is_some_and(|backend| backend.abilities.gets_credentials) {
            // An API may need the token itself. Restate writes headers into its journal, so the filter removes it there.
            headers.push("Authorization".to_owned());
        }
        if route.webhook {
            let providers = webhooks::providers(needs, route, &self.webhook_providers);
            headers.extend(webhooks::headers(&self.document, &providers)?);
        }
        headers.extend(needs.api_keys().filter(|_| route.sources.is_none() && !route.webhook).map(str::to_owned));
        headers.extend(self.headers.iter().cloned());
        Ok(headers)
    }

    /// What a reader has to know of an endpoint.
    fn comment(&self, route: &RouteNeeds, needs: &GatewayNeeds, token: bool) -> Option<String> {
        if route.webhook && !needs.stores.is_empty() && self.webhook_providers.is_empty() {
            return Some(
                "CHECK: webhooks are looked up, and input_headers has the headers of those providers only that the policy names: give \
                 --webhook-provider for each of the others."
                    .to_owned(),
            );
        }
        match (route.signed && !route.webhook, token) {
            (true, true) => Some(format!(
                "CHECK: signed callers cannot use this endpoint, because KrakenD asks for a token here; --without-token {} leaves it to \
                 them alone.",
                route.endpoint
            )),
            (true, false) => {
                Some("KrakenD asks for no token here: only signed callers can use this endpoint.".to_owned())
            }
            _ => None,
        }
    }

    fn endpoint(
        &self,
        plan: &EndpointPlan<'_>,
        needs: &GatewayNeeds,
        validator: Option<&TokenValidator>,
        own: &[String],
    ) -> Map<String, Value> {
        let mut headers: Vec<&str> = vec!["Accept"];
        if ["POST", "PUT", "PATCH"].contains(&plan.method) {
            headers.insert(0, "Content-Type");
        }
        let claims = validator.iter().flat_map(|validator| validator.headers.iter());
        for header in claims.chain(own) {
            if !headers.iter().any(|other| other.eq_ignore_ascii_case(header)) {
                headers.push(header);
            }
        }
        let bound = json!({"endpoint": plan.name, "upstream": plan.upstream});
        let extra = json!({"plugin/http-client": {"name": BRIDGE, BRIDGE: bound}});
        let backend = json!([{"host": [NOWHERE], "url_pattern": plan.path, "extra_config": extra}]);
        let mut endpoint = Map::new();
        let mut add = |name: &str, value: Value| drop(endpoint.insert(name.to_owned(), value));
        add("endpoint", json!(plan.path));
        add("method", json!(plan.method));
        if plan.waits && Self::wait_s(needs) > self.timeout_s {
            add("timeout", json!(format!("{}s", Self::wait_s(needs))));
        }
        add("output_encoding", json!("no-op"));
        add("input_headers", json!(headers));
        if !plan.query.is_empty() {
            add("input_query_strings", json!(plan.query));
        }
        if let Some(validator) = validator {
            add("extra_config", json!({"auth/validator": validator.config}));
        }
        add("backend", backend);
        endpoint
    }
}
