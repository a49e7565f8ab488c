//! The API that the differ attacks: its routes, and the rules of Envoy's RBAC filter that deny some of them. The policy
//! document, Envoy's configuration and the model are all made of these tables.

use std::net::SocketAddr;

use e2e::config::{Change, ListenerSpec};
use serde_json::{Value, json};

use super::backends::{self, BACKENDS, Backend};
use super::restate_paths::{self, DECLARED, RESTATE_PATHS};
use super::spellings::HOSTS;

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
    /// Its backend, on the listeners with two.
    pub(crate) backend: Backend,
    /// Where the rewriting listeners send it.
    pub(crate) target: &'static str,
    /// Whether its keys belong to the tenant instead of the project: on the listeners that do not rewrite, this tells a
    /// denied host's route from the one that has the same path and no host.
    pub(crate) tenant_wide: bool,
    /// A request that takes this route.
    pub(crate) example: (&'static str, &'static str),
}

/// What most routes have.
pub(crate) const ROUTE: Route = Route {
    endpoint: "",
    method: "POST",
    path: "",
    hosts: &[],
    keys: Keys::Required,
    backend: Backend::Restate,
    target: "",
    tenant_wide: false,
    example: (PUBLIC, ""),
};

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
pub(crate) const ROUTES: [Route; 15] = [
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
        target: "Orders/list",
        example: (PUBLIC, "/api/v1/orders"),
        ..ROUTE
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
        endpoint: "devices.register",
        path: "/api/v1/devices",
        keys: Keys::Internal,
        target: "Devices/register",
        example: ("other.example", "/api/v1/devices"),
        ..ROUTE
    },
    Route {
        endpoint: "items.put",
        path: "/api/v1/items/{item}",
        target: "Items/{item}/put",
        example: (PUBLIC, "/api/v1/items/i-1"),
        ..ROUTE
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
        target: "Erasure/{id}/delete",
        example: (PUBLIC, "/api/v1/records/r-1"),
        ..ROUTE
    },
    Route { endpoint: "denied", path: DENIED, target: "Closed/denied", example: (PUBLIC, DENIED), ..ROUTE },
    Route {
        endpoint: "ops.run",
        path: "/api/v1/ops/{op}",
        keys: Keys::Accepted,
        target: "Ops/{op}/run",
        example: (PUBLIC, "/api/v1/ops/restart"),
        ..ROUTE
    },
    Route {
        endpoint: "admin.orders",
        path: "/api/v1/orders",
        hosts: &[ADMIN],
        target: "Admin/orders",
        tenant_wide: true,
        example: (ADMIN, "/api/v1/orders"),
        ..ROUTE
    },
    Route {
        endpoint: "internal.orders",
        path: "/api/v1/orders",
        hosts: &[INTERNAL],
        target: "Internal/orders",
        tenant_wide: true,
        example: (INTERNAL, "/api/v1/orders"),
        ..ROUTE
    },
    Route {
        endpoint: "vault.open",
        path: "/api/v1/vault",
        hosts: &["*.private.example.com"],
        target: "Vault/open",
        tenant_wide: true,
        example: ("eu.private.example.com", "/api/v1/vault"),
        ..ROUTE
    },
    Route {
        endpoint: "only.run",
        path: "/api/v1/only",
        hosts: &[PUBLIC, "[2001:db8::1]"],
        keys: Keys::Accepted,
        target: "Only/run",
        example: (PUBLIC, "/api/v1/only"),
        ..ROUTE
    },
    Route {
        endpoint: "shop.run",
        path: "/api/v1/shop",
        hosts: &["*.example.net"],
        target: "Shop/run",
        example: ("eu.example.net", "/api/v1/shop"),
        ..ROUTE
    },
];

/// The services that no request may get to, since RBAC denies every way there.
pub(crate) const DENIED_SERVICES: [&str; 6] = ["Erasure", "Closed", "Ops", "Admin", "Internal", "Vault"];

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
    /// Authorities reach the filter as clients wrote them, routes are of hosts, and what no route declares is forwarded.
    Hosts,
    /// Restate behind clients' own paths, and what no route declares is forwarded.
    RestatePaths,
    /// The same, and keys are refused where no route is.
    RestatePathsStrict,
    /// The same with routes that are Restate's own paths.
    Declared,
    /// An API that gets what no route declares, and Restate for some routes.
    Beside,
    /// Restate, and an API for some routes; what no route declares is refused.
    Behind,
}

/// Every listener.
pub(crate) const LISTENERS: [Listener; 9] = [
    Listener::Rewriting,
    Listener::Plain,
    Listener::AsWritten,
    Listener::Hosts,
    Listener::RestatePaths,
    Listener::RestatePathsStrict,
    Listener::Declared,
    Listener::Beside,
    Listener::Behind,
];

