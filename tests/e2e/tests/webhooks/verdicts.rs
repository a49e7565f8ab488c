//! What is verified, under which secrets, and the key that comes of it.

use anyhow::{Context as _, Result, ensure};
use e2e::deliveries::{self, digest_key, now, sha256};
use e2e::raw::Request;
use e2e::runner::Test;
use serde_json::json;

use super::Protocol::{self, Http1};
use super::{
    GITHUB, GITHUB_INLINE, GITHUB_PATH, PUBLIC_URL, SHIPPED, STANDARD, STANDARD_PATH, STRIPE, STRIPE_PATH,
    STRIPE_PREVIOUS, TWILIO, TWILIO_PATH, WebhooksSetup, event, over_both, stripe, test,
};

const SIGNATURE: &str = "webhook_signature_invalid";
const GUID: &str = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const STATUS: [(&str, &str); 4] =
    [("MessageSid", "SM1"), ("MessageStatus", "delivered"), ("To", "+49 (30) 1"), ("Body", "ä & b=c")];

pub(crate) fn tests() -> Vec<Test<WebhooksSetup>> {
    let mut tests = over_both("valid: each provider", valid);
    tests.extend(over_both("tampered, old, or signed with another secret", invalid));
    tests.extend(over_both("what a sender sets does not reach the upstream", spoofed));
    tests.push(test("every byte of a body is covered", every_byte));
    tests.push(test("two secrets at once", rotation));
    tests.push(test("ids that are unknown, or another provider's", unknown));
    tests.push(test("a binding is a namespace", namespaces));
    tests.push(test("identifiers that cannot be read", no_identifier));
    tests.push(test("without an identifier, by policy", by_policy));
    tests
}

/// A delivery of each provider, and its key.
fn deliveries() -> [(Request, String); 6] {
    let (at, form) = (now(), deliveries::twilio(PUBLIC_URL, TWILIO_PATH, TWILIO.1, &STATUS));
    let text = format!("{PUBLIC_URL}{TWILIO_PATH}Bodyä & b=cMessageSidSM1MessageStatusdeliveredTo+49 (30) 1");
    let body = "{\"zen\": \"\u{e9}\"}";
    let bound = deliveries::github("/api/v1/hooks/github/wh_github04", GITHUB.1, GUID, body);
    [
        (stripe("evt_1"), "stripe-evt_1".to_owned()),
        (deliveries::stripe("/api/v1/fixed", &[STRIPE.1], at, event("evt_1")), "stripe-evt_1".to_owned()),
        (deliveries::github(GITHUB_PATH, GITHUB_INLINE, GUID, body), format!("github-{GUID}")),
        (bound, digest_key("github", &[b"\0b", &sha256(body.as_bytes()), GUID.as_bytes()])),
        (form, digest_key("twilio", &[b"\0s", &sha256(text.as_bytes())])),
        (
            deliveries::standard(STANDARD_PATH, STANDARD.1, "msg_1", at, "{\"a\": 1}"),
            digest_key("standard_webhooks", &[b"wh_standard\0msg_1"]),
        ),
    ]
}

fn valid(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    for (request, key) in deliveries() {
        for request in [request.clone(), request.header("Idempotency-Key", "the client's")] {
            setup.forwarded(SHIPPED, protocol, &request, Some(&key))?;
        }
    }
    Ok(())
}

fn invalid(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    for (request, _) in deliveries() {
        let mut body = request.body.clone();
        body.push(b' ');
        let signs = |name: &str| name.to_ascii_lowercase().contains("-signature");
        let (mut unsigned, mut empty) = (request.clone(), request.clone());
        unsigned.headers.retain(|(name, _)| !signs(name));
        empty.headers.iter_mut().filter(|(name, _)| signs(name)).for_each(|(_, value)| value.clear());
        for request in [request.body(body), unsigned, empty] {
            setup.refused(SHIPPED, protocol, &request, 401, SIGNATURE)?;
        }
    }
    let at = now();
    let others = [
        deliveries::stripe(STRIPE_PATH, &["whsec_other"], at, event("evt_1")),
        deliveries::stripe(STRIPE_PATH, &[STRIPE.1], at - 301, event("evt_1")),
        deliveries::stripe(STRIPE_PATH, &[STRIPE.1], at + 900, event("evt_1")),
        deliveries::github(GITHUB_PATH, GITHUB.1, GUID, "{}"),
        deliveries::github(GITHUB_PATH, "", GUID, "{}"),
        deliveries::twilio("https://evil.example.com", TWILIO_PATH, TWILIO.1, &STATUS),
        deliveries::twilio(PUBLIC_URL, "/api/v1/hooks/twilio/wh_twilio02", TWILIO.1, &STATUS).header("x", "y"),
        deliveries::standard(STANDARD_PATH, STANDARD.1, "msg_1", at - 301, "{}"),
    ];
    for mut request in others {
        if request.target.ends_with(b"wh_twilio02") {
            request.target = TWILIO_PATH.into();
        }
        setup.refused(SHIPPED, protocol, &request, 401, SIGNATURE)?;
    }
    // The id that is signed is the one that counts.
    let mut request = deliveries::standard(STANDARD_PATH, STANDARD.1, "msg_1", at, "{}");
    request.headers.iter_mut().filter(|(name, _)| name == "webhook-id").for_each(|(_, id)| *id = b"msg_2".to_vec());
    setup.refused(SHIPPED, protocol, &request, 401, SIGNATURE)
}

