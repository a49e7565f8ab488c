//! I6: what is secret is in nothing that is told: problem documents, log fields, errors and warnings of policies.

use super::cases;
use super::generate::{Place, PolicyModel, exchange};
use super::model::canonical;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use direct::requests::{self, Request, Verdict};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::problem::CallerProtocol;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value as Json, json};

/// Fits into a key, so that keys with it stay what they are.
const PLANTED: &str = "Pl4nt3d";

fn is_clean(what: &str, text: &str) {
    assert!(!text.contains(PLANTED), "{what} tells a secret: {text}");
}

/// The claims in the payload of a token.
fn payload(value: &[u8]) -> Option<Json> {
    let claims: Json = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(value).ok()?).ok()?;
    claims.is_object().then_some(claims)
}

fn plant_claims(claims: &mut Json, in_subject: bool) {
    claims["access_token"] = json!(PLANTED);
    if let Some(Json::String(subject)) = claims.get_mut("sub").filter(|_| in_subject) {
        subject.push_str(PLANTED);
    }
}

/// Puts the planted text into keys, credentials, the query, the body and subjects, and into the path if `in_path`.
fn plant(policy: &mut PolicyModel, request: &mut Request, in_path: bool) {
    // Tenant and project are told; a source may read them where others have the subject.
    let told: Vec<&Place> = policy.tenants_and_projects();
    let is_told = |name: &str| {
        told.iter().any(|place| match place {
            Place::Header(header) => *header == name,
            Place::Constant(_) => false,
            Place::Claim(_, steps) | Place::Metadata(steps) => steps.last().is_some_and(|last| *last == name),
        })
    };
    for (name, value) in &mut request.headers {
        match canonical(name).as_str() {
            "idempotency-key" if !value.is_empty() => {
                // Behind the first letter, where a key stays a key and a quoted one stays quoted.
                let at = value.iter().position(u8::is_ascii_alphanumeric).map_or(value.len(), |at| at + 1);
                value.splice(at..at, PLANTED.bytes());
            }
            "authorization" | "cookie" | "x-api-key" | "x-hook-token" => value.extend(PLANTED.bytes()),
            "x-jwt-payload" => match payload(value) {
                Some(mut claims) => {
                    plant_claims(&mut claims, !is_told("sub"));
                    *value = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()).into_bytes();
                }
                None => value.extend(PLANTED.bytes()),
            },
            name @ ("x-subject" | "x-auth-subject") if !is_told(name) => value.extend(PLANTED.bytes()),
            ":path" if in_path => {
                let end = value.iter().position(|byte| *byte == b'?').unwrap_or(value.len());
                value.splice(end..end, b"Pl4nt3d".iter().copied());
            }
            ":path" => value.extend(if value.contains(&b'?') { "&t=Pl4nt3d" } else { "?t=Pl4nt3d" }.bytes()),
            _ => {}
        }
    }
    request.body = PLANTED.into();
    for namespace in request.attributes.metadata.as_object_mut().unwrap().values_mut() {
        for claims in namespace.as_object_mut().unwrap().values_mut() {
            plant_claims(claims, !is_told("sub"));
        }
    }
    // Mostly the policies of which something is told: nothing is in shadow.
    policy.shadow = false;
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn neither_problems_nor_logs_tell_what_came(
        (mut policy, mut request) in exchange(),
        form in select(vec!["hash", "off"]),
        in_path in any::<bool>(),
    ) {
        plant(&mut policy, &mut request, in_path);
        let mut document = policy.document();
        document["key_in_logs"] = json!(form);
        document["docs_url"] = json!("https://developers.example.com");
        let compiled = Policy::from_json(document.to_string().as_bytes()).unwrap();
        let (mut exchange, verdict) = requests::run(&compiled, &request, &request.attributes);
        let lines = [(b"x-restate-id".as_slice(), b"inv_1".as_slice()), (b"set-cookie", PLANTED.as_bytes())];
        let mut effects = Vec::new();
        exchange.response_headers(&compiled, &edge_idempotency_engine::headers::Headers::new(lines.to_vec()), &mut effects);
        is_clean("the log", &exchange.record(&compiled).to_json());
        let shadow = exchange.shadow().flatten().cloned();
        let refusal = if let Verdict::Refused(problem) = verdict { Some(problem) } else { None };
        for problem in shadow.into_iter().chain(refusal) {
            is_clean("a problem document", &problem.document(&compiled.answers));
            is_clean("a problem's headers", &format!("{:?}", problem.headers(&compiled.answers)));
            for protocol in [CallerProtocol::Grpc, CallerProtocol::Connect] {
                let answer = problem.answer(&compiled.answers, protocol);
                is_clean("a refusal's headers", &format!("{:?}", answer.headers));
                is_clean("a refusal's body", &String::from_utf8_lossy(&answer.body));
            }
        }
    }
}

/// A document with the planted secret where secrets belong, and where people put them by mistake.
fn document_with_secrets(inline: bool, mistake: usize) -> String {
    let secret = [
        json!([PLANTED]),
        json!(PLANTED),
        json!({"env": PLANTED}),
        json!([{"value": PLANTED}]),
        json!([[PLANTED]]),
        json!([{"env": [PLANTED]}]),
        json!([{"env": format!("{PLANTED}\0")}]),
        json!([{"env": "A", "literal": PLANTED}]),
        json!([format!("{PLANTED}\0")]),
    ];
    let binding =
        |secrets: &Json| json!({"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": secrets});
    json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "allow_inline_secrets": inline,
        "routes": [{"endpoint": "h", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
        "webhooks": {"static": {"wh_12345678": binding(&secret[mistake]), "wh_23456789": binding(&secret[0])}},
        "callers": {"c": {"subject": "service:c", "routes": [], "signature": {"key": PLANTED}, "secrets": secret[mistake]}},
    })
    .to_string()
}

fn judge_document(text: &[u8]) {
    match Policy::from_json(text) {
        Ok(mut policy) => {
            is_clean("the policy's summary", &policy.summary());
            is_clean("the policy", &format!("{policy:?}"));
            let missing = policy.read_secrets(|_| None, |_| true, "").err();
            is_clean("a missing secret", &format!("{missing:?}"));
            let taken = policy.read_secrets(|_| Some(PLANTED.into()), |_| true, "");
            is_clean("a policy with secrets", &format!("{taken:?} {policy:?} {:?}", policy.warnings()));
        }
        Err(errors) => is_clean("a start failure", &format!("{errors} {errors:?}")),
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Documents with slips of the pen: a few bytes too many, too few or wrong, but for the secret itself.
    #[test]
    fn start_failures_do_not_repeat_secrets(
        inline in any::<bool>(),
        mistake in 0_usize..9,
        slips in vec((any::<Index>(), 0_usize..3, select(b"{}[]\",: 1x\\".to_vec())), 0..3),
    ) {
        let mut text = document_with_secrets(inline, mistake).into_bytes();
        for (place, kind, byte) in slips {
            let at = place.index(text.len());
            let near = &text[at.saturating_sub(PLANTED.len() + 2)..(at + PLANTED.len() + 2).min(text.len())];
            // What touches the secret could make it a member's name, and names are told.
            if near.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes()) {
                continue;
            }
            match kind {
                0 => text.insert(at, byte),
                1 => drop(text.remove(at)),
                _ => text[at] = byte,
            }
        }
        judge_document(&text);
    }
}
