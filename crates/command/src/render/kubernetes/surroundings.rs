//! What Envoy Gateway needs around the filter: routes that lead nowhere without it, who verifies tokens, and what all requests of the
//! gateway have in common.

use super::super::needs::{GatewayNeeds, JWT_FILTER, pattern_of};
use super::super::template::fill;
use super::super::tokens::{KeySet, TokenProvider};
use super::super::upstream::NamedUpstream;
use super::{ResourcePlan, extend};
use edge_idempotency_engine::policy::needs::{OUTPUT, RouteNeeds, SEGMENT};
use serde_json::{Value, json};

const SURROUNDINGS: &str = include_str!("../templates/gateway-surroundings.yaml");
const MARK: &str = "x-edge-idempotency";
/// Methods that a route of Gateway API can ask for.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Claims of tokens, and the headers that they go into.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(pub(crate) Vec<(String, String)>);

impl ResourcePlan {
    /// The resources around the filter, each with `---` behind it.
    ///
    /// # Errors
    /// An option is missing; the sentence says what to write.
    pub(super) fn surroundings(&self, needs: &GatewayNeeds) -> Result<String, String> {
        let given = needs.upstreams(&self.envoy.upstreams)?;
        let upstream = |name: &String| self.envoy.upstreams.iter().find(|upstream| upstream.name == *name);
        let targets: Vec<&NamedUpstream> = given.iter().filter_map(upstream).collect();
        let own = targets.iter().filter(|upstream| service(upstream, &self.namespace).is_none());
        let own: Vec<Value> = own
            .map(|upstream| {
                json!({"name": upstream.name, "host": upstream.host, "port": upstream.port, "tls": upstream.tls,
                    "address": upstream.is_address()})
            })
            .collect();
        let (rules, exempt) = self.rules(needs, &targets);
        let providers = self.providers(needs)?;
        let mut security = Vec::new();
        if !providers.is_empty() {
            let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "edge-idempotency"});
            security.push(json!({
                "comment": "Every request needs a token.", "name": "edge-idempotency", "target": target, "optional": false,
            }));
            if exempt {
                let mut target = target;
                extend(&mut target, json!({"sectionName": "without-token"}));
                security.push(json!({
                    "comment": "Senders of webhooks and signed callers have none. If one sends a token, it has to be valid.",
                    "name": "edge-idempotency-without-token", "target": target, "optional": true,
                }));
            }
        }
        let removed = needs.removable_headers();
        let early: Vec<&str> = std::iter::once(MARK).chain(removed.iter().map(String::as_str)).collect();
        let escaped = if needs.takes_escaped_slashes() { "KeepUnchanged" } else { "RejectRequest" };
        fill(
            SURROUNDINGS,
            &json!({
                "source": self.envoy.source, "namespace": self.namespace, "gateway": self.gateway, "hostnames": self.hostnames, "closed": needs.closed,
                "backends_of_gateway": own, "rules": rules, "security": security, "providers": providers,
                "buffer": needs.longest(), "escaped": escaped, "removed": !removed.is_empty(), "early": early,
                "idle_s": self.envoy.idle_s(needs), "timeout_s": self.envoy.timeout_s,
            }),
        )
    }

    /// The rules of the route, and whether one of them asks for no token.
    fn rules(&self, needs: &GatewayNeeds, targets: &[&NamedUpstream]) -> (Vec<Value>, bool) {
        let exempt: Vec<&RouteNeeds> = needs.routes.iter().filter(|route| route.webhook || route.signed).collect();
        let exempt: Vec<Value> = exempt.into_iter().flat_map(matches).collect();
        let everything = json!({"path": {"type": "PathPrefix", "value": "/"}});
        let mut rules = Vec::new();
        for (backend, target) in needs.backends.iter().zip(targets) {
            let mark = json!({"headers": [{"name": MARK, "value": backend.mark()}]});
            let name = |what: &str| match &backend.name {
                Some(name) => format!("{what}-{name}").to_ascii_lowercase().replace(['_', '.'], "-"),
                None => what.to_owned(),
            };
            let marked = |matched: &Value| {
                let mut matched = matched.clone();
                extend(&mut matched, mark.clone());
                matched
            };
            let reference = self.reference(target);
            if backend.waits {
                let path = json!({"path": {"type": "PathPrefix", "value": "/restate/attach"}});
                rules.push(json!({
                    "name": name("waits"), "backend": reference, "matches": [marked(&path)],
                    "comment": "Requests that wait for a result have connections of their own.",
                }));
            }
            if backend.marked {
                // A rule whose path is more specific goes before others, so the paths of the rule below are here, too.
                let matches: Vec<Value> = exempt.iter().chain([&everything]).map(marked).collect();
                rules.push(json!({
                    "name": name("backend"), "backend": reference, "matches": matches,
                    "comment": "Requests that the filter marked. Clients' own marks are removed before.",
                }));
            }
        }
        let rest = if needs.closed {
            Value::Null
        } else {
            targets.first().map_or(Value::Null, |target| self.reference(target))
        };
        if !exempt.is_empty() {
            rules.push(json!({
                "name": "without-token", "backend": rest, "matches": exempt,
                "comment": "Before the filter: requests that need no token.",
            }));
        }
        let comment = if needs.closed {
            "Before the filter, and where there is none: everything else."
        } else {
            "CHECK: what the filter does not mark reaches the backend, also if the filter is missing. With \"mark_all\": true in the policy it does not."
        };
        rules.push(json!({"name": "everything", "backend": rest, "matches": [everything], "comment": comment}));
        (rules, !exempt.is_empty())
    }

    /// How a route names an upstream.
    fn reference(&self, upstream: &NamedUpstream) -> Value {
        match service(upstream, &self.namespace) {
            Some((name, namespace)) if namespace == self.namespace => json!({"name": name, "port": upstream.port}),
            Some((name, namespace)) => json!({"name": name, "namespace": namespace, "port": upstream.port}),
            None => json!({"group": "gateway.envoyproxy.io", "kind": "Backend", "name": upstream.name}),
        }
    }

    /// What verifies the tokens that the policy reads; nothing if nobody said who issues them.
    fn providers(&self, needs: &GatewayNeeds) -> Result<Vec<Value>, String> {
        let owned = needs.owners.iter().find(|(owner, _)| owner == JWT_FILTER).map(|(_, headers)| headers);
        let mut claims = Vec::new();
        if let Some(headers) = owned.filter(|_| !self.envoy.providers.is_empty()) {
            for header in headers {
                let Claims(given) = &self.claims;
                let (_, claim) = given.iter().find(|(name, _)| name.eq_ignore_ascii_case(header)).ok_or_else(|| {
                    format!("the policy takes identities from headers that {JWT_FILTER} owns: add --jwt-claim {header}=CLAIM")
                })?;
                claims.push(json!({"header": header, "claim": claim}));
            }
        }
        self.envoy.providers.iter().map(|provider| token_provider(provider, &claims)).collect()
    }
}