fn spoofed(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    let token = setup.gateway.token(&json!({"tenant_id": "globex", "project_id": "p", "sub": "mallory"}))?;
    let mut request = stripe("evt_2").bearer(&token);
    let planted = [
        "x-tenant-id",
        "X-Project-Id",
        "x-subject",
        "x_tenant_id",
        "x_subject",
        "Idempotency_Key",
        "idempotency-key",
        "cookie",
        "x-api-key",
        "x-edge-idempotency",
        "X_Edge_Idempotency",
        "x-http-method-override",
        "x-restate-id",
        "x-hub-signature-256",
        "webhook-signature",
    ];
    for name in planted {
        request = request.header(name, "planted");
    }
    setup.forwarded(SHIPPED, protocol, &without(&request, &planted), Some("stripe-evt_2"))?;
    let seen = setup.send(SHIPPED, protocol, &request)?;
    super::expect_forwarded(
        &seen,
        &super::delivered(&without(&request, &planted), Some("t-acme:health-prod:service:webhook-ingest:stripe-evt_2")),
    )
}

fn without(request: &Request, names: &[&str]) -> Request {
    let mut request = request.clone();
    request.headers.retain(|(name, _)| !names.contains(&name.as_str()));
    request
}

fn every_byte(setup: &WebhooksSetup) -> Result<()> {
    let request = deliveries::stripe(STRIPE_PATH, &[STRIPE.1], now(), "{\"id\": \"evt_3\"}");
    for place in 0..request.body.len() {
        let mut tampered = request.clone();
        if let Some(byte) = tampered.body.get_mut(place) {
            *byte ^= 1;
        }
        let seen = setup.gateway.http1(SHIPPED, &tampered)?;
        super::expect_refused(&seen, 401, SIGNATURE).with_context(|| format!("byte {place}"))?;
    }
    setup.forwarded(SHIPPED, Http1, &request, Some("stripe-evt_3"))
}

fn rotation(setup: &WebhooksSetup) -> Result<()> {
    let key = Some("stripe-evt_4");
    for secrets in [
        ["whsec_unknown", STRIPE.1].as_slice(),
        &["whsec_unknown", STRIPE_PREVIOUS.1],
        &[STRIPE_PREVIOUS.1],
        &[STRIPE.1, STRIPE_PREVIOUS.1],
    ] {
        setup.forwarded(SHIPPED, Http1, &deliveries::stripe(STRIPE_PATH, secrets, now(), event("evt_4")), key)?;
    }
    // The other binding of the same provider has the current secret alone.
    let path = "/api/v1/hooks/stripe/wh_stripe02";
    let request = deliveries::stripe(path, &[STRIPE_PREVIOUS.1], now(), event("evt_4"));
    setup.refused(SHIPPED, Http1, &request, 401, SIGNATURE)
}

fn unknown(setup: &WebhooksSetup) -> Result<()> {
    let mut answers = Vec::new();
    for path in [
        "/api/v1/hooks/stripe/wh_stripe99",
        "/api/v1/hooks/stripe/WH_STRIPE01",
        "/api/v1/hooks/stripe/short",
        "/api/v1/hooks/stripe/wh_github01",
        "/api/v1/hooks/github/wh_stripe01",
        "/api/v1/hooks/nobody/wh_stripe01",
        "/api/v1/hooks/Stripe/wh_stripe01",
        "/api/v1/hooks/shopify/wh_stripe01",
        "/api/v1/hooks/stripe/wh_stripe01%00x",
    ] {
        let seen = setup.gateway.http1(SHIPPED, &deliveries::stripe(path, &[STRIPE.1], now(), event("evt_5")))?;
        if path.contains("%00") {
            ensure!(seen.reply.status == 400 && seen.received.is_empty(), "{path}: {}", seen.reply.status);
            continue;
        }
        super::expect_refused(&seen, 404, "webhook_unknown").with_context(|| path.to_owned())?;
        let mut problem = seen.reply.json();
        // Each request has an id of its own.
        let instance = problem.as_object_mut().and_then(|members| members.remove("instance"));
        ensure!(instance.is_some(), "{path}: a problem document without the request's id");
        answers.push(problem);
    }
    answers.dedup();
    ensure!(answers.len() == 1, "unknown ids can be told from other providers'");
    setup.sound(SHIPPED)
}

