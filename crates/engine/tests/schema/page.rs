//! docs/policy.md, made from the JSON Schema: each object of the document has a section, and each member a paragraph.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use testkit::cases::workspace;

/// What stands above the generated sections.
const HEAD: &str = include_str!("page_head.txt");

/// The page is what the schema says. With `UPDATE_DOCS=1` it is written anew.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    let path = workspace().join("docs/policy.md");
    let page = page(schema);
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).map_err(|error| error.to_string())?;
    }
    if std::fs::read_to_string(&path).is_ok_and(|text| text == page) {
        Ok(())
    } else {
        Err("docs/policy.md is stale: UPDATE_DOCS=1 cargo test --test engine schema::page".to_owned())
    }
}

fn page(schema: &Value) -> String {
    let mut writer = Writer { schema, page: HEAD.to_owned(), sections: BTreeMap::new(), told: BTreeMap::new() };
    writer.object("", schema);
    writer.page
}

/// Writes the sections in the order of the schema.
struct Writer<'s> {
    schema: &'s Value,
    page: String,
    /// The definitions that have a section, with its path; another place of the same definition links to it.
    sections: BTreeMap<String, String>,
    /// The object whose member a text stands at first.
    told: BTreeMap<String, String>,
}

impl<'s> Writer<'s> {
    /// Writes the section of an object, and then those of the objects in it.
    fn object(&mut self, path: &str, object: &'s Value) {
        let heading = if path.is_empty() { "The document".to_owned() } else { format!("`{path}`") };
        let _ = write!(self.page, "\n{} {heading}\n", "#".repeat(2 + path.matches('.').count().min(1)));
        if !path.is_empty() {
            let _ = write!(self.page, "\n{}\n", text(object, "description"));
        }
        let required: Vec<&str> =
            object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let members = object["properties"].as_object().into_iter().flatten();
        let mut inside = Vec::new();
        for (name, member) in members.clone().filter(|(name, _)| *name != "$schema") {
            let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.member(&at, name, member, required.contains(&name.as_str()), &mut inside);
        }
        for (path, object) in inside {
            self.object(&path, object);
        }
    }

