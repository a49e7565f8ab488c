//! A krakend.json that fits a policy: one endpoint for each method and path that the policy has, and for each way to ask for a
//! result. The bridge checks the same when KrakenD starts.

use super::json_text::compact_json;
use super::needs::{GatewayNeeds, RouteNeeds};
use super::upstream::NamedUpstream;
use serde_json::{Map, Value, json};

/// The name of the bridge in krakend.json.
const BRIDGE: &str = "edge-idempotency";
/// The endpoint's name of requests for operations.
const OPERATIONS: &str = "_operations";
/// A name that never resolves (RFC 6761): without the bridge nothing reaches a backend.
const NOWHERE: &str = "http://edge-idempotency.invalid";
/// What a request for a stored result takes besides its wait.
const MARGIN_MS: u64 = 2_000;

/// What a krakend.json is made of, besides the policy.
#[derive(Clone, Debug)]
pub(crate) struct KrakendPlan {
    pub(crate) name: String,
    pub(crate) document: Value,
    pub(crate) module: String,
    pub(crate) policy_file: String,
    pub(crate) plugins: Option<String>,
    pub(crate) port: u16,
    pub(crate) metrics: String,
    pub(crate) upstreams: Vec<NamedUpstream>,
    pub(crate) issuers: Vec<String>,
    pub(crate) key_sets: Vec<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) algorithms: Vec<String>,
    /// Endpoints that only signed callers use
    pub(crate) without_token: Vec<String>,
    pub(crate) timeout_s: u64,
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
        let mut endpoints = Vec::new();
        for route in &needs.routes {
            let (main, validator) = (upstream(route.backend), self.validator(route)?);
            // KrakenD answers HEAD and OPTIONS by itself.
            for method in route.methods.iter().filter(|method| !["HEAD", "OPTIONS"].contains(&method.as_str())) {
                endpoints.push(self.endpoint(method, &route.path, &route.endpoint, main, validator.as_ref()));
            }
            if route.recovery {
                let base = format!("{}/by-idempotency-key/{{key}}", route.path.trim_end_matches('/'));
                for path in [base.clone(), format!("{base}/output")] {
                    endpoints.push(self.endpoint("GET", &path, &route.endpoint, main, validator.as_ref()));
                }
            }
        }
        if let Some((path, backend)) = &needs.operations {
            let validator = self.claims_validator(OPERATIONS, self.document.pointer("/identity"))?;
            for path in [path.clone(), format!("{path}/output")] {
                endpoints.push(self.endpoint("GET", &path, OPERATIONS, upstream(*backend), validator.as_ref()));
            }
        }
        let upstreams: Map<String, Value> =
            self.upstreams.iter().map(|one| (one.name.clone(), json!({"url": one.url()}))).collect();
        let timeout = self.timeout_s.max((needs.wait_ms + MARGIN_MS).div_ceil(1000));
        let mut whole = json!({
            "$schema": "https://www.krakend.io/schema/v2.13/krakend.json",
            "version": 3,
            "name": self.name,
            "port": self.port,
            "timeout": format!("{timeout}s"),
            "read_header_timeout": "10s",
            "read_timeout": "60s",
        });
        let rest = json!({
            "extra_config": {
                "router": {"disable_redirect_fixed_path": true, "disable_redirect_trailing_slash": true},
                "telemetry/logging": {"level": "INFO", "stdout": true, "prefix": "[KRAKEND]"},
                // KrakenD's schema lets a plugin's configuration stand beside the names of the plugins.
                "plugin/http-server": {
                    "name": [BRIDGE],
                    BRIDGE: {
                        "module": self.module, "policy_file": self.policy_file, "upstreams": upstreams, "metrics_listen": self.metrics,
                    },
                },
            },
            "endpoints": endpoints,
        });
        if let (Some(whole), Value::Object(rest)) = (whole.as_object_mut(), rest) {
            if let Some(folder) = &self.plugins {
                whole.insert("plugin".to_owned(), json!({"folder": folder, "pattern": ".so"}));
            }
            whole.extend(rest);
        }
        Ok(compact_json(&whole))
    }

    /// What KrakenD cannot have.
    fn check(&self, needs: &GatewayNeeds) -> Result<(), String> {
        let mut problems = Vec::new();
        if !needs.gateway_routes {
            problems.push(
                "write \"gateway_routes\": true: KrakenD chooses the endpoint, and the bridge tells the module its name".to_owned(),
            );
        }
        for (owner, headers) in &needs.owners {
            problems.push(format!(
                "remove the identity sources whose headers {owner} owns ({}): KrakenD has no such filter, so a client could set them",
                headers.join(", ")
            ));
        }
        if needs.tokens.len() > 1 {
            problems.push(format!(
                "give all identity sources the same `metadata` path: behind KrakenD they read the claims of one token, and these read {}",
                needs.tokens.join(", ")
            ));
        }
        for lookup in &needs.lookups {
            if let Some((name, _, _)) = lookup.credential {
                let member = if name == "unkey-root-key" { "unkey.root_key" } else { "openbao.token" };
                problems.push(format!(
                    "write webhooks.{member}, as {{\"env\": NAME}}: KrakenD adds no credentials to the module's calls"
                ));
            }
        }
        problems.extend(same_paths(&needs.routes));
        if problems.is_empty() {
            Ok(())
        } else {
            Err(format!("KrakenD cannot serve this policy as it is:\n  {}", problems.join("\n  ")))
        }
    }

    fn validator(&self, route: &RouteNeeds) -> Result<Option<TokenValidator>, String> {
        if route.webhook || self.without_token.contains(&route.endpoint) {
            return Ok(None);
        }
        let listed = self.document.get("routes").and_then(Value::as_array).into_iter().flatten();
        let own = listed
            .filter(|other| other.get("endpoint").and_then(Value::as_str) == Some(&route.endpoint))
            .find_map(|other| other.get("identity"));
        self.claims_validator(&route.endpoint, own.or_else(|| self.document.pointer("/identity")))
    }

    fn claims_validator(&self, endpoint: &str, rules: Option<&Value>) -> Result<Option<TokenValidator>, String> {
        let claims = claims(rules);
        if claims.is_empty() {
            return Ok(None);
        }
        let (issuer, keys) =
            (self.option(&self.issuers, endpoint).next(), self.option(&self.key_sets, endpoint).next());
        let (Some(issuer), Some(keys)) = (issuer, keys) else {
            return Err(format!(
                "{endpoint} takes the caller's identity from a token, and KrakenD has to verify it: add \
                 --jwt-issuer https://login.example.com --jwt-keys https://login.example.com/.well-known/jwks.json"
            ));
        };
        let algorithm = self.option(&self.algorithms, endpoint).next().unwrap_or("RS256");
        let mut headers: Vec<(String, String)> = Vec::new();
        for (what, path) in claims {
            let mut header = format!("X-Claim-{what}");
            while headers.iter().any(|(_, other)| *other == header) {
                header.push_str("-2");
            }
            headers.push((claim_name(&path)?, header));
        }
        let mut validator = json!({"alg": algorithm});
        let more = if keys.contains("://") {
            let mut more = json!({"jwk_url": keys, "cache": true});
            if keys.starts_with("http://") {
                more = json!({"jwk_url": keys, "cache": true, "disable_jwk_security": true});
            }
            more
        } else {
            // `cache` with a file would keep KrakenD from starting.
            json!({"jwk_local_path": keys, "disable_jwk_security": true})
        };
        let audiences: Vec<&str> = self.option(&self.audiences, endpoint).collect();
        if let (Some(members), Value::Object(more)) = (validator.as_object_mut(), more) {
            members.extend(more);
            members.insert("issuer".to_owned(), json!(issuer));
            if !audiences.is_empty() {
                members.insert("audience".to_owned(), json!(audiences));
            }
            members.insert("propagate_claims".to_owned(), json!(headers));
        }
        Ok(Some(TokenValidator { config: validator, headers: headers.into_iter().map(|(_, header)| header).collect() }))
    }

    /// Values of an option for an endpoint: those that name it, else those that name none.
    fn option<'o>(&'o self, values: &'o [String], endpoint: &'o str) -> impl Iterator<Item = &'o str> {
        let named =
            move |text: &'o String| text.split_once('=').filter(|(name, _)| *name == endpoint).map(|(_, value)| value);
        let any_named = values.iter().any(|text| named(text).is_some());
        values.iter().filter_map(move |text| match named(text) {
            Some(value) => Some(value),
            None => (!any_named && !self.names_endpoint(text)).then_some(text.as_str()),
        })
    }

    fn names_endpoint(&self, text: &str) -> bool {
        let Some((name, _)) = text.split_once('=') else { return false };
        let routes = self.document.get("routes").and_then(Value::as_array).into_iter().flatten();
        name == OPERATIONS
            || routes.into_iter().any(|route| route.get("endpoint").is_some_and(|endpoint| endpoint == name))
    }

    fn endpoint(
        &self,
        method: &str,
        path: &str,
        name: &str,
        upstream: &str,
        validator: Option<&TokenValidator>,
    ) -> Value {
        let path = krakend_path(path);
        let mut headers = vec!["Accept"];
        if ["POST", "PUT", "PATCH"].contains(&method) {
            headers.insert(0, "Content-Type");
        }
        headers.extend(validator.iter().flat_map(|validator| validator.headers.iter().map(String::as_str)));
        let bound = json!({"endpoint": name, "upstream": upstream});
        let extra = json!({"plugin/http-client": {"name": BRIDGE, BRIDGE: bound}});
        let backend = json!([{"host": [NOWHERE], "url_pattern": path, "extra_config": extra}]);
        let mut endpoint =
            json!({"endpoint": path, "method": method, "output_encoding": "no-op", "input_headers": headers});
        if let Some(members) = endpoint.as_object_mut() {
            if let Some(validator) = validator {
                members.insert("extra_config".to_owned(), json!({"auth/validator": validator.config}));
            }
            members.insert("backend".to_owned(), backend);
        }
        endpoint
    }
}

