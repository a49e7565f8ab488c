//! The policies that come with the project: each compiles, warns of what it should warn of, fits the schema, and does
//! with requests what its cases in `tests/policies/` say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use direct::attributes::JsonAttributes;
use direct::requests::{self, OwnedLine, Request, Verdict};
use edge_idempotency_engine::Policy;
use serde_json::{Map, Value, json};
use simulated_stores::SimulatedStores;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use testkit::cases::workspace;

fn read(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json_files(folder: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(workspace().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    files
}

/// The reference policy, the least document and the examples, by name.
fn policies() -> Vec<(String, PathBuf)> {
    let named = ["policies/minimal.json", "policies/reference.json"].map(|path| workspace().join(path));
    let files = named.into_iter().chain(json_files("policies/examples"));
    files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

fn cases(name: &str) -> Value {
    read(&workspace().join("crates/engine/tests/policies").join(format!("{name}.json")))
}

/// A request document as `edge-idempotency explain` reads it; what it leaves out comes from `defaults`.
fn request(document: &Value, defaults: &Value) -> Request {
    let member = |name: &str| document.get(name).or_else(|| defaults.get(name)).cloned().unwrap_or(Value::Null);
    let url = member("url");
    let (scheme, rest) = url.as_str().and_then(|url| url.split_once("://")).expect("an absolute URL");
    let (authority, target) = rest.split_at(rest.find('/').expect("a path"));
    let method = member("method");
    let mut headers: Vec<OwnedLine> =
        [(":authority", authority), (":path", target), (":method", method.as_str().unwrap()), (":scheme", scheme)]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec();
    for line in member("headers").as_array().into_iter().flatten() {
        let [name, value] = line.as_array().unwrap().as_slice() else { panic!("[name, value]: {line}") };
        headers.push((name.as_str().unwrap().to_ascii_lowercase().into(), value.as_str().unwrap().into()));
    }
    Request {
        headers,
        body: member("body").as_str().unwrap_or_default().into(),
        attributes: JsonAttributes::new(member("metadata"), &member("route_metadata")),
        ..Request::default()
    }
}

/// What registry, secret store, guard and Restate answer: the member `lookups` of such a document.
fn stores(document: &Value, defaults: &Value) -> SimulatedStores {
    let Some(lookups) = document.get("lookups").or_else(|| defaults.get("lookups")) else {
        return SimulatedStores::default();
    };
    SimulatedStores::read(lookups).unwrap_or_else(|error| panic!("{error}"))
}

/// What the backend gets beside method, host and scheme; a header in more than one line becomes an array.
fn upstream(headers: &[OwnedLine]) -> Value {
    let mut members = Map::new();
    for (name, value) in headers {
        let [name, value] = [name, value].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
        if [":authority", ":method", ":scheme"].contains(&name.as_str()) {
            continue;
        }
        match members.get_mut(&name) {
            Some(Value::Array(values)) => values.push(value.into()),
            Some(first) => *first = json!([first, value]),
            None => drop(members.insert(name, value.into())),
        }
    }
    members.into()
}

/// Whoever copies from these documents copies what has an effect.
#[test]
fn no_member_is_shown_that_this_version_does_not_act_on() {
    const NOT_ACTED_ON: [&str; 1] = ["max_series"];
    fn names(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                found.insert(name.clone());
                names(value, found);
            }),
            Value::Array(items) => items.iter().for_each(|value| names(value, found)),
            _ => {}
        }
    }
    for (name, path) in policies() {
        let mut found = BTreeSet::new();
        names(&read(&path), &mut found);
        let shown: Vec<&str> = NOT_ACTED_ON.into_iter().filter(|name| found.contains(*name)).collect();
        assert!(shown.is_empty(), "{name} shows {shown:?}");
    }
}

#[test]
fn every_policy_compiles_and_warns_of_what_it_should() {
    let schema =
        jsonschema::validator_for(&serde_json::from_str(&edge_idempotency_engine::policy::schema()).unwrap()).unwrap();
    for (name, path) in policies() {
        let document = read(&path);
        let policy =
            Policy::from_json(&std::fs::read(&path).unwrap()).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        let warnings: Vec<&str> = policy.warnings().iter().map(|warning| warning.pointer.as_str()).collect();
        assert_eq!(json!(warnings), cases(&name)["warnings"], "{name}: {:?}", policy.warnings());
        let wrong: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
        let schema = document["$schema"].as_str().unwrap();
        let folder = path.parent().unwrap().strip_prefix(workspace().join("policies")).unwrap();
        assert_eq!(schema, if folder == Path::new("") { "./schema.json" } else { "../schema.json" });
    }
}

#[test]
fn every_policy_does_what_its_cases_say() {
    for (name, path) in policies() {
        let mut policy = Policy::from_json(&std::fs::read(&path).unwrap()).unwrap();
        policy.read_secrets(|_| Some(b"secret".to_vec()), |_| true, "").unwrap();
        let file = cases(&name);
        let listed = file["cases"].as_array().unwrap();
        assert!(listed.len() >= 2, "{name} has only {} cases", listed.len());
        for case in listed {
            let at = format!("{name}: {}", case["name"]);
            let request = request(&case["request"], &file["defaults"]);
            let stores = stores(&case["request"], &file["defaults"]);
            let seen = match requests::run_with(&policy, &request, &request.attributes, &stores).1 {
                Verdict::Forwarded { headers, .. } => json!({"upstream": upstream(&headers)}),
                Verdict::Refused(problem) => {
                    let document: Value = serde_json::from_str(&problem.document(&policy.answers)).unwrap();
                    let mut seen = json!({"status": document["status"], "code": document["code"]});
                    document.get("reason").inspect(|reason| seen["reason"] = (*reason).clone());
                    seen
                }
                Verdict::Acknowledged(detail) => json!({"acknowledged": detail}),
            };
            assert_eq!(seen, case["expect"], "{at}: {seen}");
        }
    }
}

#[test]
fn the_readme_names_every_policy_and_every_policy_has_cases() {
    let readme = std::fs::read_to_string(workspace().join("policies/README.md")).unwrap();
    for (name, path) in policies() {
        let link = path.strip_prefix(workspace().join("policies")).unwrap().display().to_string();
        assert!(readme.contains(&format!("]({link})")), "policies/README.md says nothing of {link} ({name})");
    }
    let known: BTreeSet<String> = policies().into_iter().map(|(name, _)| name).collect();
    let with_cases = json_files("crates/engine/tests/policies")
        .into_iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    assert_eq!(with_cases.collect::<BTreeSet<_>>(), known);
}
