//! An overlay for a description that was not read: its targets are the paths and methods of the routes. A target that the
//! description does not have changes nothing.

use super::actions::{OverlayActions, path};
use super::components::references_to;
use super::generators::{GeneratorSwitches, remove_from_operation};
use super::operation::{keys_in, parameter, refusal, update};
use crate::openapi::interface::RouteInterface;
use crate::openapi::key_parameter::KEY_HEADER;
use crate::openapi::operations::METHODS;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The description of a refusal for which the description has no response yet.
const REFUSED: &str = "The gateway refused the request: see `code` and `retry`.";

/// Adds the actions for all routes.
pub(super) fn add(interfaces: &[RouteInterface<'_>], switches: GeneratorSwitches, actions: &mut OverlayActions) {
    for interface in interfaces {
        let methods = &interface.route.methods;
        // The engine adds HEAD to GET.
        let listed = methods.iter().filter(|method| *method != "HEAD" || !methods.iter().any(|other| other == "GET"));
        for method in listed {
            add_operation(interface, method, switches, actions);
        }
    }
}

fn add_operation(
    interface: &RouteInterface<'_>,
    method: &str,
    switches: GeneratorSwitches,
    actions: &mut OverlayActions,
) {
    let template = interface.route.template.to_string();
    let member = method.to_ascii_lowercase();
    let operation = if METHODS.contains(&member.as_str()) {
        path(["paths", &template, &member])
    } else {
        path(["paths", &template, "additionalOperations", method])
    };
    let names = BTreeSet::from([KEY_HEADER, "idempotency-key"]);
    for owner in [&path(["paths", &template]), &operation] {
        actions.remove(keys_in(owner, &names, &BTreeSet::new()));
    }
    remove_from_operation(switches, interface, &operation, actions);
    let refusals = interface.refusals.iter();
    let responses: Map<String, Value> =
        refusals.map(|one| (one.status.to_string(), Value::Object(refusal(interface, one, false)))).collect();
    actions.update(operation.clone(), update(interface, parameter(interface), responses, switches));
    // A response that the description has keeps its own text, and a reference stays one.
    let responses = format!("{operation}.responses");
    for member in ["headers", "content"] {
        actions.remove(format!("{responses}[?@['$ref']].{member}"));
    }
    let without_text = format!("{responses}[?@.content['application/problem+json'] && !@.description]");
    actions.update(without_text, json!({"description": REFUSED}));
    if interface.takes_keys() {
        let inline = format!("{responses}[?@.description && !@['$ref']]");
        actions.update(inline, json!({"headers": references_to(&interface.headers)}));
    }
}
