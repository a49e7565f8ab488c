//! Provider files: those of the repository, and what their schema and the filter refuse.

use super::twins::ReadNames;
use crate::extent::{part_of, some};
use edge_idempotency_engine::json::Issue;
use edge_idempotency_engine::provider::{Catalogue, Provider};
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::cases::workspace;

const SCHEMA: &str = include_str!("../../../../policies/provider.schema.json");
const EVERY_MEMBER: &str = include_str!("every_member.json");
/// Members that the filter leaves to people.
const FOR_PEOPLE: [&str; 6] = ["/$schema", "/name", "/docs_url", "/no_identifier", "/retry", "/notes"];
/// And those that it needs of them.
const NOT_FOR_PEOPLE: &str = "/retry/same_body_on_resend";
/// Members of an identifier that the filter leaves to people.
const OF_IDENTIFIERS: [&str; 4] = ["/of", "/same_on_retry", "/same_on_resend", "/source"];

/// Name and text of every file in policies/providers/, by name.
pub(crate) fn sources() -> Vec<(String, String)> {
    let directory = workspace().join("policies/providers");
    let mut files: Vec<(String, String)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn validator() -> Validator {
    jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap()
}

/// Every file is whole, fits its schema, and is compiled in as it is.
pub(crate) fn are_whole() -> Result<(), String> {
    let validator = validator();
    let sources = sources();
    let names: Vec<&str> = sources.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(Catalogue::compiled_in().names().collect::<Vec<_>>(), names);
    for (name, text) in &sources {
        let json: Value = serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        let errors: Vec<String> =
            validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let read = Provider::read(name, text.as_bytes()).map_err(|issues| format!("{name}: {issues:?}"))?;
        assert_eq!(Catalogue::compiled_in().provider(name), Some(read), "{name}");
        for member in ["name", "docs_url", "retry"] {
            assert!(json.get(member).is_some(), "{name} has no `{member}`");
        }
        assert!(json.get("identifiers").is_some() != json.get("no_identifier").is_some(), "{name}");
        // Each was asked what its identifier is; `null` is an answer.
        for identifier in json["identifiers"].as_array().into_iter().flatten() {
            for member in ["of", "unique", "same_on_retry"] {
                assert!(identifier.get(member).is_some(), "{name}: `{member}` of {identifier}");
            }
            let renewed = identifier["same_on_retry"] == false;
            assert!(
                !renewed,
                "{name}: each attempt has another {identifier}, so retries run again: write `no_identifier`"
            );
        }
        // What a file reads is taken out of a delivery, or stands there as it was verified.
        let read_names = ReadNames::of(&json);
        for header in json["handler_headers"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(!read_names.all().contains(header.to_ascii_lowercase().as_str()), "{name} reads {header}");
        }
    }
    assert_eq!(Catalogue::compiled_in().provider("no_such_provider"), None);
    Ok(())
}

/// Every file has a vector that verifies and one that does not.
pub(crate) fn have_vectors() -> Result<(), String> {
    let vectors = testkit::vectors::all();
    let mut ids = BTreeSet::new();
    if let Some(twice) = vectors.iter().find(|vector| !ids.insert(&vector.id)) {
        return Err(format!("two vectors have the id {}", twice.id));
    }
    let having = |valid: bool| -> BTreeSet<&str> {
        vectors.iter().filter(|vector| vector.valid == valid).map(|vector| vector.provider.as_str()).collect()
    };
    let (good, bad) = (having(true), having(false));
    let missing: Vec<String> = sources()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !good.contains(name.as_str()) || !bad.contains(name.as_str()))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "tests/vectors/providers/ needs for each of {missing:?} a delivery with `valid: true` and one with `false`"
        ))
    }
}

