//! Lints of one route, or of two of them.

use super::PolicyFinding;
use super::view::PolicyView;
use crate::lints::list::{
    ESCAPED_SLASH, OBJECT_WITHOUT_TENANT, SHADOW_MODE, UNKEYED_REVERSE, UNMATCHED_SERVICE, UNMATCHED_WRITE,
};
use edge_idempotency_engine::policy::needs::RouteNeeds;
use edge_idempotency_engine::policy::{Mode, PolicyKind, target_parts};
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

pub(super) fn check(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    unmatched(policy, findings);
    reverses(policy, findings);
    shadows(policy, findings);
    for (index, compiled, route) in policy.routes() {
        target(index, route, findings);
        if compiled.encoded_slash {
            let text = format!(
                "`{}` takes %2F in the values of its parameters: a backend that decodes paths before it routes reads `{}` with more \
                 segments",
                route.endpoint, route.path
            );
            findings.push(PolicyFinding::new(
                &ESCAPED_SLASH,
                format!("/routes/{index}/encoded_slash"),
                text,
                "send the value in the query or the body, or encode it (base64url); if the backend reads escaped slashes as the \
                 filter does, allow this lint",
            ));
        }
    }
}

/// Writes that no route declares.
fn unmatched(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    let Some(unmatched) = policy.needs().forwards_unmatched() else { return };
    let keys = if unmatched == PolicyKind::Prohibited.name() {
        "refused if it has a key, and otherwise"
    } else {
        "stripped of its key and"
    };
    findings.push(PolicyFinding::new(
        &UNMATCHED_WRITE,
        "/unmatched",
        format!(
            "a POST, PUT, PATCH or DELETE to a path that no route declares is {keys} forwarded, so a retry runs the work \
             twice"
        ),
        "declare every path that writes, and write `\"unmatched\": \"REJECT\"`",
    ));
    if policy.needs().backends.first().is_some_and(|default| default.abilities.serves_by_name) {
        findings.push(PolicyFinding::new(
            &UNMATCHED_SERVICE,
            "/unmatched",
            "at `/{Service}/{handler}` a client can call every handler of Restate whose service the policy does not name",
            "write `\"unmatched\": \"REJECT\"`; if the gateway leads such paths elsewhere, name that backend in `backends` and make \
             it the default",
        ));
    }
}

/// Whether one of its methods changes something.
fn writes(route: &RouteNeeds) -> bool {
    route.methods.iter().any(|method| !["GET", "HEAD", "OPTIONS"].contains(&method.as_str()))
}

/// Operations that need a key, and whose reverse takes none.
fn reverses(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    let mut creates: BTreeMap<&str, &RouteNeeds> = BTreeMap::new();
    let routes = &policy.needs().routes;
    for route in routes.iter().filter(|route| route.policy == PolicyKind::RequiredA && writes(route)) {
        if !REVERSES.contains(&last_word(&route.endpoint).as_str()) {
            creates.insert(route.path.trim_end_matches('/'), route);
        }
    }
    for (index, route) in routes.iter().enumerate() {
        if route.sends_keys() || !writes(route) {
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
        let how = if route.policy == PolicyKind::Prohibited { "refuses keys" } else { "removes keys" };
        findings.push(PolicyFinding::new(
            &UNKEYED_REVERSE,
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
fn shadows(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    if policy.needs().mode == Mode::Shadow {
        return;
    }
    for (index, route, _) in policy.routes() {
        if route.mode == Mode::Shadow {
            let text = format!(
                "`{}` is in shadow mode: its requests are not refused, and keys reach the backend as clients wrote them",
                route.endpoint
            );
            findings.push(PolicyFinding::new(&SHADOW_MODE, format!("/routes/{index}/mode"), text, ""));
        }
    }
}

/// The path of the collection whose members the route takes back.
fn reversed(route: &RouteNeeds) -> Option<&str> {
    let path = route.path.trim_end_matches('/');
    let (parent, last) = path.rsplit_once('/')?;
    let deletes = route.methods.iter().any(|method| method == "DELETE");
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

fn target(index: usize, route: &RouteNeeds, findings: &mut Vec<PolicyFinding>) {
    let Some((service, key, handler)) = route.target.as_deref().and_then(target_parts) else { return };
    let at = format!("/routes/{index}/target");
    let Some(key) = key else { return };
    if !key.contains("{tenant}") {
        findings.push(PolicyFinding::new(
            &OBJECT_WITHOUT_TENANT,
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