/// KrakenD's `auth/validator`, and the headers into which it puts claims.
struct TokenValidator {
    config: Value,
    headers: Vec<String>,
}

/// The claims that identity rules read: what each says, and its path.
fn claims(rules: Option<&Value>) -> Vec<(&'static str, Vec<String>)> {
    let mut claims: Vec<(&str, Vec<String>)> = Vec::new();
    let sources = rules.and_then(|rules| rules.get("sources")?.as_array()).into_iter().flatten();
    for source in sources.filter(|source| source.get("metadata").is_some()) {
        for (what, at) in [("Tenant", "/tenant"), ("Project", "/project"), ("Subject", "/subject/field")] {
            let Some(member) = source.pointer(at) else { continue };
            let path: Vec<String> = match member {
                Value::String(name) => vec![name.clone()],
                Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                _ => Vec::new(),
            };
            if !path.is_empty() && claims.iter().all(|(_, other)| *other != path) {
                claims.push((what, path));
            }
        }
    }
    claims
}

/// A claim as `propagate_claims` names it: KrakenD splits a name at its dots, except one that begins with `http`.
fn claim_name(path: &[String]) -> Result<String, String> {
    let url = |name: &str| name.starts_with("http");
    let fits = match path {
        [name] => url(name) || !name.contains('.'),
        several => several.iter().all(|name| !name.is_empty() && !name.contains('.')) && !url(&several.join(".")),
    };
    if fits {
        Ok(path.join("."))
    } else {
        Err(format!(
            "the claim {} cannot be propagated: KrakenD reads a dot in a name as a step into an object; choose another claim",
            path.join(".")
        ))
    }
}

