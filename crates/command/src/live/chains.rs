//! Listeners of a configuration dump of Envoy: is the filter in the chain of each, and has Envoy the filter's own configuration, where that
//! comes separately (ECDS), as with Istio?

use super::LiveCheck;
use super::dump;
use crate::lint::live_list::LIVE_GATEWAY;
use serde_json::Value;

/// What stands for the filter in a listener's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// The filter
    Runs,
    /// The name of one that refuses everything in its place
    Denies(String),
    /// Its name; Envoy has no configuration for it, and refuses requests
    Empty(String),
    /// Nothing
    Missing,
    /// The filter, and a route for this host switches it off
    Off(String),
}

pub(super) fn check(live: &mut LiveCheck<'_>, dump: &Value, stats: &Value) {
    for (listener, standing) in standings(dump, has_machine(stats)) {
        let (message, help) = match standing {
            Standing::Runs => continue,
            Standing::Denies(name) => (
                format!("listener `{listener}`: a filter that refuses all requests stands in the place of `{name}`"),
                "Istio's agent could not fetch the module; its log says why. It does not try again by itself: restart the proxy once the module \
                 can be fetched. It keeps modules in /var/lib/istio/data",
            ),
            Standing::Empty(name) => (
                format!("listener `{listener}`: Envoy has no configuration for `{name}`, and refuses all requests"),
                "Envoy's log says why it refused it; the module's file may be missing",
            ),
            Standing::Missing => (
                format!("listener `{listener}` takes HTTP requests, and this filter is not in its chain"),
                "put it there, or let nothing behind this listener need it",
            ),
            Standing::Off(host) => (
                format!(
                    "listener `{listener}` has this filter, and a route to a backend for the host `{host}` switches it off"
                ),
                "switch it on there; behind Envoy Gateway its policy's target is the whole Gateway",
            ),
        };
        live.add(&LIVE_GATEWAY, "", message, help);
    }
}

/// Whether Envoy has ever made a machine for a WebAssembly module. The dump shows a filter's own configuration also if Envoy has refused it.
fn has_machine(stats: &Value) -> bool {
    let all = stats.get("stats").and_then(Value::as_array).into_iter().flatten();
    let is_made = |stat: &Value| {
        let name = stat.get("name").and_then(Value::as_str).unwrap_or_default();
        name.starts_with("wasm.")
            && name.ends_with(".created")
            && stat.get("value").and_then(Value::as_u64).unwrap_or_default() > 0
    };
    all.into_iter().any(is_made)
}

/// What stands in each chain of HTTP filters that leads to a backend. A gateway with a control plane has listeners of its own in its
/// bootstrap (readiness, statistics), so those count only where there are no others.
fn standings(dump: &Value, has_machine: bool) -> Vec<(String, Standing)> {
    let configs = || dump.get("configs").and_then(Value::as_array).into_iter().flatten();
    let of = |name: &str| configs().filter_map(|config| config.get(name)?.as_array()).flatten().collect::<Vec<_>>();
    let discovered = of("ecds_filters");
    let routes: Vec<&Value> = [of("dynamic_route_configs"), of("static_route_configs")].concat();
    let routes: Vec<&Value> = routes.into_iter().filter_map(|own| own.get("route_config")).collect();
    let dynamic: Vec<(&Value, &Value)> = of("dynamic_listeners")
        .into_iter()
        .filter_map(|listener| Some((listener.get("name")?, listener.get("active_state")?.get("listener")?)))
        .collect();
    let fixed = of("static_listeners").into_iter().filter_map(|one| one.get("listener"));
    let fixed = fixed.filter_map(|listener| Some((listener.get("name")?, listener)));
    let all = if dynamic.is_empty() { fixed.collect() } else { dynamic };
    let mut found = Vec::new();
    for (name, listener) in all {
        let mut managers = Vec::new();
        collect(listener, &mut managers);
        let name = name.as_str().unwrap_or_default();
        for (manager, chain) in managers {
            let forwarding = Forwarding::of(manager, &routes);
            if forwarding.as_ref().is_some_and(|forwarding| forwarding.routes.is_empty()) {
                continue;
            }
            let mut standing = standing(chain, &discovered, has_machine);
            if standing == Standing::Runs
                && let Some(host) = forwarding.and_then(|forwarding| forwarding.switched_off(chain))
            {
                standing = Standing::Off(host);
            }
            found.push((name.to_owned(), standing));
        }
    }
    found.dedup();
    found
}

