//! The configuration that the demo ships, with the few changes a test needs, and with several listeners if it wants to
//! try several policies: Envoy's start is what takes time.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use harness::demo_policy::POLICY;
use harness::envoy::{EnvoyOptions, render};
use serde_json::{Map, Value, json};

const LISTENER: &str = "/static_resources/listeners/0";
const MANAGER: &str = "/filter_chains/0/filters/0/typed_config";
const ROUTES: &str = "/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes";
const FILTER: &str = "edge-idempotency";
/// Envoy's filter for requests of scripts of other origins.
const CORS: &str = "envoy.filters.http.cors";

/// The demo's policy document without collision detection, operations and shaped answers, for tests that are about other things or add
/// these by themselves: operation ids are those of Restate, and every success has its status 200.
pub fn plain_policy() -> Result<Value> {
    let mut policy: Value = serde_json::from_str(POLICY)?;
    let backend = policy.get_mut("backend").and_then(Value::as_object_mut).context("the demo's backend")?;
    backend.retain(|member, _| !["guard", "operations"].contains(&member.as_str()));
    for route in policy.get_mut("routes").and_then(Value::as_array_mut).context("the demo's routes")? {
        let route = route.as_object_mut().context("a route")?;
        route.retain(|member, _| !["collision", "fingerprint", "answer"].contains(&member.as_str()));
    }
    Ok(policy)
}

/// A listener with the filter, and in what it differs from the shipped one.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerSpec {
    /// The policy document.
    pub policy: String,
    /// What is different.
    pub changes: Vec<Change>,
}

