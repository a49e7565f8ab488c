//! Two backends behind one gateway, which chooses by the filter's mark: an API that may ignore letter case, and Restate. The routes,
//! the generator, what is closed to clients of each, and what of a request may arrive at which.

use serde_json::{Value, json};

use super::api::{Keys, Listener, PUBLIC, ROUTE, Route};
use super::case::{Case, CaseLine};
use super::random::Random;
use super::reading;
use super::restate_paths::{self, GUARD};
use super::upstream::{self, Record};

/// Where a request can arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// The only backend of most listeners.
    Restate,
    /// The API beside it.
    Api,
}

impl Backend {
    /// Its name in the policy, which is also the mark's value.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Restate => "restate",
            Self::Api => "api",
        }
    }

    /// The one segment that its `reserved_paths` close.
    const fn reserved(self) -> &'static str {
        match self {
            Self::Restate => "private",
            Self::Api => "internal",
        }
    }
}

const OF_API: Route = Route { backend: Backend::Api, ..ROUTE };

/// One path is often shared by both. Some paths of the API begin as a service of Restate does, and some with anything.
pub(crate) const BACKENDS: [Route; 14] = [
    Route {
        endpoint: "orders.create",
        path: "/api/v1/orders",
        target: "Orders/create",
        example: (PUBLIC, "/api/v1/orders"),
        ..ROUTE
    },
    Route {
        endpoint: "orders.list",
        method: "GET",
        path: "/api/v1/orders",
        keys: Keys::Prohibited,
        example: (PUBLIC, "/api/v1/orders"),
        ..OF_API
    },
    Route { endpoint: "notes.create", path: "/api/v1/notes", example: (PUBLIC, "/api/v1/notes"), ..OF_API },
    Route {
        endpoint: "devices.register",
        path: "/api/v1/devices",
        keys: Keys::Internal,
        example: ("other.example", "/api/v1/devices"),
        ..OF_API
    },
    Route {
        endpoint: "carts.checkout",
        path: "/api/v1/carts/{cart}/checkout",
        keys: Keys::Accepted,
        target: "Cart/{tenant}:{cart}/checkout",
        example: (PUBLIC, "/api/v1/carts/c-1/checkout"),
        ..ROUTE
    },
    Route {
        endpoint: "carts.note",
        path: "/api/v1/carts/{cart}/note",
        keys: Keys::Accepted,
        example: (PUBLIC, "/api/v1/carts/c-1/note"),
        ..OF_API
    },
    Route {
        endpoint: "any.run",
        path: "/api/v1/{name}/run",
        keys: Keys::Accepted,
        target: "Any/{name}/run",
        example: (PUBLIC, "/api/v1/reports/run"),
        ..ROUTE
    },
    Route {
        endpoint: "status",
        method: "GET",
        path: "/api/v1/status",
        keys: Keys::Prohibited,
        example: (PUBLIC, "/api/v1/status"),
        ..ROUTE
    },
    Route {
        endpoint: "records.put",
        method: "PUT",
        path: "/api/v1/records/{id}",
        keys: Keys::Accepted,
        target: "Records/{id}/put",
        example: (PUBLIC, "/api/v1/records/r-1"),
        ..ROUTE
    },
    Route {
        endpoint: "records.delete",
        method: "DELETE",
        path: "/api/v1/records/{id}",
        keys: Keys::Internal,
        example: (PUBLIC, "/api/v1/records/r-1"),
        ..OF_API
    },
    Route {
        endpoint: "orders.get",
        method: "GET",
        path: "/Orders/{id}",
        keys: Keys::Prohibited,
        example: (PUBLIC, "/Orders/7"),
        ..OF_API
    },
    Route { endpoint: "any.save", path: "/{service}/save", example: (PUBLIC, "/Orders/save"), ..OF_API },
    Route {
        endpoint: "any.exec",
        path: "/{service}/exec",
        target: "Any/{service}/exec",
        example: (PUBLIC, "/things/exec"),
        ..ROUTE
    },
    Route {
        endpoint: "any.look",
        method: "GET",
        path: "/{service}/look",
        keys: Keys::Prohibited,
        example: (PUBLIC, "/things/look"),
        ..ROUTE
    },
];