/// Routes that are one path for KrakenD, which has no text in front of a parameter: `/key:{key}` and `/id:{id}`.
fn same_paths(routes: &[RouteNeeds]) -> Vec<String> {
    let shape = |path: &str| {
        let segments = krakend_path(path);
        segments.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment }.to_owned()).collect()
    };
    let mut known: Vec<(Vec<String>, &RouteNeeds)> = Vec::new();
    let mut problems = Vec::new();
    for route in routes {
        let own: Vec<String> = shape(&route.path);
        let is_same = |(other, first): &&(Vec<String>, &RouteNeeds)| {
            *other == own
                && first.path != route.path
                && first.methods.iter().any(|method| route.methods.contains(method))
        };
        if let Some((_, first)) = known.iter().find(is_same) {
            problems.push(format!(
                "give {} or {} another path: KrakenD takes {} and {} for one, because a parameter is a whole segment for it",
                first.endpoint, route.endpoint, first.path, route.path
            ));
        }
        known.push((own, route));
    }
    problems
}

/// A template of the policy as KrakenD can serve it: a parameter behind a text stands for the whole segment.
fn krakend_path(template: &str) -> String {
    let segment = |text: &str| text.find('{').and_then(|at| text.get(at..)).unwrap_or(text).to_owned();
    template.split('/').map(segment).collect::<Vec<_>>().join("/")
}
