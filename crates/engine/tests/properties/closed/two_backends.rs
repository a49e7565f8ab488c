//! Two backends behind one policy: each has a route, and one of them gets the requests that no route declares.

use super::{Outcome, PATHS, is_in_other_case, outcome, part_of, some, summed};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::Template;
use serde_json::{Value as Json, json};

/// A backend with its route.
#[derive(Debug, Clone, Copy)]
struct Side {
    name: &'static str,
    kind: &'static str,
    rewrite_path: bool,
    reserved: bool,
    /// The name of its guard, if it has one, and whether its route asks it
    guard: (Option<&'static str>, bool),
    /// The path and the target of its route
    route: (&'static str, Option<&'static str>),
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    default: Side,
    other: Side,
    unmatched: &'static str,
    gateway_routes: bool,
}

const RESERVED: &str = "/internal";

/// Every backend with one of these routes.
fn sides(name: &'static str, routes: [(&'static str, Option<&'static str>); 3]) -> impl Iterator<Item = Side> + Clone {
    let guards = [(None, false), (Some("Claims"), false), (Some("Claims"), true)];
    let all = ["restate", "generic"].into_iter().flat_map(move |kind| {
        guards.into_iter().flat_map(move |guard| routes.into_iter().map(move |route| (kind, guard, route)))
    });
    all.flat_map(move |(kind, guard, route)| {
        (0..4).map(move |bits: usize| Side {
            name,
            kind,
            rewrite_path: bits & 1 == 1,
            reserved: bits & 2 == 2,
            guard,
            route,
        })
    })
}

/// Every pair. Paths of one backend's route begin with the service of the other's target, with anything, or with a word.
fn pairs() -> impl Iterator<Item = Pair> {
    let east =
        [("/buy", Some("Refunds/create")), ("/{service}/create", Some("Refunds/create")), ("/{service}/create", None)];
    let west =
        [("/books", Some("Ledger/post")), ("/Refunds/create", None), ("/{service}/key/create", Some("Ledger/post"))];
    sides("east", east).flat_map(move |east| {
        sides("west", west).enumerate().flat_map(move |(index, west)| {
            let unmatched = ["REJECT", "HANDLER_INTERNAL_C"][index % 2];
            [(east, west), (west, east)].map(|(default, other)| Pair {
                default,
                other,
                // A document whose default rewrites paths does not start with another value.
                unmatched: if default.rewrite_path { "REJECT" } else { unmatched },
                gateway_routes: index % 3 == 0,
            })
        })
    })
}

impl Side {
    fn document(&self) -> Json {
        let mut backend = json!({"kind": self.kind, "rewrite_path": self.rewrite_path, "cluster": self.name});
        if self.reserved {
            backend["reserved_paths"] = json!([RESERVED]);
        }
        self.guard.0.inspect(|service| backend["guard"] = json!({"service": service}));
        backend
    }

    fn is_restate(&self) -> bool {
        self.kind == "restate"
    }

    fn route_document(&self) -> Json {
        let mut route =
            json!({"endpoint": self.name, "path": self.route.0, "policy": "ACCEPTED", "backend": self.name});
        self.route.1.inspect(|target| route["target"] = json!(target));
        if self.guard.1 {
            route["collision"] = json!("enforce");
        }
        route
    }

    /// The services that are closed for requests of this backend, whatever routes there are.
    fn services(&self) -> Vec<&'static str> {
        let target = self.route.1.and_then(|target| target.split('/').next()).filter(|_| self.rewrite_path);
        let is_asked = self.is_restate() || self.rewrite_path || self.guard.1;
        target.into_iter().chain(self.guard.0.filter(|_| is_asked)).collect()
    }

    /// The services that are closed for requests of this backend that no route declares.
    fn undeclared_services(&self) -> Vec<&'static str> {
        let target = self.route.1.and_then(|target| target.split('/').next());
        let of_restate = target.into_iter().chain(["openapi", "IdempotencyGuard"]).filter(|_| self.is_restate());
        of_restate.chain(self.services()).collect()
    }

    /// Whether its requests are rewritten to the target.
    fn is_rewritten(&self) -> bool {
        self.rewrite_path && self.route.1.is_some()
    }
}

fn fits(template: &str, path: &str) -> bool {
    Template::parse(template).unwrap().values(path).is_some()
}

fn is_below(prefix: &str, path: &str) -> bool {
    path == prefix || path.starts_with(&format!("{prefix}/"))
}

impl Pair {
    fn sides(&self) -> [Side; 2] {
        [self.default, self.other]
    }

