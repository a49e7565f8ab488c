//! The gateway, by Envoy's admin interface: has it the filter with this policy, its clusters with hosts that are healthy, and did it
//! refuse configurations?

use super::LiveCheck;
use super::chains;
use super::dump::{self, RunningFilter};
use crate::http::without_user;
use crate::lint::live_list::{LIVE_CLUSTER, LIVE_GATEWAY, LIVE_OTHER_POLICY, LIVE_UNREACHABLE};
use crate::render::kubernetes::istio::with_istios_claims;
use crate::render::needs::GatewayNeeds;
use serde_json::Value;

/// Counters of refused configurations, by their names' ends.
const REFUSED: [&str; 4] = [".update_rejected", ".config_fail", ".listener_create_failure", ".config_conflict"];

pub(super) fn check(live: &mut LiveCheck<'_>) {
    let Some(address) = live.args.admin_envoy.clone() else {
        return live.not_asked("", "the gateway", "--admin-envoy URL");
    };
    if let Err(error) = without_user("--admin-envoy", &address) {
        return live.add(&LIVE_UNREACHABLE, "", error, "");
    }
    let base = address.trim_end_matches('/').to_owned();
    let answers = ["/server_info", "/config_dump", "/clusters?format=json", "/stats?format=json&type=Counters"]
        .map(|path| json(live, &format!("{base}{path}")));
    let [info, dump, clusters, stats] =
        match answers.into_iter().collect::<Result<Vec<_>, _>>().map(<[Value; 4]>::try_from) {
            Ok(Ok(answers)) => answers,
            Ok(Err(_)) => return,
            Err(error) => {
                return live.add(
                    &LIVE_UNREACHABLE,
                    "",
                    format!("the gateway: {error}"),
                    "--admin-envoy is the address of Envoy's admin interface, not the one for clients",
                );
            }
        };
    let before = live.findings.len();
    state(live, &info);
    let filters = dump::filters(&dump);
    policy(live, &filters);
    chains::check(live, &dump, &stats);
    self::clusters(live, &clusters);
    for (name, details) in dump::refused(&dump) {
        let message = format!("the gateway refused the last configuration of `{name}`: {details}");
        live.add(&LIVE_GATEWAY, "", message, "correct it: until then the one before is in use");
    }
    counted(live, &stats);
    if live.findings.len() == before {
        let version = info.get("version").and_then(Value::as_str).unwrap_or_default();
        let version = version.split('/').nth(1).unwrap_or(version);
        let modules: Vec<&str> = filters.iter().map(|filter| filter.module.as_str()).collect();
        live.works("", format!("the gateway (Envoy {version}) runs this policy in {}", modules.join(" and ")));
    }
}

pub(super) fn json(live: &LiveCheck<'_>, url: &str) -> Result<Value, String> {
    let reply = live.upstreams.client().send("GET", url, &[], None).map_err(|error| error.to_string())?;
    if reply.status != 200 {
        return Err(format!("GET {url} is answered {}", reply.status));
    }
    serde_json::from_slice(&reply.body).map_err(|error| format!("GET {url} is answered with no JSON: {error}"))
}

/// Whether it takes requests.
fn state(live: &mut LiveCheck<'_>, info: &Value) {
    match info.get("state").and_then(Value::as_str) {
        Some("LIVE") => {}
        Some(state) => live.add(&LIVE_GATEWAY, "", format!("the gateway is not ready: its state is {state}"), ""),
        None => live.add(&LIVE_GATEWAY, "", "this is no admin interface of Envoy: it does not say its state", ""),
    }
}

/// Whether the filter runs with this document.
fn policy(live: &mut LiveCheck<'_>, filters: &[RunningFilter]) {
    if filters.is_empty() {
        return live.add(
            &LIVE_GATEWAY,
            "",
            "no filter of this project is in use",
            "put it into the gateway's configuration (`render`); Envoy's log says why it refused one, and behind a control plane the conditions \
             of its resource (Accepted, Programmed)",
        );
    }
    let own = without_schema(live.document);
    let at_istio = with_istios_claims(&own, &GatewayNeeds::of(live.policy));
    let is_own = |policy: &Value| {
        let policy = without_schema(policy);
        policy == own || at_istio.as_ref() == Some(&policy)
    };
    let others = filters.iter().filter(|filter| !filter.policy.as_ref().is_some_and(is_own)).count();
    if others > 0 {
        let message = format!("{others} of {} filters in the gateway have another policy than this one", filters.len());
        live.add(
            &LIVE_OTHER_POLICY,
            "",
            message,
            "before a rollout this is right; after it, Envoy's log says why the policy was refused",
        );
    }
}

fn without_schema(document: &Value) -> Value {
    let mut document = document.clone();
    document.as_object_mut().map(|members| members.remove("$schema"));
    document
}

/// The clusters that the policy names.
fn clusters(live: &mut LiveCheck<'_>, answer: &Value) {
    let statuses: Vec<&Value> =
        answer.get("cluster_statuses").and_then(Value::as_array).into_iter().flatten().collect();
    let policy = live.policy;
    for (name, pointer) in policy.needs().clusters() {
        let at = format!("{pointer}/cluster");
        let Some(status) = statuses.iter().find(|status| status.get("name").is_some_and(|other| other == name)) else {
            let message = format!("the gateway has no cluster `{name}`");
            live.add(&LIVE_CLUSTER, &at, message, "define it in the gateway, or correct its name in the policy");
            continue;
        };
        let hosts = status.get("host_statuses").and_then(Value::as_array);
        let healthy = hosts.into_iter().flatten().filter(|host| is_healthy(host)).count();
        if healthy == 0 {
            let message = format!("no host of the gateway's cluster `{name}` is healthy");
            live.add(
                &LIVE_CLUSTER,
                &at,
                message,
                "the address does not resolve, health checks fail, or the host was ejected",
            );
        }
    }
}

/// Whether the gateway would send requests to a host: members of its health status other than that of discovery say why not.
fn is_healthy(host: &Value) -> bool {
    let Some(Value::Object(health)) = host.get("health_status") else { return true };
    health.iter().all(|(name, value)| match name.as_str() {
        "eds_health_status" => value != "UNHEALTHY",
        _ => value != true,
    })
}

/// Refusals since the start.
fn counted(live: &mut LiveCheck<'_>, stats: &Value) {
    let list = stats.get("stats").and_then(Value::as_array).into_iter().flatten();
    let refused = list.filter_map(|stat| {
        let name = stat.get("name")?.as_str()?;
        let value = stat.get("value")?.as_u64().filter(|value| *value > 0)?;
        REFUSED.iter().any(|end| name.ends_with(end)).then(|| format!("{name}: {value}"))
    });
    let refused: Vec<String> = refused.collect();
    if !refused.is_empty() {
        let message = format!("the gateway has refused configurations since it started ({})", refused.join(", "));
        live.add(
            &LIVE_OTHER_POLICY,
            "",
            message,
            "Envoy's log says why, and whether a later one was taken; the configuration dump, by which the policies were compared, can show a \
             document that was refused",
        );
    }
}