impl Listener {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rewriting => "rewriting",
            Self::Plain => "plain",
            Self::AsWritten => "as written",
            Self::Hosts => "hosts",
            Self::RestatePaths => "restate paths",
            Self::RestatePathsStrict => "restate paths, strict",
            Self::Declared => "restate paths, declared",
            Self::Beside => "two backends, the API first",
            Self::Behind => "two backends, Restate first",
        }
    }

    /// Whether the filter rewrites paths to targets, on routes that have one.
    pub(crate) const fn rewrites(self) -> bool {
        matches!(self, Self::Rewriting) || self.has_two_backends()
    }

    /// Whether the gateway chooses one of two backends.
    pub(crate) const fn has_two_backends(self) -> bool {
        matches!(self, Self::Beside | Self::Behind)
    }

    /// The backend of requests whose route names none.
    pub(crate) const fn default_backend(self) -> Backend {
        if matches!(self, Self::Beside) { Backend::Api } else { Backend::Restate }
    }

    /// Whether Envoy normalises paths before any rule.
    pub(crate) const fn normalises(self) -> bool {
        !matches!(self, Self::AsWritten)
    }

    /// Whether RBAC stands before the filter.
    pub(crate) const fn is_guarded(self) -> bool {
        matches!(self, Self::Rewriting | Self::Plain | Self::AsWritten)
    }

    /// Whether Restate stands behind paths that clients know, and what no route declares is forwarded.
    pub(crate) const fn has_restate_paths(self) -> bool {
        matches!(self, Self::RestatePaths | Self::RestatePathsStrict | Self::Declared)
    }

    /// Whether Envoy removes a port and a final dot from the authority before any rule.
    pub(crate) const fn strips_authority(self) -> bool {
        !matches!(self, Self::Hosts)
    }

    /// Its routes.
    pub(crate) const fn routes(self) -> &'static [Route] {
        match self {
            Self::Rewriting | Self::Plain | Self::AsWritten => &ROUTES,
            Self::Hosts => &HOSTS,
            Self::RestatePaths | Self::RestatePathsStrict => &RESTATE_PATHS,
            Self::Declared => &DECLARED,
            Self::Beside | Self::Behind => &BACKENDS,
        }
    }

    /// How requests that no route declares are forwarded; `None` if they are refused.
    pub(crate) const fn unmatched(self) -> Option<Keys> {
        match self {
            Self::Rewriting | Self::Plain | Self::AsWritten | Self::Behind => None,
            Self::Hosts | Self::RestatePaths | Self::Declared | Self::Beside => Some(Keys::Internal),
            Self::RestatePathsStrict => Some(Keys::Prohibited),
        }
    }

    /// Its difference from the shipped listener. `api`: where the API listens.
    pub(crate) fn spec(self, api: SocketAddr) -> ListenerSpec {
        let changes = match self {
            Self::Rewriting | Self::Plain => vec![Change::Before(rbac(true))],
            Self::AsWritten => {
                vec![Change::Before(rbac(false)), Change::PathsAsWritten, Change::Trailers, Change::EveryPath]
            }
            Self::Hosts => vec![Change::AuthorityAsWritten, Change::EveryPath],
            Self::RestatePaths | Self::RestatePathsStrict | Self::Declared => vec![Change::EveryPath],
            Self::Beside | Self::Behind => vec![
                Change::EveryPath,
                Change::BackendByMark {
                    shipped: Backend::Restate.name(),
                    other: Backend::Api.name(),
                    address: api,
                    is_default: self.default_backend() == Backend::Api,
                },
            ],
        };
        ListenerSpec { policy: policy(self), changes }
    }
}

fn policy(listener: Listener) -> String {
    let has_targets = listener.rewrites() || listener.has_restate_paths();
    let route = |route: &Route| {
        let mut object = json!({
            "endpoint": route.endpoint, "path": route.path, "methods": [route.method], "policy": route.keys.name(),
        });
        if let Some(object) = object.as_object_mut() {
            if has_targets && !route.target.is_empty() {
                object.insert("target".to_owned(), json!(route.target));
                if listener.has_restate_paths() && matches!(route.keys, Keys::Required | Keys::Accepted) {
                    object.insert("recovery".to_owned(), json!(false));
                }
            }
            if !route.hosts.is_empty() {
                object.insert("hosts".to_owned(), json!(route.hosts));
            }
            if listener.has_two_backends() && (route.backend != listener.default_backend() || route.method == "PUT") {
                object.insert("backend".to_owned(), json!(route.backend.name()));
            }
            if route.tenant_wide {
                object.insert("scope".to_owned(), json!("tenant"));
            }
        }
        object
    };
    let backend = match listener.has_restate_paths() {
        true => restate_paths::backend(listener),
        false => json!({"kind": "restate", "rewrite_path": listener.rewrites(), "cluster": "backend"}),
    };
    let mut policy = json!({
        "version": 1,
        "unmatched": listener.unmatched().map_or("REJECT", Keys::name),
        "identity": {
            "sources": [{
                "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
            }],
            "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"},
        },
        "backend": backend,
        "routes": listener.routes().iter().map(route).collect::<Vec<_>>(),
    });
    if let Some(policy) = policy.as_object_mut() {
        policy.extend(listener.has_two_backends().then(|| backends::members(listener)).into_iter().flatten());
        policy.extend(restate_paths::retention(listener).map(|retention| ("retention".to_owned(), retention)));
    }
    policy.to_string()
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
