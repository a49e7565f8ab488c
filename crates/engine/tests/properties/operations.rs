//! Operations: an operation id is the same in every release, and its tag fits no caller but its own (I5).

use super::cases;
use direct::attributes::NoAttributes;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::identity::{Identity, Project, Subject, Tenant};
use edge_idempotency_engine::operations::tag;
use edge_idempotency_engine::policy::{NormalPath, split_query};
use edge_idempotency_engine::{Effect, Exchange, Policy, RequestFlow};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const GOLDEN: &str = include_str!("../golden/operation_ids.json");

/// Of the file, so that nobody makes it fit by writing it anew.
const DIGEST: &str = "c0d2cdc9c046ba8f0118591bf98c6533c4b6f9c84796c201b1ae4e5b5ab44a55";

const BREAKING: &str = "tests/golden/operation_ids.json and the code disagree. Clients keep operation ids for days: with another \
     form an upgrade makes all of them unknown. Changing a row is a breaking change. Rows may be added; then the digest \
     changes too";

fn project(text: &str) -> Project {
    match text {
        "_tenant" => Project::Tenant,
        "_platform" => Project::Platform,
        named => Project::parse(named.as_bytes()).expect(BREAKING),
    }
}

/// The rows were computed with Python's hmac module.
#[test]
fn the_golden_operation_ids_are_what_they_were() {
    let digest: String = Sha256::digest(GOLDEN).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, DIGEST, "{BREAKING}");
    let rows: Vec<Json> = serde_json::from_str(GOLDEN).unwrap();
    assert!(rows.len() >= 81, "{}", rows.len());
    let mut ids = std::collections::BTreeSet::new();
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let (kind, id) = row["subject"].as_str().unwrap().split_once(':').unwrap();
        let caller = Identity {
            tenant: Tenant::parse(text("tenant").as_bytes()).expect(BREAKING),
            project: project(&text("project")),
            subject: Subject::from_encoded(kind, id).expect(BREAKING),
        };
        let invocation = text("invocation");
        let tag = tag(text("secret").as_bytes(), &caller, &caller.project, &invocation).expect(BREAKING);
        assert_eq!(format!("{invocation}.{tag}"), text("operation_id"), "{BREAKING}: {row}");
        assert!(ids.insert(text("operation_id")), "two rows, one id");
    }
}

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let document = r#"{
        "version": 1,
        "allow_inline_secrets": true,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate",
            "operations": {"path": "/operations/{operation_id}", "secret": ["the-first-secret", "the-second-secret"]}},
        "identity": {"sources": [
            {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}}
        ]},
        "routes": [
            {"endpoint": "project", "path": "/project", "policy": "ACCEPTED", "target": "Refunds/create"},
            {"endpoint": "tenant", "path": "/tenant", "policy": "ACCEPTED", "scope": "tenant", "target": "Refunds/create"},
            {"endpoint": "platform", "path": "/platform", "policy": "ACCEPTED", "scope": "platform", "target": "Refunds/create"}
        ]
    }"#;
    Policy::from_json(document.as_bytes()).unwrap()
});

/// Who calls which route.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OperationCall {
    tenant: String,
    project: String,
    subject: String,
    route: &'static str,
}

impl OperationCall {
    /// Whether another call's operations are this caller's: it is the same caller of the same route's scope.
    fn owns(&self, other: &Self) -> bool {
        (&self.tenant, &self.subject) == (&other.tenant, &other.subject)
            && (other.route != "/project" || self.project == other.project)
    }
}

fn call() -> impl Strategy<Value = OperationCall> {
    let segment = || prop_oneof![select(vec!["a", "ab", "b"]).prop_map(str::to_owned), "[a-b.~]{1,2}[-_a]?"];
    let subject = (select(vec!["user", "client"]), prop_oneof![Just("a".to_owned()), "[ab:%]{1,3}"]);
    let fits = |text: &String| text != "." && text != "..";
    (
        segment().prop_filter("a segment", fits),
        segment().prop_filter("a segment", fits),
        subject,
        select(vec!["/project", "/tenant", "/platform"]),
    )
        .prop_map(|(tenant, project, (kind, id), route)| OperationCall {
            tenant,
            project,
            subject: format!("{kind}:{id}"),
            route,
        })
}

