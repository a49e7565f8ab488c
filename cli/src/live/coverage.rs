//! Which listeners of a configuration dump lead requests to backends past the filter.

use super::dump;
use serde_json::Value;

/// For each such listener a sentence. Listeners of the bootstrap count only where there are no others: control planes have some of their
/// own there.
pub(super) fn open_listeners(dump: &Value) -> Vec<String> {
    let configs = || dump.get("configs").and_then(Value::as_array).into_iter().flatten();
    let list = |name: &'static str| configs().filter_map(move |own| own.get(name)?.as_array()).flatten();
    let dynamic: Vec<&Value> =
        list("dynamic_listeners").filter_map(|own| own.pointer("/active_state/listener")).collect();
    let fixed: Vec<&Value> = list("static_listeners").filter_map(|own| own.get("listener")).collect();
    let routes: Vec<&Value> = list("dynamic_route_configs")
        .chain(list("static_route_configs"))
        .filter_map(|own| own.get("route_config"))
        .collect();
    let discovered: Vec<&Value> = list("ecds_filters").filter_map(|own| own.get("ecds_filter")).collect();
    let mut found = Vec::new();
    for listener in if dynamic.is_empty() { fixed } else { dynamic } {
        let name = listener.get("name").and_then(Value::as_str).unwrap_or("without a name");
        let mut managers = Vec::new();
        collect(listener, &mut managers);
        let open = managers.into_iter().filter_map(|manager| past_the_filter(manager, &routes, &discovered));
        found.extend(open.map(|how| format!("the listener `{name}` {how}")));
    }
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

/// How requests get past the filter in a connection manager, if they do.
fn past_the_filter(manager: &Value, routes: &[&Value], discovered: &[&Value]) -> Option<String> {
    let named = manager.pointer("/rds/route_config_name");
    let config = manager
        .get("route_config")
        .or_else(|| routes.iter().copied().find(|own| named.is_some() && own.get("name") == named))?;
    let hosts = || config.get("virtual_hosts").and_then(Value::as_array).into_iter().flatten();
    let forwarding = |host: &Value| {
        let routes = host.get("routes").and_then(Value::as_array).into_iter().flatten();
        routes.filter(|route| route.get("route").is_some()).cloned().collect::<Vec<_>>()
    };
    if hosts().all(|host| forwarding(host).is_empty()) {
        return None;
    }
    let filters = manager.get("http_filters").and_then(Value::as_array).into_iter().flatten();
    let is_own = |filter: &&Value| {
        let other = |own: &&Value| own.get("name") == filter.get("name") && !dump::filters(own).is_empty();
        !dump::filters(filter).is_empty()
            || filter.get("config_discovery").is_some() && discovered.iter().any(|own| other(own))
    };
    let Some(filter) = filters.into_iter().find(is_own) else {
        return Some("leads requests to backends and has no filter of this project".to_owned());
    };
    let name = filter.get("name").and_then(Value::as_str)?;
    let is_off = filter.get("disabled").is_some_and(|off| off == true);
    let without = hosts().find(|host| {
        forwarding(host).iter().any(|route| {
            let own = [route, host, config].into_iter().find_map(|at| at.get("typed_per_filter_config")?.get(name));
            match own {
                Some(own) => own.get("disabled").is_some_and(|off| off == true),
                None => is_off,
            }
        })
    })?;
    let host = without.pointer("/domains/0").and_then(Value::as_str).unwrap_or("*");
    Some(format!("has the filter, and a route for the host `{host}` switches it off"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dump(filters: &Value, route: &Value) -> Value {
        let manager = json!({"http_filters": filters, "rds": {"route_config_name": "r"}});
        json!({"configs": [
            {"static_listeners": [{"listener": {"name": "stats", "filters": [{"http_filters": [], "route_config":
                {"virtual_hosts": [{"routes": [{"route": {"cluster": "stats"}}]}]}}]}}],
             "dynamic_listeners": [{"active_state": {"listener": {"name": "l", "filters": [{"typed_config": manager}]}}}]},
            {"dynamic_route_configs": [{"route_config": {"name": "r", "virtual_hosts": [{"domains": ["a"], "routes": [route]}]}}]},
        ]})
    }

    #[test]
    fn listeners_past_the_filter_are_found() {
        let typed = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {"name": "edge-idempotency"}});
        let on = json!([{"name": "f", "typed_config": typed}]);
        let off = json!([{"name": "f", "typed_config": typed, "disabled": true}]);
        let forwards = json!({"route": {"cluster": "c"}});
        let enabled = json!({"route": {"cluster": "c"}, "typed_per_filter_config": {"f": {"config": {}}}});
        let disabled = json!({"route": {"cluster": "c"}, "typed_per_filter_config": {"f": {"disabled": true}}});
        let none = json!([{"name": "envoy.filters.http.router"}]);
        for (filters, route, told) in [
            (&on, &forwards, ""),
            (&off, &enabled, ""),
            (&none, &json!({"direct_response": {"status": 503}}), ""),
            (&none, &forwards, "has no filter"),
            (&off, &forwards, "switches it off"),
            (&on, &disabled, "switches it off"),
        ] {
            let found = open_listeners(&dump(filters, route));
            assert_eq!(found.len(), usize::from(!told.is_empty()), "{found:?}");
            assert!(found.iter().all(|one| one.contains(told) && one.contains("`l`")), "{found:?}");
        }
    }
}
