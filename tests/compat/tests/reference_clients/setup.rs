//! The gateway in front of the hostile upstream, and the ways to it.

use std::net::SocketAddr;

use super::upstream::HostileUpstream;
use anyhow::{Context as _, Result};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use harness::tokens;
use serde_json::{Value, json};

use super::driver::Caller;

const GENERIC: &str = "generic";
const RESTATE: &str = "restate";
/// The origin of the page in which the client for browsers runs (clients/DRIVER.md).
const PAGE: &str = "http://app.localhost:18080";

/// Which way an intent takes to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// Through the filter, whose policy says that the backend is generic
    Generic,
    /// The same, and the gateway answers 504 before a client gives up
    Brief,
    /// The same, and the upstream refuses connections
    Refusing,
    /// Through the gateway without the filter, for what it does not let through
    Unfiltered,
    /// Without the gateway
    Direct,
    /// Through the filter, whose policy says that the backend is Restate
    Restate,
    /// The same, and a duplicate of a request under way is refused
    Conflict,
    /// The same, and the operation is not waited for
    OneWay,
}

/// A gateway and the upstream behind it.
pub(super) struct HostileSetup {
    pub(super) gateway: TestGateway,
    pub(super) upstream: HostileUpstream,
}

impl HostileSetup {
    pub(super) fn start() -> Result<Self> {
        let upstream = HostileUpstream::start()?;
        let around = TestEnvironment { backend: Some(upstream.address()), ..TestEnvironment::default() };
        let gateway = TestGateway::start_within(&around, &listeners(upstream.refusing_address()))?;
        Ok(Self { gateway, upstream })
    }

    /// A user of a tenant.
    pub(super) fn caller(&self, tenant: &str, user: &str) -> Result<Caller> {
        let token = self.gateway.token(&json!({"tenant_id": tenant, "project_id": "shop", "sub": user}))?;
        Ok(Caller { owner: format!("{tenant}/shop/{user}"), token })
    }

    /// Where an intent is sent, at this host, which leads to the machine itself.
    pub(super) fn url(&self, channel: Channel, host: &str) -> Result<String> {
        let (listener, path) = match channel {
            Channel::Generic => (GENERIC, "/orders"),
            Channel::Brief => (GENERIC, "/brief/orders"),
            Channel::Refusing => (GENERIC, "/refusing/orders"),
            Channel::Unfiltered => (GENERIC, "/unfiltered/orders"),
            Channel::Direct => return Ok(format!("http://{}/orders", self.upstream.address())),
            Channel::Restate => (RESTATE, "/orders"),
            Channel::Conflict => (RESTATE, "/careful-orders"),
            Channel::OneWay => (RESTATE, "/later-orders"),
        };
        Ok(format!("http://{host}:{}{path}", self.gateway.address(listener).context("a listener")?.port()))
    }
}

fn listeners(refusing: SocketAddr) -> [(String, ListenerSpec); 2] {
    let cluster = |name: &'static str, address| Change::Cluster(name, address);
    let route =
        |name: &str, action: Value| json!({"name": name, "match": {"prefix": format!("/{name}/")}, "route": action});
    let mut unfiltered = route("unfiltered", json!({"cluster": "backend-requests", "timeout": "60s"}));
    if let Some(members) = unfiltered.as_object_mut() {
        let disabled = json!({"edge-idempotency": {
            "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true,
        }});
        members.insert("typed_per_filter_config".to_owned(), disabled);
    }
    let generic = vec![
        Change::EveryPath,
        cluster("refusing", refusing),
        Change::Route(route("refusing", json!({"cluster": "refusing"}))),
        // Less than the time that the drivers give an attempt.
        Change::Route(route("brief", json!({"cluster": "backend-requests", "timeout": "0.1s"}))),
        Change::Route(unfiltered),
        Change::CrossOrigin(PAGE),
    ];
    let restate = vec![Change::EveryPath, Change::CrossOrigin(PAGE)];
    [
        (GENERIC.to_owned(), ListenerSpec { policy: generic_policy(), changes: generic }),
        (RESTATE.to_owned(), ListenerSpec { policy: restate_policy(), changes: restate }),
    ]
}

fn policy(backend: Value, routes: Vec<Value>) -> String {
    json!({
        "version": 1,
        "docs_url": "https://docs.example.com/errors",
        "allow_inline_secrets": true,
        "identity": {"sources": [tokens::source()]},
        "backend": backend,
        "routes": routes,
    })
    .to_string()
}

fn generic_policy() -> String {
    let routes = ["", "/brief", "/refusing"].into_iter().enumerate().flat_map(|(number, prefix)| {
        [
            json!({"endpoint": format!("orders.create-{number}"), "path": format!("{prefix}/orders"), "policy": "REQUIRED_A"}),
            json!({
                "endpoint": format!("orders.get-{number}"), "methods": ["GET"], "path": format!("{prefix}/orders/{{id}}"),
                "policy": "PROHIBITED",
            }),
        ]
    });
    policy(json!({"kind": "generic"}), routes.collect())
}

fn restate_policy() -> String {
    let route = |endpoint: &str, members: Value| {
        let mut route = json!({
            "endpoint": endpoint, "path": format!("/{endpoint}"), "policy": "REQUIRED_A", "target": "Orders/create",
        });
        if let (Some(route), Some(members)) = (route.as_object_mut(), members.as_object()) {
            route.extend(members.clone());
        }
        route
    };
    let operations = json!({"path": "/operations/{operation_id}", "secret": ["a secret of the tests"]});
    policy(
        json!({"kind": "restate", "rewrite_path": true, "cluster": "backend", "operations": operations}),
        vec![
            route("orders", json!({})),
            route("careful-orders", json!({"in_flight": "conflict"})),
            route("later-orders", json!({"one_way": true, "recovery": false})),
        ],
    )
}