/// Runs a request; the exchange, how it goes on, and its path for the backend.
fn request(caller: &OperationCall, method: &str, path: &str) -> (Exchange, RequestFlow, Option<String>) {
    let lines = [
        (":method", method),
        (":authority", "a"),
        (":path", path),
        ("x-t", &caller.tenant),
        ("x-p", &caller.project),
        ("x-s", &caller.subject),
    ];
    let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
    let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
    let flow = exchange.request_headers(&POLICY, &headers, &NoAttributes, &mut effects);
    let path = set(&effects, ":path");
    (exchange, flow, path)
}

fn set(effects: &[Effect<'_>], wanted: &str) -> Option<String> {
    effects.iter().find_map(|effect| match effect {
        Effect::Set { name, value, .. } if *name == wanted => Some(String::from_utf8(value.to_vec()).unwrap()),
        _ => None,
    })
}

/// The operation id in the answer to a call.
fn operation_id(call: &OperationCall, invocation: &str) -> String {
    let (mut exchange, flow, _) = request(call, "POST", call.route);
    assert!(matches!(flow, RequestFlow::Continue), "{call:?} {:?}", exchange.refusal());
    let lines = [(":status", "200"), ("x-restate-id", invocation)];
    let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
    let mut effects = Vec::new();
    exchange.response_headers(&POLICY, &headers, &mut effects);
    set(&effects, "x-operation-id").expect("an operation id")
}

/// Whether the caller gets the answer of this invocation; if not, it is told that there is no such operation.
fn gets(caller: &OperationCall, operation_id: &str, invocation: &str) -> bool {
    let (exchange, flow, path) = request(caller, "GET", &format!("/operations/{operation_id}/output"));
    match flow {
        RequestFlow::Continue => {
            assert_eq!(path.unwrap(), format!("/restate/output/{invocation}"));
            true
        }
        _ => {
            assert_eq!(exchange.refusal().unwrap().code.name(), "operation_unknown");
            assert_eq!(path, None);
            false
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_tag_fits_its_own_caller_and_no_other(
        one in call(),
        other in call(),
        invocation in "inv_[a-b]{1,2}",
        second in "inv_[a-b]{1,2}",
    ) {
        let id = operation_id(&one, &invocation);
        prop_assert!(gets(&one, &id, &invocation));
        prop_assert_eq!(gets(&other, &id, &invocation), other.owns(&one), "{}", id);
        let (_, tag) = id.split_once('.').unwrap();
        prop_assert_eq!(gets(&one, &format!("{second}.{tag}"), &second), second == invocation);
        let is_same = second == invocation && other.route == one.route && other.owns(&one);
        prop_assert_eq!(operation_id(&other, &second) == id, is_same);
    }

    /// No other text than the id that was given is taken, and no text leads anywhere else (I7).
    #[test]
    fn no_other_text_is_an_operation_id(
        one in call(),
        at in any::<prop::sample::Index>(),
        piece in prop_oneof!["[A-Za-z0-9._~-]{0,3}", "(%2[0-9A-F]|[;:=/+ ]|inv_|\\.|[a-z]){1,3}"],
        cut in 0_usize..3,
    ) {
        let id = operation_id(&one, "inv_1a");
        let start = at.index(id.len());
        let end = (start + cut).min(id.len());
        let changed = [&id[..start], &piece, &id[end..]].concat();
        let sent = format!("/operations/{changed}");
        let (exchange, flow, path) = request(&one, "GET", &sent);
        // Another spelling of the same path is the same request.
        let (raw, _) = split_query(sent.as_bytes());
        let normal = NormalPath::parse(raw).map(|path| path.as_str().to_owned()).unwrap_or_default();
        let asks = [format!("/operations/{id}"), format!("/operations/{id}/output")].contains(&normal);
        prop_assert_eq!(matches!(flow, RequestFlow::Continue), asks, "{}", sent);
        if asks {
            let paths = ["/restate/attach/inv_1a".to_owned(), "/restate/output/inv_1a".to_owned()];
            prop_assert!(paths.contains(&path.unwrap()));
        } else {
            let code = exchange.refusal().unwrap().code.name();
            prop_assert!(["operation_unknown", "path_ambiguous", "not_found"].contains(&code), "{} {}", changed, code);
        }
    }
}
