//! What a first policy document is made of, and the document.

use crate::render::json_text::compact_json;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The policies that a route of a first document can have. Webhooks need bindings and secrets, which come later.
pub(crate) const POLICIES: [&str; 4] = ["REQUIRED_A", "ACCEPTED", "PROHIBITED", "HANDLER_INTERNAL_C"];
const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];

/// Who says who the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IdentityKind {
    /// Claims of a token that the gateway verifies
    Jwt,
    /// API keys that Unkey knows
    ApiKey,
    /// Headers that a filter of the gateway sets
    Headers,
    /// Nobody: all callers share their keys, as in a trial
    Everybody,
}

/// The gateway in front of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GatewayChoice {
    /// Envoy, or what has Envoy inside
    #[default]
    Envoy,
    /// KrakenD, with the bridge
    Krakend,
}

impl GatewayChoice {
    /// Its name as an argument of `render`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Krakend => "krakend",
        }
    }
}

/// What deduplicates behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BackendChoice {
    /// An API or service that deduplicates by Idempotency-Key itself
    Generic,
    /// An API that knows nothing of keys, with the recorder before it
    Recorder,
    /// Restate
    Restate,
}

/// A route as it is asked for: `METHOD PATH POLICY [TARGET]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteAnswer {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) policy: String,
    pub(crate) target: Option<String>,
    /// A name for its endpoint, if there is a better one than the path gives
    pub(crate) name: Option<String>,
    /// What its deliveries are, if it takes webhooks
    pub(crate) webhook: Option<RouteWebhook>,
}

/// The member `webhook` of a route. What is left out comes from the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteWebhook {
    pub(crate) provider: Option<String>,
}

impl RouteAnswer {
    /// Reads `METHOD PATH POLICY [TARGET]`.
    ///
    /// # Errors
    /// It is something else; the sentence says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let (Some(method), Some(path), Some(policy), target, None) =
            (words.next(), words.next(), words.next(), words.next(), words.next())
        else {
            return Err("write METHOD PATH POLICY [TARGET], such as 'POST /orders REQUIRED_A'".to_owned());
        };
        let route = Self {
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            policy: policy.to_ascii_uppercase(),
            target: target.map(str::to_owned),
            name: None,
            webhook: None,
        };
        if !METHODS.contains(&route.method.as_str()) {
            return Err(format!("{method}: the method is one of {}", METHODS.join(", ")));
        }
        if !route.path.starts_with('/') {
            return Err(format!("{path}: a path begins with `/`"));
        }
        if !POLICIES.contains(&route.policy.as_str()) {
            return Err(format!("{policy}: the policy is one of {}", POLICIES.join(", ")));
        }
        Ok(route)
    }

    /// A name for the endpoint: `POST /api/v1/orders/{id}/cancel` is `orders.cancel`.
    fn endpoint(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let segments: Vec<&str> = self.path.split('/').filter(|text| !text.is_empty()).collect();
        let version =
            |text: &str| text.strip_prefix('v').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let literals = segments.iter().filter(|text| !text.contains('{') && **text != "api" && !version(text));
        let mut words: Vec<String> = literals.map(|text| word(text)).filter(|word| !word.is_empty()).collect();
        let on_item = segments.last().is_some_and(|text| text.contains('{'));
        // A literal behind a parameter says what is done: /orders/{id}/cancel.
        let acts = self.method == "POST" && !on_item && segments.iter().any(|text| text.contains('{'));
        if !acts {
            words.push(
                match self.method.as_str() {
                    "POST" => "create",
                    "PUT" => "put",
                    "PATCH" => "update",
                    "DELETE" => "delete",
                    "OPTIONS" => "options",
                    "QUERY" => "query",
                    _ if on_item => "get",
                    _ => "list",
                }
                .to_owned(),
            );
        }
        words.join(".")
    }

    /// A name for the handler: `Orders/create`.
    pub(crate) fn usual_target(&self) -> String {
        let endpoint = self.endpoint();
        let (service, handler) = endpoint.rsplit_once('.').unwrap_or(("service", &endpoint));
        let camel = |text: &str, first: bool| {
            let mut words = String::new();
            for (place, word) in text.split(|char: char| !char.is_ascii_alphanumeric()).enumerate() {
                let mut chars = word.chars();
                match chars.next() {
                    Some(letter) if place > 0 || first => words.push(letter.to_ascii_uppercase()),
                    Some(letter) => words.push(letter),
                    None => {}
                }
                words.extend(chars);
            }
            words
        };
        format!("{}/{}", camel(service, true), camel(handler, false))
    }
}

