//! What the operations of a description share: the schema of problem documents, and the headers of answers.

use super::actions::{OverlayActions, path};
use crate::openapi::interface::{AnswerHeader, RouteInterface};
use crate::openapi::references::References;
use edge_idempotency_engine::Policy;
use serde_json::{Map, Value, json};

/// The name of the schema of problem documents.
pub(super) const PROBLEM: &str = "IdempotencyProblem";
/// How the overlay's own schema is known.
const PROBLEM_TITLE: &str = "Idempotency problem";
/// How the overlay's own headers are known.
const MARK: &str = "x-idempotency-header";

/// Adds the components that the routes need.
///
/// # Errors
/// The description has a schema or a header of its own with such a name.
pub(super) fn add(
    policy: &Policy,
    interfaces: &[RouteInterface<'_>],
    description: Option<&References<'_>>,
    actions: &mut OverlayActions,
) -> Result<(), String> {
    let mut headers: Map<String, Value> = Map::new();
    for header in interfaces.iter().flat_map(RouteInterface::all_headers) {
        headers
            .entry(&header.component)
            .or_insert_with(|| json!({"description": header.description, MARK: true, "schema": {"type": header.kind}}));
    }
    if let Some(references) = description {
        let find = |section: &str, name: &str| {
            let components = references.get(references.root(), "components")?;
            references.get(references.get(components, section)?, name)
        };
        let schema = find("schemas", PROBLEM).filter(|node| references.text(node, "title") != Some(PROBLEM_TITLE));
        let header =
            headers.keys().find(|name| find("headers", name).is_some_and(|node| references.get(node, MARK).is_none()));
        let taken = schema
            .map(|_| format!("components.schemas.{PROBLEM}"))
            .or(header.map(|name| format!("components.headers.{name}")));
        if let Some(taken) = taken {
            return Err(format!(
                "the description has a component of its own at `{taken}`, where the overlay puts one: rename it"
            ));
        }
    }
    // Lists of the schema would grow with each application.
    actions.remove(path(["components", "schemas", PROBLEM]));
    let components = json!({"schemas": {PROBLEM: problem(policy)}, "headers": headers});
    actions.update("$".to_owned(), json!({"components": components}));
    Ok(())
}

/// The JSON Schema of problem documents (docs/contract.md section 8).
fn problem(policy: &Policy) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let mut properties = json!({
        "type": text("The address of the page about this code, or `about:blank`."),
        "title": text("The name of the code for people."),
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": text("What to change, for people."),
        "instance": text("The id of the request, for questions to support."),
        "code": text("The code, for programs."),
        "reason": text("Why a key or a delivery is refused."),
        "retry": {
            "type": "string",
            "description": "What to do: `new_request` (change the request), `new_key` (send another key), `wait` and `same_key` (send the \
                            same request with the same key later), `never` (the same request will be refused again).",
            "enum": ["new_request", "new_key", "wait", "same_key", "never"],
        },
        "identity": {
            "type": "array",
            "description": "The parts of the caller's identity that are missing or wrong.",
            "items": {"type": "object"},
        },
    });
    if let Some(properties) = properties.as_object_mut().filter(|_| policy.answers.error_member) {
        let error = json!({
            "type": "object",
            "description": "The same for clients that look only here.",
            "properties": {
                "code": {"type": "string"}, "message": {"type": "string"}, "type": {"type": "string"}, "doc_url": {"type": "string"},
            },
        });
        properties.insert("error".to_owned(), error);
    }
    json!({
        "title": PROBLEM_TITLE,
        "description": "A problem document (RFC 9457). Programs read `code` and `retry`.",
        "type": "object",
        "required": ["type", "title", "status", "code", "retry"],
        "properties": properties,
    })
}

/// The headers of a response, each as a reference.
pub(super) fn references_to<'h>(headers: impl IntoIterator<Item = &'h AnswerHeader>) -> Map<String, Value> {
    let reference = |header: &AnswerHeader| json!({"$ref": format!("#/components/headers/{}", header.component)});
    headers.into_iter().map(|header| (header.name.clone(), reference(header))).collect()
}

/// The content of a response that is a problem document.
pub(super) fn problem_content() -> Value {
    json!({"application/problem+json": {"schema": {"$ref": format!("#/components/schemas/{PROBLEM}")}}})
}