/// Breaks files in one place at a time and asks both the schema and the filter.
pub(crate) fn agree_with_the_schema() -> Result<(), String> {
    let validator = validator();
    let mut documents = vec![serde_json::from_str::<Value>(EVERY_MEMBER).unwrap()];
    let chosen = ["gitlab", "mailgun", "standard_webhooks", "twilio"];
    let sources = sources().into_iter().filter(|(name, _)| chosen.contains(&name.as_str()));
    documents.extend(sources.map(|(_, text)| serde_json::from_str(&text).unwrap()));
    let mut tried = 0;
    for document in &documents {
        assert_eq!(issues(document), [], "{document}");
        assert!(validator.is_valid(document), "{document}");
        let changes = places(document).into_iter().flat_map(|pointer| {
            let changed = changes(document, &pointer);
            changed.into_iter().map(move |changed| (pointer.clone(), changed))
        });
        for (pointer, changed) in some(changes) {
            tried += 1;
            let issues = issues(&changed);
            let schema = validator.is_valid(&changed);
            let for_people = FOR_PEOPLE.iter().any(|place| pointer.starts_with(place)) && pointer != NOT_FOR_PEOPLE
                || OF_IDENTIFIERS.iter().any(|member| pointer.ends_with(member));
            if issues.is_empty() && !schema && !for_people {
                return Err(format!("only the schema refuses a change of {pointer}: {changed}"));
            }
            if schema && issues.iter().any(|issue| !is_relation(issue)) {
                return Err(format!("only the filter refuses a change of {pointer}: {issues:?} {changed}"));
            }
        }
    }
    assert!(tried > part_of(5_000), "{tried}");
    Ok(())
}

/// Every member of the schema is in the file that has every member.
pub(crate) fn every_member_is_tried() -> Result<(), String> {
    fn members<'v>(value: &'v Value, out: &mut BTreeSet<&'v str>) {
        match value {
            Value::Object(map) => {
                out.extend(map.keys().map(String::as_str));
                map.values().for_each(|value| members(value, out));
            }
            Value::Array(items) => items.iter().for_each(|value| members(value, out)),
            _ => {}
        }
    }
    fn declared<'v>(schema: &'v Value, out: &mut BTreeSet<&'v str>) {
        match schema {
            Value::Object(map) => {
                out.extend(
                    map.get("properties")
                        .and_then(Value::as_object)
                        .into_iter()
                        .flat_map(|map| map.keys().map(String::as_str)),
                );
                map.values().for_each(|value| declared(value, out));
            }
            Value::Array(items) => items.iter().for_each(|value| declared(value, out)),
            _ => {}
        }
    }
    let (schema, document): (Value, Value) =
        (serde_json::from_str(SCHEMA).unwrap(), serde_json::from_str(EVERY_MEMBER).unwrap());
    let (mut known, mut used) = (BTreeSet::new(), BTreeSet::new());
    declared(&schema, &mut known);
    members(&document, &mut used);
    let missing: Vec<_> = known.difference(&used).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
}

/// A file with many faults is told all of them, each with its place.
pub(crate) fn faults_are_told_together() -> Result<(), String> {
    let file = r#"{"schemas": [], "identifiers": [{"header": "X Id"}], "schemes": [
        {"algorithm": "md5", "signature": {"header": "X-S", "json": "/s", "encoding": "hex"}, "template": "{boddy}"},
        {"algorithm": "token", "signature": {"header": "X-S"}, "template": "{body}"}]}"#;
    let told: Vec<String> = Provider::read("p", file.as_bytes()).unwrap_err().iter().map(ToString::to_string).collect();
    let expected = [
        "/schemas: unknown member `schemas`; did you mean `schemes`?",
        "/identifiers/0: the member `signed` is missing",
        "/identifiers/0/header: expected the name of a header",
        "/schemes/0/algorithm: expected one of `hmac-sha256`, `hmac-sha1`, `hmac-sha512`, `sha256-secret-first`, `token`, \
         `ed25519`, `ecdsa-p256`, found `md5`",
        "/schemes/0/signature: write exactly one of `header`, `headers`, `numbered_headers`, `json`",
        "/schemes/0/template: `{boddy}` is not one of {body}, {timestamp}, {id}, {method}, {url}, {hubspot_url}, {path}, \
         {sorted_form}, {header:Name}, {json:/pointer}, {json?:/pointer}",
        "/schemes/1/template: `template` is not supported for a token, which signs nothing",
    ];
    assert_eq!(told, expected);
    Ok(())
}

