//! Listeners of a configuration dump of Envoy: is the filter in the chain of each that leads to backends, and on each of its routes, and has
//! Envoy the filter's own configuration, where that comes separately (ECDS), as with Istio?

use super::LiveCheck;
use super::dump;
use serde_json::Value;

/// What stands for the filter in a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// The filter, or nothing leads to a backend
    Runs,
    /// The name of one that refuses everything in its place
    Denies(String),
    /// Its name; Envoy has no configuration for it, and refuses requests
    Empty(String),
    /// The filter, and the host of a route that switches it off
    Off(String),
    /// Nothing
    Missing,
}

/// `is_anywhere` says whether the filter is in the dump at all; where it is not, another finding says so of the whole gateway.
pub(super) fn check(live: &mut LiveCheck<'_>, dump: &Value, stats: &Value, is_anywhere: bool) {
    let into_chain = "put the filter into its chain, or make sure that no client reaches a backend of the policy by it";
    for (listener, standing) in standings(dump, has_machine(stats)) {
        let (lint, message, help) = match standing {
            Standing::Runs => continue,
            Standing::Missing if !is_anywhere => continue,
            Standing::Denies(name) => (
                "live-gateway",
                format!("listener `{listener}`: a filter that refuses all requests stands in the place of `{name}`"),
                "Istio's agent could not fetch the module; its log says why. It does not try again by itself: restart the proxy once the module \
                 can be fetched. It keeps modules in /var/lib/istio/data",
            ),
            Standing::Empty(name) => (
                "live-gateway",
                format!("listener `{listener}`: Envoy has no configuration for `{name}`, and refuses all requests"),
                "Envoy's log says why it refused it; the module's file may be missing",
            ),
            Standing::Off(host) => (
                "live-listener",
                format!("listener `{listener}` has the filter, and a route for the host `{host}` switches it off"),
                into_chain,
            ),
            Standing::Missing => (
                "live-listener",
                format!("listener `{listener}` leads requests to backends and has no filter of this project"),
                into_chain,
            ),
        };
        live.add(lint, "", message, help);
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

/// What stands in each chain of HTTP filters. A gateway with a control plane has listeners of its own in its bootstrap (readiness,
/// statistics), so those count only where there are no others.
fn standings(dump: &Value, has_machine: bool) -> Vec<(String, Standing)> {
    let configs = || dump.get("configs").and_then(Value::as_array).into_iter().flatten();
    let of = |name: &'static str| configs().filter_map(move |config| config.get(name)?.as_array()).flatten();
    let dynamic: Vec<&Value> =
        of("dynamic_listeners").filter_map(|listener| listener.pointer("/active_state/listener")).collect();
    let fixed: Vec<&Value> = of("static_listeners").filter_map(|one| one.get("listener")).collect();
    let gateway = Gateway {
        routes: of("dynamic_route_configs")
            .chain(of("static_route_configs"))
            .filter_map(|own| own.get("route_config"))
            .collect(),
        discovered: of("ecds_filters").filter_map(|own| own.get("ecds_filter")).collect(),
        has_machine,
    };
    let mut found = Vec::new();
    for listener in if dynamic.is_empty() { fixed } else { dynamic } {
        let name = listener.get("name").and_then(Value::as_str).unwrap_or("without a name");
        let mut managers = Vec::new();
        collect(listener, &mut managers);
        found.extend(managers.into_iter().map(|manager| (name.to_owned(), gateway.standing(manager))));
    }
    found.dedup();
    found
}

/// Every connection manager of a listener.
fn collect<'d>(value: &'d Value, managers: &mut Vec<&'d Value>) {
    match value {
        Value::Object(members) if members.contains_key("http_filters") => managers.push(value),
        Value::Object(members) => members.values().for_each(|value| collect(value, managers)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, managers)),
        _ => {}
    }
}

/// What connection managers refer to by name.
struct Gateway<'d> {
    routes: Vec<&'d Value>,
    discovered: Vec<&'d Value>,
    has_machine: bool,
}

impl Gateway<'_> {
    fn standing(&self, manager: &Value) -> Standing {
        let named = manager.pointer("/rds/route_config_name");
        let config = manager
            .get("route_config")
            .or_else(|| self.routes.iter().copied().find(|own| named.is_some() && own.get("name") == named));
        for filter in list(manager, "http_filters") {
            if let Some(standing) = self.of_filter(filter) {
                let host = config.and_then(|config| host_without(config, filter));
                return host.filter(|_| standing == Standing::Runs).map_or(standing, Standing::Off);
            }
        }
        // Envoy answers 404 while it has no routes. Those of scopes are not looked at.
        let leads = config.map_or(named.is_none(), |config| {
            list(config, "virtual_hosts").any(|host| forwarding(host).next().is_some())
        });
        if leads { Standing::Missing } else { Standing::Runs }
    }

    /// `None` for a filter of others.
    fn of_filter(&self, filter: &Value) -> Option<Standing> {
        if !dump::filters(filter).is_empty() {
            return Some(Standing::Runs);
        }
        filter.get("config_discovery")?;
        let name = filter.get("name").and_then(Value::as_str)?;
        let own = self.discovered.iter().find(|own| own.get("name").is_some_and(|own| own == name));
        let kind = own.and_then(|own| own.pointer("/typed_config/@type")).and_then(Value::as_str).unwrap_or_default();
        let is_ours = own.is_some_and(|own| !dump::filters(own).is_empty());
        if is_ours && (self.has_machine || !kind.ends_with(".Wasm")) {
            return Some(Standing::Runs);
        }
        // What stands in the place of the filter has its name only.
        if !is_ours && !name.contains("idempotency") {
            return None;
        }
        Some(match kind.ends_with("rbac.v3.RBAC") {
            true => Standing::Denies(name.to_owned()),
            false => Standing::Empty(name.to_owned()),
        })
    }
}