/// The routes of a connection manager that lead to a backend.
struct Forwarding<'d> {
    config: &'d Value,
    /// Each with its virtual host
    routes: Vec<(&'d Value, &'d Value)>,
}

impl<'d> Forwarding<'d> {
    /// `None` if the dump does not have the manager's routes.
    fn of(manager: &'d Value, known: &[&'d Value]) -> Option<Self> {
        let named = manager.pointer("/rds/route_config_name");
        let by_name = || known.iter().copied().find(|own| named.is_some() && own.get("name") == named);
        let config = manager.get("route_config").or_else(by_name)?;
        let hosts = config.get("virtual_hosts").and_then(Value::as_array).into_iter().flatten();
        let routes = hosts.flat_map(|host| {
            let routes = host.get("routes").and_then(Value::as_array).into_iter().flatten();
            // A listener for Prometheus leads to the admin interface (docs/production.md).
            let is_backends = |route: &&Value| {
                route.get("route").is_some()
                    && route.pointer("/match/path").is_none_or(|path| path != "/stats/prometheus")
            };
            routes.filter(is_backends).map(move |route| (host, route))
        });
        Some(Self { config, routes: routes.collect() })
    }

    /// The host of a route that switches the filter of a chain off.
    fn switched_off(&self, chain: &[Value]) -> Option<String> {
        let filter = chain.iter().find(|filter| !dump::filters(filter).is_empty())?;
        let name = filter.get("name").and_then(Value::as_str)?;
        let off = |at: &Value| at.get("disabled").is_some_and(|off| off == true);
        let (host, _) = self.routes.iter().find(|(host, route)| {
            let own =
                [route, host, &self.config].into_iter().find_map(|at| at.get("typed_per_filter_config")?.get(name));
            off(own.unwrap_or(filter))
        })?;
        Some(host.pointer("/domains/0").and_then(Value::as_str).unwrap_or("*").to_owned())
    }
}

/// Every connection manager, with its list of HTTP filters.
fn collect<'d>(value: &'d Value, managers: &mut Vec<(&'d Value, &'d Vec<Value>)>) {
    match value {
        Value::Object(members) => {
            let kind = members.get("@type").and_then(Value::as_str).unwrap_or_default();
            if kind.ends_with("http_connection_manager.v3.HttpConnectionManager") {
                managers.extend(members.get("http_filters").and_then(Value::as_array).map(|chain| (value, chain)));
                return;
            }
            members.values().for_each(|value| collect(value, managers));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, managers)),
        _ => {}
    }
}

