//! Which route takes the requests of an operation: the engine is asked with a path that fits the operation.

use super::operations::ApiOperation;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::needs::{OUTPUT, SEGMENT};
use edge_idempotency_engine::policy::{NormalPath, RequestUrl, Route, RouteLookup, Template};
use std::collections::BTreeSet;

/// In the place of each parameter of a path, behind a letter with which no parameter's prefix in the policy begins.
const VALUE: &str = "edge-idempotency-parameter";
/// The host of requests where neither the description nor the policy names one.
const HOST: &str = "localhost";

/// What the gateway does with the requests of an operation.
#[derive(Debug)]
pub(crate) enum Routing<'p> {
    /// A route takes them.
    Route(&'p Route),
    /// They ask for the stored answer of another operation.
    StoredAnswer,
    /// Their path has routes with other methods only.
    OtherMethods(Vec<String>),
    /// No route has their path.
    NoRoute,
    /// The gateway cannot read their path in one way only; the sentence says why.
    Ambiguous(String),
}

/// Finds routes for operations.
pub(crate) struct OperationRouter<'p> {
    policy: &'p Policy,
    /// The hosts that routes name, each as one host of those that it stands for
    hosts: BTreeSet<String>,
    /// In the place of each parameter of a path
    value: String,
}

impl<'p> OperationRouter<'p> {
    /// The routes of this policy.
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let templates: Vec<String> =
            policy.routes().map(|route| route.template.to_string().to_ascii_lowercase()).collect();
        let segments =
            templates.iter().flat_map(|template| template.split('/')).filter(|segment| segment.contains('{'));
        let first: Vec<char> = segments.filter_map(|segment| segment.chars().next()).collect();
        let letter = ('a'..='z').find(|letter| !first.contains(letter)).unwrap_or('e');
        let hosts = policy.needs().routes.iter().flat_map(|route| &route.hosts).map(|host| host.replace('*', "host"));
        let hosts: BTreeSet<String> = hosts.collect();
        Self { policy, hosts, value: format!("{letter}-{VALUE}") }
    }

    /// Finds the route of an operation. Of several servers the first that leads to a route counts. Where the description names no
    /// host, a route without `hosts` counts before one with them.
    pub(crate) fn of_operation(&self, operation: &ApiOperation<'_>) -> Routing<'p> {
        let mut first_miss = None;
        for server in operation.servers.iter() {
            let text = self.concrete(&server.path, operation.path);
            let own_host = server.host.as_deref();
            let of_policy = self.hosts.iter().map(String::as_str).filter(|_| own_host.is_none());
            for host in own_host.into_iter().chain([HOST]).chain(of_policy) {
                match of_path(self.policy, host, &text, &operation.method) {
                    found @ (Routing::Route(_) | Routing::StoredAnswer) => return found,
                    // Another method of the path tells more than a path that nothing has.
                    other @ Routing::OtherMethods(_) => first_miss = Some(other),
                    other => first_miss = first_miss.or(Some(other)),
                }
            }
        }
        first_miss.unwrap_or(Routing::NoRoute)
    }

    /// A path of the description with the path of its server, in which every parameter is a text that no route has.
    fn concrete(&self, base: &str, path: &str) -> String {
        let mut text = String::new();
        let mut rest = path;
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((_, after)) = behind.split_once('}') else { break };
            text.push_str(before);
            text.push_str(&self.value);
            rest = after;
        }
        format!("{base}{text}{rest}")
    }
}

fn of_path<'p>(policy: &'p Policy, host: &str, path: &str, method: &str) -> Routing<'p> {
    let normal = match NormalPath::parse(path.as_bytes()) {
        Ok(normal) => normal,
        Err(why) => return Routing::Ambiguous(why.detail().to_owned()),
    };
    let path = normal.as_str();
    match policy.declared(RequestUrl { authority: host, path: &normal }, method.as_bytes()) {
        RouteLookup::Route(route, _) => Routing::Route(route),
        RouteLookup::OtherMethods(routes) => {
            Routing::OtherMethods(routes.into_iter().flat_map(|route| route.methods.iter().cloned()).collect())
        }
        RouteLookup::OtherReading => {
            Routing::Ambiguous("another route has this path in another letter case, or with other escapes".to_owned())
        }
        RouteLookup::Nothing if method == "GET" && asks_for_answer(policy, host, path) => Routing::StoredAnswer,
        RouteLookup::Nothing => Routing::NoRoute,
    }
}

