//! The JSON Schema of policy documents, made of the members' blocks. Editors complete and check documents with it, and docs/policy.md
//! is made of it.

use super::compile::parse;
use super::document::{self, Document};
use super::members::Object;
use super::members::description::join;
use crate::json::cursor::{Issue, Issues, JsonCursor};
use crate::json::to_text;

/// What the readers of the members report of a document, which is all that the schema can know: nothing of how members fit together.
pub fn reader_issues(document: &[u8]) -> Vec<Issue> {
    let json = match parse(document) {
        Ok(json) => json,
        Err(errors) => return errors.0,
    };
    let mut issues = Issues::default();
    Document::read(&JsonCursor::root(&json), &mut issues);
    issues.0
}

/// The JSON Schema of policy documents (draft 2020-12), as JSON. Its members have the order of the blocks.
pub fn schema() -> String {
    let objects = document::OBJECTS.iter().map(|object| (object.texts.definition, of_object(object, "")));
    let grammars = document::GRAMMARS
        .iter()
        .map(|grammar| (grammar.definition, join(grammar.title, grammar.text, "", &(grammar.schema)())));
    let definitions: Vec<String> =
        objects.chain(grammars).map(|(name, schema)| format!("\"{name}\": {schema}")).collect();
    let first = format!(
        "\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"$defs\": {{{}}},",
        definitions.join(", ")
    );
    of_object(&document::document::OBJECT, &first)
}

fn of_object(object: &Object, first: &str) -> String {
    let texts = &object.texts;
    let members: Vec<String> =
        texts.members.iter().map(|member| format!("\"{}\": {}", member.name(), member.schema())).collect();
    let required: Vec<&str> =
        texts.members.iter().filter(|member| member.is_required()).map(|member| member.name()).collect();
    let required = if required.is_empty() { String::new() } else { format!("\"required\": {},", to_text(&required)) };
    let own = format!(
        "{first} \"type\": \"object\", \"additionalProperties\": false, {required} \"properties\": {{{}}},",
        members.join(", ")
    );
    join(texts.title, texts.text, &own, texts.schema)
}