/// A path without the names of its parameters and without a slash at the end: a policy tells no more apart.
pub(super) fn structure(path: &str) -> String {
    let part =
        |segment: &str| segment.split_once('{').map_or(segment.to_owned(), |(prefix, _)| format!("{prefix}{{}}"));
    path.trim_end_matches('/').split('/').map(part).collect::<Vec<_>>().join("/")
}

fn word(text: &str) -> String {
    let word: String =
        text.chars().map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '-' }).collect();
    word.trim_matches('-').to_owned()
}

/// What a first document is made of.
#[derive(Clone, Debug)]
pub(crate) struct InitAnswers {
    pub(crate) gateway: GatewayChoice,
    pub(crate) backend: BackendChoice,
    /// The gateway's cluster of Restate
    pub(crate) cluster: String,
    pub(crate) identity: IdentityKind,
    /// The filter that sets the headers
    pub(crate) owner: String,
    /// The header with API keys
    pub(crate) key_header: String,
    /// A claim or header, or `=VALUE` for a constant
    pub(crate) tenant: String,
    /// As `tenant`
    pub(crate) project: String,
    pub(crate) subject: String,
    pub(crate) routes: Vec<RouteAnswer>,
    pub(crate) shadow: bool,
    pub(crate) unmatched: Option<String>,
    pub(crate) docs_url: Option<String>,
}

impl InitAnswers {
    /// The document, as text.
    pub(crate) fn document(&self) -> String {
        let member = |text: &str| match text.strip_prefix('=') {
            Some(value) => json!({"value": value}),
            None => json!(text),
        };
        let by_krakend = self.gateway == GatewayChoice::Krakend;
        let metadata = if by_krakend { "krakend" } else { "envoy.filters.http.jwt_authn" };
        let mut source = match self.identity {
            IdentityKind::Jwt => json!({"name": "jwt", "metadata": [metadata, "jwt"]}),
            IdentityKind::Headers | IdentityKind::Everybody => {
                json!({"name": "headers", "headers_owned_by": self.owner})
            }
            IdentityKind::ApiKey => {
                let mut registry = json!({"header": self.key_header, "cluster": "unkey", "authority": "api.unkey.com"});
                if let Some(registry) = registry.as_object_mut().filter(|_| by_krakend) {
                    registry.insert("root_key".to_owned(), json!({"env": "UNKEY_ROOT_KEY"}));
                }
                json!({"name": "api-key", "unkey": registry})
            }
        };
        let subject = match (self.subject.strip_prefix('='), self.identity) {
            (Some(value), _) => json!({"value": value}),
            (None, IdentityKind::Jwt) => json!({"field": self.subject, "type": "user"}),
            (None, IdentityKind::ApiKey) => json!({"field": self.subject, "type": "client"}),
            // The header holds `type:id`.
            (None, IdentityKind::Headers | IdentityKind::Everybody) => json!({"field": self.subject}),
        };
        if let Some(source) = source.as_object_mut() {
            source.insert("tenant".to_owned(), member(&self.tenant));
            source.insert("project".to_owned(), member(&self.project));
            source.insert("subject".to_owned(), subject);
        }
        let mut document = Map::new();
        document.insert("version".to_owned(), json!(1));
        if self.shadow {
            document.insert("mode".to_owned(), json!("shadow"));
        }
        if by_krakend {
            document.insert("gateway_routes".to_owned(), json!(true));
        }
        for (name, value) in [("unmatched", &self.unmatched), ("docs_url", &self.docs_url)] {
            if let Some(value) = value {
                document.insert(name.to_owned(), json!(value));
            }
        }
        document.insert("identity".to_owned(), json!({"sources": [source]}));
        document.insert(
            "backend".to_owned(),
            match self.backend {
                BackendChoice::Generic | BackendChoice::Recorder => json!({"kind": "generic"}),
                BackendChoice::Restate => json!({
                    "kind": "restate", "rewrite_path": true, "cluster": self.cluster, "key_header": "x-idempotency-key",
                    "operation_id": "x-restate-id", "hide_headers": ["x-restate-*", "access-control-*"],
                }),
            },
        );
        document.insert("routes".to_owned(), json!(self.routes()));
        compact_json(&Value::Object(document))
    }

