//! Restate: does its ingress answer, and does it have the services and handlers that the policy names, for the time that it says?

use super::LiveCheck;
use crate::http::HttpReply;
use crate::lint::live_list::{LIVE_INGESTION, LIVE_MISSING_HANDLER, LIVE_RETENTION, LIVE_UNREACHABLE};
use crate::lints::list::NOT_SEEN;
use crate::restate_admin::connection::{ADDRESS_VARIABLE, Admin};
use crate::restate_admin::plan::{Plan, SETTING};
use crate::restate_admin::services::Service;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::needs::{BackendNeeds, RouteNeeds};
use edge_idempotency_engine::policy::target_parts;

pub(super) fn check(live: &mut LiveCheck<'_>) {
    let policy = live.policy;
    let restates: Vec<_> = policy.needs().backends.iter().filter(|backend| backend.abilities.is_called).collect();
    for backend in &restates {
        ingress(live, backend);
    }
    let [restate] = restates.as_slice() else {
        if let Some(first) = restates.first() {
            let message = "the policy has several backends of Restate, and `--admin` names one";
            live.add(&NOT_SEEN, &first.pointer, message, "check a policy for each of them");
        }
        return;
    };
    let at = restate.pointer.as_str();
    let Some((version, services)) = services(live, at) else { return };
    let before = live.findings.len();
    targets(live, restate, &services);
    guard(live, restate, &services);
    if live.findings.len() == before {
        live.works(at, format!("Restate {version} has every service and handler that the policy names"));
    }
    retention(live, &services);
}

/// Restate's version, and the services that it has; `None` if that cannot be asked.
pub(super) fn services(live: &mut LiveCheck<'_>, at: &str) -> Option<(String, Vec<Service>)> {
    if !live.args.restate.names_an_address() {
        live.not_asked(at, "Restate's admin API", &format!("--admin URL, or the variable {ADDRESS_VARIABLE}"));
        return None;
    }
    let asked = Admin::connect(&live.args.restate).and_then(|admin| Ok((admin.services()?, admin.version)));
    match asked {
        Ok((services, version)) => Some((version, services)),
        Err(error) => {
            live.add(&LIVE_UNREACHABLE, at, error, "");
            None
        }
    }
}

/// Whether the ingress answers where the filter's own calls go.
fn ingress(live: &mut LiveCheck<'_>, backend: &BackendNeeds) {
    let Some(cluster) = backend.cluster.as_deref() else { return };
    let at = format!("{}/cluster", backend.pointer);
    let Some(upstream) = live.upstreams.named(cluster).cloned() else {
        return live.not_asked(&at, "Restate's ingress", &format!("--upstream {cluster}=URL"));
    };
    let url = format!("{}/restate/health", upstream.url());
    match live.upstreams.client().send("GET", &url, &[], None) {
        Ok(reply) if reply.status == 200 => live.works(&at, "Restate's ingress is healthy"),
        Ok(reply) => live.add(
            &LIVE_UNREACHABLE,
            &at,
            format!("GET {url} is answered {}, and Restate's ingress answers 200", reply.status),
            "the ingress has port 8080 by default; 9070 is the admin API",
        ),
        Err(error) => return live.add(&LIVE_UNREACHABLE, &at, format!("Restate's ingress: {error}"), ""),
    }
    // No service has this name, so nothing is called.
    let url = format!("{}/edge.idempotency.Probe/Call", upstream.url());
    let rpc = [("content-type", "application/grpc"), ("te", "trailers")];
    match live.upstreams.client().send("POST", &url, &rpc, Some(b"")) {
        Ok(reply) if takes_rpc(&reply) => live.add(
            &LIVE_INGESTION,
            &at,
            "Restate's ingress takes calls by gRPC, which name any handler and any idempotency key",
            "switch it off in Restate's configuration: `disable = true` under `[ingress.ingestion-api]`",
        ),
        Ok(_) => {}
        Err(error) => live.add(&LIVE_UNREACHABLE, &at, format!("Restate's ingress: {error}"), ""),
    }
}

/// Whether an ingress has given a request with a content type of gRPC to a gRPC service: it is answered in kind.
fn takes_rpc(reply: &HttpReply) -> bool {
    reply.content_type.as_deref().is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/grpc"))
}

/// Routes of a backend, with their places.
fn routes<'p>(policy: &'p Policy, backend: &BackendNeeds) -> impl Iterator<Item = (usize, &'p RouteNeeds)> {
    let needs = policy.needs();
    let is_own = |route: &RouteNeeds| needs.backend_of(route).is_some_and(|own| own.pointer == backend.pointer);
    needs.routes.iter().enumerate().filter(move |(_, route)| is_own(route))
}

fn targets(live: &mut LiveCheck<'_>, backend: &BackendNeeds, services: &[Service]) {
    for (index, route) in routes(live.policy, backend) {
        let Some((service, key, handler)) = route.target.as_deref().and_then(target_parts) else { continue };
        let at = format!("/routes/{index}/target");
        if let Some(message) = missing(services, service, handler) {
            live.add(&LIVE_MISSING_HANDLER, &at, message, "register the deployment that has it, or correct the target");
        } else if let Some(found) = services.iter().find(|found| *found.name == *service)
            && !found.ty.is_empty()
            && (found.ty == "Service") == key.is_some()
        {
            let wrong = if key.is_some() { "has no object key" } else { "needs an object key" };
            live.add(
                &LIVE_MISSING_HANDLER,
                &at,
                format!("`{service}` is a {} in Restate, which {wrong}", found.ty),
                "write `Service/handler` for a service, and `Service/{key}/handler` for an object or a workflow",
            );
        }
    }
}

fn guard(live: &mut LiveCheck<'_>, backend: &BackendNeeds, services: &[Service]) {
    if !routes(live.policy, backend).any(|(_, route)| route.collision.asks_guard()) {
        return;
    }
    if let Some(message) = missing(services, live.policy.needs().guard_name(), "claim") {
        live.add(
            &LIVE_MISSING_HANDLER,
            &format!("{}/guard", backend.pointer),
            message,
            "register the guard (docs/backends.md)",
        );
    }
}

/// Why a handler cannot be called; nothing if it can.
pub(super) fn missing(services: &[Service], service: &str, handler: &str) -> Option<String> {
    let Some(found) = services.iter().find(|found| *found.name == *service) else {
        return Some(format!("Restate has no service `{service}`"));
    };
    let has = found.handlers.iter().any(|other| *other.name == *handler);
    (!has).then(|| format!("the service `{service}` has no handler `{handler}` in Restate"))
}

fn retention(live: &mut LiveCheck<'_>, services: &[Service]) {
    let plan = Plan::new(live.policy.needs(), services);
    for row in plan.rows.iter().filter(|row| !row.state.is_done()) {
        let service = &row.declared.service;
        let message = match &row.actual {
            None => format!("Restate has no service `{service}`, whose retention the policy declares"),
            Some(actual) => {
                let handler = row.handler.as_ref().map(|handler| format!("/{handler}")).unwrap_or_default();
                format!(
                    "Restate has {actual} as `{}` of `{service}{handler}`, and the policy declares {}",
                    SETTING,
                    row.wish()
                )
            }
        };
        let help = "edge-idempotency retention --policy FILE shows what to change, and with --apply changes it";
        live.add(&LIVE_RETENTION, &row.declared.pointer, message, help);
    }
}
