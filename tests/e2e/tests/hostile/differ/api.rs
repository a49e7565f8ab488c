//! The API that the differ attacks: its routes, and the rules of Envoy's RBAC filter that deny some of them. The policy
//! document, Envoy's configuration and the rules of the judge are all made of these tables.

use e2e::config::{Change, ListenerSpec};
use harness::tokens;
use serde_json::{Value, json};

/// How a route treats keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// `REQUIRED_A`
    Required,
    /// `ACCEPTED`
    Accepted,
    /// `HANDLER_INTERNAL_C`
    Internal,
    /// `PROHIBITED`
    Prohibited,
}

impl Keys {
    const fn name(self) -> &'static str {
        match self {
            Self::Required => "REQUIRED_A",
            Self::Accepted => "ACCEPTED",
            Self::Internal => "HANDLER_INTERNAL_C",
            Self::Prohibited => "PROHIBITED",
        }
    }
}

/// A route of the policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Its name.
    pub(crate) endpoint: &'static str,
    /// Its only method.
    pub(crate) method: &'static str,
    /// Its template.
    pub(crate) path: &'static str,
    /// Its hosts; none for every host.
    pub(crate) hosts: &'static [&'static str],
    /// Its policy.
    pub(crate) keys: Keys,
    /// Where the rewriting listeners send it.
    pub(crate) target: &'static str,
    /// Whether its keys belong to the tenant instead of the project: on the listeners that do not rewrite, this tells a
    /// denied host's route from the one that has the same path and no host.
    pub(crate) tenant_wide: bool,
    /// A request that takes this route.
    pub(crate) example: (&'static str, &'static str),
}

const fn route(
    endpoint: &'static str,
    method: &'static str,
    path: &'static str,
    keys: Keys,
    target: &'static str,
    example: (&'static str, &'static str),
) -> Route {
    Route { endpoint, method, path, hosts: &[], keys, target, tenant_wide: false, example }
}

/// A host that nothing denies.
pub(crate) const PUBLIC: &str = "api.example.com";
/// A host that RBAC denies in exactly this spelling.
pub(crate) const ADMIN: &str = "admin.example.com";
/// A host that RBAC denies in upper and lower case.
pub(crate) const INTERNAL: &str = "internal.example.com";
/// RBAC denies every host that ends so, in upper and lower case.
pub(crate) const PRIVATE: &str = ".private.example.com";
/// RBAC denies this path, and the paths by which its results are asked for.
pub(crate) const DENIED: &str = "/api/v1/denied";
/// RBAC denies every path that begins so.
pub(crate) const DENIED_PREFIX: &str = "/api/v1/ops";
/// RBAC denies this method.
pub(crate) const DENIED_METHOD: &str = "DELETE";

/// Every route.
pub(crate) const ROUTES: [Route; 13] = [
    route("orders.create", "POST", ORDERS, Required, "Orders/create", (PUBLIC, ORDERS)),
    route("orders.list", "GET", ORDERS, Prohibited, "Orders/list", (PUBLIC, ORDERS)),
    route("carts.checkout", "POST", "/api/v1/carts/{cart}/checkout", Accepted, "Cart/{tenant}:{cart}/checkout", CART),
    route("devices.register", "POST", DEVICES, Internal, "Devices/register", ("other.example", DEVICES)),
    route("items.put", "POST", "/api/v1/items/{item}", Required, "Items/{item}/put", (PUBLIC, "/api/v1/items/i-1")),
    route("any.run", "POST", "/api/v1/{name}/run", Accepted, "Any/{name}/run", (PUBLIC, "/api/v1/reports/run")),
    route("records.put", "PUT", RECORDS, Accepted, "Records/{id}/put", (PUBLIC, "/api/v1/records/r-1")),
    route("records.delete", "DELETE", RECORDS, Internal, "Erasure/{id}/delete", (PUBLIC, "/api/v1/records/r-1")),
    route("denied", "POST", DENIED, Required, "Closed/denied", (PUBLIC, DENIED)),
    route("ops.run", "POST", "/api/v1/ops/{op}", Accepted, "Ops/{op}/run", (PUBLIC, "/api/v1/ops/restart")),
    Route {
        hosts: &[ADMIN],
        tenant_wide: true,
        ..route("admin.orders", "POST", ORDERS, Required, "Admin/orders", (ADMIN, ORDERS))
    },
    Route {
        hosts: &["*.private.example.com"],
        tenant_wide: true,
        ..route("vault.open", "POST", VAULT, Required, "Vault/open", ("eu.private.example.com", VAULT))
    },
    Route {
        hosts: &[PUBLIC, INTERNAL, "[2001:db8::1]"],
        ..route("only.run", "POST", ONLY, Accepted, "Only/run", (PUBLIC, ONLY))
    },
];
use Keys::{Accepted, Internal, Prohibited, Required};

