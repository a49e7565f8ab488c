//! A delivery of each provider through Envoy. `tests/vectors` and `tests/cases/webhooks.json` have what is verified and which key comes of it.

use anyhow::Result;
use e2e::deliveries::{self, digest_key, now, sha256};
use e2e::raw::Request;
use e2e::runner::Test;
use serde_json::json;

use super::{
    GITHUB, GITHUB_INLINE, GITHUB_PATH, PUBLIC_URL, Protocol, SHIPPED, STANDARD, STANDARD_PATH, STRIPE, TWILIO,
    TWILIO_PATH, WebhooksSetup, event, over_both, stripe,
};

const GUID: &str = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const STATUS: [(&str, &str); 4] =
    [("MessageSid", "SM1"), ("MessageStatus", "delivered"), ("To", "+49 (30) 1"), ("Body", "ä & b=c")];

pub(crate) fn tests() -> Vec<Test<WebhooksSetup>> {
    let mut tests = over_both("each provider: valid, and tampered", each);
    tests.extend(over_both("what a sender sets does not reach the upstream", spoofed));
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

fn each(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    for (request, key) in deliveries() {
        setup.forwarded(SHIPPED, protocol, &request.clone().header("Idempotency-Key", "the client's"), Some(&key))?;
        let mut body = request.body.clone();
        body.push(b' ');
        setup.refused(SHIPPED, protocol, &request.body(body), 401, "webhook_signature_invalid")?;
    }
    Ok(())
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
