//! What is closed to clients, whatever combination of members a document has: every combination of those that open or
//! close paths is tried, and held against a statement of what has to be closed that shares nothing with the code.

use super::{part_of, some};
use direct::attributes::JsonAttributes;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::policy::Template;
use edge_idempotency_engine::{Awaits, Effect, Exchange, Policy, RequestFlow};
use serde_json::{Value as Json, json};
use std::thread;

/// The members that open or close paths.
#[derive(Debug, Clone, Copy)]
struct PathMembers {
    /// `backend.kind`
    kind: &'static str,
    rewrite_path: bool,
    /// `backend.reserved_paths`, if it is there
    reserved: Option<&'static [&'static str]>,
    unmatched: &'static str,
    /// The path and the target of the first route
    route: (&'static str, Option<&'static str>),
    collision: Option<&'static str>,
    /// `recovery` and `mode` of the first route
    recovery: (Option<bool>, &'static str),
    /// The name of the guard, if the document has one
    guard: Option<&'static str>,
    operations: bool,
    /// `gateway_routes`
    gateway_routes: bool,
    /// Whether `retention.services` names `Ledger`
    retention: bool,
}

/// Every combination.
fn combinations() -> impl Iterator<Item = PathMembers> {
    let kinds = ["restate", "generic"];
    let reserved: [Option<&'static [&'static str]>; 4] =
        [None, Some(&[]), Some(&["/internal"]), Some(&["/restate", "/internal/jobs"])];
    let routes = [
        ("/refunds", None),
        ("/refunds", Some("Refunds/create")),
        ("/Refunds/create", Some("Refunds/create")),
        ("/{service}/create", Some("Refunds/create")),
        ("/refunds/{id}", Some("Refunds/{tenant}:{id}/create")),
    ];
    let recoveries = [(None, "enforce"), (Some(false), "enforce"), (None, "shadow")];
    let bools = [false, true];
    let all = kinds.into_iter().flat_map(move |kind| {
        reserved.into_iter().flat_map(move |reserved| {
            routes
                .into_iter()
                .flat_map(move |route| recoveries.into_iter().map(move |recovery| (kind, reserved, route, recovery)))
        })
    });
    all.flat_map(move |(kind, reserved, route, recovery)| {
        let choices = ["REJECT", "PROHIBITED", "HANDLER_INTERNAL_C"].into_iter().flat_map(move |unmatched| {
            [None, Some("observe"), Some("enforce")].into_iter().flat_map(move |collision| {
                [None, Some("IdempotencyGuard"), Some("Claims")]
                    .into_iter()
                    .map(move |guard| (unmatched, collision, guard))
            })
        });
        choices.flat_map(move |(unmatched, collision, guard)| {
            (0..16).map(move |bits: usize| PathMembers {
                kind,
                rewrite_path: bools[bits & 1],
                reserved,
                unmatched,
                route,
                collision,
                recovery,
                guard,
                operations: bools[bits >> 1 & 1],
                gateway_routes: bools[bits >> 2 & 1],
                retention: bools[bits >> 3 & 1],
            })
        })
    })
}

