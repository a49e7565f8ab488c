//! Lints of one route, or of two of them.

use super::PolicyFinding;
use super::view::{BackendView, DocumentView, RouteView};
use crate::lints::backends::BackendAt;
use std::collections::BTreeMap;

/// Last words of an endpoint or a path that undo something.
const REVERSES: [&str; 13] = [
    "refund",
    "refunds",
    "void",
    "voids",
    "cancel",
    "cancellation",
    "cancellations",
    "delete",
    "reverse",
    "reversal",
    "revoke",
    "remove",
    "undo",
];

pub(super) fn check(document: &DocumentView, findings: &mut Vec<PolicyFinding>) {
    unmatched(document, findings);
    reverses(document, findings);
    rewrites(document, findings);
    shadows(document, findings);
    for (index, route) in document.routes.iter().enumerate() {
        target(document, index, route, findings);
        if route.encoded_slash {
            let text = format!(
                "`{}` takes %2F in the values of its parameters: a backend that decodes paths before it routes reads `{}` with more \
                 segments",
                route.endpoint, route.path
            );
            findings.push(PolicyFinding::new(
                "escaped-slash",
                format!("/routes/{index}/encoded_slash"),
                text,
                "send the value in the query or the body, or encode it (base64url); if the backend reads escaped slashes as the \
                 filter does, allow this lint",
            ));
        }
    }
}

/// Writes that no route declares.
fn unmatched(document: &DocumentView, findings: &mut Vec<PolicyFinding>) {
    let Some(unmatched) = document.unmatched.as_deref().filter(|unmatched| *unmatched != "REJECT") else { return };
    let keys =
        if unmatched == "PROHIBITED" { "refused if it has a key, and otherwise" } else { "stripped of its key and" };
    findings.push(PolicyFinding::new(
        "unmatched-write",
        "/unmatched",
        format!(
            "a POST, PUT, PATCH or DELETE to a path that no route declares is {keys} forwarded, so a retry runs the work \
             twice"
        ),
        "declare every path that writes, and write `\"unmatched\": \"REJECT\"`",
    ));
    if document.is_restate(None) {
        findings.push(PolicyFinding::new(
            "unmatched-service",
            "/unmatched",
            "at `/{Service}/{handler}` a client can call every handler of Restate whose service the policy does not name",
            "write `\"unmatched\": \"REJECT\"`; if the gateway leads such paths elsewhere, name that backend in `backends` and make \
             it the default",
        ));
    }
}

/// Operations that need a key, and whose reverse takes none.
fn reverses(document: &DocumentView, findings: &mut Vec<PolicyFinding>) {
    let mut creates: BTreeMap<&str, &RouteView> = BTreeMap::new();
    for route in document.routes.iter().filter(|route| route.policy == "REQUIRED_A" && route.writes()) {
        if !REVERSES.contains(&last_word(&route.endpoint).as_str()) {
            creates.insert(route.path.trim_end_matches('/'), route);
        }
    }
    for (index, route) in document.routes.iter().enumerate() {
        if !["PROHIBITED", "HANDLER_INTERNAL_C"].contains(&route.policy.as_str()) || !route.writes() {
            continue;
        }
        // POST /refunds beside POST /orders: a collection of its own.
        let beside = || {
            let (parent, last) = route.path.trim_end_matches('/').rsplit_once('/')?;
            let is_beside = |path: &str| path.rsplit_once('/').is_some_and(|(other, _)| other == parent);
            let own = REVERSES.contains(&last_word(last).as_str());
            creates.iter().find(|(path, _)| own && is_beside(path)).map(|(_, create)| create)
        };
        let Some(create) = reversed(route).and_then(|collection| creates.get(collection)).or_else(beside) else {
            continue;
        };
        let how = if route.policy == "PROHIBITED" { "refuses keys" } else { "removes keys" };
        findings.push(PolicyFinding::new(
            "unkeyed-reverse",
            format!("/routes/{index}/policy"),
            format!(
                "`{}` reverses what `{}` does, and {how}, while `{}` needs one: a retry can reverse it twice",
                route.endpoint, create.endpoint, create.endpoint
            ),
            "write `\"policy\": \"REQUIRED_A\"`; if the handler finds out by itself that the work is done, allow this lint",
        ));
    }
}

