//! The parameter `Idempotency-Key` of an operation, compared with its route.

use super::{DescriptionFindings, other_file};
use crate::lint::openapi_list::{OPENAPI_INCOMPLETE, OPENAPI_KEY, OPENAPI_KEY_SCHEMA};
use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::interface::{KeyUse, RouteInterface};
use crate::openapi::key_parameter::{self, KEY_HEADER, KeyParameter};
use crate::openapi::key_schema::SchemaVerdict;
use crate::openapi::operations::ApiOperation;
use crate::openapi::references::References;

pub(super) fn check<'t>(
    operation: &ApiOperation<'t>,
    interface: &RouteInterface<'_>,
    references: &References<'t>,
    found: &mut DescriptionFindings,
) {
    let keys = key_parameter::find(references, operation);
    for (reference, span) in &keys.unread {
        other_file(reference, operation.pointer(&["parameters"]), span, found);
    }
    let at = operation.pointer(&["parameters"]);
    let title = operation.title();
    let (endpoint, policy) = (&interface.route.endpoint, interface.route.policy.name());
    match (keys.effective(), interface.key) {
        // A parameter in another file may be the key.
        (None, KeyUse::Required | KeyUse::Optional) if !keys.unread.is_empty() => {}
        (None, KeyUse::Required) => found.add(
            &OPENAPI_KEY,
            at,
            &operation.name_span,
            format!("`{title}` has no header parameter `{KEY_HEADER}`, and `{endpoint}` ({policy}) answers 400 without a key"),
            "add the parameter with `required: true`, or apply what `overlay` writes",
        ),
        (None, KeyUse::Optional) => found.add(
            &OPENAPI_INCOMPLETE,
            at,
            &operation.name_span,
            format!("`{title}` has no header parameter `{KEY_HEADER}`, so clients cannot make its retries safe"),
            "add the parameter with `required: false`, or apply what `overlay` writes",
        ),
        (None, KeyUse::AnyPlace | KeyUse::Refused | KeyUse::Removed) => {}
        (Some(key), KeyUse::AnyPlace) => schema(key, at, &title, interface, references, found),
        (Some(key), KeyUse::Required | KeyUse::Optional) => {
            let is_required = interface.key == KeyUse::Required;
            if key.is_required != is_required {
                let says = if is_required {
                    format!("is not required, and `{endpoint}` ({policy}) answers 400 without it")
                } else {
                    format!("is required, and `{endpoint}` ({policy}) also takes requests without it")
                };
                let message = format!("the key of `{title}` {says}");
                found.add(&OPENAPI_KEY, at.clone(), &key.span, message, format!("write `required: {is_required}`"));
            }
            schema(key, at, &title, interface, references, found);
        }
        (Some(key), KeyUse::Refused | KeyUse::Removed) => {
            let does = if interface.key == KeyUse::Refused { "answers 400 to it" } else { "removes it" };
            found.add(
                &OPENAPI_KEY,
                at,
                &key.span,
                format!("`{title}` has a header parameter `{}`, and `{endpoint}` ({policy}) {does}", key.name),
                "remove the parameter, or change the route's policy",
            );
        }
    }
}

fn schema<'t>(
    key: &KeyParameter<'t>,
    at: String,
    title: &str,
    interface: &RouteInterface<'_>,
    references: &References<'t>,
    found: &mut DescriptionFindings,
) {
    let in_content = || {
        let kind = references.get(key.node, "content")?.members().first()?;
        references.get(&kind.value, "schema")
    };
    let schema = references.get(key.node, "schema").or_else(in_content);
    let expected = interface.key_schema();
    let message = match expected.compare(references, schema, &examples(references, key.node)) {
        SchemaVerdict::Fits => return,
        SchemaVerdict::TakesMore(text, reason) => {
            format!("the schema of the key of `{title}` takes {text}, which the filter refuses (reason `{reason}`)")
        }
        SchemaVerdict::TakesNone => {
            format!(
                "the schema of the key of `{title}` takes none of the keys that were tried and that the filter takes"
            )
        }
        SchemaVerdict::Unreadable(pattern) => {
            format!(
                "the pattern `{pattern}` of the key of `{title}` cannot be compared with the policy: the command cannot read it"
            )
        }
    };
    let span = schema.map_or(&key.span, |schema| &schema.span);
    found.add(&OPENAPI_KEY_SCHEMA, at, span, message, format!("write the schema `{}`", expected.to_json()));
}

/// The examples of a parameter.
fn examples<'t>(references: &References<'t>, parameter: &'t SpannedNode) -> Vec<&'t str> {
    let list = references.get(parameter, "examples").map(SpannedNode::members).unwrap_or_default();
    let of_list = list.iter().filter_map(|example| {
        let example = references.resolve(&example.value).ok()?.node;
        references.text(example, "value").or_else(|| references.text(example, "dataValue"))
    });
    references.text(parameter, "example").into_iter().chain(of_list).collect()
}
