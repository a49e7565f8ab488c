//! Restate's own paths where the filter rewrites none and forwards what no route declares: the policies, the generator, and what of
//! them has to be closed.

use serde_json::{Value, json};

use super::api::{Keys, Listener, PUBLIC, ROUTE, Route};
use super::case::Case;
use super::random::Random;

/// The guard of every policy here.
pub(crate) const GUARD: &str = "Claims";
/// A service that only `retention.services` names.
const RETAINED: &str = "Ledger";
/// What `reserved_paths` adds.
const RESERVED: &str = "/internal";

const ORDERS: Route = Route {
    endpoint: "orders.create",
    path: "/api/v1/orders",
    target: "Orders/create",
    example: (PUBLIC, "/api/v1/orders"),
    ..ROUTE
};
const DEVICES: Route = Route {
    endpoint: "devices.register",
    path: "/api/v1/devices",
    keys: Keys::Internal,
    example: ("other.example", "/api/v1/devices"),
    ..ROUTE
};

/// A target below its own path, and one that no path names.
pub(crate) const RESTATE_PATHS: [Route; 3] = [
    ORDERS,
    DEVICES,
    Route {
        endpoint: "carts.checkout",
        path: "/Cart/{cart}/checkout",
        keys: Keys::Accepted,
        target: "Cart/{tenant}:{cart}/checkout",
        example: (PUBLIC, "/Cart/c-1/checkout"),
        ..ROUTE
    },
];

/// Routes whose first segment is a service, or any.
pub(crate) const DECLARED: [Route; 4] = [
    ORDERS,
    DEVICES,
    Route {
        endpoint: "orders.paths",
        path: "/Orders/create",
        keys: Keys::Accepted,
        target: "Orders/create",
        example: (PUBLIC, "/Orders/create"),
        ..ROUTE
    },
    Route {
        endpoint: "any.status",
        method: "GET",
        path: "/{service}/status",
        keys: Keys::Prohibited,
        example: (PUBLIC, "/Audit/status"),
        ..ROUTE
    },
];

/// `backend` of a listener's policy.
pub(crate) fn backend(listener: Listener) -> Value {
    let guard = json!({"service": GUARD});
    match listener {
        Listener::RestatePathsStrict => {
            json!({"kind": "restate", "cluster": "backend", "guard": guard, "reserved_paths": []})
        }
        Listener::RestatePaths => {
            json!({"kind": "restate", "cluster": "backend", "guard": guard, "reserved_paths": [RESERVED]})
        }
        _ => json!({"kind": "restate", "cluster": "backend", "guard": guard}),
    }
}

/// `retention` of a listener's policy.
pub(crate) fn retention(listener: Listener) -> Option<Value> {
    let named = json!({"classes": {"day": "1d"}, "services": {RETAINED: "day"}});
    (listener == Listener::Declared).then_some(named)
}

/// Paths that lead to something closed, or nearly.
const PATHS: [&str; 48] = [
    "/dev.restate.ingress.ingestion.v1.IngestionSvc/Ingest",
    "/dev.restate./Ingest",
    "/restate",
    "/restate/health",
    "/restate/output",
    "/restate/output/inv_1",
    "/restate/attach",
    "/restate/attach/inv_1",
    "/restate/lookup",
    "/restate/call/Orders/create",
    "/restate/send/Orders/create",
    "/restate/call/Claims/claim",
    "/restate/scope/s/call/Orders/create",
    "/restate/invocation/Orders/create/t-globex:shop:user:u2:k/output",
    "/restate/workflow/Signup/k/attach",
    "/restate/awakeables/sign_1/resolve",
    "/restate/a/sign_1/reject",
    "/restate/status",
    "/RESTATE/output",
    "/Restate/output",
    "/restated/output",
    "/openapi",
    "/openapi/Orders",
    "/openapi/status",
    "/Claims/claim",
    "/Claims/claim/send",
    "/Claims/status",
    "/Claims",
    "/claims/claim",
    "/Orders/create",
    "/Orders/create/send",
    "/Orders/refundAll",
    "/Orders/status",
    "/Orders",
    "/orders/create",
    "/Ordersx/create",
    "/Cart/c-1/checkout",
    "/Cart/c-1/checkout/send",
    "/Cart/c-1/empty",
    "/Cart/c%2f1/checkout",
    "/Cart/..%2frestate/checkout",
    "/Ledger/post",
    "/Ledger/status",
    "/internal",
    "/internal/jobs",
    "/internals",
    "/Audit/list",
    "/Orders/create/by-idempotency-key/k-1",
];

/// Puts such a path in the place of the target, and says which.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) -> String {
    put_one_of(&PATHS, case, random)
}

/// Puts one of these paths in the place of the target, and says which.
pub(super) fn put_one_of(paths: &[&str], case: &mut Case, random: &mut Random) -> String {
    let path = random.pick(paths);
    case.target = path.as_bytes().to_vec();
    let method = random.pick(&["", "POST", "GET"]);
    if !method.is_empty() {
        case.method = method.to_owned();
    }
    if random.percent(50) {
        case.lines.retain(|line| line.name != "idempotency-key");
    }
    format!("path: {path} in the place")
}

/// Why a path is closed, if it is. `is_declared`: a route takes it.
pub(crate) fn closed(listener: Listener, path: &str, is_declared: bool) -> Option<&'static str> {
    let below = |prefix: &str| path == prefix || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    let service = path.split('/').nth(1).unwrap_or_default();
    let named = || listener.routes().iter().any(|route| route.target.split('/').next() == Some(service));
    if below("/restate")
        || path.starts_with("/dev.restate.")
        || (listener.has_restate_paths() && below(&format!("/{GUARD}")))
    {
        return Some("a path of Restate or of the guard");
    }
    if listener == Listener::RestatePaths && below(RESERVED) {
        return Some("a reserved path");
    }
    let is_retained = listener == Listener::Declared && service == RETAINED;
    let is_own = !service.is_empty() && named() || is_retained || service == "openapi";
    (is_own && !is_declared).then_some("a path of a named service that no route declares")
}

/// Whether a path differs from a closed one in its letter case alone. Restate tells them apart.
pub(crate) fn is_nearly_closed(listener: Listener, path: &str, is_declared: bool) -> bool {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let known = ["restate", GUARD, RETAINED, "openapi", "internal", "Orders", "Cart"];
    let Some((first, rest)) = segments.split_first() else { return false };
    if !first.starts_with("dev.restate.") && first.to_ascii_lowercase().starts_with("dev.restate.") {
        return true;
    }
    known.iter().filter(|name| name.eq_ignore_ascii_case(first) && *name != first).any(|name| {
        let other = [&[*name], rest].concat().iter().map(|segment| format!("/{segment}")).collect::<String>();
        closed(listener, &other, is_declared).is_some()
    })
}
