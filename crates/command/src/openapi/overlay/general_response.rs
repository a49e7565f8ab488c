//! The response of a description that counts for a status which has none of its own: a new response takes its place, so it says the
//! same.

use crate::lints::diagnostics::tree::{SpannedMember, SpannedNode};
use crate::openapi::operations::ApiOperation;
use crate::openapi::references::{References, pointer};
use crate::openapi::responses::has_problem;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};

/// What the fragment of a URI cannot have (RFC 3986 section 3.5).
const FRAGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b'#')
    .add(b'[')
    .add(b']');

/// A response for several statuses.
pub(super) struct GeneralResponse<'t> {
    node: &'t SpannedNode,
    /// The names from the root of the document to the response
    names: Vec<String>,
}

/// The response `4XX`, `5XX` or `default` that counts for a status, if the operation has one.
///
/// # Errors
/// It is in another file; the error is the reference.
pub(super) fn general_response<'t>(
    operation: &ApiOperation<'t>,
    status: &str,
    written: &'t [SpannedMember],
    references: &References<'t>,
) -> Option<Result<GeneralResponse<'t>, String>> {
    let range = format!("{}XX", status.get(..1).unwrap_or_default());
    let names = [range.as_str(), "default"];
    let response = names.iter().find_map(|name| written.iter().find(|response| response.name == *name))?;
    Some(references.resolve(&response.value).map(|referred| {
        let own = || [operation.names.as_slice(), &["responses".to_owned(), response.name.clone()]].concat();
        GeneralResponse { node: referred.node, names: referred.names.unwrap_or_else(own) }
    }))
}

impl<'t> GeneralResponse<'t> {
    /// Adds its text, its headers and its media types to a new response.
    pub(super) fn add_to(&self, new: &mut Map<String, Value>, references: &References<'t>) {
        let text = references.text(self.node, "description").filter(|text| !text.is_empty());
        if let (Some(text), Some(Value::String(of_filter))) = (text, new.get_mut("description")) {
            *of_filter = format!("{of_filter} Or from the API: {text}");
        }
        let mut headers = Map::new();
        for header in self.members("headers", references) {
            headers.insert(header.name.clone(), self.reference(&["headers", &header.name], &header.value, references));
        }
        let of_filter = new.remove("headers").and_then(|of_filter| of_filter.as_object().cloned()).unwrap_or_default();
        let is_there = |name: &str| headers.keys().any(|own| own.eq_ignore_ascii_case(name));
        let lacking: Vec<_> = of_filter.into_iter().filter(|(name, _)| !is_there(name)).collect();
        headers.extend(lacking);
        if !headers.is_empty() {
            new.insert("headers".to_owned(), Value::Object(headers));
        }
        let Some(content) = new.get_mut("content").and_then(Value::as_object_mut) else { return };
        if has_problem(references, self.node) {
            content.clear();
        }
        for kind in self.members("content", references) {
            let schema = references.get(&kind.value, "schema");
            let refer = |schema| self.reference(&["content", &kind.name, "schema"], schema, references);
            content.insert(kind.name.clone(), schema.map_or(json!({}), |schema| json!({"schema": refer(schema)})));
        }
    }

    fn members(&self, name: &str, references: &References<'t>) -> Vec<&'t SpannedMember> {
        references.get(self.node, name).map(|node| references.members(node)).unwrap_or_default()
    }

    /// A reference to a value of the response. A copy of the value would have lists, which grow when the overlay is applied again.
    fn reference(&self, below: &[&str], value: &'t SpannedNode, references: &References<'t>) -> Value {
        let pointer = pointer(self.names.iter().map(String::as_str).chain(below.iter().copied()));
        let own = || format!("#{}", utf8_percent_encode(&pointer, FRAGMENT));
        json!({"$ref": references.text(value, "$ref").map_or_else(own, str::to_owned)})
    }
}