const ORDERS: &str = "/api/v1/orders";
const CART: (&str, &str) = (PUBLIC, "/api/v1/carts/c-1/checkout");
const DEVICES: &str = "/api/v1/devices";
const RECORDS: &str = "/api/v1/records/{id}";
const VAULT: &str = "/api/v1/vault";
const ONLY: &str = "/api/v1/only";

/// The services that no request may get to, since RBAC denies every way there.
pub(crate) const DENIED_SERVICES: [&str; 5] = ["Erasure", "Closed", "Ops", "Admin", "Vault"];

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listener {
    /// The shipped one; the filter rewrites paths to targets.
    Rewriting,
    /// The shipped one; paths stay as clients know them.
    Plain,
    /// Paths and trailers reach the filter as clients wrote them. Rules by path would not hold there (docs/security.md),
    /// so RBAC has those by host and by method only.
    AsWritten,
}

/// Every listener.
pub(crate) const LISTENERS: [Listener; 3] = [Listener::Rewriting, Listener::Plain, Listener::AsWritten];

impl Listener {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rewriting => "rewriting",
            Self::Plain => "plain",
            Self::AsWritten => "as written",
        }
    }

    /// Its difference from the shipped listener.
    pub(crate) fn spec(self) -> ListenerSpec {
        let changes = match self {
            Self::Rewriting | Self::Plain => vec![Change::Before(rbac(true))],
            Self::AsWritten => {
                vec![Change::Before(rbac(false)), Change::PathsAsWritten, Change::Trailers, Change::EveryPath]
            }
        };
        ListenerSpec { policy: policy(self), changes }
    }
}

fn policy(listener: Listener) -> String {
    let rewrites = listener == Listener::Rewriting;
    let route = |route: &Route| {
        let mut object = json!({
            "endpoint": route.endpoint, "path": route.path, "methods": [route.method], "policy": route.keys.name(),
        });
        let more = [
            ("target", rewrites.then(|| json!(route.target))),
            ("hosts", (!route.hosts.is_empty()).then(|| json!(route.hosts))),
            ("scope", route.tenant_wide.then(|| json!("tenant"))),
        ];
        if let Some(object) = object.as_object_mut() {
            object.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        object
    };
    json!({
        "version": 1,
        "identity": {
            "sources": [tokens::source()],
            "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"},
        },
        "backend": {"kind": "restate", "rewrite_path": rewrites, "cluster": "backend"},
        "routes": ROUTES.iter().map(route).collect::<Vec<_>>(),
    })
    .to_string()
}

/// The rules, as docs/security.md tells operators to write them.
fn rbac(by_path: bool) -> Value {
    let header = |name: &str, matcher: Value| json!({"header": {"name": name, "string_match": matcher}});
    let mut permissions = vec![
        header(":method", json!({"exact": DENIED_METHOD})),
        header(":authority", json!({"exact": ADMIN})),
        header(":authority", json!({"exact": INTERNAL, "ignore_case": true})),
        header(":authority", json!({"suffix": PRIVATE, "ignore_case": true})),
        header(":authority", json!({"safe_regex": {"regex": r".*(\.|:[0-9]*)"}})),
    ];
    if by_path {
        let regex = format!("{DENIED}(/by-idempotency-key/[^/]+(/output)?)?/?");
        permissions.push(json!({"url_path": {"path": {"safe_regex": {"regex": regex}}}}));
        permissions.push(json!({"url_path": {"path": {"prefix": DENIED_PREFIX}}}));
    }
    json!({"name": "envoy.filters.http.rbac", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
        "rules": {"action": "DENY", "policies": {"closed": {
            "permissions": [{"or_rules": {"rules": permissions}}], "principals": [{"any": true}],
        }}},
    }})
}
