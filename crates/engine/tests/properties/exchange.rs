//! I1 and I5, and the whole order of decisions: what the engine does with a request is what the model says, and what
//! is forwarded holds no key and no identity but those that the filter made.

use super::cases;
use super::generate::{self, HOOK_TOKEN, PARAMETERS, PolicyModel, RouteModel, exchange};
use super::model::{self, CallerModel, Expected, canonical};
use direct::attributes::UntypedAttributes;
use direct::requests::{self, OwnedLine, Request, Verdict};
use edge_idempotency_engine::key;
use edge_idempotency_engine::problem::Reason;
use edge_idempotency_engine::{Exchange, Policy};
use proptest::prelude::*;
use serde_json::Value as Json;

pub(crate) fn compiled(policy: &PolicyModel) -> Policy {
    let document = policy.document();
    Policy::from_json(document.to_string().as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{document:#}"))
}

fn lines_named<'h>(headers: &'h [OwnedLine], name: &str) -> Vec<&'h OwnedLine> {
    headers.iter().filter(|(line, _)| canonical(line) == name).collect()
}

/// I1: no line that reads as `Idempotency-Key` but one, spelled so, with a key of the caller's namespace; the client's
/// own line in shadow mode alone, and there neither twice nor as what could be a namespaced key.
fn check_i1(
    policy: &PolicyModel,
    exchange: &Exchange,
    compiled: &Policy,
    headers: &[OwnedLine],
    trailers: &[OwnedLine],
) {
    assert!(lines_named(trailers, "idempotency-key").is_empty(), "a key in a trailer");
    let keys = lines_named(headers, "idempotency-key");
    let [(name, value)] = keys.as_slice() else {
        assert!(keys.is_empty(), "two keys: {keys:?}");
        return;
    };
    assert_eq!(name, b"idempotency-key");
    let record: Json = serde_json::from_str(&exchange.record(compiled).to_json()).unwrap();
    let route = policy.routes.iter().find(|route| record["endpoint"] == json_text(&route.endpoint));
    if exchange.shadow().is_some() {
        assert!(route.and_then(|route| route.shadow).unwrap_or(policy.shadow), "shadow where there is none");
        assert!(!route.is_some_and(|route| route.webhook), "shadow mode is Case A's");
        let bare: Vec<u8> = value.iter().copied().filter(|byte| !b" \t\"".contains(byte)).collect();
        assert!(!bare.starts_with(b"t-"), "a key that could be another caller's: {value:?}");
        return;
    }
    let text = std::str::from_utf8(value).unwrap();
    assert_eq!(exchange.key(), Some(text));
    let decoded = key::decode(text).expect("a namespaced key");
    let identity = &decoded.identity;
    assert_eq!(record["tenant"], json_text(identity.tenant.as_str()));
    assert_eq!(record["project"], json_text(identity.project.as_str()));
    if route.is_some_and(|route| route.webhook) {
        assert_eq!(identity.tenant.as_str(), "hook-tenant");
        assert_eq!(identity.subject.as_str(), "service:webhook-ingest");
    }
}

fn json_text(text: &str) -> Json {
    Json::from(text)
}