/// What members mean together: each fault alone, with its place.
pub(crate) fn relations_are_told() -> Result<(), String> {
    let scheme = |more: Value| {
        let mut scheme = json!({
            "algorithm": "hmac-sha256", "signature": {"header": "X-S", "encoding": "hex"}, "template": "{body}"
        });
        scheme.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        scheme
    };
    let pairs = json!({"header": "X-S", "pairs": {"separator": ",", "key": "v1"}, "encoding": "hex"});
    let clock = json!({"pair": "t", "unit": "s", "max_age_s": 300});
    let none = json!([]);
    for (scheme, identifiers, place) in [
        (scheme(json!({})), json!([{"header": "X-Id", "signed": true}]), "/schemes/0/template"),
        (scheme(json!({})), json!([{"json": "/id", "signed": false}]), "/schemes/0/template"),
        (scheme(json!({"template": "{url}"})), json!([{"form": [["a"]], "signed": true}]), "/schemes/0/template"),
        (scheme(json!({"template": "{id}.{body}"})), none.clone(), "/schemes/0/template"),
        (scheme(json!({"template": "{id}.{body}"})), json!([{"json": "/id", "signed": true}]), "/schemes/0/template"),
        (scheme(json!({"template": "{timestamp}.{body}"})), none.clone(), "/schemes/0/template"),
        (scheme(json!({"timestamp": clock})), none.clone(), "/schemes/0/timestamp/pair"),
        (scheme(json!({"port": "any"})), none.clone(), "/schemes/0/port"),
        (scheme(json!({"body_hash": "h"})), none.clone(), "/schemes/0/body_hash"),
        (scheme(json!({"identifier": {"header": "X-Id", "signed": false}})), none.clone(), "/schemes/0/identifier"),
        (
            scheme(json!({"identifier": {"header": "X-Id", "signed": true}})),
            json!([{"header": "X-Other", "signed": false}]),
            "/schemes/0/template",
        ),
        (
            scheme(json!({})),
            json!([{"slot": "a", "header": "X-A", "signed": false}, {"slot": "a", "header": "X-B", "signed": false}]),
            "/identifiers/1/slot",
        ),
        (scheme(json!({})), json!([{"form": [["a", "b"]], "dash": "c", "signed": true}]), "/identifiers/0/form/0"),
    ] {
        let document = json!({"schemes": [scheme], "identifiers": identifiers});
        let places: Vec<String> = issues(&document).into_iter().map(|issue| issue.pointer).collect();
        assert_eq!(places, [place], "{document}");
    }
    let renewed = json!({
        "schemes": [scheme(json!({}))], "identifiers": [{"header": "X-Id", "signed": false, "unique": false}],
        "retry": {"same_body_on_resend": false}
    });
    assert_eq!(
        issues(&renewed).iter().map(|issue| issue.pointer.as_str()).collect::<Vec<_>>(),
        ["/identifiers/0/unique"]
    );
    let own_clock = json!({"header": "X-T", "unit": "s", "max_age_s": 300});
    let id = |signed: bool| json!([{"header": "X-Id", "signed": signed}]);
    // Parts that could be cut elsewhere, and what is said against it.
    for (more, identifiers, place) in [
        (json!({"template": "{url}{body}"}), none.clone(), "template"),
        (json!({"template": "{timestamp}{body}", "timestamp": own_clock}), none.clone(), "template"),
        (json!({"template": "{header:X-A}{header:X-B}"}), none.clone(), "template"),
        (json!({"template": "{url}{sorted_form}"}), none.clone(), "template"),
        (json!({"template": "{url}.{body}"}), none.clone(), "template"),
        (json!({"template": "{path}:{body}"}), none.clone(), "template"),
        (json!({"template": "{json:/a}:{json:/b}"}), none.clone(), "template"),
        (json!({"template": "{url}{body}", "boundaries": "timestamp"}), none.clone(), "boundaries"),
        (json!({"template": "{url}{sorted_form}", "boundaries": "json_body"}), none.clone(), "boundaries"),
        (json!({"template": "{header:X-A}{url}{body}", "boundaries": "json_body"}), none.clone(), "boundaries"),
        (json!({"template": "{url}{body}", "boundaries": "none"}), id(false), "boundaries"),
        (json!({"template": "{id}{body}", "boundaries": "none"}), id(true), "boundaries"),
        (
            json!({"template": "{url}{body}", "boundaries": "none"}),
            json!([{"json": "/id", "signed": true}]),
            "boundaries",
        ),
        (
            json!({"template": "{header:X-A}{url}{sorted_form}", "boundaries": "none", "body_hash": "h"}),
            id(false),
            "boundaries",
        ),
    ] {
        let document = json!({"schemes": [scheme(more)], "identifiers": identifiers});
        let places: Vec<String> = issues(&document).into_iter().map(|issue| issue.pointer).collect();
        assert_eq!(places, [format!("/schemes/0/{place}")], "{document}");
    }
    for (more, identifiers) in [
        (json!({"template": "{url}{body}", "boundaries": "json_body"}), id(false)),
        (json!({"template": "{url}.{body}", "boundaries": "json_body"}), id(false)),
        (json!({"template": "{url}\n{body}"}), id(false)),
        (json!({"template": "{method}{url}\n{header:X-A}:{body}"}), id(false)),
        (json!({"template": "{body}:{header:X-A}"}), id(false)),
        (json!({"template": "{url}{sorted_form}", "boundaries": "none", "body_hash": "h"}), id(false)),
        (
            json!({"template": "{url}{sorted_form}", "boundaries": "none"}),
            json!([{"form": [["a", "b"]], "signed": true}]),
        ),
        (json!({"template": "{timestamp}{body}", "timestamp": own_clock, "boundaries": "timestamp"}), id(false)),
        (json!({"template": "{id}{timestamp}{body}", "timestamp": own_clock, "boundaries": "json_body"}), id(true)),
    ] {
        let document = json!({"schemes": [scheme(more)], "identifiers": identifiers});
        assert_eq!(issues(&document), [], "{document}");
    }
    for fine in [
        scheme(json!({"signature": pairs, "timestamp": clock, "template": "{timestamp}.{body}"})),
        scheme(json!({"template": "{url}{body}", "boundaries": "json_body", "port": "any", "body_hash": "h"})),
    ] {
        assert_eq!(issues(&json!({"schemes": [fine]})), []);
    }
    Ok(())
}

