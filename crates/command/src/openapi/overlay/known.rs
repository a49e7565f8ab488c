//! An overlay for a description that was read: its targets are the operations that have a route. What the description has
//! already stays as it is.

use super::actions::{OverlayActions, path_in};
use super::components::{problem_content, references_to};
use super::general_response::general_response;
use super::generators::{GeneratorSwitches, SPEAKEASY, is_own_retries, remove_from_operation};
use super::new_parameter::NewParameter;
use super::operation::{keys_in, refusal, update};
use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::interface::{AnswerHeader, RouteInterface};
use crate::openapi::key_parameter::{self, KEY_HEADER, KeyParameter};
use crate::openapi::operations::{self, ApiOperation};
use crate::openapi::references::References;
use crate::openapi::responses::{has_problem, lacking};
use crate::openapi::routing::{OperationRouter, Routing};
use crate::openapi::unread::unread_reference;
use edge_idempotency_engine::Policy;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What several operations ask of a response that they share.
struct SharedResponse<'i> {
    /// The headers that it lacks, by their names
    headers: BTreeMap<&'i str, &'i AnswerHeader>,
    /// Whether it lacks a problem document
    lacks_problem: bool,
}

/// What is collected while the operations are gone through.
#[derive(Default)]
struct Collected<'i> {
    /// Responses of `components`, by the names that lead to them
    shared: BTreeMap<Vec<String>, SharedResponse<'i>>,
    /// Path items whose key was removed
    items: BTreeSet<String>,
    /// References that lead out of the file
    elsewhere: BTreeSet<String>,
}