/// `backend` and `backends` of a listener's policy.
pub(crate) fn members(listener: Listener) -> [(String, Value); 2] {
    let backends = json!({
        Backend::Api.name(): {"kind": "generic", "reserved_paths": [format!("/{}", Backend::Api.reserved())]},
        Backend::Restate.name(): {
            "kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {"service": GUARD},
            "reserved_paths": [format!("/{}", Backend::Restate.reserved())],
        },
    });
    [("backend".to_owned(), json!(listener.default_backend().name())), ("backends".to_owned(), backends)]
}

/// Paths that lead to one backend, to the other, or to something closed.
const PATHS: [&str; 43] = [
    "/dev.restate.ingress.ingestion.v1.IngestionSvc/Ingest",
    "/restate",
    "/restate/health",
    "/restate/output/inv_1",
    "/restate/call/Orders/create",
    "/restate/send/Orders/create",
    "/restate/call/Claims/claim",
    "/restate/save",
    "/restate/exec",
    "/RESTATE/save",
    "/restated/save",
    "/openapi",
    "/openapi/save",
    "/openapi/exec",
    "/Claims/claim",
    "/Claims/save",
    "/Claims/exec",
    "/claims/exec",
    "/IdempotencyGuard/claim",
    "/IdempotencyGuard/save",
    "/Orders/create",
    "/Orders/create/send",
    "/Orders/7",
    "/Orders/save",
    "/Orders/exec",
    "/Orders/look",
    "/orders/7",
    "/orders/exec",
    "/Cart/save",
    "/Cart/exec",
    "/Any/exec",
    "/Any/look",
    "/private",
    "/private/save",
    "/private/exec",
    "/PRIVATE/exec",
    "/private/look",
    "/internal",
    "/internal/save",
    "/internal/exec",
    "/INTERNAL/save",
    "/Orders/exec/by-idempotency-key/k-1",
    "/elsewhere/jobs",
];

/// Puts such a path in the place of the target, and says which.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) -> String {
    restate_paths::put_one_of(&PATHS, case, random)
}

/// What the API gets as a client sent it, and Restate never.
const CREDENTIALS: [&str; 4] = ["cookie", "origin", "x-api-key", "x-restate-id"];

/// Adds credentials, or a mark that would choose the backend, and says which.
pub(crate) fn claim(case: &mut Case, random: &mut Random) -> String {
    let (name, value) = match random.below(2) {
        0 => (random.pick(&CREDENTIALS), "a-1"),
        _ => (random.pick(&["x-edge-idempotency", "x_edge_idempotency"]), random.pick(&["restate", "api", "1"])),
    };
    let line = CaseLine::new(name, value);
    if random.percent(50) {
        case.lines.insert(0, line);
    } else {
        case.lines.push(line);
    }
    format!("header: {name}: {value}")
}

/// The credentials of a sound request that did not come to the API.
pub(crate) fn lost_credentials(case: &Case, record: &Record) -> Vec<&'static str> {
    // The gateway removes what `connection` names.
    let is_hop = case.lines.iter().any(|line| line.name.eq_ignore_ascii_case("connection"));
    let is_sent = |name: &&str| case.lines.iter().any(|line| line.name == **name && line.value == b"a-1");
    let is_lost = |name: &&str| upstream::lines(&record.message, name).next().is_none();
    CREDENTIALS.into_iter().filter(|name| !is_hop && is_sent(name) && is_lost(name)).collect()
}

/// The backend's services: the first segments that are closed for its requests, whatever routes there are.
fn services(backend: Backend) -> Vec<&'static str> {
    let of_restate = BACKENDS.iter().filter_map(|route| route.target.split('/').next()).chain([GUARD]);
    of_restate.filter(|service| backend == Backend::Restate && !service.is_empty()).collect()
}