    /// Writes the paragraph of a member; `inside` gets the objects that need a section of their own.
    fn member(
        &mut self,
        at: &str,
        name: &str,
        member: &'s Value,
        required: bool,
        inside: &mut Vec<(String, &'s Value)>,
    ) {
        let kind = self.kind(at, member, inside);
        let definition = self.resolve(member);
        let mut facts: Vec<String> = Some(kind).filter(|kind| !kind.is_empty()).into_iter().collect();
        if required {
            facts.push("required".to_owned());
        }
        let default = member.get("default").or_else(|| definition.get("default"));
        facts.extend(default.filter(|default| **default != json!([])).map(|default| format!("default `{default}`")));
        let chain = self.chain(member);
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) };
        let said = chain.iter().map(|part| text(part, "description")).find(|text| !text.is_empty()).unwrap_or_default();
        // What has a section is described there, and what several objects have at the first of them.
        if facts.starts_with(" (an object, see") && text(member, "description").is_empty() {
            let _ = write!(self.page, "\n**`{name}`**{facts}.\n");
            return;
        }
        if let Some(first) = self.told.get(said).filter(|_| !said.is_empty()) {
            let _ = write!(self.page, "\n**`{name}`**{facts}. As [above](#{}).\n", anchor(first));
            return;
        }
        let object = at.rsplit_once('.').map_or("The document", |(object, _)| object);
        self.told.insert(said.to_owned(), object.replace(' ', "-"));
        let example = chain.iter().find_map(|part| part.get("examples")?.as_array()?.first());
        let example = example.map_or_else(String::new, |example| format!(" Example: `\"{name}\": {example}`"));
        let _ = write!(self.page, "\n**`{name}`**{facts}. {said}{example}\n");
    }

    /// What a member may be.
    fn kind(&mut self, at: &str, member: &'s Value, inside: &mut Vec<(String, &'s Value)>) -> String {
        let part = self.resolve(member);
        if let Some(words) = part["enum"].as_array() {
            let words: Vec<String> =
                words.iter().map(|word| format!("`{}`", word.as_str().unwrap_or_default())).collect();
            return format!("one of {}", words.join(", "));
        }
        match part["type"].as_str() {
            Some("boolean") => "boolean".to_owned(),
            Some("integer") => match (&part["minimum"], &part["maximum"]) {
                (Value::Null, _) | (_, Value::Null) => "an integer".to_owned(),
                (least, most) if least == most => format!("the number {least}"),
                (least, most) => format!("{least} to {most}"),
            },
            Some("string") if member["$ref"] == "#/$defs/duration" => {
                "a duration such as `30s`, `15m`, `24h` or `7d`".to_owned()
            }
            Some("string") => "a text".to_owned(),
            Some("array") => {
                let item = self.kind(&format!("{at}[]"), &part["items"], inside);
                match &part["maxItems"] {
                    most if item != "a text" => format!(
                        "a list{}; each item is {item}",
                        most.as_u64().map(|most| format!(" of at most {most}")).unwrap_or_default()
                    ),
                    Value::Null => "a list of texts".to_owned(),
                    most => format!("a list of at most {most} texts"),
                }
            }
            Some("object") => match (&part["properties"], part.get("additionalProperties")) {
                (Value::Null, Some(values)) if values.is_object() => {
                    let value = self.kind(&format!("{at}.NAME"), values, inside);
                    format!("an object with names of your choice, each value is {value}")
                }
                (Value::Null, _) => "an object".to_owned(),
                _ => self.section(at, member, part, inside),
            },
            None if part.get("if").is_none() => String::new(),
            // `if` tells the types apart, each of which is one of the other two.
            _ => {
                let mut kinds: Vec<String> = Vec::new();
                for branch in ["then", "else"] {
                    for kind in self.kind(at, &part[branch], inside).split(", or ") {
                        if !kinds.iter().any(|known| known == kind) {
                            kinds.push(kind.to_owned());
                        }
                    }
                }
                // One value, or a list of such values.
                if let Some(at) = kinds.iter().position(|kind| kind.starts_with("a list; each item is ")) {
                    kinds.remove(at);
                    kinds.push("a list of these".to_owned());
                }
                kinds.sort_by_key(|kind| (kind.starts_with("a list"), kind.starts_with("an object")));
                kinds.join(", or ")
            }
        }
    }

    /// A link to an object's section, which is written later if this is the first place of the object.
    fn section(
        &mut self,
        at: &str,
        member: &'s Value,
        part: &'s Value,
        inside: &mut Vec<(String, &'s Value)>,
    ) -> String {
        // A small object without a name of its own needs no section.
        if let Some(members) = part["properties"].as_object().filter(|_| part.get("title").is_none()) {
            let members: Vec<String> = members.keys().map(|name| format!("`{name}`")).collect();
            return format!("an object with {}", members.join(", "));
        }
        let name = member["$ref"].as_str().unwrap_or(at);
        if !self.sections.contains_key(name) {
            self.sections.insert(name.to_owned(), at.to_owned());
            inside.push((at.to_owned(), part));
        }
        let path = &self.sections[name];
        format!("an object, see [`{path}`](#{})", anchor(path))
    }

    /// A part, the definition that it refers to, and so on.
    fn chain(&self, part: &'s Value) -> Vec<&'s Value> {
        let mut chain = vec![part];
        while let Some(pointer) = chain[chain.len() - 1]["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
            chain.push(self.schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere")));
        }
        chain
    }

    /// The definition that a part refers to, or the part itself if it says what its value is.
    fn resolve(&self, part: &'s Value) -> &'s Value {
        let chain = self.chain(part);
        chain[chain.len() - 1]
    }
}

fn text<'s>(part: &'s Value, name: &str) -> &'s str {
    part[name].as_str().unwrap_or_default()
}

/// The anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).collect()
}