/// I5: headers that tell who calls hold what the filter resolved, each at most once, or are gone.
fn check_i5(
    policy: &PolicyModel,
    caller: Option<&CallerModel>,
    forward: &[Option<&'static str>; 3],
    headers: &[OwnedLine],
) {
    for name in policy.identity_headers() {
        let place = forward.iter().position(|header| *header == Some(name));
        let value = place.zip(caller).and_then(|(place, caller)| {
            let project = Some(&caller.project).filter(|project| !project.starts_with('_'));
            [Some(&caller.tenant), project, Some(&caller.subject)][place]
        });
        let expected: Vec<OwnedLine> = value.map(|value| (name.into(), value.clone().into())).into_iter().collect();
        let found: Vec<OwnedLine> = lines_named(headers, name).into_iter().cloned().collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// I5 for the path's parameters: headers that begin so are those of the route's own parameters, each once, with its value
/// and no control byte.
fn check_parameters(policy: &PolicyModel, values: &[&str], headers: &[OwnedLine]) {
    let begins = |line: &&OwnedLine| policy.parameters && canonical(&line.0).starts_with(PARAMETERS);
    let found: Vec<OwnedLine> = headers.iter().filter(begins).cloned().collect();
    let expected = model::parameters(policy, values).into_iter().map(|(name, value)| (name.into(), value.into()));
    assert_eq!(sorted(found.clone()), sorted(expected.collect()));
    assert!(found.iter().all(|(_, value)| value.iter().all(u8::is_ascii_graphic)), "{found:?}");
}

/// No client chooses the backend: the only line that reads as the mark is that of the route's backend.
fn check_mark(policy: &PolicyModel, route: Option<&RouteModel>, headers: &[OwnedLine], trailers: &[OwnedLine]) {
    let mark = model::mark(policy, route).map(|mark| (b"x-edge-idempotency".to_vec(), mark.as_bytes().to_vec()));
    let found: Vec<OwnedLine> = lines_named(headers, "x-edge-idempotency").into_iter().cloned().collect();
    assert_eq!(found, mark.into_iter().collect::<Vec<_>>());
    assert!(lines_named(trailers, "x-edge-idempotency").is_empty(), "a mark in a trailer");
}

/// What a backend gets of the headers of a verified delivery: the sender's credentials, if it is not Restate, and its signature
/// only if the backend keeps it, in its own spelling.
fn check_delivery(
    policy: &PolicyModel,
    backend: usize,
    forward: &[Option<&'static str>; 3],
    request: &Request,
    headers: &[OwnedLine],
) {
    let keeps = |name: &str| policy.backends[backend].keep.contains(&name);
    for name in ["authorization", "cookie", "x-api-key", "origin", "x-restate-trace", "x-custom"] {
        let is_gone = |line: &&OwnedLine| model::is_stripped(policy, backend, &line.0);
        let expected: Vec<&OwnedLine> =
            lines_named(&request.headers, name).into_iter().filter(|line| !is_gone(line)).collect();
        assert_eq!(lines_named(headers, name), expected, "{name} of a delivery");
    }
    let signatures = lines_named(headers, "x-hook-token");
    assert!(
        keeps("x-hook-token") || forward.contains(&Some("x-hook-token")) || signatures.is_empty(),
        "a signature that should be gone"
    );
    assert!(signatures.iter().all(|(name, _)| name == b"x-hook-token"), "another spelling of a signature");
}

fn sorted(mut lines: Vec<OwnedLine>) -> Vec<OwnedLine> {
    lines.sort();
    lines
}

/// The verdict without what only logs say about an identity: a host that does not tell the types of values cannot tell a
/// wrong type from wrong characters.
fn without_reasons(mut verdict: Verdict) -> Verdict {
    if let Verdict::Refused(problem) = &mut verdict {
        problem.identity.iter_mut().for_each(|part| part.reason = "");
    }
    verdict
}

fn judge(policy: &PolicyModel, request: &Request) {
    let compiled = compiled(policy);
    let (exchange, verdict) = requests::run(&compiled, request, &request.attributes);
    let (_, untyped) = requests::run(&compiled, request, &UntypedAttributes(&request.attributes));
    assert_eq!(without_reasons(untyped), without_reasons(verdict.clone()), "metadata with and without types");
    let expected = model::expected(policy, request);
    let (headers, trailers) = match (&expected, verdict) {
        (Expected::Refused(code, reason), Verdict::Refused(problem)) => {
            assert_eq!((problem.code.name(), problem.reason.map(Reason::name)), (*code, *reason));
            return;
        }
        (Expected::OtherMethods(methods), Verdict::Refused(problem)) => {
            assert_eq!(problem.code.name(), "method_not_allowed");
            let mut allowed: Vec<&str> = problem.allow.as_deref().unwrap().split(", ").collect();
            allowed.sort_unstable();
            assert_eq!(allowed, *methods);
            return;
        }
        (Expected::Webhook, Verdict::Refused(problem)) => {
            let name = problem.code.name();
            assert!(
                ["webhook_signature_invalid", "transport_translation_failed", "path_ambiguous"].contains(&name),
                "{name}"
            );
            return;
        }
        (Expected::Forwarded { .. } | Expected::Webhook, Verdict::Forwarded { headers, trailers }) => {
            (headers, trailers)
        }
        (expected, verdict) => panic!("expected {expected:?}\n  found {verdict:?}"),
    };
    check_i1(policy, &exchange, &compiled, &headers, &trailers);
    let is_hook_header = |name: &[u8]| policy.hook_headers().contains(&model::canonical(name).as_str());
    let record: Json = serde_json::from_str(&exchange.record(&compiled).to_json()).unwrap();
    let route = policy.routes.iter().find(|route| record["endpoint"] == json_text(&route.endpoint));
    let path = model::path_of(request);
    let values = route.zip(path.as_deref()).and_then(|(route, path)| model::values(route, path)).unwrap_or_default();
    check_parameters(policy, &values, &headers);
    check_mark(policy, route, &headers, &trailers);
    let backend = route.map_or(0, |route| route.backend);
    let forward = &route.and_then(|route| route.identity.as_ref()).unwrap_or(&policy.identity).forward;
    if let Expected::Forwarded { headers: expected, caller, key } = &expected {
        assert_eq!(sorted(headers.clone()), *expected);
        assert_eq!(exchange.key().filter(|_| exchange.shadow().is_none()), key.as_deref());
        check_i5(policy, caller.as_ref(), forward, &headers);
    } else {
        let token = request.headers.iter().filter(|(name, _)| name == b"x-hook-token").collect::<Vec<_>>();
        let is_right = |(_, value): &&OwnedLine| value == HOOK_TOKEN.as_bytes();
        assert!(!token.is_empty() && token.iter().all(is_right), "an unsigned delivery");
        let project = match route.unwrap().scope {
            generate::ScopeModel::Project => "hook-project",
            generate::ScopeModel::Tenant => "_tenant",
            generate::ScopeModel::Platform => "_platform",
        };
        let caller = CallerModel {
            tenant: "hook-tenant".into(),
            project: project.into(),
            subject: "service:webhook-ingest".into(),
        };
        check_i5(policy, Some(&caller), forward, &headers);
        check_delivery(policy, backend, forward, request, &headers);
    }
    let stripped = trailers.iter().find(|(name, _)| model::is_stripped(policy, backend, name));
    assert_eq!(stripped, None, "a trailer that should be gone");
    let is_gone = |name: &[u8]| {
        model::is_stripped(policy, backend, name) || expected == Expected::Webhook && is_hook_header(name)
    };
    let kept = request.trailers.iter().filter(|(name, _)| !is_gone(name)).count();
    assert_eq!(trailers.len(), kept, "a trailer that should not be gone");
}

proptest! {
    #![proptest_config(cases(2500))]

    /// I1, I5
    #[test]
    fn what_the_engine_does_is_what_the_model_says((policy, request) in exchange()) {
        judge(&policy, &request);
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// I3: on every instance and in every release the same, so on two compilations of one document too.
    #[test]
    fn a_retry_gets_the_same_key((policy, request) in exchange()) {
        let (first, one) = requests::run(&compiled(&policy), &request, &request.attributes);
        let (second, other) = requests::run(&compiled(&policy), &request, &request.attributes);
        assert_eq!(one, other);
        assert_eq!(first.key(), second.key());
    }
}

/// The generators reach what they are for: a property that only ever sees refusals proves nothing.
#[test]
fn generated_requests_reach_every_verdict() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use std::collections::BTreeMap;

    let wanted = [
        "forwarded with a key",
        "forwarded without a key",
        "rewritten without a key",
        "forwarded in shadow mode",
        "forwarded in spite of a shadow refusal",
        "a webhook with a key",
        "a webhook without a key",
        "multiple",
        "empty",
        "syntax",
        "length",
        "charset",
        "reserved_prefix",
        "idempotency_key_required",
        "idempotency_key_prohibited",
        "identity_missing",
        "identity_invalid",
        "identity_reserved",
        "path_ambiguous",
        "not_found",
        "method_not_allowed",
        "policy_invalid",
        "webhook_signature_invalid",
        "transport_translation_failed",
    ];
    let is_rare = |seen: &BTreeMap<&str, u32>, name: &str| seen.get(name).is_none_or(|times| *times < 3);
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..6000 {
        if !wanted.iter().any(|name| is_rare(&seen, name)) {
            break;
        }
        let (policy, request) = exchange().new_tree(&mut runner).unwrap().current();
        let (exchange, verdict) = requests::run(&compiled(&policy), &request, &request.attributes);
        let name = match &verdict {
            Verdict::Refused(problem) => problem.reason.map_or(problem.code.name(), Reason::name),
            Verdict::Acknowledged(_) => "acknowledged",
            Verdict::Forwarded { headers, .. } => match (exchange.case().map(|case| case.name()), exchange.shadow()) {
                (_, Some(Some(_))) => "forwarded in spite of a shadow refusal",
                (_, Some(None)) => "forwarded in shadow mode",
                (Some("B"), None) if exchange.key().is_some() => "a webhook with a key",
                (Some("B"), None) => "a webhook without a key",
                (_, None) if exchange.key().is_some() => "forwarded with a key",
                (_, None) if lines_named(headers, "x-edge-idempotency").is_empty() => "forwarded without a key",
                (_, None) => "rewritten without a key",
            },
        };
        *seen.entry(name).or_default() += 1;
    }
    let rare: Vec<_> = wanted.iter().filter(|name| is_rare(&seen, name)).collect();
    assert!(rare.is_empty(), "{rare:?} hardly come up: {seen:#?}");
}
