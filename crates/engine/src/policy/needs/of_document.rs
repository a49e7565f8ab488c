//! Makes what a policy needs of its document and of what became of it.

use super::stores::{secrets, services};
use super::{BackendNeeds, GuardNeeds, PolicyNeeds, RouteNeeds, StoreNeeds};
use crate::identity::IdentitySource;
use crate::key::KeyCharset;
use crate::policy::answer::AnswerMapping;
use crate::policy::document::{BackendDocument, Document, RouteDocument, Service, Unmatched};
use crate::policy::target::target_parts;
use crate::policy::{OPERATION_ID, Policy, Route};
use std::collections::BTreeSet;

impl PolicyNeeds {
    /// What the policy needs that a document without errors became. Its callers and bindings are still in the document.
    pub(in crate::policy) fn of(document: &Document, policy: &Policy) -> Self {
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
                    operation_id: declared.operation_id.as_ref().map(|_| OPERATION_ID.to_owned()),
                    guard: declared
                        .guard
                        .as_ref()
                        .map(|guard| GuardNeeds { service: guard.service.clone(), retention: guard.retention }),
                    // A request for a stored result is marked, too.
                    marked: document.mark_all
                        || has_operations
                        || own().any(|route| route.is_marked() || route.target.is_some()),
                    waits: document.recovery_wait_ms > 0 && (has_operations || own().any(|route| route.recovery)),
                }
            })
            .collect();
        let all_marked = !routes.is_empty() && routes.iter().all(RouteNeeds::is_marked);
        let ids: BTreeSet<&String> = backends.iter().filter_map(|backend| backend.operation_id.as_ref()).collect();
        let cleans = document.answers.clean_errors;
        let mut needs = Self {
            members: document.members.clone(),
            stores: stores(document),
            secrets: secrets(document),
            sources: document.identity.iter().flat_map(|rules| &rules.sources).cloned().collect(),
            bindings: document.webhooks.as_ref().map(|webhooks| webhooks.bindings.clone()).unwrap_or_default(),
            retentions: document.retentions.clone(),
            signed_headers: BTreeSet::new(),
            closed: document.mark_all || document.unmatched == Unmatched::Reject && all_marked,
            operations,
            reserved: reserved(document, policy),
            answer_headers: ids.into_iter().chain(&document.answers.retry_headers).cloned().collect(),
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
            provider: declared.webhook.as_ref().and_then(|webhook| webhook.provider.clone()),
            signed: document.is_signed(declared.endpoint),
            keyed: declared.policy.is_case_a() && declared.webhook.is_none(),
            recovery: route.recovery.is_some(),
            collision: declared.comparison.collision,
            refuses_in_flight: declared.in_flight_conflict,
            max_body_bytes: declared.max_body_bytes,
            reads_answers: route.answer.as_ref().is_some_and(AnswerMapping::reads_body),
            clean_errors: declared.clean_errors,
            encoded_slash: declared.encoded_slash || route.recovery.is_some() && is_visible,
            own_key: declared.key.is_some(),
            key_in_body: declared.policy.is_case_a() && route.key.as_ref().is_some_and(|rules| rules.reads_body()),
            sources: declared.identity.as_ref().map(|rules| rules.sources.clone()),
        }
    }
}

