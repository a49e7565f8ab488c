//! The JSON Schema of policy documents, made of the members' blocks. Editors complete and check documents with it, and docs/policy.md
//! is made of it.

use super::document;
use super::members::{
    Choice, Custom, Flag, Integer, Member, Object, OptionalChoice, OptionalFlag, OptionalInteger, Text, TextOr, Texts,
};
use crate::json::to_text;

/// What the schema says of an object.
pub(crate) struct ObjectTexts {
    /// The name of its definition
    pub definition: &'static str,
    /// Its title; empty for a small object, which has no section on the page
    pub title: &'static str,
    /// Its description
    pub text: &'static str,
    /// More members of its schema, as a JSON object; empty if there are none
    pub schema: &'static str,
    /// Its members
    pub members: &'static [&'static dyn Described],
}

/// What the schema says of a member, besides what its kind says.
pub(crate) struct MemberTexts {
    /// Its title; empty if its object has one
    pub title: &'static str,
    /// Its description; empty if its object has one
    pub text: &'static str,
    /// More members of its schema, as a JSON object; empty if there are none
    pub schema: &'static str,
}

/// What several members refer to: a definition that is no object of its own.
pub(crate) struct Grammar {
    /// The name of the definition
    pub definition: &'static str,
    /// Its title
    pub title: &'static str,
    /// Its description
    pub text: &'static str,
    /// Its schema, as a JSON object
    pub schema: fn() -> String,
}

/// A member of whatever kind.
pub(crate) trait Described {
    /// Its name
    fn name(&self) -> &'static str;
    /// Whether its object needs it
    fn is_required(&self) -> bool;
    /// Its schema
    fn schema(&self) -> String;
}

/// What a kind of member says of its values.
trait Kind {
    /// Members of the schema, each with a comma behind it
    fn schema(&self) -> String;
}

impl<K: Kind> Described for Member<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_required(&self) -> bool {
        self.required.is_some()
    }

    fn schema(&self) -> String {
        join(self.texts.title, self.texts.text, &self.kind.schema(), self.texts.schema)
    }
}

impl Kind for Integer {
    fn schema(&self) -> String {
        format!("{} \"default\": {},", integer(self.least, self.most), self.default)
    }
}

impl Kind for OptionalInteger {
    fn schema(&self) -> String {
        integer(self.least, self.most)
    }
}

fn integer(least: u64, most: u64) -> String {
    format!(r#""type": "integer", "minimum": {least}, "maximum": {most},"#)
}

impl Kind for Flag {
    fn schema(&self) -> String {
        format!(r#""type": "boolean", "default": {},"#, self.default)
    }
}

impl Kind for OptionalFlag {
    fn schema(&self) -> String {
        r#""type": "boolean","#.to_owned()
    }
}

impl<T: Default + PartialEq> Kind for Choice<T> {
    fn schema(&self) -> String {
        let default = self.words.iter().find(|(_, value)| *value == T::default());
        let default = default.map(|(word, _)| format!(" \"default\": \"{word}\",")).unwrap_or_default();
        words(self.words) + &default
    }
}

impl<T> Kind for OptionalChoice<T> {
    fn schema(&self) -> String {
        words(self.words)
    }
}

fn words<T>(words: &[(&str, T)]) -> String {
    format!("\"enum\": {},", to_text(&words.iter().map(|(word, _)| *word).collect::<Vec<_>>()))
}

impl<T> Kind for Text<T> {
    fn schema(&self) -> String {
        String::new()
    }
}

impl<T> Kind for TextOr<T> {
    fn schema(&self) -> String {
        format!("\"default\": {},", to_text(&self.default))
    }
}

impl<T> Kind for Texts<T> {
    fn schema(&self) -> String {
        String::new()
    }
}

impl Kind for Custom {
    fn schema(&self) -> String {
        String::new()
    }
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

/// An object of JSON: title and description, unless they are empty, then `own`, whose members end with commas, then the members of
/// `more`.
fn join(title: &str, text: &str, own: &str, more: &str) -> String {
    let text = text.trim();
    let said = |name: &str, text: &str| {
        if text.is_empty() { String::new() } else { format!("\"{name}\": {},", to_text(&text)) }
    };
    let more = more.trim().strip_prefix('{').and_then(|more| more.strip_suffix('}')).unwrap_or_default();
    let members = [&said("title", title), &said("description", text), own, more].concat();
    format!("{{{}}}", members.trim_end_matches(','))
}
