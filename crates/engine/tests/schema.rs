//! The JSON Schema and the readers, both made of the members' blocks, agree on the texts and the combinations that they refuse.
//!
//! `tests/schema/every_member.json` has every member that the schema knows. The tests walk it together with the
//! schema, break it in one place at a time, and ask both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod changes;
mod page;

use self::changes::single_changes;
use crate::extent::{part_of, some};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::json::Issue;
use edge_idempotency_engine::policy::{reader_issues, schema};
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const REFERENCE: &str = include_str!("../../../policies/reference.json");
const EVERY_MEMBER: &str = include_str!("schema/every_member.json");

/// The schema, and the parts of it that apply to a place of a document.
struct Schema {
    root: Value,
    validator: Validator,
}

impl Schema {
    fn read() -> Self {
        let root: Value = serde_json::from_str(&schema()).unwrap();
        Self { validator: jsonschema::validator_for(&root).unwrap(), root }
    }

    fn accepts(&self, document: &Value) -> bool {
        self.validator.is_valid(document)
    }

    /// Whether a part of the schema, on its own, accepts a value.
    fn part_accepts(&self, part: &Value, value: &Value) -> bool {
        let alone = json!({"$defs": self.root["$defs"], "allOf": [part]});
        jsonschema::validator_for(&alone).unwrap().is_valid(value)
    }

    fn resolve<'s>(&'s self, part: &'s Value) -> Option<&'s Value> {
        let name = part.get("$ref")?.as_str().unwrap();
        Some(self.root.pointer(name.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{name} leads nowhere")))
    }

    /// Every place of a document with the parts of the schema that speak about it.
    fn places<'s>(&'s self, document: &Value) -> BTreeMap<String, Vec<&'s Value>> {
        let mut places = BTreeMap::new();
        self.walk(&self.root, document, "", &mut places);
        places
    }

    fn walk<'s>(
        &'s self,
        part: &'s Value,
        value: &Value,
        pointer: &str,
        places: &mut BTreeMap<String, Vec<&'s Value>>,
    ) {
        places.entry(pointer.to_owned()).or_default().push(part);
        if let Some(named) = self.resolve(part) {
            self.walk(named, value, pointer, places);
        }
        for also in part["allOf"].as_array().into_iter().flatten() {
            self.walk(also, value, pointer, places);
        }
        if let Some(condition) = part.get("if") {
            let branch = if self.part_accepts(condition, value) { "then" } else { "else" };
            part.get(branch).inspect(|branch| self.walk(branch, value, pointer, places));
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let named = part["properties"].get(name);
            let others = part.get("additionalProperties").filter(|_| named.is_none());
            named.or(others).inspect(|part| self.walk(part, value, &child(pointer, name), places));
        }
        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
            part.get("items").inspect(|part| self.walk(part, value, &child(pointer, &index.to_string()), places));
        }
    }

    /// Every part of the schema, whatever it is about.
    fn parts(&self) -> Vec<&Value> {
        fn collect<'s>(value: &'s Value, parts: &mut Vec<&'s Value>) {
            match value {
                Value::Object(members) => {
                    parts.push(value);
                    members.values().for_each(|value| collect(value, parts));
                }
                Value::Array(items) => items.iter().for_each(|value| collect(value, parts)),
                _ => {}
            }
        }
        let mut parts = Vec::new();
        collect(&self.root, &mut parts);
        parts
    }
}

fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn parent(pointer: &str) -> Option<(&str, String)> {
    let (parent, name) = pointer.rsplit_once('/')?;
    Some((parent, name.replace("~1", "/").replace("~0", "~")))
}

/// Objects that list their members.
fn is_closed(part: &Value) -> bool {
    part["additionalProperties"] == json!(false)
}

fn names(members: &Value) -> BTreeSet<&str> {
    members.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// The file, and each member that it lacks where a value alone is enough: an example, another word than the default, `true`, or the
/// upper bound.
fn every_member() -> Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
        let (schema, mut document) = (Schema::read(), serde_json::from_str(EVERY_MEMBER).unwrap());
        for (place, name, member) in missing_members(&schema, &document) {
            let member = schema.resolve(member).filter(|_| member.get("examples").is_none()).unwrap_or(member);
            let listed = ["examples", "enum"].iter().filter_map(|name| member[*name].as_array()).flatten();
            let fits = |value: &Value| issues(&with(&document, &child(&place, &name), value.clone())).is_empty();
            let mut values = listed.rev().chain(member.get("maximum")).cloned().chain([json!(true)]);
            values.find(fits).inspect(|value| document = with(&document, &child(&place, &name), value.clone()));
        }
        document
    });
    DOCUMENT.clone()
}