impl PathMembers {
    fn document(&self) -> Json {
        let mut backend = json!({"kind": self.kind, "rewrite_path": self.rewrite_path, "cluster": "backend"});
        self.reserved.inspect(|paths| backend["reserved_paths"] = json!(paths));
        self.guard.inspect(|service| backend["guard"] = json!({"service": service}));
        if self.operations {
            backend["operations"] = json!({"path": "/operations/{operation_id}", "secret": "an-operations-secret"});
        }
        let mut route = json!({
            "endpoint": "refunds.create", "path": self.route.0, "policy": "ACCEPTED", "mode": self.recovery.1,
        });
        self.route.1.inspect(|target| route["target"] = json!(target));
        self.collision.inspect(|mode| route["collision"] = json!(mode));
        self.recovery.0.inspect(|recovery| route["recovery"] = json!(recovery));
        let mut document = json!({
            "version": 1,
            "allow_inline_secrets": true,
            "unmatched": self.unmatched,
            "gateway_routes": self.gateway_routes,
            "identity": {"sources": [{
                "name": "gateway", "headers_owned_by": "gateway",
                "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"},
            }]},
            "backend": backend,
            "routes": [route, {"endpoint": "status.get", "methods": ["GET"], "path": "/status", "policy": "PROHIBITED"}],
        });
        if self.retention {
            document["retention"] = json!({"classes": {"c": "1d"}, "services": {"Ledger": "c"}});
        }
        document
    }

    /// The method of the route whose template fits the path. `endpoint`: the only route that counts, if the gateway names one.
    fn declared(&self, path: &str, endpoint: Option<&str>) -> Option<&'static str> {
        let fits = |template: &str| Template::parse(template).unwrap().values(path).is_some();
        let counts = |name: &str| endpoint.is_none_or(|endpoint| endpoint == name);
        self.routes().into_iter().find(|(name, path, _)| counts(name) && fits(path)).map(|(.., method)| method)
    }

    /// The method of the route that takes a request: a route that the gateway names and that has no parameters takes every path.
    fn taken(&self, path: &str, endpoint: Option<&str>) -> Option<&'static str> {
        let named = endpoint.and_then(|endpoint| self.routes().into_iter().find(|(name, ..)| *name == endpoint));
        let fixed = named.filter(|(_, path, _)| !path.contains('{')).map(|(.., method)| method);
        fixed.or_else(|| self.declared(path, endpoint))
    }

    fn routes(&self) -> [(&'static str, &'static str, &'static str); 2] {
        [("refunds.create", self.route.0, "POST"), ("status.get", "/status", "GET")]
    }

    /// Whether the paths that [`PathMembers::closed`] gives this reason for are open where a route declares them.
    fn opens_by_route(why: &str) -> bool {
        ["a path of a service that no route declares", "Restate's descriptions", "the guard of another policy"]
            .contains(&why)
    }

    /// Why no client may call a path (docs/contract.md section 2), if none may.
    fn closed(&self, path: &str, endpoint: Option<&str>) -> Option<&'static str> {
        let is_restate = self.kind == "restate";
        let below = |prefix: &str| path == prefix || path.starts_with(&format!("{prefix}/"));
        let service = path.split('/').nth(1).unwrap_or_default();
        let is_target = self.route.1.is_some_and(|target| target.split('/').next() == Some(service));
        let is_retained = self.retention && service == "Ledger";
        let is_declared = self.declared(path, endpoint).is_some();
        if self.reserved.into_iter().flatten().any(|prefix| below(prefix)) {
            Some("a reserved path")
        } else if (is_restate || self.collision.is_some()) && (below("/restate") || path.starts_with("/dev.restate.")) {
            Some("Restate's own path")
        } else if self.guard == Some(service) && (is_restate || self.rewrite_path || self.collision.is_some()) {
            Some("the guard")
        } else if is_target && self.rewrite_path {
            Some("a target's service")
        } else if is_restate && !is_declared && (is_target || is_retained && !self.rewrite_path) {
            Some("a path of a service that no route declares")
        } else if is_restate && !is_declared && service == "openapi" {
            Some("Restate's descriptions")
        } else if is_restate && !is_declared && service == "IdempotencyGuard" {
            Some("the guard of another policy")
        } else {
            None
        }
    }
}

/// Whether a path fits a template in another letter case only.
fn is_in_other_case(template: &str, path: &str) -> bool {
    let pairs = || template.split('/').zip(path.split('/')).filter(|(text, _)| !text.starts_with('{'));
    template.split('/').count() == path.split('/').count()
        && pairs().all(|(text, segment)| text.eq_ignore_ascii_case(segment))
        && pairs().any(|(text, segment)| text != segment)
}

/// Paths that a client could try, normalised; every form of path that Restate 1.7.12 answers is among them.
const PATHS: [&str; 37] = [
    "/dev.restate.ingress.ingestion.v1.IngestionSvc/Ingest",
    "/restate",
    "/restate/health",
    "/restate/output",
    "/restate/output/inv_1",
    "/restate/attach",
    "/restate/attach/inv_1",
    "/restate/lookup",
    "/restate/call/Refunds/create",
    "/restate/send/Refunds/create",
    "/restate/call/IdempotencyGuard/claim",
    "/restate/scope/s/call/Refunds/create",
    "/restate/invocation/inv_1/output",
    "/restate/invocation/Refunds/create/t-acme:shop:user:u:k/output",
    "/restate/workflow/Signup/k/attach",
    "/restate/awakeables/sign_1/resolve",
    "/restate/a/sign_1/reject",
    "/restate/anything",
    "/openapi",
    "/openapi/Refunds",
    "/Refunds",
    "/Refunds/create",
    "/Refunds/create/send",
    "/Refunds/other",
    "/Refunds/key/create",
    "/Refunds/key/create/send",
    "/IdempotencyGuard/claim",
    "/IdempotencyGuard/create",
    "/Claims/claim/send",
    "/Ledger/post",
    "/Ledger/create",
    "/internal/jobs/1",
    "/internal",
    "/Audit/list",
    "/restated/health",
    "/Refundsx/create",
    "/status",
];