fn standing(chain: &[Value], discovered: &[&Value], has_machine: bool) -> Standing {
    for filter in chain {
        if !dump::filters(filter).is_empty() {
            return Standing::Runs;
        }
        let Some(name) =
            filter.get("name").and_then(Value::as_str).filter(|_| filter.get("config_discovery").is_some())
        else {
            continue;
        };
        let own = discovered
            .iter()
            .find_map(|one| one.get("ecds_filter").filter(|own| own.get("name").is_some_and(|own| own == name)));
        let is_named = name.contains("idempotency");
        let is_wasm = |own: &Value| {
            own.pointer("/typed_config/@type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with(".Wasm"))
        };
        let denies = |own: &Value| {
            own.pointer("/typed_config/@type")
                .and_then(Value::as_str)
                .is_some_and(|kind| kind.ends_with("rbac.v3.RBAC"))
        };
        let runs = |own: &Value| !dump::filters(own).is_empty() && (has_machine || !is_wasm(own));
        match own {
            Some(own) if runs(own) => return Standing::Runs,
            Some(own) if is_named && denies(own) => return Standing::Denies(name.to_owned()),
            _ if is_named => return Standing::Empty(name.to_owned()),
            _ => {}
        }
    }
    Standing::Missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAME: &str = "default.edge-idempotency";

    fn wasm() -> Value {
        json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "config": {
            "configuration": {"value": "{\"backend\": {}, \"routes\": []}"}}})
    }

    fn found(filter: &Value, discovered: &Value, made: u64) -> Vec<(String, Standing)> {
        let manager = |filters: Value| {
            json!({"filter_chains": [{"filters": [{"typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "http_filters": filters}}]}]})
        };
        let stats = json!({"stats": [{"name": "wasm.envoy.wasm.runtime.v8.created", "value": made}]});
        let dump = json!({"configs": [
            {"static_listeners": [{"listener": {"name": "statistics", "filter_chains": manager(json!([]))["filter_chains"]}}],
                "dynamic_listeners": [{"name": "gateway", "active_state": {"listener": manager(json!([{"name": "router"}, filter]))}}]},
            {"ecds_filters": discovered},
        ]});
        standings(&dump, has_machine(&stats))
    }

    #[test]
    fn what_stands_in_a_chain_is_told() {
        let by_name = json!({"name": NAME, "config_discovery": {}});
        let ecds = |config: Value| json!([{"ecds_filter": {"name": NAME, "typed_config": config}}]);
        let deny = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC", "rules": {}});
        for (filter, discovered, made, expected) in [
            (json!({"name": "f", "typed_config": wasm()}), json!([]), 1, Standing::Runs),
            (by_name.clone(), ecds(wasm()), 1, Standing::Runs),
            // Refused: the file is missing.
            (by_name.clone(), ecds(wasm()), 0, Standing::Empty(NAME.to_owned())),
            (by_name.clone(), ecds(deny), 1, Standing::Denies(NAME.to_owned())),
            (by_name, json!([]), 1, Standing::Empty(NAME.to_owned())),
            (json!({"name": "other", "config_discovery": {}}), json!([]), 1, Standing::Missing),
        ] {
            assert_eq!(found(&filter, &discovered, made), [("gateway".to_owned(), expected)]);
        }
    }

    #[test]
    fn routes_decide_whether_a_chain_counts() {
        let dump = |filter: Value, route: Value| {
            json!({"configs": [
                {"dynamic_listeners": [{"name": "l", "active_state": {"listener": {"filters": [{"typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                    "http_filters": [filter, {"name": "router"}], "rds": {"route_config_name": "r"}}}]}}}]},
                {"dynamic_route_configs": [{"route_config": {"name": "r", "virtual_hosts": [{"domains": ["a"], "routes": [route]}]}}]},
            ]})
        };
        let on = json!({"name": "f", "typed_config": wasm()});
        let off = json!({"name": "f", "typed_config": wasm(), "disabled": true});
        let forwards = |own: Value| json!({"route": {"cluster": "c"}, "typed_per_filter_config": {"f": own}});
        for (filter, route, expected) in [
            (&on, forwards(json!({})), Some(Standing::Runs)),
            (&on, forwards(json!({"disabled": true})), Some(Standing::Off("a".to_owned()))),
            // As Envoy Gateway has it.
            (&off, forwards(json!({"config": {}})), Some(Standing::Runs)),
            (&off, json!({"route": {"cluster": "c"}}), Some(Standing::Off("a".to_owned()))),
            (&json!({"name": "other"}), forwards(json!({})), Some(Standing::Missing)),
            (&json!({"name": "other"}), json!({"direct_response": {"status": 200}}), None),
            (
                &json!({"name": "other"}),
                json!({"match": {"path": "/stats/prometheus"}, "route": {"cluster": "admin"}}),
                None,
            ),
        ] {
            let found = standings(&dump(filter.clone(), route), true);
            let expected: Vec<_> = expected.into_iter().map(|standing| ("l".to_owned(), standing)).collect();
            assert_eq!(found, expected);
        }
    }
}