    fn routes(&self) -> Vec<Value> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        // The number of the next endpoint with the same name.
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        // Paths of which a caller can ask for results.
        let mut recovered: BTreeSet<String> = BTreeSet::new();
        let route = |route: &RouteAnswer| {
            let usual = route.endpoint();
            let mut name = usual.clone();
            while !names.insert(name.clone()) {
                let number = numbers.entry(usual.clone()).or_insert(2);
                name = format!("{usual}-{number}");
                *number += 1;
            }
            let mut made = Map::new();
            made.insert("endpoint".to_owned(), json!(name));
            if route.method != "POST" {
                made.insert("methods".to_owned(), json!([route.method]));
            }
            made.insert("path".to_owned(), json!(route.path));
            made.insert("policy".to_owned(), json!(route.policy));
            let usual = (self.backend == BackendChoice::Restate).then(|| route.usual_target());
            if let Some(target) = route.target.clone().or(usual) {
                made.insert("target".to_owned(), json!(target));
            }
            // Results are asked for by path and key, so of several routes with a path one can have them.
            let takes_keys = ["REQUIRED_A", "ACCEPTED"].contains(&route.policy.as_str());
            if takes_keys && self.backend == BackendChoice::Restate && !recovered.insert(structure(&route.path)) {
                made.insert("recovery".to_owned(), json!(false));
            }
            // The recorder keeps what a request was like.
            if takes_keys && self.backend == BackendChoice::Recorder && route.webhook.is_none() {
                made.insert("collision".to_owned(), json!("forward"));
            }
            if let Some(webhook) = &route.webhook {
                let provider = webhook.provider.iter().map(|provider| ("provider".to_owned(), json!(provider)));
                made.insert("webhook".to_owned(), Value::Object(provider.collect()));
            }
            Value::Object(made)
        };
        self.routes.iter().map(route).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_and_targets_get_usual_names() {
        for (route, endpoint, target) in [
            ("POST /orders REQUIRED_A", "orders.create", "Orders/create"),
            ("POST /api/v1/orders/{id}/cancel ACCEPTED", "orders.cancel", "Orders/cancel"),
            ("get /orders/{id} prohibited", "orders.get", "Orders/get"),
            ("GET /v2/order-lines PROHIBITED", "order-lines.list", "OrderLines/list"),
            ("PUT /orders/{id} ACCEPTED", "orders.put", "Orders/put"),
            ("POST /{x} ACCEPTED", "create", "Service/create"),
        ] {
            let route = RouteAnswer::parse(route).unwrap();
            assert_eq!((route.endpoint().as_str(), route.usual_target().as_str()), (endpoint, target));
        }
    }

    #[test]
    fn what_is_no_route_is_refused() {
        for text in [
            "",
            "POST",
            "POST /a",
            "POST a REQUIRED_A",
            "BREW /a REQUIRED_A",
            "POST /a REQUIRED_B",
            "POST /a ACCEPTED A/b c",
        ] {
            assert!(RouteAnswer::parse(text).is_err(), "{text}");
        }
    }
}