/// Whether a path asks for the result under a key, or for an operation by its id.
fn asks_for_answer(policy: &Policy, host: &str, path: &str) -> bool {
    let waiting = path.strip_suffix(&format!("/{OUTPUT}")).unwrap_or(path);
    let is_operation = policy.needs().operations.as_ref().and_then(|(path, _)| Template::parse(path).ok());
    if is_operation.is_some_and(|template| template.values(waiting).is_some()) {
        return true;
    }
    let Some((base, key)) = waiting.split_once(&format!("/{SEGMENT}/")) else { return false };
    let Ok(base) = NormalPath::parse(base.as_bytes()) else { return false };
    let is_recoverable =
        |method: &&str| match policy.declared(RequestUrl { authority: host, path: &base }, method.as_bytes()) {
            RouteLookup::Route(route, _) => route.recovery.is_some(),
            _ => false,
        };
    !key.contains('/') && ["POST", "PUT", "PATCH", "DELETE", "GET"].iter().any(is_recoverable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::yaml;
    use crate::openapi::operations::of_description;
    use crate::openapi::references::References;

    const POLICY: &str = r#"{
      "version": 1,
      "identity": {"sources": [{"name": "jwt", "metadata": ["a", "b"], "tenant": "t", "project": "p", "subject": {"field": "sub", "type": "user"}}]},
      "backend": {"kind": "restate", "cluster": "restate", "rewrite_path": true, "operation_id": "x-restate-id",
        "operations": {"path": "/operations/{operation_id}", "secret": {"env": "S"}}},
      "routes": [
        {"endpoint": "refund", "path": "/v1/refunds", "policy": "REQUIRED_A", "target": "R/create"},
        {"endpoint": "one", "methods": ["GET"], "path": "/v1/refunds/{id}", "policy": "PROHIBITED", "target": "R/get"},
        {"endpoint": "special", "methods": ["GET"], "path": "/v1/refunds/special", "policy": "PROHIBITED", "target": "R/special"},
        {"endpoint": "flag", "path": "/v1/flags/key:{flag}", "policy": "ACCEPTED", "target": "F/set"},
        {"endpoint": "eu", "path": "/v1/eu", "hosts": ["eu.example.com", "*.eu.example.com"], "policy": "ACCEPTED", "target": "E/set"},
        {"endpoint": "open", "path": "/h", "policy": "REQUIRED_A", "target": "H/open"},
        {"endpoint": "admin", "path": "/h", "hosts": ["admin.example.com"], "policy": "PROHIBITED", "target": "H/admin"},
        {"endpoint": "node", "path": "/nodes/{id}", "policy": "ACCEPTED", "target": "N/set"},
        {"endpoint": "edge", "path": "/nodes/edge-{id}", "policy": "PROHIBITED", "target": "N/edge"}
      ]
    }"#;

    fn told(routing: &Routing<'_>) -> String {
        match routing {
            Routing::Route(route) => route.endpoint.clone(),
            Routing::StoredAnswer => "stored".to_owned(),
            Routing::OtherMethods(methods) => methods.join(","),
            Routing::NoRoute => "none".to_owned(),
            Routing::Ambiguous(_) => "ambiguous".to_owned(),
        }
    }

    #[test]
    fn paths_match_by_their_structure() {
        let policy = Policy::from_json(POLICY.as_bytes()).unwrap();
        let router = OperationRouter::new(&policy);
        for (server, path, method, expected) in [
            ("/v1", "/refunds", "post", "refund"),
            ("/v1/", "/refunds/", "post", "refund"),
            ("/", "/v1/refunds/{refundId}", "get", "one"),
            ("/", "/v1/refunds/special", "get", "special"),
            ("/", "/v1/refunds/{id}", "delete", "GET,HEAD"),
            ("/", "/v1/refunds/{id}.json", "get", "one"),
            ("/", "/v1/flags/key:{name}", "post", "flag"),
            ("/", "/v1/flags/{name}", "post", "none"),
            ("https://api.example.com/v1", "/eu", "post", "none"),
            ("https://EU.example.com:443/v1", "/eu", "post", "eu"),
            ("https://x.eu.example.com/v1", "/eu", "post", "eu"),
            ("/v1", "/eu", "post", "eu"),
            ("/v1", "/refunds/by-idempotency-key/{key}", "get", "stored"),
            ("/v1", "/refunds/by-idempotency-key/{key}/output", "get", "stored"),
            ("/v1", "/none/by-idempotency-key/{key}", "get", "none"),
            ("/", "/operations/{id}/output", "get", "stored"),
            // A route for every host counts before one for a host that the description does not name.
            ("/", "/h", "post", "open"),
            ("https://admin.example.com", "/h", "post", "admin"),
            // A parameter is not taken for the fixed text of another route.
            ("/", "/nodes/{id}", "post", "node"),
            ("/", "/nodes/edge-{id}", "post", "edge"),
            ("/", "/V1/refunds", "post", "none"),
            ("/", "/a;b", "post", "ambiguous"),
        ] {
            let text =
                format!("openapi: 3.1.0\nservers: [{{url: '{server}'}}]\npaths: {{'{path}': {{{method}: {{}}}}}}\n");
            let tree = yaml::read(&text).unwrap();
            let (operations, _) = of_description(&References::new(&tree));
            assert_eq!(told(&router.of_operation(&operations[0])), expected, "{method} {server} {path}");
        }
    }
}
