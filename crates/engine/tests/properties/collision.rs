//! Collision detection: a claim is the same in every release, two requests have one claim exactly if they are the same
//! request, and what the guard answers decides as the contract says (docs/contract.md section 6).

use super::cases;
use direct::attributes::NoAttributes;
use direct::requests::{Request, Verdict, run_with};
use edge_idempotency_engine::Body;
use edge_idempotency_engine::collision::Claim;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::questions::PendingLookup;
use edge_idempotency_engine::{Awaits, Effect, Exchange, PauseEvent, Policy, RequestFlow, Resumed};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use simulated_stores::SimulatedStores;
use std::sync::LazyLock;

const GOLDEN: &str = include_str!("../golden/fingerprints.json");

/// Of the file, so that nobody makes it fit by writing it anew.
const DIGEST: &str = "6ba8540ccde845ad3837861403251be6c9a1c437eebcffa205b4c8bd8123d57d";

const BREAKING: &str = "tests/golden/fingerprints.json and the code disagree. The guard keeps claims for days: with another form \
     an upgrade refuses retries of unchanged requests. Change the version of the fingerprint instead. Rows may be added; then \
     the digest changes too";

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let route = |path: &str, target: &str, member: &str, value: &str| {
        json!({
            "endpoint": target.replace(['/', '{', '}'], "-") + path.split('/').nth(1).unwrap(), "path": path, "policy": "REQUIRED_A",
            "methods": ["GET", "POST"], "target": target, "collision": "enforce", member: value,
        })
    };
    let with_headers = |path: &str, target: &str, fingerprint: &str, headers: &[&str]| {
        let mut route = route(path, target, "fingerprint", fingerprint);
        route["fingerprint_headers"] = json!(headers);
        route
    };
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {}},
        "identity": {"sources": [
            {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}
        ]},
        "routes": [
            route("/raw", "Refunds/create", "fingerprint", "raw"),
            route("/json", "Json/run", "fingerprint", "json"),
            route("/objects/{id}", "Cart/{id}/checkout", "fingerprint", "raw"),
            with_headers("/headers", "Headers/run", "raw", &["Prefer", "if-match"]),
            with_headers("/headers-json", "HeadersJson/run", "json", &["if-match", "prefer"]),
            with_headers("/one-header", "OneHeader/run", "raw", &["if-match"]),
        ]
    });
    Policy::from_json(document.to_string().as_bytes()).unwrap()
});

/// A request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SentRequest {
    method: String,
    path: String,
    content_types: Vec<String>,
    body: String,
    key: String,
    project: String,
    /// Header lines that some routes compare
    headers: Vec<(String, String)>,
}

impl SentRequest {
    fn lines(&self) -> Vec<(&[u8], &[u8])> {
        let lines = [
            (":method", self.method.as_str()),
            (":path", &self.path),
            (":authority", "a"),
            ("x-t", "acme"),
            ("x-p", &self.project),
            ("x-s", "u1"),
            ("idempotency-key", &self.key),
        ];
        let types = self.content_types.iter().map(|value| ("content-type", value.as_str()));
        let compared = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        lines
            .into_iter()
            .chain(types)
            .chain(compared)
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect()
    }

    /// The claim that the guard gets.
    fn claim(&self) -> Claim {
        let headers = Headers::new(self.lines());
        let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
        let flow = exchange.request_headers(&POLICY, &headers, &NoAttributes, &mut effects);
        let RequestFlow::Paused(pause) = flow else { panic!("{self:?}: {flow:?}") };
        assert!(matches!(pause.awaits(), Awaits::Body { .. } | Awaits::End { .. }), "{self:?}: {pause:?}");
        let event = PauseEvent::Body { body: &Body::of(self.body.as_bytes()), now_unix_ms: 0 };
        let resumed = Resumed { policy: &POLICY, headers: &headers, event };
        let flow = pause.resume(&mut exchange, resumed, &mut effects);
        let RequestFlow::Paused(pause) = flow else { panic!("{self:?}: {flow:?}") };
        let removes = |effect: &Effect<'_>| matches!(effect, Effect::Remove { .. });
        assert!(effects.iter().all(removes), "nothing is set before the guard has answered: {effects:?}");
        let Some(PendingLookup::Claim(claim)) = pause.lookup() else { panic!("{self:?}: no claim") };
        claim.clone()
    }

    /// The code of the refusal, with this answer of the guard.
    fn refused(&self, guard: &Json) -> Option<String> {
        let stores = SimulatedStores::read(&json!({"guard": guard})).unwrap();
        let headers = self.lines().into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let request = Request { headers, body: self.body.clone().into_bytes(), ..Request::default() };
        match run_with(&POLICY, &request, &NoAttributes, &stores).1 {
            Verdict::Refused(problem) => Some(problem.code.name().to_owned()),
            Verdict::Forwarded { .. } | Verdict::Acknowledged(_) => None,
        }
    }

    /// The operation: what the path says.
    fn operation(&self) -> &str {
        self.path.split('?').next().unwrap()
    }
}