    fn document(&self) -> Json {
        let [default, other] = self.sides();
        json!({
            "version": 1,
            "unmatched": self.unmatched,
            "gateway_routes": self.gateway_routes,
            "identity": {"sources": [{
                "name": "gateway", "headers_owned_by": "gateway",
                "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"},
            }]},
            "backend": default.name,
            "backends": {default.name: default.document(), other.name: other.document()},
            "routes": [default.route_document(), other.route_document()],
        })
    }

    /// Whether a path is closed for requests of one of the backends, whatever routes there are.
    fn closes(&self, side: &Side, path: &str) -> bool {
        let service = path.split('/').nth(1).unwrap_or_default();
        let restates = self.sides().iter().any(|side| side.is_restate() || side.guard.1);
        restates && (is_below("/restate", path) || path.starts_with("/dev.restate."))
            || side.reserved && is_below(RESERVED, path)
            || side.services().contains(&service)
    }

    /// Whether a generic backend that ignores letter case could read a path that it gets as it is as a closed one.
    fn may_read_as_closed(side: &Side, path: &str) -> bool {
        let service = path.split('/').nth(1).unwrap_or_default();
        !side.is_restate() && side.services().iter().any(|closed| closed.eq_ignore_ascii_case(service))
    }

    /// The route that takes a path: the one that the gateway names, or the more particular one.
    fn route(&self, path: &str, endpoint: Option<&str>) -> Option<Side> {
        let mut sides = self.sides();
        sides.sort_by_key(|side| side.route.0.contains('{'));
        let of_all = || sides.into_iter().find(|side| fits(side.route.0, path));
        let Some(endpoint) = endpoint else { return of_all() };
        let named = sides.into_iter().find(|side| side.name == endpoint).unwrap();
        let is_undeclared = |side: &Side| {
            let service = path.split('/').nth(1).unwrap_or_default();
            self.closes(side, path) || side.undeclared_services().contains(&service)
        };
        // A named route without parameters takes every path that a request without a route could have.
        let is_taken = !named.route.0.contains('{') && !sides.iter().any(is_undeclared);
        (fits(named.route.0, path) || is_taken).then_some(named)
    }

    /// The route whose result a path asks for. A route without parameters that the gateway names has results at every path.
    fn recovered(&self, path: &str, endpoint: Option<&str>) -> Option<Side> {
        let (base, _) = path.split_once("/by-idempotency-key/")?;
        let named = endpoint.and_then(|name| self.sides().into_iter().find(|side| side.name == name));
        let side = named.filter(|side| !side.route.0.contains('{')).or_else(|| self.route(base, endpoint))?;
        (side.is_restate() && side.route.1.is_some()).then_some(side)
    }

    fn expected(&self, method: &str, path: &str, endpoint: Option<&str>) -> Outcome {
        let refused = |code: &str| Err(code.to_owned());
        let sides = self.sides();
        if sides.iter().all(|side| self.closes(side, path)) {
            return refused("not_found");
        }
        if let Some(side) = self.recovered(path, endpoint) {
            return match method {
                _ if self.closes(&side, path) => refused("not_found"),
                "GET" => Ok((path.to_owned(), None)),
                _ => refused("method_not_allowed"),
            };
        }
        let is_other_case = sides.iter().any(|side| is_in_other_case(side.route.0, path));
        let may_be_forwarded = self.unmatched != "REJECT" || endpoint.is_some() || self.route(path, None).is_some();
        if is_other_case && may_be_forwarded {
            return refused("path_ambiguous");
        }
        match self.route(path, endpoint) {
            Some(_) if method != "POST" => refused("method_not_allowed"),
            Some(side) if self.closes(&side, path) || !side.is_rewritten() && Self::may_read_as_closed(&side, path) => {
                refused("not_found")
            }
            Some(side) => {
                let is_marked = side.is_rewritten() || side.name != self.default.name;
                let call = if side.is_restate() { "/restate/call" } else { "" };
                let target = side.route.1.filter(|_| side.is_rewritten()).map(|target| format!("{call}/{target}"));
                Ok((target.unwrap_or_else(|| path.to_owned()), is_marked.then(|| side.name.to_owned())))
            }
            None if self.unmatched == "REJECT" || endpoint.is_some() => refused("not_found"),
            None => {
                let service = path.split('/').nth(1).unwrap_or_default();
                let closes = |side: &Side| self.closes(side, path) || side.undeclared_services().contains(&service);
                if sides.iter().any(closes) || Self::may_read_as_closed(&self.default, path) {
                    return refused("not_found");
                }
                Ok((path.to_owned(), None))
            }
        }
    }
}

/// Paths beside those of one backend: in another letter case, and of results.
const MORE_PATHS: [&str; 9] = [
    "/REFUNDS/create",
    "/ledger/create",
    "/CLAIMS/create",
    "/Claims/key/create",
    "/Ledger/key/create",
    "/buy/by-idempotency-key/k",
    "/Refunds/create/by-idempotency-key/k",
    "/Claims/create/by-idempotency-key/k",
    "/internal/key/create/by-idempotency-key/k",
];

#[derive(Default)]
struct PairTally {
    refused: u64,
    closed: u64,
    /// Requests that reach the default backend, and the other
    reach: [u64; 2],
}

impl PairTally {
    fn take(&mut self, pair: &Pair) {
        let Ok(policy) = Policy::from_json(pair.document().to_string().as_bytes()) else {
            self.refused += 1;
            return;
        };
        let endpoints: &[Option<&str>] =
            if pair.gateway_routes { &[None, Some("east"), Some("west")] } else { &[None] };
        for path in PATHS.into_iter().chain(MORE_PATHS) {
            for (method, endpoint) in
                [("GET", None)].into_iter().chain(endpoints.iter().map(|endpoint| ("POST", *endpoint)))
            {
                let found = outcome(&policy, method, path, endpoint);
                let expected = pair.expected(method, path, endpoint);
                assert_eq!(found, expected, "{method} {path} {endpoint:?}, {}", pair.document());
                match found {
                    Err(_) => self.closed += 1,
                    Ok((_, mark)) => self.reach[usize::from(mark.as_deref() == Some(pair.other.name))] += 1,
                }
            }
        }
    }
}

#[test]
fn what_is_closed_follows_the_backend_of_the_route() {
    let all: Vec<Pair> = some(pairs()).collect();
    let parts: Vec<PairTally> = summed(&all, PairTally::take);
    let sum = |count: fn(&PairTally) -> u64| parts.iter().map(count).sum::<u64>();
    let started = all.len() as u64 - sum(|tally| tally.refused);
    let part = |count| u64::from(part_of(count));
    assert!(started > part(3_000), "{started} of {}", all.len());
    let (closed, reach) = (sum(|tally| tally.closed), [sum(|tally| tally.reach[0]), sum(|tally| tally.reach[1])]);
    assert!(closed > part(100_000) && reach.into_iter().all(|count| count > part(10_000)), "{closed} {reach:?}");
}
