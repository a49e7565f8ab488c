//! Every reason why a policy document does not start the filter, with its JSON pointer; all of them at once. The files beside this one have
//! the rows; those of signed callers are code, since each has a whole caller.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use edge_idempotency_engine::Policy;
use edge_idempotency_engine::json::Issue;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use testkit::cases::workspace;

mod callers;

/// A document that starts; each row breaks it.
fn base() -> Value {
    json!({
        "version": 1,
        "identity": {
            "sources": [{
                "name": "jwt",
                "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                "tenant": "tenant_id",
                "project": "project_id",
                "subject": {"field": "sub", "type": "user"}
            }]
        },
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {}},
        "routes": [
            {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A", "target": "Orders/create"},
            {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}},
            {"endpoint": "carts.get", "methods": ["GET"], "path": "/carts/{cart_id}", "policy": "PROHIBITED"}
        ],
        "webhooks": {
            "static": {
                "wh_01JABCDEF": {"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": "WHSEC"}]}
            }
        }
    })
}

/// What is changed, and what is said: pointers and words, in this order.
#[derive(Clone)]
struct Row {
    changes: Vec<(&'static str, Value)>,
    expected: Vec<(&'static str, &'static str)>,
}

fn row<const C: usize, const E: usize>(
    changes: [(&'static str, Value); C],
    expected: [(&'static str, &'static str); E],
) -> Row {
    Row { changes: changes.to_vec(), expected: expected.to_vec() }
}

/// What a row with `"backends": 2` changes first.
fn two_backends() -> Vec<(&'static str, Value)> {
    let restate = json!({"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {}});
    vec![
        ("/backends", json!({"restate": restate, "api": {"kind": "generic"}})),
        ("/backend", json!("api")),
        ("/routes/0/backend", json!("restate")),
    ]
}

/// The rows of a file: `change` has pointers and values, `errors` pointers and words.
fn rows(file: &str) -> Vec<Row> {
    fn pairs<V: DeserializeOwned>(list: &Value) -> Vec<(&'static str, V)> {
        let pairs: Vec<(String, V)> = serde_json::from_value(list.clone()).unwrap();
        pairs.into_iter().map(|(pointer, value)| (&*pointer.leak(), value)).collect()
    }
    let words = |list| pairs::<String>(list).into_iter().map(|(pointer, words)| (pointer, &*words.leak())).collect();
    let rows: Vec<Value> = serde_json::from_str(file).unwrap();
    let first = |row: &Value| if row["backends"] == 2 { two_backends() } else { Vec::new() };
    let changes = |row: &Value| [first(row), pairs(&row["change"])].concat();
    rows.iter().map(|row| Row { changes: changes(row), expected: words(&row["errors"]) }).collect()
}

/// Stands for a member that is left out.
const GONE: &str = "(gone)";

/// Puts a value in its place; `-` is the place behind the last item.
fn put(document: &mut Value, pointer: &str, value: &Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap_or_else(|| panic!("{parent} is not there")) {
        Value::Array(items) if name == "-" => items.push(value.clone()),
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(members) if value == GONE => drop(members.shift_remove(name).expect(pointer)),
        Value::Object(members) => drop(members.insert(name.replace("~1", "/"), value.clone())),
        other => panic!("{parent} is {other}"),
    }
}

fn errors(document: &[u8]) -> Vec<Issue> {
    Policy::from_json(document).err().map(|errors| errors.0).unwrap_or_default()
}

fn document_errors(document: &Value) -> Vec<Issue> {
    errors(document.to_string().as_bytes())
}

fn changed(row: &Row) -> Value {
    let mut document = base();
    row.changes.iter().for_each(|(pointer, value)| put(&mut document, pointer, value));
    document
}

fn route(endpoint: &str, path: &str, more: Value) -> Value {
    let mut route = json!({"endpoint": endpoint, "path": path, "policy": "PROHIBITED"});
    route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    route
}

#[test]
fn the_base_starts() {
    assert_eq!(document_errors(&base()), []);
}

fn compare(row: &Row, found: &[Issue]) {
    let told = format!("{:?}\n  expected {:?}\n  found {found:?}", row.changes, row.expected);
    assert_eq!(found.len(), row.expected.len(), "{told}");
    for ((pointer, words), issue) in row.expected.iter().zip(found) {
        assert!(issue.pointer == *pointer && issue.message.contains(words), "{told}");
    }
}

fn refused() -> Vec<Row> {
    let files = [
        include_str!("values.json"),
        include_str!("relations.json"),
        include_str!("relations_of_keys.json"),
        include_str!("relations_of_paths.json"),
        include_str!("collision.json"),
        include_str!("api_keys.json"),
        include_str!("operations.json"),
        include_str!("backends.json"),
    ];
    files.into_iter().flat_map(rows).chain(callers::rows()).collect()
}

fn warned_of() -> Vec<Row> {
    rows(include_str!("warnings.json"))
}

#[test]
fn every_start_failure_has_its_pointer_and_stands_alone() {
    refused().iter().for_each(|row| compare(row, &document_errors(&changed(row))));
}

#[test]
fn what_is_no_json_is_one_error_of_the_whole_document() {
    let deep = "[".repeat(100_000);
    let yaml = "# a policy\nversion: 1\nbackend:\n  kind: generic\n";
    let binary = b"\n\x14\n\x07version\x12\x09\x11\0\0\0\0\0\0\xf0?";
    let rows: [(&[u8], &str); 16] = [
        (b"", "the document is empty; in Envoy it is the `value` of the plugin's `configuration`"),
        (b"\n", "the document is empty"),
        (b"{", "EOF while parsing an object at line 1 column 1"),
        (b"{} {}", "trailing characters at line 1 column 4"),
        (b"[1,]", "a comma with nothing behind it at line 1 column 3: remove it"),
        (b"{\n  \"version\": 1,\n}", "a comma with nothing behind it at line 2 column 15: remove it"),
        (b"{\n  \"version\": 1 // one\n}", "a comment at line 2 column 16: JSON has no comments; remove it"),
        (b"{/* one */ \"version\": 1}", "a comment at line 1 column 2: JSON has no comments; remove it"),
        (
            b"{\"version\": 1,\n# routes\n\"routes\": []}",
            "a comment at line 2 column 1: JSON has no comments; remove it",
        ),
        (
            yaml.as_bytes(),
            "this is YAML, from line 2 column 1 on: the document is JSON; convert it, for example with `yq",
        ),
        (
            b"static_resources:\n  listeners: []\n",
            "this is a configuration of Envoy: the document is the JSON text in it",
        ),
        (
            b"\xef\xbb\xbf{\"version\": 1}",
            "a byte order mark at line 1 column 1: save the document as UTF-8 without one",
        ),
        (
            binary,
            "this is a protobuf message such as a Struct, and no text: in Envoy the plugin's `configuration` has to be",
        ),
        (b"\xff", "expected value at line 1 column 1"),
        (deep.as_bytes(), "recursion limit exceeded"),
        (br#"{"version": 1, "version": 1, "routes": []}"#, "the member `version` stands twice"),
    ];
    for (text, words) in rows {
        let found = errors(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].pointer, "");
        assert!(found[0].message.starts_with(&format!("not a JSON document: {words}")), "{found:?}");
    }
    assert_eq!(errors(b"null")[0].message, "expected an object, found null");
}

/// Many faults: each is told as if it were the only one, and nothing else is.
#[test]
fn all_errors_come_at_once() {
    let independent = [
        row([("/verison", json!(1))], [("/verison", "")]),
        row([("/mode", json!("Shadow"))], [("/mode", "")]),
        row([("/docs_url", json!("x"))], [("/docs_url", "")]),
        row([("/unmatched", json!("PROHIBITED"))], [("/unmatched", "")]),
        row([("/identity/forward", json!({"tenant": "x-a", "subject": "x-a"}))], [("/identity/forward", "")]),
        row([("/backend/keep_headers", json!(["idempotency-key"]))], [("/backend/keep_headers/0", "")]),
        row([("/routes/0/target", json!("Orders/{nope}/create"))], [("/routes/0/target", "")]),
        row([("/routes/0/recovery", json!("x"))], [("/routes/0/recovery", "")]),
        row([("/routes/1/path", json!("/hooks/{provider}"))], [("/routes/1/webhook", "")]),
        row([("/routes/2/collision", json!("enforce"))], [("/routes/2/collision", "")]),
        row(
            [("/routes/-", route("orders.create", "/restate", json!({})))],
            [("/routes/3/endpoint", ""), ("/routes/3/path", "")],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets/0", json!("whsec_planted"))],
            [("/webhooks/static/wh_01JABCDEF/secrets/0", "")],
        ),
        row(
            [("/callers", json!({"x": {"signature": {}}}))],
            [
                ("/callers/x/signature", ""),
                ("/callers/x/signature", ""),
                ("/callers/x/signature", ""),
                ("/callers/x", ""),
                ("/callers/x", ""),
                ("/callers/x", ""),
            ],
        ),
        row(
            [("/max_series", json!("x")), ("/key_in_logs", json!("plain"))],
            [("/max_series", ""), ("/key_in_logs", "")],
        ),
    ];
    let mut document = base();
    let mut expected: Vec<&str> = Vec::new();
    for row in &independent {
        row.changes.iter().for_each(|(pointer, value)| put(&mut document, pointer, value));
        expected.extend(row.expected.iter().map(|(pointer, _)| *pointer));
    }
    let found = document_errors(&document);
    let mut pointers: Vec<&str> = found.iter().map(|issue| issue.pointer.as_str()).collect();
    pointers.sort_unstable();
    expected.sort_unstable();
    assert_eq!(pointers, expected, "{found:#?}");
    let text = Policy::from_json(document.to_string().as_bytes()).unwrap_err().to_string();
    assert!(text.starts_with(&format!("the policy document has {} errors:\n  /", expected.len())), "{text}");
    assert_eq!(text.lines().count(), expected.len() + 1, "{text}");
}

/// What a document holds does not end a line of the log.
#[test]
fn an_error_is_one_line() {
    let broken =
        row([("/version\nfake: all is well", json!(1)), ("/routes/0/policy", json!("A\u{85}B\r\u{1b}[2J"))], []);
    let said = Policy::from_json(changed(&broken).to_string().as_bytes()).unwrap_err();
    let lines: Vec<String> = said.0.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with(r"/version\nfake: all is well: unknown member")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(r"found `A\u{85}B\r\u{1b}[2J`")), "{lines:?}");
}

/// The texts in `src/policy` that are sentences: what the code can say about a document. Their variable parts are cut
/// out, and the longest fixed part is kept.
fn messages() -> Vec<(PathBuf, String)> {
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { files(&entry, found) } else { found.push(entry) }
        }
    }
    let mut sources = Vec::new();
    files(&workspace().join("crates/engine/src/policy"), &mut sources);
    let describes = |path: &PathBuf| ["members.rs", "schema.rs", "grammars.rs"].iter().any(|name| path.ends_with(name));
    sources.retain(|path| !describes(path));
    let regex = |pattern: &str| regex::Regex::new(pattern).unwrap();
    let text = regex(r#""((?:[^"\\]|\\.|\\\n)*)""#);
    let reasons = regex(r#"reason = "[^"]*""#);
    let blocks = regex(r"(?ms)^(members|grammars)! \{$.*?^\}$");
    let (continued, variable) = (regex(r"\\\n\s*"), regex(r"\{\{|\}\}|\{[a-z_]*\}"));
    let mut messages = Vec::new();
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        // The texts of members are for the schema and the page.
        let code = blocks.replace_all(code, "");
        let code = reasons.replace_all(&code, "");
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code = code.lines().filter(is_code).collect::<Vec<_>>().join("\n");
        for found in text.captures_iter(&code) {
            let line = continued.replace_all(&found[1], "").replace("\\\"", "\"");
            let longest = variable.split(&line).max_by_key(|part| part.len()).unwrap().trim();
            if longest.matches(' ').count() >= 2 {
                messages.push((path.clone(), longest.to_owned()));
            }
        }
    }
    messages
}

/// A message that no row shows is a start failure, or a warning, without a test.
#[test]
fn nothing_is_said_that_no_test_shows() {
    let mut said = String::new();
    let mut hear = |text: &[u8]| match Policy::from_json(text) {
        Ok(mut policy) => {
            policy.warnings().iter().for_each(|warning| said += &warning.message);
            said += &policy.summary();
            said += &policy
                .read_secrets(|_| None, |_| false, "")
                .err()
                .map(|errors| errors.to_string())
                .unwrap_or_default();
            for value in ["", "short", "'pasted'"] {
                let mut policy = Policy::from_json(text).unwrap();
                let unusable = policy.read_secrets(|_| Some(value.as_bytes().to_vec()), |_| true, "");
                said += &unusable.err().map(|errors| errors.to_string()).unwrap_or_default();
                policy.warnings().iter().for_each(|warning| said += &warning.message);
            }
        }
        Err(errors) => said += &errors.to_string(),
    };
    for row in [refused(), warned_of()].concat() {
        let mut document = changed(&row);
        hear(document.to_string().as_bytes());
        // What acts in shadow mode is told for what a document has.
        document["mode"] = json!("shadow");
        hear(document.to_string().as_bytes());
    }
    // A gateway without SDS, which the rows' gateways may have.
    hear(
        br#"{"version": 1, "backend": {"kind": "restate"},
            "routes": [{"endpoint": "h", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
            "webhooks": {"static": {"wh_01JABC": {"tenant": "a", "project": "p", "provider": "stripe", "secrets": [{"sds": "s"}]}}}}"#,
    );
    hear(b"{} {}");
    hear(br#"{"version": 1, "version": 1}"#);
    let all = messages();
    assert!(all.len() > 60, "only {} messages found in the source", all.len());
    let elsewhere = [
        "a JSON value",                                // never said: any JSON value is one
        "The path holds an escaped slash (%2F) where", // of requests only
        "The path differs from another path of this API",
        "The path holds a value that is empty, or has . or ..",
        "The Host header is not a host name or address",
        "The Host header spells a host of this API in another way",
        "expected visible ASCII characters", // of variables only
        "the service does not know it",      // of variables only
    ];
    let is_shown = |message: &str| said.contains(message) || elsewhere.iter().any(|known| message.starts_with(known));
    let unshown: Vec<_> = all.iter().filter(|(_, message)| !is_shown(message)).collect();
    assert!(
        unshown.is_empty(),
        "no row shows these messages: add rows to values.json (one member), relations*.json (several), backends.json, callers.rs or warnings.json: {unshown:#?}"
    );
}

#[test]
fn warnings_have_pointers_too() {
    for row in warned_of() {
        let policy = Policy::from_json(changed(&row).to_string().as_bytes()).unwrap();
        compare(&row, policy.warnings());
    }
}