/// Why a path is closed, if it is. `backend`: that of the route that takes it, if there is one.
pub(crate) fn closed(path: &str, backend: Option<Backend>) -> Option<&'static str> {
    let first = path.split('/').nth(1).unwrap_or_default();
    let lenient = String::from_utf8_lossy(&reading::decoded(first.as_bytes())).to_ascii_lowercase();
    let reserves = |backend: Backend| lenient == backend.reserved();
    if first == "restate" || lenient.starts_with("dev.restate.") {
        return Some("a path of Restate");
    }
    match backend {
        Some(backend) if reserves(backend) => Some("a path that the backend of the route reserves"),
        Some(backend) => services(backend).contains(&first).then_some("a service of the backend of the route"),
        None if reserves(Backend::Api) || reserves(Backend::Restate) => Some("a reserved path that no route declares"),
        None => {
            let is_service =
                services(Backend::Restate).contains(&first) || first == "openapi" || first == "IdempotencyGuard";
            is_service.then_some("a service of Restate that no route declares")
        }
    }
}

/// Whether a path differs from Restate's own in its letter case or its escapes alone. Restate tells them apart.
pub(crate) fn is_nearly_closed(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    first != "restate" && reading::decoded(first.as_bytes()).eq_ignore_ascii_case(b"restate")
}

/// What no request may be at a backend, whatever the model says of the case.
pub(crate) fn astray(at: Backend, method: &str, target: &[u8], has_key: bool) -> Option<String> {
    let path = String::from_utf8_lossy(reading::split_query(target).0).into_owned();
    let decoded_first = reading::path_behind_decoded_first(target);
    let rest = path.strip_prefix("/restate/");
    let parts: Vec<&str> = rest.unwrap_or_default().split('/').collect();
    let takes = |route: &&Route| route.method == method || (route.method == "GET" && method == "HEAD");
    // A route has both spellings of its path.
    let without_slash = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(&path);
    let fits = |route: &&Route| takes(route) && super::model::fits(route.path, without_slash);
    match (at, parts.as_slice()) {
        (Backend::Restate, ["call", service, .., handler]) => {
            let called = |route: &Route| {
                let mut names = route.target.split('/');
                route.backend == at && names.next() == Some(*service) && names.next_back() == Some(*handler)
            };
            let keyed = |route: &Route| called(route) && matches!(route.keys, Keys::Required | Keys::Accepted);
            let needed = |route: &Route| called(route) && route.keys == Keys::Required;
            if !BACKENDS.iter().any(called)
                || has_key && !BACKENDS.iter().any(keyed)
                || !has_key && BACKENDS.iter().any(needed)
            {
                return Some(format!("no route of Restate sends {path} in this way"));
            }
            None
        }
        (Backend::Restate, ["attach" | "output", _]) if rest.is_some() && !has_key => None,
        (Backend::Restate, _) => {
            let own = BACKENDS.iter().find(fits).is_some_and(|route| route.backend == at && route.target.is_empty());
            let is_closed = closed(&path, Some(at)).is_some();
            (!own || is_closed || has_key).then(|| format!("{path} is not Restate's"))
        }
        (Backend::Api, _) => {
            let first = decoded_first.split('/').nth(1).unwrap_or_default();
            if first.eq_ignore_ascii_case("restate") {
                return Some(format!("{decoded_first} is closed, as who decodes the whole first reads it"));
            }
            // More particular routes come first for the gateway; of those that fit, none may be Restate's unless one is the API's.
            let fitting: Vec<&Route> = BACKENDS.iter().filter(fits).collect();
            let own = fitting.iter().find(|route| route.backend == at);
            if own.is_none() && !fitting.is_empty() {
                return Some(format!("{path} is a route's of Restate"));
            }
            if has_key && !own.is_some_and(|route| matches!(route.keys, Keys::Required | Keys::Accepted)) {
                return Some(format!("{path} takes no key of the API"));
            }
            closed(&path, own.map(|_| at)).map(|why| format!("{path} is closed: {why}"))
        }
    }
}