/// A change to the shipped listener.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It listens on this port.
    Port(u16),
    /// Paths reach the filter as clients wrote them.
    PathsAsWritten,
    /// Escaped slashes reach the filter.
    EscapedSlashes,
    /// The authority reaches the filter as clients wrote it.
    AuthorityAsWritten,
    /// Third parties may send so many deliveries in an hour from one address, or (`None`) as many as they like.
    DeliveriesAnHour(Option<u32>),
    /// The gateway takes a client's request id for its own, and does not write into it whether the request is traced.
    RequestIdsAsWritten,
    /// Trailers pass, which Envoy drops by default over HTTP/1.1.
    Trailers,
    /// Authentication and the public route cover every path, not only those below `/api/`.
    EveryPath,
    /// The token goes on to the backend, behind authentication.
    ForwardedToken,
    /// No token is looked for, so that `authorization` reaches the filter whatever it holds.
    NoAuthentication,
    /// The mark that the filter puts on its rewrites goes on to the upstream instead of ending at the route.
    ShownMark,
    /// A filter before ours leaves this filter metadata, by namespace.
    Metadata(Map<String, Value>),
    /// The gateway's public route has this filter metadata, by namespace.
    RouteMetadata(Map<String, Value>),
    /// This filter stands just before ours.
    Before(Value),
    /// This filter stands between ours and the router, so that answers pass it before ours.
    Behind(Value),
    /// This route is looked at before the public one.
    Route(Value),
    /// Our VM sees these variables of Envoy's environment.
    Environment(Vec<String>),
    /// This filter stands in the place of ours.
    Instead(Value),
    /// Our plugin's `configuration` is this message, or is not there.
    Configuration(Option<Value>),
    /// The connection manager has this member.
    Manager(&'static str, Value),
    /// The backend of all listeners speaks HTTP/2.
    Http2Backend,
    /// The plugin's configuration lacks `allow_on_headers_stop_iteration`.
    WithoutStopIteration,
    /// The listener's `per_connection_buffer_limit_bytes`.
    ConnectionBuffer(u32),
    /// The gateway has another cluster of this name, at this address. A route has to lead there.
    Cluster(&'static str, SocketAddr),
    /// Scripts of pages of this origin may send requests, as docs/callers.md has it.
    CrossOrigin(&'static str),
}

/// Writes a configuration with one listener for each spec, named as it and on a port of the system's choice. `options`
/// hold everything but the policy.
pub fn write(path: &Path, options: &EnvoyOptions, specs: &[(String, ListenerSpec)]) -> Result<()> {
    let mut config = shipped(options)?;
    let listeners = specs.iter().map(|(name, spec)| listener(options, name, spec)).collect::<Result<_>>()?;
    *at(&mut config, "/static_resources/listeners")? = Value::Array(listeners);
    // Both sides have to let trailers pass. The upstream's does no more than that.
    let is_http2 = specs.iter().any(|(_, spec)| spec.changes.contains(&Change::Http2Backend));
    let protocol = if is_http2 {
        json!({"http2_protocol_options": {}})
    } else {
        json!({"http_protocol_options": {"enable_trailers": true}})
    };
    let trailers = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": protocol,
    }});
    set(&mut config, "/static_resources/clusters/0", "typed_extension_protocol_options", trailers)?;
    for change in specs.iter().flat_map(|(_, spec)| &spec.changes) {
        if let Change::Cluster(name, address) = change {
            add_cluster(&mut config, name, *address)?;
        }
    }
    // JSON leaves no question of which type a value has.
    fs::write(path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds a cluster like that of the shipped backend's requests, unless there is one of this name.
fn add_cluster(config: &mut Value, name: &str, address: SocketAddr) -> Result<()> {
    let clusters = at(config, "/static_resources/clusters")?.as_array_mut().context("no list of clusters")?;
    if clusters.iter().any(|cluster| is_named(cluster, name)) {
        return Ok(());
    }
    let mut cluster = clusters.first().context("no cluster")?.clone();
    set(&mut cluster, "", "name", json!(name))?;
    set(&mut cluster, "/load_assignment", "cluster_name", json!(name))?;
    let place = json!({"address": address.ip().to_string(), "port_value": address.port()});
    set(&mut cluster, "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address", "socket_address", place)?;
    clusters.push(cluster);
    Ok(())
}

fn shipped(options: &EnvoyOptions) -> Result<Value> {
    serde_saphyr::from_str(&render(options)).context("the shipped configuration cannot be read")
}

fn listener(options: &EnvoyOptions, name: &str, spec: &ListenerSpec) -> Result<Value> {
    let mut config = shipped(&EnvoyOptions { policy: spec.policy.clone(), ..options.clone() })?;
    let mut listener = at(&mut config, LISTENER)?.take();
    set(&mut listener, "", "name", json!(name))?;
    set(&mut listener, "/address/socket_address", "port_value", json!(0))?;
    // A literal block ends in a line break that the document need not have.
    let (filters, place) = ours(&mut listener)?;
    let filter = filters.get_mut(place).context("our filter")?;
    set(filter, "/typed_config/config/configuration", "value", json!(spec.policy))?;
    // Behaviour cases have headers up to what Envoy takes by default.
    set(&mut listener, MANAGER, "max_request_headers_kb", json!(60))?;
    for change in &spec.changes {
        apply(&mut listener, change)?;
    }
    Ok(listener)
}

fn apply(listener: &mut Value, change: &Change) -> Result<()> {
    let everything = json!({"prefix": "/"});
    match change {
        Change::Port(port) => set(listener, "/address/socket_address", "port_value", json!(port)),
        Change::PathsAsWritten => {
            set(listener, MANAGER, "path_with_escaped_slashes_action", json!("KEEP_UNCHANGED"))?;
            set(listener, MANAGER, "normalize_path", json!(false))?;
            set(listener, MANAGER, "merge_slashes", json!(false))
        }
        Change::EscapedSlashes => set(listener, MANAGER, "path_with_escaped_slashes_action", json!("KEEP_UNCHANGED")),
        Change::AuthorityAsWritten => {
            set(listener, MANAGER, "strip_any_host_port", json!(false))?;
            set(listener, MANAGER, "strip_trailing_host_dot", json!(false))
        }
        Change::RequestIdsAsWritten => {
            set(listener, MANAGER, "preserve_external_request_id", json!(true))?;
            let extension = json!({"typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig",
                "pack_trace_reason": false,
            }});
            set(listener, MANAGER, "request_id_extension", extension)?;
            let mutations = "/early_header_mutation_extensions/0/typed_config/mutations";
            let mutations = at(listener, &format!("{MANAGER}{mutations}"))?.as_array_mut().context("no mutations")?;
            mutations.retain(|mutation| mutation.get("remove").is_none_or(|name| name != "x-request-id"));
            Ok(())
        }
        Change::DeliveriesAnHour(None) => {
            let webhooks = route(listener, "webhooks")?;
            set(listener, &webhooks, "typed_per_filter_config", json!({}))
        }
        Change::DeliveriesAnHour(Some(most)) => {
            let bucket = json!({"max_tokens": most, "tokens_per_fill": most, "fill_interval": "3600s"});
            let limit = "typed_per_filter_config/envoy.filters.http.local_ratelimit/descriptors/0";
            let limit = format!("{}/{limit}", route(listener, "webhooks")?);
            set(listener, &limit, "token_bucket", bucket)
        }
        Change::Trailers => set(listener, MANAGER, "http_protocol_options", json!({"enable_trailers": true})),
        Change::EveryPath => {
            set(listener, &format!("{MANAGER}/http_filters/1/typed_config/rules/1"), "match", everything.clone())?;
            let public = route(listener, "public")?;
            set(listener, &public, "match", everything)
        }
        Change::ForwardedToken => {
            let provider = "/http_filters/1/typed_config/providers/demo";
            set(listener, &format!("{MANAGER}{provider}"), "forward", json!(true))
        }
        Change::NoAuthentication => {
            set(listener, &format!("{MANAGER}/http_filters/1/typed_config"), "rules", json!([]))
        }
        Change::ShownMark => ["waits", "backend"].iter().try_for_each(|name| {
            let marked = route(listener, name)?;
            set(listener, &marked, "request_headers_to_remove", json!([]))
        }),
        Change::RouteMetadata(metadata) => {
            let public = route(listener, "public")?;
            set(listener, &public, "metadata", json!({"filter_metadata": metadata}))
        }
        Change::Metadata(metadata) => {
            let entries: Vec<Value> = metadata
                .iter()
                .map(|(name, value)| json!({"metadata_namespace": name, "value": value, "allow_overwrite": true}))
                .collect();
            let filter = json!({"name": "envoy.filters.http.set_metadata", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
                "metadata": entries,
            }});
            insert_before(listener, filter)
        }
        Change::Before(filter) => insert_before(listener, filter.clone()),
        Change::Behind(filter) => {
            let (filters, place) = ours(listener)?;
            filters.insert(place + 1, filter.clone());
            Ok(())
        }
        Change::Route(added) => {
            let routes = at(listener, ROUTES)?.as_array_mut().context("no list of routes")?;
            let public = routes.iter().position(|route| is_named(route, "public")).context("no public route")?;
            routes.insert(public, added.clone());
            Ok(())
        }
        Change::Environment(names) => {
            let (filters, place) = ours(listener)?;
            let filter = filters.get_mut(place).context("our filter")?;
            let variables = json!({"host_env_keys": names});
            set(filter, "/typed_config/config/vm_config", "environment_variables", variables)
        }
        Change::Instead(filter) => {
            let (filters, place) = ours(listener)?;
            *filters.get_mut(place).context("our filter")? = filter.clone();
            Ok(())
        }
        Change::WithoutStopIteration => {
            let (filters, place) = ours(listener)?;
            let filter = filters.get_mut(place).context("our filter")?;
            set(filter, "/typed_config/config", "allow_on_headers_stop_iteration", json!(false))
        }
        Change::Configuration(message) => {
            let (filters, place) = ours(listener)?;
            let config = at(filters.get_mut(place).context("our filter")?, "/typed_config/config")?;
            let members = config.as_object_mut().context("the plugin is no object")?;
            members.shift_remove("configuration");
            members.extend(message.iter().map(|message| ("configuration".to_owned(), message.clone())));
            Ok(())
        }
        Change::Manager(name, value) => set(listener, MANAGER, name, value.clone()),
        // `write` makes these changes: they are about clusters.
        Change::Http2Backend | Change::Cluster(..) => Ok(()),
        Change::CrossOrigin(origin) => {
            let filters =
                at(listener, &format!("{MANAGER}/http_filters"))?.as_array_mut().context("no list of filters")?;
            let cors = "type.googleapis.com/envoy.extensions.filters.http.cors.v3";
            filters.insert(0, json!({"name": CORS, "typed_config": {"@type": format!("{cors}.Cors")}}));
            let policy = json!({CORS: {
                "@type": format!("{cors}.CorsPolicy"),
                "allow_origin_string_match": [{"exact": origin}],
                "allow_methods": "GET, POST, PATCH",
                "allow_headers": "authorization, content-type, idempotency-key",
                "expose_headers": "idempotency-status, idempotent-replayed, idempotency-expires, idempotency-retry, retry-after, \
                                   x-operation-id, location",
            }});
            set(listener, &format!("{MANAGER}/route_config/virtual_hosts/0"), "typed_per_filter_config", policy)
        }
        Change::ConnectionBuffer(bytes) => set(listener, "", "per_connection_buffer_limit_bytes", json!(bytes)),
    }
}