/// Adds the actions for all operations; what could not be done.
pub(super) fn add(
    policy: &Policy,
    interfaces: &[RouteInterface<'_>],
    references: &References<'_>,
    switches: GeneratorSwitches,
    actions: &mut OverlayActions,
) -> Vec<String> {
    let router = OperationRouter::new(policy);
    let (operations, unread) = operations::of_description(references);
    let mut collected = Collected::default();
    let (mut without_route, mut notes) = (0, Vec::new());
    // The route of each operation, which several paths can share by `$ref`.
    let mut described: BTreeMap<&[String], (&RouteInterface<'_>, String)> = BTreeMap::new();
    for operation in &operations {
        match router.of_operation(operation) {
            Routing::Route(route) => {
                let Some(interface) = interfaces.get(route.id) else { continue };
                let (first, title) =
                    described.entry(&operation.names).or_insert_with(|| (interface, operation.title()));
                if first.route.id != interface.route.id {
                    if !first.looks_like(interface) {
                        notes.push(format!(
                            "{}: a reference makes it one operation with `{title}`, and the overlay describes the route of that one; write an \
                             operation for each, because their routes differ",
                            operation.title()
                        ));
                    }
                } else {
                    add_operation(operation, interface, references, switches, &mut collected, actions);
                }
            }
            Routing::StoredAnswer => {}
            Routing::OtherMethods(_) | Routing::NoRoute | Routing::Ambiguous(_) => without_route += 1,
        }
    }
    for (names, response) in &collected.shared {
        actions.update(path_in(references, names.iter().map(String::as_str)), response.update());
    }
    notes.extend(unread.iter().map(|part| format!("{}: {}; {}", part.title, part.message, part.help)));
    notes.extend(collected.elsewhere.iter().map(|reference| {
        let (message, help) = unread_reference(reference);
        format!("{message}; {help}")
    }));
    if without_route > 0 {
        let are = if without_route == 1 { "operation has" } else { "operations have" };
        notes.push(format!("{without_route} {are} no route and was left out: `check --openapi` shows where"));
    }
    notes
}

fn add_operation<'i, 't>(
    operation: &ApiOperation<'t>,
    interface: &'i RouteInterface<'_>,
    references: &References<'t>,
    switches: GeneratorSwitches,
    collected: &mut Collected<'i>,
    actions: &mut OverlayActions,
) {
    let target = path_in(references, operation.names.iter().map(String::as_str));
    let keys = key_parameter::find(references, operation);
    collected.elsewhere.extend(keys.unread.iter().map(|(reference, _)| (*reference).to_owned()));
    // The parameter that the update below adds goes first, should the overlay be applied again.
    let parameter = NewParameter::new(interface, &keys, references);
    let parameter = match parameter {
        Some(parameter) if parameter.is_in_place => {
            parameter.update(&target, &keys.of_operation, actions);
            None
        }
        None if keys.of_operation.is_empty() => None,
        other => {
            remove(&target, &keys.of_operation, actions);
            other.map(|parameter| parameter.value)
        }
    };
    let item = path_in(references, operation.item_names().iter().map(String::as_str));
    if !keys.of_item.is_empty() && collected.items.insert(item.clone()) {
        remove(&item, &keys.of_item, actions);
    }
    let has_own_retries =
        references.get(operation.node, SPEAKEASY).is_some_and(|retries| !is_own_retries(references, retries));
    let switches = GeneratorSwitches { speakeasy: switches.speakeasy && !has_own_retries, ..switches };
    remove_from_operation(switches, interface, &target, actions);
    let responses = responses(operation, interface, references, collected);
    actions.update(target, update(interface, parameter, responses, switches));
}

fn remove(owner: &str, keys: &[KeyParameter<'_>], actions: &mut OverlayActions) {
    let written = keys.iter().filter(|key| key.reference.is_none()).map(|key| key.name);
    let names = written.chain([KEY_HEADER]).collect();
    actions.remove(keys_in(owner, &names, &keys.iter().filter_map(|key| key.reference).collect()));
}

/// What the responses of an operation lack.
fn responses<'i, 't>(
    operation: &ApiOperation<'t>,
    interface: &'i RouteInterface<'_>,
    references: &References<'t>,
    collected: &mut Collected<'i>,
) -> Map<String, Value> {
    let mut updates = Map::new();
    let written = references.get(operation.node, "responses").map(SpannedNode::members).unwrap_or_default();
    for response in written.iter().filter(|response| !response.name.starts_with("x-")) {
        let refusal = interface.refusals.iter().find(|refusal| refusal.status.to_string() == response.name);
        let headers: Vec<&AnswerHeader> = match refusal {
            Some(refusal) => interface.headers_of(refusal.status).collect(),
            None => interface.headers.iter().collect(),
        };
        let Ok(referred) = references.resolve(&response.value) else {
            collected.elsewhere.extend(references.text(&response.value, "$ref").map(str::to_owned));
            continue;
        };
        let lacks = SharedResponse {
            headers: lacking(references, referred.node, headers).map(|header| (header.name.as_str(), header)).collect(),
            lacks_problem: refusal.is_some() && !has_problem(references, referred.node),
        };
        if lacks.headers.is_empty() && !lacks.lacks_problem {
            continue;
        }
        match referred.names {
            None => {
                updates.insert(response.name.clone(), lacks.update());
            }
            Some(names) => collected.shared.entry(names).or_insert_with(SharedResponse::nothing).add(lacks),
        }
    }
    for one in &interface.refusals {
        let status = one.status.to_string();
        if !written.iter().any(|response| response.name == status) {
            let mut new = refusal(interface, one, true);
            match general_response(operation, &status, written, references) {
                None => {}
                Some(Ok(general)) => general.add_to(&mut new, references),
                Some(Err(reference)) => {
                    collected.elsewhere.insert(reference);
                }
            }
            updates.insert(status, Value::Object(new));
        }
    }
    updates
}

impl<'i> SharedResponse<'i> {
    const fn nothing() -> Self {
        Self { headers: BTreeMap::new(), lacks_problem: false }
    }

    fn add(&mut self, other: Self) {
        self.headers.extend(other.headers);
        self.lacks_problem |= other.lacks_problem;
    }

    /// The update that adds what is lacking.
    fn update(&self) -> Value {
        let mut update = Map::new();
        if !self.headers.is_empty() {
            update.insert("headers".to_owned(), Value::Object(references_to(self.headers.values().copied())));
        }
        if self.lacks_problem {
            update.insert("content".to_owned(), problem_content());
        }
        json!(update)
    }
}