fn stores(document: &Document) -> Vec<StoreNeeds> {
    let store = |used_for, pointer: String, service: &Service| StoreNeeds {
        used_for,
        pointer,
        cluster: service.cluster.clone(),
        has_credential: service.credential.is_some(),
    };
    services(document).into_iter().map(|(used_for, pointer, service)| store(used_for, pointer, service)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::needs::{SecretOrigin, needs_as_json};
    use serde_json::{Value, json};

    const DOCUMENT: &str = r#"{
        "version": 1, "allow_inline_secrets": true, "backend": "b",
        "backends": {
            "c": {"kind": "generic"},
            "b": {"kind": "restate", "cluster": "restate", "rewrite_path": true, "keep_headers": ["X-Kept"], "guard": {"retention": "50h"},
                "operations": {"path": "/operations/{operation_id}", "secret": {"env": "TAG"}}},
            "a": {"kind": "generic", "reserved_paths": ["/private"]}
        },
        "identity": {"sources": [
            {"name": "jwt", "metadata": ["ns", "jwt"], "tenant": "t", "project": ["deep", "p"], "subject": {"field": "s", "type": "user"}},
            {"name": "key", "unkey": {"header": "X-Api-Key", "cluster": "unkey", "root_key": {"env": "ROOT"}}, "tenant": "/t", "project": "/p",
                "subject": {"field": "/s", "type": "user"}}
        ]},
        "routes": [
            {"endpoint": "refund", "path": "/r/{id}/", "policy": "REQUIRED_A", "target": "R/{id}/create", "collision": "enforce"},
            {"endpoint": "list", "path": "/r", "methods": ["GET"], "policy": "PROHIBITED", "backend": "c"},
            {"endpoint": "hook", "path": "/h", "policy": "REQUIRED_B", "target": "H/take", "max_body_bytes": 9,
                "webhook": {"provider": "stripe", "id": "wh_01JABC"}},
            {"endpoint": "other", "path": "/o", "policy": "PROHIBITED", "backend": "a", "identity": {"sources": [
                {"name": "headers", "headers_owned_by": "proxy", "tenant": "X-Tenant", "subject": {"field": "x-subject"}}]}, "scope": "tenant"}
        ],
        "webhooks": {"static": {"wh_01JABC": {"tenant": "a", "project": "p", "provider": "stripe",
            "secrets": [{"sds": "stripe"}, "whsec_in_the_document", {"env": "ROOT"}]}}}
    }"#;

    fn policy() -> Policy {
        Policy::from_json(DOCUMENT.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn backends_have_the_order_of_their_names_and_routes_follow() {
        let policy = policy();
        let needs = policy.needs();
        let backends: Vec<_> = needs.backends.iter().map(|own| (own.mark(), own.marked, own.waits)).collect();
        assert_eq!(backends, [("b", true, true), ("a", true, false), ("c", true, false)]);
        let routes: Vec<_> = needs.routes.iter().map(|route| (route.backend, route.rewritten.as_deref())).collect();
        let expected = [(0, Some("/restate/call/R/x/create")), (2, None), (0, Some("/restate/call/H/take")), (1, None)];
        assert_eq!(routes, expected);
        assert_eq!(needs.operations, Some(("/operations/{operation_id}".to_owned(), 0)));
        assert_eq!(needs.reserved, ["/restate", "/dev.restate.", "/IdempotencyGuard"]);
        assert!(
            needs.closed
                && needs.guarded().is_some_and(
                    |(backend, guard)| backend.pointer == "/backends/b" && guard.retention == Some(180_000)
                )
        );
    }

    #[test]
    fn routes_are_as_the_document_writes_them() {
        let policy = policy();
        let [refund, list, hook, other] = policy.needs().routes.as_slice() else { panic!("four routes") };
        assert_eq!((refund.path.as_str(), refund.sample().as_str()), ("/r/{id}/", "/r/x/"));
        assert_eq!((&refund.methods, &list.methods), (&vec!["POST".to_owned()], &vec!["GET".to_owned()]));
        assert!(
            refund.recovery
                && refund.keyed
                && refund.collision.refuses()
                && refund.waits_for_body()
                && !list.waits_for_body()
        );
        assert!(hook.sends_keys() && !hook.keyed && hook.provider.as_deref() == Some("stripe"));
        assert_eq!(policy.needs().buffer_for([hook].into_iter()), Some(9 + (64 << 10)));
        let own = other.sources.as_ref().unwrap();
        assert_eq!(own[0].origin.owner.as_deref(), Some("proxy"));
        let metadata: Vec<_> = policy.needs().all_sources().map(|source| source.origin.metadata.join("/")).collect();
        assert_eq!(metadata, ["ns/jwt", "", ""]);
    }

    #[test]
    fn secrets_stores_and_clusters_have_their_places() {
        let policy = policy();
        let needs = policy.needs();
        let variables = [("ROOT", "/identity/sources/1/unkey/root_key"), ("TAG", "/backends/b/operations/secret")];
        assert_eq!(needs.variables(), variables);
        let discovered: Vec<_> = needs.discovered().collect();
        assert_eq!(discovered, [("/webhooks/static/wh_01JABC/secrets/0", "stripe", false)]);
        let inline = needs.secrets.iter().filter(|secret| secret.origin == SecretOrigin::Document);
        let inline: Vec<_> = inline.map(|secret| secret.pointer.as_str()).collect();
        assert_eq!(inline, ["/webhooks/static/wh_01JABC/secrets/1"]);
        let clusters: Vec<_> = needs.clusters().into_iter().collect();
        assert_eq!(clusters, [("restate", "/backends/b"), ("unkey", "/identity/sources/1/unkey")]);
        assert_eq!(needs.api_keys(), Some("x-api-key"));
        assert_eq!(needs.answer_headers, ["x-operation-id"]);
    }

    #[test]
    fn a_host_reads_the_same() {
        let route = |endpoint: &str, backend: &str, ways: Value, more: Value| {
            let mut route = json!({"endpoint": endpoint, "hosts": [], "backend": backend, "needs_identity": false, "signed": false,
                "webhook": false, "query": [], "ways": ways, "sources": null});
            let (Value::Object(members), Value::Object(more)) = (&mut route, more) else { panic!("objects") };
            members.extend(more);
            route
        };
        let way = |method: &str, path: &str, result: Value| json!({"method": method, "path": path, "result": result});
        let source = |pointer: &str, own: [Value; 4]| {
            let [metadata, owner, api_key, claims] = own;
            json!({"pointer": pointer, "metadata": metadata, "headers_owned_by": owner, "api_key": api_key, "claims": claims})
        };
        let needs = json!({
            "docs_url": null, "retry_headers": [], "error_member": false, "gateway_routes": false, "wait_ms": 30000,
            "request_buffer": (1 << 20) + (64 << 10),
            "clusters": [["unkey", "/identity/sources/1/unkey"], ["restate", "/backends/b"]],
            "variables": ["ROOT", "TAG", "ROOT"],
            "written_headers": ["idempotency-key", "x-edge-idempotency"],
            "operations": {"backend": "b", "ways": [
                way("GET", "/operations/{operation_id}", json!("attach")),
                way("GET", "/operations/{operation_id}/output", json!("output")),
            ]},
            "sources": [
                source("/identity/sources/0", [json!(["ns", "jwt"]), json!(null), json!(null), json!([["t"], ["deep", "p"], ["s"]])]),
                source("/identity/sources/1", [json!([]), json!(null), json!("x-api-key"), json!([])]),
            ],
            "routes": [
                route("refund", "b", json!([
                    way("POST", "/r/{id}/", json!(null)),
                    way("GET", "/r/{id}/by-idempotency-key/{key}", json!("attach")),
                    way("GET", "/r/{id}/by-idempotency-key/{key}/output", json!("output")),
                ]), json!({"needs_identity": true})),
                route("list", "c", json!([way("GET", "/r", json!(null)), way("HEAD", "/r", json!(null))]), json!({})),
                route("hook", "b", json!([way("POST", "/h", json!(null))]), json!({"webhook": true})),
                route("other", "a", json!([way("POST", "/o", json!(null))]), json!({"sources": [
                    source("/routes/3/identity/sources/0", [json!([]), json!("proxy"), json!(null), json!([])]),
                ]})),
            ],
        });
        let told: Value = serde_json::from_str(&needs_as_json(DOCUMENT.as_bytes())).unwrap();
        assert_eq!(told, json!({"needs": needs}));
        let refused: Value = serde_json::from_str(&needs_as_json(br#"{"version": 2}"#)).unwrap();
        let errors = Policy::from_json(br#"{"version": 2}"#).unwrap_err().to_string();
        assert_eq!(refused, json!({"errors": errors}));
    }
}