/// Routes that only count what they would refuse.
fn shadows(document: &DocumentView, findings: &mut Vec<PolicyFinding>) {
    if document.mode.as_deref() == Some("shadow") {
        return;
    }
    for (index, route) in document.routes.iter().enumerate() {
        if route.mode.as_deref() == Some("shadow") {
            let text = format!(
                "`{}` is in shadow mode: its requests are not refused, and keys reach the backend as clients wrote them",
                route.endpoint
            );
            findings.push(PolicyFinding::new("shadow-mode", format!("/routes/{index}/mode"), text, ""));
        }
    }
}

/// The path of the collection whose members the route takes back.
fn reversed(route: &RouteView) -> Option<&str> {
    let path = route.path.trim_end_matches('/');
    let (parent, last) = path.rsplit_once('/')?;
    let deletes = route.methods.as_ref().is_some_and(|methods| methods.iter().any(|method| method == "DELETE"));
    // DELETE /payments/{id}
    if last.contains('{') {
        return (deletes || REVERSES.contains(&last_word(&route.endpoint).as_str())).then_some(parent);
    }
    // POST /payments/{id}/refund, POST /payments/{id}:cancel is the prefix form and has no segment of its own.
    if !REVERSES.contains(&last_word(last).as_str()) {
        return None;
    }
    let (collection, member) = parent.rsplit_once('/')?;
    Some(if member.contains('{') { collection } else { parent })
}

/// The last word of a name, such as `refund` of `charges.create-refund`.
fn last_word(name: &str) -> String {
    name.rsplit(|char: char| !char.is_ascii_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase()
}

/// `rewrite_path` where nothing, or not this route, is rewritten.
fn rewrites(document: &DocumentView, findings: &mut Vec<PolicyFinding>) {
    for backend in document.backends.iter().filter(|backend| backend.value.rewrite_path) {
        rewrites_for(document, &backend, findings);
    }
}

fn rewrites_for(document: &DocumentView, backend: &BackendAt<'_, BackendView>, findings: &mut Vec<PolicyFinding>) {
    let is_own = |route: &RouteView| document.backend_of(Some(route)).is_some_and(|own| own.name == backend.name);
    let routes = || document.routes.iter().enumerate().filter(|(_, route)| is_own(route));
    if routes().all(|(_, route)| route.target.is_none()) {
        findings.push(PolicyFinding::new(
            "rewrite-without-target",
            format!("{}/rewrite_path", backend.pointer),
            "no route has a `target`, so no path is rewritten: every request goes on with the client's path",
            "give the routes targets, `\"target\": \"Service/handler\"`, or remove `rewrite_path`",
        ));
        return;
    }
    for (index, route) in routes() {
        if route.target.is_none() && route.has_keys() {
            findings.push(PolicyFinding::new(
                "rewrite-without-target",
                format!("/routes/{index}"),
                format!(
                    "`{}` makes keys and has no `target`: its path is not rewritten, while those of other routes are",
                    route.endpoint
                ),
                "write the `target`, `\"target\": \"Service/handler\"`",
            ));
        }
    }
}

fn target(document: &DocumentView, index: usize, route: &RouteView, findings: &mut Vec<PolicyFinding>) {
    let Some((service, key, handler)) = route.target_parts() else { return };
    let at = format!("/routes/{index}/target");
    let Some(key) = key else { return };
    if document.is_restate(Some(route)) && handler == "run" && route.has_keys() {
        findings.push(PolicyFinding::new(
            "workflow-run-key",
            at.clone(),
            format!(
                "if `{service}` is a workflow, Restate answers 400 to every request with a key: it takes no key on a \
                 workflow's `run`"
            ),
            "a workflow runs once for each workflow key by itself: write `\"policy\": \"HANDLER_INTERNAL_C\"`; if it is a \
             virtual object, allow this lint",
        ));
    }
    if !key.contains("{tenant}") {
        findings.push(PolicyFinding::new(
            "object-without-tenant",
            at,
            format!("the object key `{key}` has no tenant: two tenants with the same `{key}` share one object of `{service}`"),
            format!("write `\"target\": \"{service}/{{tenant}}:{key}/{handler}\"`, also with `{{project}}` if projects \
                     are kept apart"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        assert_eq!(last_word("billing.create-refund"), "refund");
        assert_eq!(last_word("Orders_Cancel"), "cancel");
        assert_eq!(last_word(""), "");
    }
}
