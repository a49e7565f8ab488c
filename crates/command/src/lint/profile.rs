//! What `check --profile` looks for: routes that take keys and are not as a protocol says.

use crate::lints::PolicyFinding;
use crate::lints::list::PROFILE_DIFFERS;
use crate::lints::view::{duration, token};
use crate::profile::{Profile, ProfileRule, in_schema, schema};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::needs::RouteNeeds;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The header that is read wherever else keys are.
const HEADER: &str = "idempotency-key";

/// The findings in a policy that starts.
pub(crate) fn check(profile: &Profile, policy: &Policy, document: &Value) -> Vec<PolicyFinding> {
    let (schema, needs) = (schema(), policy.needs());
    let takes_keys = |route: &RouteNeeds| route.keyed && route.methods.iter().any(|method| method == "POST");
    let mut findings = Vec::new();
    for (index, route) in needs.routes.iter().enumerate().filter(|(_, route)| takes_keys(route)) {
        let asks = needs.backend_of(route).is_some_and(|backend| backend.abilities.finds_results);
        // Another backend than Restate knows alone what is in flight.
        for rule in profile.route.iter().filter(|rule| asks || rule.member != "/in_flight") {
            let (place, value) = effective(document, index, &rule.member);
            let default = in_schema(&schema, &rule.member).and_then(|member| member.get("default"));
            if !fits(rule, value.or(default)) {
                findings.push(finding(profile, rule, route, place, value));
            }
        }
    }
    let Some(kept) = &profile.retention else { return findings };
    let services: BTreeSet<&str> =
        needs.routes.iter().filter(|route| takes_keys(route)).filter_map(RouteNeeds::service).collect();
    for short in needs.retentions.iter().filter(|own| own.seconds < kept.seconds) {
        if services.contains(short.service.as_str()) {
            let least = duration(kept.seconds);
            findings.push(PolicyFinding::new(
                &PROFILE_DIFFERS,
                format!("/retention/services/{}", token(&short.service)),
                format!(
                    "answers of `{}` are kept for {}: {}, section {}, says at least {least}",
                    short.service,
                    duration(short.seconds),
                    profile.title(),
                    kept.section
                ),
                format!("give the service a class of at least {least}, and set the same in the backend"),
            ));
        }
    }
    findings
}

/// The value of a route's member that counts, with its place; without a value the default counts. `key` counts as a whole.
fn effective<'d>(document: &'d Value, index: usize, member: &str) -> (String, Option<&'d Value>) {
    let route = format!("/routes/{index}");
    let own = format!("{route}{member}");
    if let Some(value) = document.pointer(&own) {
        return (own, Some(value));
    }
    // What the document says of all routes.
    let first = member.split('/').nth(1).unwrap_or_default();
    let inherits = document.pointer(&format!("{route}/{first}")).is_none();
    match document.pointer(member).filter(|_| inherits) {
        Some(value) => (member.to_owned(), Some(value)),
        None => (route, None),
    }
}

fn fits(rule: &ProfileRule, value: Option<&Value>) -> bool {
    let items = |value: &Value| {
        let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        list.iter().map(Value::to_string).collect::<BTreeSet<_>>()
    };
    let has = |place: &String| value.is_some_and(|value| items(value).contains(&json!(place).to_string()));
    rule.is.iter().any(|right| value.is_some_and(|value| items(value) == items(right)))
        || rule.any.iter().any(|place| place == HEADER || has(place))
}

fn finding(
    profile: &Profile,
    rule: &ProfileRule,
    route: &RouteNeeds,
    place: String,
    value: Option<&Value>,
) -> PolicyFinding {
    let name = rule.member.trim_start_matches('/').replace('/', ".");
    let found = value.map_or_else(|| "is not set".to_owned(), |value| format!("is {}", shown(value)));
    let any = json!(rule.any);
    let right: Vec<String> = rule.is.iter().chain((!rule.any.is_empty()).then_some(&any)).map(shown).collect();
    let one_of = if rule.any.is_empty() { "" } else { "one of " };
    PolicyFinding::new(
        &PROFILE_DIFFERS,
        place,
        format!(
            "`{name}` of `{}` {found}: {}, section {}, says {one_of}{}",
            route.endpoint,
            profile.title(),
            rule.section,
            right.join(" or ")
        ),
        "what the policy says counts; to follow the protocol, write what the profile says",
    )
}

fn shown(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