fn namespaces(setup: &WebhooksSetup) -> Result<()> {
    let other = deliveries::stripe("/api/v1/hooks/stripe/wh_stripe02", &[STRIPE.1], now(), event("evt_6"));
    let key = |request: &Request| -> Result<String> {
        let seen = setup.gateway.http1(SHIPPED, request)?;
        let received = seen.received.first().with_context(|| format!("refused: {}", super::text(&seen.reply)))?;
        let line = received.headers.iter().find(|(name, _)| name == "idempotency-key").context("no key")?;
        Ok(String::from_utf8(line.1.clone())?)
    };
    let expected = "t-globex:health-prod:service:webhook-ingest:stripe-evt_6";
    let seen = key(&other)?;
    ensure!(seen == expected, "{seen} instead of {expected}");

    let github = |id: &str, secret: &str, body: &str| {
        deliveries::github(&format!("/api/v1/hooks/github/{id}"), secret, GUID, body)
    };
    let scoped = key(&github("wh_github02", GITHUB.1, "{}"))?;
    let bound = key(&github("wh_github03", GITHUB.1, "{}"))?;
    let bound_to_another = key(&github("wh_github03", GITHUB.1, "{ }"))?;
    let plain = key(&github("wh_github01", GITHUB_INLINE, "{}"))?;
    let mut all = vec![scoped, bound, bound_to_another, plain];
    let hashed = "t-acme:health-prod:service:webhook-ingest:github-~";
    let count = all.iter().filter(|key| key.starts_with(hashed)).count();
    ensure!(count == 3, "{count} digests in {all:?}");
    all.sort_unstable();
    all.dedup();
    ensure!(all.len() == 4, "keys that are the same: {all:?}");
    let again = key(&github("wh_github02", GITHUB.1, "{ }"))?;
    ensure!(all.contains(&again), "scoped to the webhook, not bound to the body: {again}");
    Ok(())
}

fn no_identifier(setup: &WebhooksSetup) -> Result<()> {
    let bodies = [
        "",
        "[]",
        "{}",
        "{\"id\": 7}",
        "{\"id\": null}",
        "{\"id\": \"\"}",
        "{\"id\": \"evt_1\", \"id\": \"evt_2\"}",
        "{\"id\": \"evt_1\", \"i\\u0064\": \"evt_2\"}",
        "{\"id\": \"evt_1\"} x",
        "{\"id\": \"evt_1\"",
        "{\"data\": {\"id\": \"evt_1\"}}",
        "not json",
    ];
    for body in bodies {
        let request = deliveries::stripe(STRIPE_PATH, &[STRIPE.1], now(), body);
        setup.refused(SHIPPED, Http1, &request, 400, "transport_translation_failed").context(body)?;
    }
    let deep = format!("{{\"id\": {}\"evt_1\"{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let invalid = [b"{\"id\": \"evt_\xff\"}".to_vec(), deep.into_bytes()];
    for body in invalid {
        let request = deliveries::stripe(STRIPE_PATH, &[STRIPE.1], now(), body);
        setup.refused(SHIPPED, Http1, &request, 400, "transport_translation_failed")?;
    }
    // What no key can hold is hashed, so that nothing legitimate is lost.
    for id in ["evt 1", "\u{e9}", "t-acme:x:user:y", "~x", &"e".repeat(300)] {
        let seen = setup.gateway.http1(SHIPPED, &stripe(id))?;
        let key = seen.received.first().and_then(|received| {
            received.headers.iter().find(|(name, _)| name == "idempotency-key").map(|(_, key)| key.clone())
        });
        let key = String::from_utf8(key.with_context(|| format!("no key for {id}"))?)?;
        let (namespace, raw) = key.rsplit_once(':').context("no namespace")?;
        ensure!(namespace == "t-acme:health-prod:service:webhook-ingest", "{key}");
        // If an identifier is only too strange for a key, its digest stands there.
        ensure!(raw.starts_with("stripe-~") && raw.len() == "stripe-~".len() + 43, "{id}: {key}");
    }
    Ok(())
}

fn by_policy(setup: &WebhooksSetup) -> Result<()> {
    let plain = |path: &str, body: &str| {
        deliveries::stripe(path, &[STRIPE.1], now(), body).header("Idempotency-Key", "the client's")
    };
    let (accepted, internal) = ("/api/v1/accepted/stripe/wh_stripe01", "/api/v1/internal/stripe/wh_stripe01");
    setup.forwarded(SHIPPED, Http1, &plain(accepted, &event("evt_7")), Some("stripe-evt_7"))?;
    setup.forwarded(SHIPPED, Http1, &plain(accepted, "{}"), None)?;
    setup.forwarded(SHIPPED, Http1, &plain(internal, &event("evt_7")), None)?;
    setup.forwarded(SHIPPED, Http1, &plain(internal, "no json"), None)?;
    for path in [accepted, internal] {
        let unsigned = Request::post(path).header("idempotency-key", "k-1");
        setup.refused(SHIPPED, Http1, &unsigned, 401, SIGNATURE)?;
        let mut request = plain(path, "{}");
        request.body = b"{ }".to_vec();
        setup.refused(SHIPPED, Http1, &request, 401, SIGNATURE)?;
    }
    for method in ["GET", "PUT", "OPTIONS"] {
        let request = Request { method: method.to_owned(), ..stripe("evt_7") };
        setup.refused(SHIPPED, Http1, &request, 405, "method_not_allowed")?;
    }
    Ok(())
}
