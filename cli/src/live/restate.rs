//! Restate: does its ingress answer, and does it have the services and handlers that the policy names, for the time that it says?

use super::LiveCheck;
use crate::restate_admin::claims_outlast::guard_name;
use crate::restate_admin::connection::{ADDRESS_VARIABLE, Admin};
use crate::restate_admin::plan::{Plan, State};
use crate::restate_admin::services::Service;
use serde_json::Value;

const AT: &str = "/backend";

pub(super) fn check(live: &mut LiveCheck<'_>) {
    if live.document.pointer("/backend/kind").and_then(Value::as_str) != Some("restate") {
        return;
    }
    ingress(live);
    if !live.args.restate.names_an_address() {
        return live.not_asked(AT, "Restate's admin API", &format!("--admin URL, or the variable {ADDRESS_VARIABLE}"));
    }
    let admin = match Admin::connect(&live.args.restate) {
        Ok(admin) => admin,
        Err(error) => return live.add("live-unreachable", AT, error, ""),
    };
    let services = match admin.services() {
        Ok(services) => services,
        Err(error) => return live.add("live-unreachable", AT, error, ""),
    };
    let before = live.findings.len();
    targets(live, &services);
    guard(live, &services);
    if live.findings.len() == before {
        live.works(AT, format!("Restate {} has every service and handler that the policy names", admin.version));
    }
    retention(live, &services);
}

/// Whether the ingress answers where the filter's own calls go.
fn ingress(live: &mut LiveCheck<'_>) {
    let cluster = live.document.pointer("/backend/cluster").and_then(Value::as_str);
    let Some(cluster) = cluster.map(str::to_owned) else { return };
    let Some(upstream) = live.upstreams.named(&cluster).cloned() else {
        return live.not_asked("/backend/cluster", "Restate's ingress", &format!("--upstream {cluster}=URL"));
    };
    let url = format!("{}/restate/health", upstream.url());
    match live.upstreams.client().send("GET", &url, &[], None) {
        Ok(reply) if reply.status == 200 => live.works("/backend/cluster", "Restate's ingress is healthy"),
        Ok(reply) => live.add(
            "live-unreachable",
            "/backend/cluster",
            format!("GET {url} is answered {}, and Restate's ingress answers 200", reply.status),
            "the ingress has port 8080 by default; 9070 is the admin API",
        ),
        Err(error) => live.add("live-unreachable", "/backend/cluster", format!("Restate's ingress: {error}"), ""),
    }
}

/// Service, whether there is an object key, and handler of `Service/handler` or `Service/{key}/handler`.
fn parts(target: &str) -> Option<(&str, bool, &str)> {
    let (service, rest) = target.split_once('/')?;
    Some(match rest.rsplit_once('/') {
        Some((_, handler)) => (service, true, handler),
        None => (service, false, rest),
    })
}

fn targets(live: &mut LiveCheck<'_>, services: &[Service]) {
    let document = live.document;
    let routes = document.get("routes").and_then(Value::as_array).into_iter().flatten();
    for (index, route) in routes.enumerate() {
        let target = route.get("target").and_then(Value::as_str);
        let Some((service, keyed, handler)) = target.and_then(parts) else { continue };
        let at = format!("/routes/{index}/target");
        if let Some(message) = missing(services, service, handler) {
            live.add(
                "live-missing-handler",
                &at,
                message,
                "register the deployment that has it, or correct the target",
            );
        } else if let Some(found) = services.iter().find(|found| *found.name == *service)
            && !found.ty.is_empty()
            && (found.ty == "Service") == keyed
        {
            let wrong = if keyed { "has no object key" } else { "needs an object key" };
            live.add(
                "live-missing-handler",
                &at,
                format!("`{service}` is a {} in Restate, which {wrong}", found.ty),
                "write `Service/handler` for a service, and `Service/{key}/handler` for an object or a workflow",
            );
        }
    }
}

fn guard(live: &mut LiveCheck<'_>, services: &[Service]) {
    let document = live.document;
    let mut routes = document.get("routes").and_then(Value::as_array).into_iter().flatten();
    let compares = |route: &Value| route.get("collision").is_some_and(|mode| mode != "off");
    if !routes.any(compares) {
        return;
    }
    if let Some(message) = missing(services, guard_name(document), "claim") {
        let at = if document.pointer("/backend/guard").is_some() { "/backend/guard" } else { AT };
        live.add("live-missing-handler", at, message, "register the guard (docs/guard.md)");
    }
}

/// Why a handler cannot be called; nothing if it can.
fn missing(services: &[Service], service: &str, handler: &str) -> Option<String> {
    let Some(found) = services.iter().find(|found| *found.name == *service) else {
        return Some(format!("Restate has no service `{service}`"));
    };
    let has = found.handlers.iter().any(|other| *other.name == *handler);
    (!has).then(|| format!("the service `{service}` has no handler `{handler}` in Restate"))
}

fn retention(live: &mut LiveCheck<'_>, services: &[Service]) {
    let plan = Plan::new(live.document, services);
    for row in plan.rows.iter().filter(|row| row.state != State::Equal) {
        let service = &row.declared.service;
        let message = match &row.actual {
            None => format!("Restate has no service `{service}`, whose retention the policy declares"),
            Some(actual) => {
                format!(
                    "Restate has {actual} as `{}` of `{service}`, and the policy declares {}",
                    row.setting(),
                    row.wish()
                )
            }
        };
        let help = "edge-idempotency retention plan --policy FILE shows what to change, and retention apply changes it";
        live.add("live-retention", &row.declared.pointer, message, help);
    }
}