/// What becomes of a request: the path that the backend gets and the mark that the filter has written, or the refusal's code.
type Outcome = Result<(String, Option<String>), String>;

fn outcome(policy: &Policy, method: &str, path: &str, endpoint: Option<&str>) -> Outcome {
    let lines =
        [(":method", method), (":authority", "a"), (":path", path), ("x-t", "acme"), ("x-p", "p"), ("x-s", "user:u")];
    let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
    let attributes = JsonAttributes { endpoint: endpoint.map(|name| json!(name)), ..JsonAttributes::default() };
    let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
    let flow = exchange.request_headers(policy, &headers, &attributes, &mut effects);
    if let Some(problem) = exchange.refusal() {
        return Err(problem.code.name().to_owned());
    }
    // A recovery waits for the id of its invocation.
    let is_asked = matches!(flow.awaits(), Some(Awaits::Call { .. }));
    assert!(
        matches!(flow, RequestFlow::Continue) || is_asked && path.contains("/by-idempotency-key/"),
        "{method} {path}"
    );
    let set = |wanted: &str| {
        effects.iter().find_map(|effect| match effect {
            Effect::Set { name, value, .. } if *name == wanted => Some(String::from_utf8(value.to_vec()).unwrap()),
            _ => None,
        })
    };
    Ok((set(":path").unwrap_or_else(|| path.to_owned()), set("x-edge-idempotency")))
}

/// What was seen of a part of the combinations.
#[derive(Default)]
struct Tally {
    started: u64,
    refused: u64,
    closed: u64,
    open: u64,
}

impl Tally {
    /// Looks at every path under one combination.
    fn take(&mut self, members: &PathMembers) {
        let Ok(policy) = Policy::from_json(members.document().to_string().as_bytes()) else {
            self.refused += 1;
            return;
        };
        self.started += 1;
        let endpoints: &[Option<&str>] =
            if members.gateway_routes { &[None, Some("refunds.create"), Some("status.get")] } else { &[None] };
        for path in PATHS {
            for (method, endpoint) in
                [("GET", None)].into_iter().chain(endpoints.iter().map(|endpoint| ("POST", *endpoint)))
            {
                let found = outcome(&policy, method, path, endpoint);
                let why = members.closed(path, endpoint);
                // Many routers take the path for the route's. A path that nobody forwards is read by nobody else.
                let is_other_case = members.routes().iter().any(|(_, route, _)| is_in_other_case(route, path));
                let is_other_reading = is_other_case && (members.unmatched != "REJECT" || endpoint.is_some());
                let expected = match (why, members.taken(path, endpoint)) {
                    (Some(why), _) if !PathMembers::opens_by_route(why) => Err("not_found"),
                    _ if is_other_reading => Err("path_ambiguous"),
                    (Some(_), _) => Err("not_found"),
                    (None, Some(taken)) if taken == method => Ok(()),
                    (None, Some(_)) => Err("method_not_allowed"),
                    (None, None) if members.unmatched == "REJECT" || endpoint.is_some() => Err("not_found"),
                    (None, None) => Ok(()),
                };
                let is_expected = match (&found, expected) {
                    (Ok((sent, mark)), Ok(())) => mark.is_some() || sent == path,
                    (Err(code), Err(expected)) => code == expected,
                    _ => false,
                };
                assert!(is_expected, "{method} {path} {endpoint:?}, {why:?}, {}: {found:?}", members.document());
                *if why.is_some() { &mut self.closed } else { &mut self.open } += 1;
            }
        }
    }
}

/// Looks at all, in a few threads.
fn summed<P: Sync, T: Default + Send>(all: &[P], take: fn(&mut T, &P)) -> Vec<T> {
    thread::scope(|scope| {
        let part = |part: &[P]| {
            let mut tally = T::default();
            part.iter().for_each(|each| take(&mut tally, each));
            tally
        };
        let threads: Vec<_> = all.chunks(all.len().div_ceil(4)).map(|each| scope.spawn(move || part(each))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn what_is_closed_is_closed_in_every_combination_of_members() {
    let all: Vec<PathMembers> = some(combinations()).collect();
    let parts: Vec<Tally> = summed(&all, Tally::take);
    let sum = |count: fn(&Tally) -> u64| parts.iter().map(count).sum::<u64>();
    let (started, refused) = (sum(|tally| tally.started), sum(|tally| tally.refused));
    let (closed, open) = (sum(|tally| tally.closed), sum(|tally| tally.open));
    let part = |count| u64::from(part_of(count));
    assert!(started > part(5_000) && refused > part(5_000), "{started} {refused}");
    assert!(closed > part(700_000) && open > part(100_000), "{closed} {open}");
}