fn token_provider(provider: &TokenProvider, claims: &[Value]) -> Result<Value, String> {
    let mut all = json!({"name": provider.places.key, "issuer": provider.issuer});
    if !provider.audiences.is_empty() {
        extend(&mut all, json!({"audiences": provider.audiences}));
    }
    match &provider.keys {
        KeySet::File(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                format!("{path}: {error}; --jwt-keys is a URL, or a file that goes into the resource")
            })?;
            extend(&mut all, json!({"localJWKS": {"type": "Inline", "inline": text.trim()}}));
        }
        KeySet::Url(url, _) => extend(&mut all, json!({"remoteJWKS": {"uri": url}})),
    }
    if !claims.is_empty() {
        extend(&mut all, json!({"claimToHeaders": claims}));
    }
    Ok(all)
}

/// What matches requests of a route, for each of its methods.
fn matches(route: &RouteNeeds) -> Vec<Value> {
    let pattern = pattern_of(route).regex(false, route.webhook);
    let mut all = Vec::new();
    for method in route.methods.iter().filter(|method| METHODS.contains(&method.as_str())) {
        all.push(json!({"path": {"type": "RegularExpression", "value": pattern}, "method": method}));
    }
    if route.signed && route.recovery {
        let pattern = format!("{}/{SEGMENT}/[^/]+(/{OUTPUT})?/?", pattern.trim_end_matches("/?"));
        all.push(json!({"path": {"type": "RegularExpression", "value": pattern}, "method": "GET"}));
    }
    all
}

/// The name and the namespace of an upstream that is a Service: its host is NAME or NAME.NAMESPACE, perhaps with `.svc` behind it.
fn service<'u>(upstream: &'u NamedUpstream, own: &'u str) -> Option<(&'u str, &'u str)> {
    if upstream.tls || upstream.is_address() {
        return None;
    }
    let name = upstream.host.strip_suffix(".cluster.local").unwrap_or(&upstream.host);
    match name.strip_suffix(".svc") {
        Some(name) => name.split_once('.').filter(|(_, namespace)| !namespace.contains('.')),
        None => (!name.contains('.')).then_some((name, own)),
    }
}