/// The first host of which a route to a backend is without the filter.
fn host_without(config: &Value, filter: &Value) -> Option<String> {
    let name = filter.get("name").and_then(Value::as_str)?;
    let is_off = filter.get("disabled").is_some_and(|off| off == true);
    let host = list(config, "virtual_hosts").find(|host| {
        forwarding(host).any(|route| {
            let own = [route, host, config].into_iter().find_map(|at| at.get("typed_per_filter_config")?.get(name));
            own.map_or(is_off, |own| own.get("disabled").is_some_and(|off| off == true))
        })
    })?;
    Some(host.pointer("/domains/0").and_then(Value::as_str).unwrap_or("*").to_owned())
}

/// The routes of a virtual host that lead to a backend.
fn forwarding(host: &Value) -> impl Iterator<Item = &Value> {
    list(host, "routes").filter(|route| route.get("route").is_some())
}

fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAME: &str = "default.edge-idempotency";

    fn wasm() -> Value {
        json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "config": {
            "name": "edge-idempotency", "configuration": {"value": "{\"backend\": {}, \"routes\": []}"}}})
    }

    fn found(filter: &Value, discovered: &Value, made: u64, route: &Value) -> Vec<(String, Standing)> {
        let manager = json!({"http_filters": [filter, {"name": "router"}], "rds": {"route_config_name": "r"}});
        let stats = json!({"stats": [{"name": "wasm.envoy.wasm.runtime.v8.created", "value": made}]});
        let dump = json!({"configs": [
            {"static_listeners": [{"listener": {"name": "statistics", "filters": [{"http_filters": [], "route_config":
                {"virtual_hosts": [{"routes": [{"route": {"cluster": "statistics"}}]}]}}]}}],
             "dynamic_listeners": [{"active_state": {"listener": {"name": "gateway", "filters": [{"typed_config": manager}]}}}]},
            {"dynamic_route_configs": [{"route_config": {"name": "r", "virtual_hosts": [{"domains": ["a"], "routes": [route]}]}}]},
            {"ecds_filters": discovered},
        ]});
        standings(&dump, has_machine(&stats))
    }

    #[test]
    fn what_stands_in_a_chain_is_told() {
        let inline = json!({"name": "f", "typed_config": wasm()});
        let off = json!({"name": "f", "typed_config": wasm(), "disabled": true});
        let by_name = json!({"name": NAME, "config_discovery": {}});
        let ecds = |config: Value| json!([{"ecds_filter": {"name": NAME, "typed_config": config}}]);
        let deny = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC", "rules": {}});
        let other = json!({"name": "other", "config_discovery": {}});
        let forwards = json!({"route": {"cluster": "c"}});
        let answers = json!({"direct_response": {"status": 503}});
        let enabled = json!({"route": {"cluster": "c"}, "typed_per_filter_config": {"f": {"config": {}}}});
        let disabled = json!({"route": {"cluster": "c"}, "typed_per_filter_config": {"f": {"disabled": true}}});
        let none = json!([]);
        for (filter, discovered, made, route, expected) in [
            (&inline, &none, 1, &forwards, Standing::Runs),
            (&inline, &none, 1, &disabled, Standing::Off("a".to_owned())),
            (&off, &none, 1, &enabled, Standing::Runs),
            (&off, &none, 1, &forwards, Standing::Off("a".to_owned())),
            (&by_name, &ecds(wasm()), 1, &forwards, Standing::Runs),
            // Refused: the file is missing.
            (&by_name, &ecds(wasm()), 0, &forwards, Standing::Empty(NAME.to_owned())),
            (&by_name, &ecds(deny), 1, &forwards, Standing::Denies(NAME.to_owned())),
            (&by_name, &none, 1, &forwards, Standing::Empty(NAME.to_owned())),
            (&other, &none, 1, &forwards, Standing::Missing),
            (&other, &none, 1, &answers, Standing::Runs),
        ] {
            assert_eq!(found(filter, discovered, made, route), [("gateway".to_owned(), expected)], "{filter} {route}");
        }
    }
}