fn insert_before(listener: &mut Value, filter: Value) -> Result<()> {
    let (filters, place) = ours(listener)?;
    filters.insert(place, filter);
    Ok(())
}

/// The listener's filters, and the place of ours.
fn ours(listener: &mut Value) -> Result<(&mut Vec<Value>, usize)> {
    let filters = at(listener, &format!("{MANAGER}/http_filters"))?.as_array_mut().context("no list of filters")?;
    let place = filters.iter().position(|filter| filter.get("name").is_some_and(|name| name == FILTER));
    Ok((filters, place.context("our filter is not there")?))
}

/// Where the route of this name is.
fn route(listener: &Value, name: &str) -> Result<String> {
    let routes = listener.pointer(ROUTES).and_then(Value::as_array).context("no list of routes")?;
    let place = routes.iter().position(|route| is_named(route, name));
    Ok(format!("{ROUTES}/{}", place.with_context(|| format!("no route is named {name}"))?))
}

fn is_named(route: &Value, name: &str) -> bool {
    route.get("name").is_some_and(|found| found == name)
}

fn at<'v>(value: &'v mut Value, pointer: &str) -> Result<&'v mut Value> {
    value.pointer_mut(pointer).with_context(|| format!("the shipped configuration has no {pointer}"))
}

fn set(value: &mut Value, pointer: &str, name: &str, new: Value) -> Result<()> {
    let object = at(value, pointer)?.as_object_mut().with_context(|| format!("{pointer} is no object"))?;
    object.insert(name.to_owned(), new);
    Ok(())
}
