//! An overlay for a description that was read: its targets are the operations that have a route. What the description has
//! already stays as it is.

use super::actions::{OverlayActions, path};
use super::components::{problem_content, references_to};
use super::generators::{GeneratorSwitches, remove_from_operation};
use super::operation::{refusal, remove_keys, update};
use crate::diagnostics::tree::SpannedNode;
use crate::openapi::described_policy::DescribedPolicy;
use crate::openapi::interface::{AnswerHeader, RouteInterface};
use crate::openapi::key_parameter::{self, KEY_HEADER, KeyParameter};
use crate::openapi::operations::{self, ApiOperation};
use crate::openapi::references::References;
use crate::openapi::responses::{has_problem, lacking};
use crate::openapi::routing::{OperationRouter, Routing};
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
    policy: &DescribedPolicy,
    interfaces: &[RouteInterface<'_>],
    references: &References<'_>,
    switches: GeneratorSwitches,
    actions: &mut OverlayActions,
) -> Vec<String> {
    let router = OperationRouter::new(policy);
    let (operations, unread) = operations::of_description(references);
    let mut collected = Collected::default();
    let mut without_route = 0;
    for operation in &operations {
        match router.of_operation(operation) {
            Routing::Route(route) => {
                if let Some(interface) = interfaces.get(route.id) {
                    add_operation(operation, interface, references, switches, &mut collected, actions);
                }
            }
            Routing::StoredAnswer => {}
            Routing::OtherMethods(_) | Routing::NoRoute | Routing::Ambiguous(_) => without_route += 1,
        }
    }
    for (names, response) in &collected.shared {
        actions.update(path(names.iter().map(String::as_str)), response.update());
    }
    let mut notes: Vec<String> =
        unread.iter().map(|part| format!("{}: {}; {}", part.title, part.message, part.help)).collect();
    notes.extend(collected.elsewhere.iter().map(|reference| {
        let (message, help) = operations::unread_reference(reference);
        format!("{message}; {help}")
    }));
    if without_route > 0 {
        let are = if without_route == 1 { "operation has" } else { "operations have" };
        notes.push(format!("{without_route} {are} no route and was left out: `openapi check` shows where"));
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
    let target = path(operation.names.iter().map(String::as_str));
    let keys = key_parameter::find(references, operation);
    collected.elsewhere.extend(keys.unread.iter().map(|(reference, _)| (*reference).to_owned()));
    // The parameter that the update below adds goes first, should the overlay be applied again.
    if interface.takes_keys() || !keys.of_operation.is_empty() {
        remove(&target, &keys.of_operation, actions);
    }
    let item = path(operation.item_names().iter().map(String::as_str));
    if !keys.of_item.is_empty() && collected.items.insert(item.clone()) {
        remove(&item, &keys.of_item, actions);
    }
    remove_from_operation(switches, interface, &target, actions);
    let responses = responses(operation, interface, references, collected);
    actions.update(target, update(interface, responses, switches));
}

fn remove(owner: &str, keys: &[KeyParameter<'_>], actions: &mut OverlayActions) {
    let written = keys.iter().filter(|key| key.reference.is_none()).map(|key| key.name);
    let names = written.chain([KEY_HEADER]).collect();
    remove_keys(owner, &names, &keys.iter().filter_map(|key| key.reference).collect(), actions);
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
            updates.insert(status, Value::Object(refusal(interface, one, true)));
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