fn issues(document: &Value) -> Vec<Issue> {
    Provider::read("p", document.to_string().as_bytes()).err().unwrap_or_default()
}

/// What members mean together, where a schema cannot say it.
fn is_relation(issue: &Issue) -> bool {
    [
        "correct `signed` of that identifier",
        "needs the member `timestamp`",
        "a timestamp in a pair needs",
        "means the first identifier",
        "replaces the first of",
        "another slot has this name",
        "and also the field of `dash`",
        "names no part of the delivery",
        "changes the signed URL",
        "stand side by side",
        "one signature fits several deliveries",
        "that is not unique needs the body",
        "does not show where",
        "`json_body` needs",
        "with `none`, keys are made",
    ]
    .iter()
    .any(|words| issue.message.contains(words))
}

/// The JSON pointers of all values.
fn places(document: &Value) -> Vec<String> {
    fn walk(value: &Value, pointer: &str, out: &mut Vec<String>) {
        let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
        out.push(pointer.to_owned());
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(name, value)| walk(value, &format!("{pointer}/{}", escape(name)), out))
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, value)| walk(value, &format!("{pointer}/{index}"), out))
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk(document, "", &mut out);
    out
}

/// The document with something else at a place, without it, and with something more in it.
fn changes(document: &Value, pointer: &str) -> Vec<Value> {
    let strange = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(86_401),
        json!(""),
        json!(" "),
        json!("x"),
        json!("X-Id"),
        json!("/a/0"),
        json!("/~"),
        json!("{body}"),
        json!("{bod}"),
        json!("{"),
        json!("{timestamp}{url}"),
        json!("hex"),
        json!("token"),
        json!("uuid"),
        json!("ab*"),
        json!("*"),
        json!("abcdefgh"),
        json!("é"),
        json!([]),
        json!([[]]),
        json!([""]),
        json!(["a"]),
        json!([["a"]]),
        json!({}),
        json!({"header": "x"}),
        json!({"a": "b"}),
        json!({"a b": "c"}),
    ];
    let with = |value: Value| {
        let mut changed = document.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let mut all: Vec<Value> = strange.iter().cloned().map(with).collect();
    if let Some(members) = document.pointer(pointer).unwrap().as_object() {
        for extra in [
            "unknown", "header", "json", "form", "pairs", "prefix", "template", "slot", "pattern", "dash", "single",
            "encoding", "port",
        ] {
            if !members.contains_key(extra) {
                let mut more = members.clone();
                more.insert(extra.to_owned(), json!("x"));
                all.push(with(Value::Object(more)));
            }
        }
        for name in members.keys() {
            let mut fewer = members.clone();
            fewer.remove(name);
            all.push(with(Value::Object(fewer)));
        }
    }
    if let Some(items) = document.pointer(pointer).unwrap().as_array() {
        let mut more = items.clone();
        more.extend(items.first().cloned());
        all.push(with(Value::Array(more)));
    }
    all
}