/// The rows were computed with Python's hashlib.
#[test]
fn the_golden_claims_are_what_they_were() {
    let digest: String = Sha256::digest(GOLDEN).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, DIGEST, "{BREAKING}");
    let rows: Vec<Json> = serde_json::from_str(GOLDEN).unwrap();
    assert!(rows.len() >= 80, "{}", rows.len());
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let types = row["content_types"].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned());
        let sent = SentRequest {
            method: text("method"),
            path: text("path"),
            content_types: types.collect(),
            body: text("body"),
            key: text("key"),
            project: text("project"),
            headers: serde_json::from_value(row.get("headers").cloned().unwrap_or(json!([]))).unwrap(),
        };
        let claim = sent.claim();
        assert_eq!((claim.key, claim.fingerprint), (text("claim"), text("fingerprint")), "{BREAKING}: {row}");
    }
}

fn sent() -> impl Strategy<Value = SentRequest> {
    let text = |texts: &[&str]| select(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    let paths = ["/raw", "/json", "/objects/a", "/objects/ab", "/headers", "/headers-json", "/one-header"];
    let lines = [("if-match", "1"), ("if-match", "2"), ("if-match", "1, 2"), ("prefer", "1"), ("other", "1")];
    let lines: Vec<_> = lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let headers = proptest::collection::vec(select(lines), 0..3);
    let queries = ["", "?a", "?a=1", "?b"];
    let types: Vec<Vec<String>> =
        vec![vec![], vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()], vec!["ab".to_owned()]];
    let bodies = [
        "",
        "{}",
        "{ }",
        "[1]",
        "[1.0]",
        "[9007199254740993]",
        "[9007199254740992]",
        "{\"a\":1,\"b\":2}",
        "{\"b\":2,\"a\":1}",
        "{",
    ];
    let path = (text(&paths), text(&queries)).prop_map(|(path, query)| path + &query);
    let whose = (text(&["k", "kk", "l"]), text(&["p", "pp"]));
    (text(&["GET", "POST"]), path, select(types), text(&bodies), whose, headers).prop_map(
        |(method, path, content_types, body, (key, project), headers)| SentRequest {
            method,
            path,
            content_types,
            body,
            key,
            project,
            headers,
        },
    )
}

/// What of a body counts: its canonical JSON on the route with `json`, for the bodies of [`sent`].
fn counted(sent: &SentRequest) -> (bool, &str) {
    let same = match sent.body.as_str() {
        "{ }" => "{}",
        "[1.0]" => "[1]",
        "{\"b\":2,\"a\":1}" => "{\"a\":1,\"b\":2}",
        other => other,
    };
    if sent.path.contains("json") { (true, same) } else { (false, &sent.body) }
}

/// The headers that the route compares.
fn compared(sent: &SentRequest) -> &'static [&'static str] {
    match sent.path.split('?').next().unwrap() {
        "/headers" | "/headers-json" => &["if-match", "prefer"],
        "/one-header" => &["if-match"],
        _ => &[],
    }
}

/// The lines that the route compares, for each header.
fn compared_lines(sent: &SentRequest) -> Vec<Vec<&str>> {
    let lines = |name: &&str| {
        let own = sent.headers.iter().filter(move |(other, _)| other == name);
        own.map(|(_, value)| value.as_str()).collect()
    };
    compared(sent).iter().map(lines).collect()
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn a_claim_is_that_of_one_request(one in sent(), other in sent()) {
        let (first, second) = (one.claim(), other.claim());
        prop_assert_eq!(first.key.len(), 43);
        let same_key = (&one.key, &one.project, one.operation()) == (&other.key, &other.project, other.operation());
        prop_assert_eq!(first.key == second.key, same_key, "{:?} {:?}", one, other);
        let same_request = (&one.method, &one.path, &one.content_types, counted(&one))
            == (&other.method, &other.path, &other.content_types, counted(&other))
            && compared_lines(&one) == compared_lines(&other);
        prop_assert_eq!(first.fingerprint == second.fingerprint, same_request, "{:?} {:?}", one, other);
        prop_assert_eq!(&one.claim(), &first);
        // With the guard's answer to the second: refused exactly if it was another request of the same kind.
        let refused = one.refused(&json!({"status": 200, "body": json!(second.fingerprint).to_string()}));
        let comparable = (counted(&one).0, compared(&one)) == (counted(&other).0, compared(&other));
        let expected = match (comparable, same_request) {
            (true, false) => Some("idempotency_key_reused"),
            (false, _) => Some("dependency_unavailable"),
            _ => None,
        };
        prop_assert_eq!(refused.as_deref(), expected);
    }

    #[test]
    fn any_answer_of_the_guard_gives_a_verdict(
        sent in sent(),
        status in prop_oneof![Just(200_u16), 100_u16..600],
        body in prop_oneof!["\\PC{0,20}", "\"1[rjx][A-Za-z0-9_-]{0,2}\\.[A-Za-z0-9_-]{0,4}\"", Just("\"".to_owned())],
    ) {
        let refused = sent.refused(&json!({"status": status, "body": body}));
        let allowed = [None, Some("idempotency_key_reused"), Some("dependency_unavailable")];
        prop_assert!(allowed.contains(&refused.as_deref()), "{refused:?}");
    }
}