/// The members that no object of a document has: the first place of the object, the name, and what the schema says of the member.
fn missing_members<'s>(schema: &'s Schema, document: &Value) -> Vec<(String, String, &'s Value)> {
    let mut seen: BTreeMap<*const Value, (String, BTreeSet<String>)> = BTreeMap::new();
    for (pointer, parts) in schema.places(document) {
        for part in parts.into_iter().filter(|part| is_closed(part)) {
            let (_, members) = seen.entry(part).or_insert_with(|| (pointer.clone(), BTreeSet::new()));
            members.extend(names(document.pointer(&pointer).unwrap()).into_iter().map(str::to_owned));
        }
    }
    let mut missing = Vec::new();
    for part in schema.parts().into_iter().filter(|part| is_closed(part)) {
        let (place, members) = seen.remove(&std::ptr::from_ref(part)).unwrap_or_default();
        let properties = part["properties"].as_object().into_iter().flatten();
        let properties = properties.filter(|(name, _)| !members.contains(*name));
        missing.extend(properties.map(|(name, member)| (place.clone(), name.clone(), member)));
    }
    missing
}

fn compile(document: &Value) -> Result<Policy, Vec<Issue>> {
    Policy::from_json(document.to_string().as_bytes()).map_err(|errors| errors.0)
}

fn issues(document: &Value) -> Vec<Issue> {
    compile(document).err().unwrap_or_default()
}

fn with(document: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = document.clone();
    match changed.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, name) = parent(pointer).unwrap();
            changed.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(name, value);
        }
    }
    changed
}

/// `None` where there is no member to leave out (the document itself, items).
fn without(document: &Value, pointer: &str) -> Option<Value> {
    let (parent, name) = parent(pointer)?;
    let mut changed = document.clone();
    changed.pointer_mut(parent)?.as_object_mut()?.shift_remove(&name)?;
    Some(changed)
}

#[test]
fn the_schema_is_one_and_tells_an_editor_everything() {
    let schema = Schema::read();
    jsonschema::meta::validate(&schema.root).unwrap();
    for part in schema.parts() {
        for (name, member) in part["properties"].as_object().into_iter().flatten().filter(|_| is_closed(part)) {
            let named = schema.resolve(member);
            for wanted in ["title", "description"] {
                let text = member.get(wanted).or_else(|| named?.get(wanted)).and_then(Value::as_str);
                assert!(text.is_some_and(|text| !text.is_empty()), "`{name}` has no {wanted}: {member}");
            }
            let given = [member].into_iter().chain(named).flat_map(|part| {
                part.get("default").into_iter().chain(part["examples"].as_array().into_iter().flatten())
            });
            for value in given {
                assert!(schema.part_accepts(member, value), "`{name}` refuses its own example or default {value}");
            }
        }
    }
}

#[test]
fn the_walked_document_has_every_member_and_both_accept_it() {
    let (schema, document) = (Schema::read(), every_member());
    assert_eq!(issues(&document), []);
    assert!(schema.accepts(&document), "{:?}", schema.validator.iter_errors(&document).collect::<Vec<_>>());
    let missing: Vec<_> =
        missing_members(&schema, &document).into_iter().map(|(place, name, _)| (place, name)).collect();
    assert!(missing.is_empty(), "every_member.json lacks members, and their examples do not fit into it: {missing:?}");
}

#[test]
fn leaving_a_member_out_is_writing_its_default() {
    let schema = Schema::read();
    let document = every_member();
    let mut defaults = 0;
    for (pointer, parts) in schema.places(&document) {
        for default in parts.iter().filter_map(|part| part.get("default")) {
            // A route's mode is the document's, and a guard without a name has the default one.
            let (Some(left_out), written) = (without(&document, &pointer), with(&document, &pointer, default.clone()))
            else {
                continue;
            };
            match (compile(&left_out), compile(&written)) {
                (Ok(left_out), Ok(written)) => {
                    let (left_out, written) = (format!("{left_out:?}"), format!("{written:?}"));
                    let differs = left_out.bytes().zip(written.bytes()).position(|(one, other)| one != other);
                    let around = |text: &str, at: usize| {
                        String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(80)..text.len().min(at + 80)])
                            .into_owned()
                    };
                    if let Some(at) = differs {
                        let (left_out, written) = (around(&left_out, at), around(&written, at));
                        panic!("default at {pointer}\nleft out: …{left_out}…\nwritten:  …{written}…");
                    }
                    assert_eq!(left_out.len(), written.len(), "default at {pointer}");
                }
                (left_out, written) => assert_eq!(left_out.err(), written.err(), "default at {pointer}"),
            }
            defaults += 1;
        }
    }
    assert!(defaults > 15, "{defaults}");
}

