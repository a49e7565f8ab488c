//! What an overlay writes into one operation.

use super::actions::text;
use super::components::{problem_content, references_to};
use super::generators::{GeneratorSwitches, add_to_operation};
use crate::openapi::interface::{KeyUse, RefusalStatus, RouteInterface};
use crate::openapi::key_parameter::KEY_HEADER;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The extension that names the policy of an operation.
pub(super) const POLICY: &str = "x-idempotency-policy";

/// The key as a parameter of an operation; `None` if the route takes no key.
pub(super) fn parameter(interface: &RouteInterface<'_>) -> Option<Value> {
    let (is_required, description) = match interface.key {
        KeyUse::Required => (
            true,
            "Names one intended effect: a new key for each, and the same key with the same request on every retry. A UUID is a good key.",
        ),
        KeyUse::Optional => (
            false,
            "Names one intended effect, so that a retry with the same key and the same request does not repeat it. Without a key every \
             request runs. A UUID is a good key.",
        ),
        KeyUse::AnyPlace | KeyUse::Refused | KeyUse::Removed => return None,
    };
    Some(json!({
        "name": KEY_HEADER,
        "in": "header",
        "required": is_required,
        "description": description,
        "schema": interface.key_schema().to_json(),
    }))
}

/// The JSONPath of the parameters of an operation or a path item that are the key, by their names and by references to them.
pub(super) fn keys_in(owner: &str, names: &BTreeSet<&str>, references: &BTreeSet<&str>) -> String {
    let named: Vec<String> = names.iter().map(|name| format!("@.name == {}", text(name))).collect();
    let mut filter = format!("@.in == 'header' && ({})", named.join(" || "));
    for reference in references {
        filter = format!("{filter} || @['$ref'] == {}", text(reference));
    }
    format!("{owner}.parameters[?{filter}]")
}

/// A refusal of the filter as a response. With `is_new` it also has the description that every response needs.
pub(super) fn refusal(interface: &RouteInterface<'_>, refusal: &RefusalStatus, is_new: bool) -> Map<String, Value> {
    let mut response = Map::new();
    if is_new {
        response.insert("description".to_owned(), json!(description(refusal)));
    }
    let headers = references_to(interface.headers_of(refusal.status));
    if !headers.is_empty() {
        response.insert("headers".to_owned(), Value::Object(headers));
    }
    response.insert("content".to_owned(), problem_content());
    response
}

fn description(refusal: &RefusalStatus) -> String {
    let codes: Vec<String> = refusal.codes.iter().map(|code| format!("`{code}`")).collect();
    format!("The gateway refused the request. `code` is {}.", codes.join(", or "))
}

/// The update of an operation: policy, responses, what generators read, and the key if it is added to the parameters.
pub(super) fn update(
    interface: &RouteInterface<'_>,
    parameter: Option<Value>,
    responses: Map<String, Value>,
    switches: GeneratorSwitches,
) -> Value {
    let mut update = Map::new();
    update.insert(POLICY.to_owned(), json!(interface.route.policy.name()));
    if let Some(parameter) = parameter {
        update.insert("parameters".to_owned(), json!([parameter]));
    }
    if !responses.is_empty() {
        update.insert("responses".to_owned(), Value::Object(responses));
    }
    add_to_operation(switches, interface, &mut update);
    Value::Object(update)
}
