//! Configurations of Envoy: the shipped one with what a cluster behind it needs, and the balancer before the services, which is
//! not under test.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use harness::envoy::{EnvoyOptions, render};
use harness::ports::loopback;
use serde_json::{Value, json};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
/// How long the gateway waits for an answer. Longer than a new leader needs, and shorter than clients wait (30 s).
const ROUTE_TIMEOUT: &str = "12s";

/// Writes the configuration of a gateway before the Restate nodes that listen on `ingress`.
pub fn write_gateway(path: &Path, options: &EnvoyOptions, ingress: &[SocketAddr]) -> Result<()> {
    let mut config: Value = serde_saphyr::from_str(&render(options)).context("the shipped configuration")?;
    let backend = backend(ingress);
    for cluster in at(&mut config, "/static_resources/clusters")?.as_array_mut().context("the clusters are no list")? {
        let cluster = cluster.as_object_mut().context("a cluster is no object")?;
        // The stores have clusters, too.
        if !cluster.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with("backend")) {
            continue;
        }
        cluster.extend(backend.as_object().cloned().into_iter().flatten());
    }
    let routes = at(&mut config, &format!("{MANAGER}/route_config/virtual_hosts/0/routes"))?;
    for route in routes.as_array_mut().context("the routes are no list")? {
        let route = at(route, "/route")?.as_object_mut().context("a route is no object")?;
        route.insert("timeout".to_owned(), json!(ROUTE_TIMEOUT));
        // A request that no node has seen goes to another node. Any other failure is the client's to repeat.
        let policy = json!({
            "retry_on": "connect-failure",
            "num_retries": 2,
            "host_selection_retry_max_attempts": 3,
            "retry_host_predicate": [{
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type":
                    "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
            }],
        });
        route.insert("retry_policy".to_owned(), policy);
    }
    fs::write(path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// A service that a node has to know before it gets requests, in the hexadecimal digits that Envoy wants: `Payments`.
const KNOWN_SERVICE: &str = "5061796d656e7473";

/// Members of the backend's clusters: every node serves requests, and one that does not answer its health check gets none. A node that has
/// just started listens before it knows the services, answers 404 for them, and says 200 with an empty list when asked for its health.
fn backend(ingress: &[SocketAddr]) -> Value {
    json!({
        "connect_timeout": "0.5s",
        "load_assignment": {"cluster_name": "backend", "endpoints": [{"lb_endpoints": endpoints(ingress)}]},
        "health_checks": [{
            "timeout": "1.5s",
            "interval": "0.5s",
            "no_traffic_interval": "0.5s",
            "unhealthy_threshold": 1,
            "healthy_threshold": 1,
            "http_health_check": {"path": "/restate/health", "receive": [{"text": KNOWN_SERVICE}]},
        }],
    })
}

fn endpoints(addresses: &[SocketAddr]) -> Vec<Value> {
    let endpoint = |address: &SocketAddr| {
        json!({"endpoint": {"address":
            {"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}}}})
    };
    addresses.iter().map(endpoint).collect()
}

/// Writes the configuration of a balancer of TCP connections on `port` to `services`.
pub fn write_balancer(path: &Path, port: u16, admin_port: u16, services: &[SocketAddr]) -> Result<()> {
    let address = |port| {
        let address = loopback(port);
        json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
    };
    let config = json!({
        "admin": {"address": address(admin_port)},
        "static_resources": {
            "listeners": [{
                "name": "services",
                "address": address(port),
                "filter_chains": [{"filters": [{
                    "name": "envoy.filters.network.tcp_proxy",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                        "stat_prefix": "services",
                        "cluster": "services",
                        "max_connect_attempts": 3,
                    },
                }]}],
            }],
            "clusters": [{
                "name": "services",
                "type": "STATIC",
                "connect_timeout": "0.5s",
                "load_assignment": {"cluster_name": "services", "endpoints": [{"lb_endpoints": endpoints(services)}]},
                "health_checks": [{
                    "timeout": "1s",
                    "interval": "0.5s",
                    "no_traffic_interval": "0.5s",
                    "unhealthy_threshold": 1,
                    "healthy_threshold": 1,
                    "tcp_health_check": {},
                }],
            }],
        },
    });
    fs::write(path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

fn at<'a>(value: &'a mut Value, pointer: &str) -> Result<&'a mut Value> {
    value.pointer_mut(pointer).with_context(|| format!("the configuration has nothing at {pointer}"))
}