/// The grammars and relations within one object that JSON Schema cannot express: a change of the first place (or above, or below it; `*`
/// is one step) can be an error at the second, with these words.
const RELATIONS: &[(&str, &str, &str)] = &[
    ("/allow_inline_secrets", "/webhooks/static/*/secrets/*", "allow_inline_secrets"),
    ("/allow_inline_secrets", "/backends/*/operations/secret/*", "a secret in the document"),
    ("/backend", "/backend", "`backends` has no"),
    ("/backends", "/backend", "`backends` has no"),
    ("/backends", "/backend", "the name of a backend needs `backends`"),
    ("/callers/*/signature", "/callers/*/signature", "is missing"),
    ("/callers/*/signature", "/callers/*/signature/*", "unknown member"),
    ("/identity/forward/*", "/identity/forward", "need three different headers"),
    ("/identity/sources/*/name", "/identity/sources/*", "is used twice"),
    ("/identity/sources/*/payload_header", "/identity/sources/*/project", "expected a string"),
    ("/identity/sources/*/payload_header", "/identity/sources/*/tenant", "with - instead of _"),
    ("/retention/classes", "/retention/services/*", "no class"),
    ("/retention/services/*", "/retention/services/*", "no class"),
    ("/routes/*/key/format", "/routes/*/key/max_age", "keys that hold their time"),
    ("/routes/*/key/pattern", "/routes/*/key/pattern", "cannot be used"),
    ("/routes/*/hosts/*", "/routes/*/hosts/*", "in its canonical form"),
    ("/routes/*/path", "/routes/*/path", "is in the path twice"),
    ("/webhooks/openbao/path", "/webhooks/openbao/path", "exactly once"),
    ("/webhooks/openbao", "/webhooks/unkey", "where secrets are looked up"),
    ("/webhooks/providers", "/webhooks/providers/*", "is missing"),
    ("/webhooks/providers", "/webhooks/providers/*/*", "unknown member"),
];

/// Whether a pattern leads to a place, or (`around`) to one above or below it.
fn leads_to(pattern: &str, pointer: &str, around: bool) -> bool {
    let same = pattern.split('/').zip(pointer.split('/')).all(|(wanted, step)| wanted == "*" || wanted == step);
    same && (around || pattern.split('/').count() == pointer.split('/').count())
}

/// Whether an error at `found` names the fault at `changed`: it stands there, below, or at the object around it.
fn names_the_place(found: &str, changed: &str) -> bool {
    found == changed
        || found.strip_prefix(changed).is_some_and(|rest| rest.starts_with('/'))
        || parent(changed).is_some_and(|(parent, _)| found == parent)
}

#[test]
fn both_refuse_the_same_single_faults() {
    let (schema, document) = (Schema::read(), every_member());
    let mut unused: BTreeSet<(&str, &str, &str)> = RELATIONS.iter().copied().collect();
    // One example for each place and each list of errors is enough to read.
    let mut wrong = BTreeMap::new();
    let mut refused = 0;
    for (pointer, changed) in some(single_changes(&schema, &document)).filter_map(|change| change.of(&document)) {
        let found = reader_issues(changed.to_string().as_bytes());
        let accepted = schema.accepts(&changed);
        refused += usize::from(!accepted);
        let is_refused = !found.is_empty() || !issues(&changed).is_empty();
        let explained = |issue: &Issue| {
            let relation = |(changed, named, words): &&(&str, &str, &str)| {
                leads_to(changed, &pointer, true)
                    && leads_to(named, &issue.pointer, false)
                    && issue.message.contains(words)
            };
            (!accepted && names_the_place(&issue.pointer, &pointer))
                || RELATIONS.iter().filter(relation).map(|row| unused.remove(row)).count() > 0
        };
        let unexplained = found.iter().map(explained).filter(|explained| !explained).count();
        let what = match (accepted, !is_refused, unexplained == 0) {
            (false, true, _) => "only the schema refuses (mend the code, or add a row to RELATIONS)",
            (true, _, false) => "only the code refuses",
            (false, _, false) => "the code names another place",
            _ => continue,
        };
        let value = changed.pointer(&pointer).map_or_else(|| "(left out)".to_owned(), Value::to_string);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        let places: Vec<String> = found.iter().map(|issue| issue.pointer.clone()).collect();
        wrong.insert((what, pointer.clone(), places), format!("{what}: {pointer} = {value}: {shown:?}"));
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), Vec::from_iter(wrong.into_values()).join("\n"));
    assert!(
        part_of(100) < 100 || unused.is_empty(),
        "no document shows these rows of RELATIONS; TEXTS may lack the values: {unused:?}"
    );
    assert!(refused > part_of(5000) as usize, "{refused}");
}

/// How a caller signs is a scheme of a provider file, which has a schema of its own.
#[test]
fn callers_sign_as_providers_do() {
    let provider: Value = serde_json::from_str(include_str!("../../../policies/provider.schema.json")).unwrap();
    let scheme = json!({"$defs": provider["$defs"], "$ref": "#/$defs/scheme"});
    let scheme = jsonschema::validator_for(&scheme).unwrap();
    let example = Schema::read().root["$defs"]["caller"]["properties"]["signature"]["examples"][0].clone();
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    for signature in [&example, &reference["callers"]["scheduler"]["signature"]] {
        assert!(scheme.is_valid(signature), "{signature}");
        assert!(!scheme.is_valid(&without(signature, "/template").unwrap()));
        assert_eq!(issues(&with(&every_member(), "/callers/scheduler/signature", signature.clone())), []);
    }
}

#[test]
fn page_is_what_the_schema_says() {
    page::check(&Schema::read().root).unwrap();
}
