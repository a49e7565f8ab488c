//! What somebody who has seen a delivery, or who sends to the same project, can make of it: never the key of another
//! delivery, and never a second key for the same signature.

use anyhow::{Result, ensure};
use e2e::deliveries::{self, digest_key, now, sha256};
use e2e::raw::Request;
use e2e::runner::Test;

use super::Protocol::{self, Http1};
use super::{
    GITHUB, PUBLIC_URL, SHIPPED, STANDARD, STANDARD_2, STANDARD_PATH, STANDARD_PATH_2, TWILIO, TWILIO_PATH,
    WebhooksSetup, delivered, expect_forwarded, over_both, test,
};

const TOKEN: &str = "I-Twilio-Idempotency-Token";
const UUIDS: [&str; 2] = ["38053878-a5d4-4295-a906-cca8f58027c9", "00000000-0000-4000-8000-000000000001"];

pub(crate) fn tests() -> Vec<Test<WebhooksSetup>> {
    let mut tests = over_both("Twilio: one signature, one key", one_key);
    tests.push(test("Twilio: a form without an identifier gets none by a token", no_key_by_a_token));
    tests.push(test("Twilio: bodySHA256 is compared whatever the content type says", hash_of_a_form));
    tests.extend(over_both("what looks like a verified header does not reach the upstream", twins));
    tests.push(test("Standard Webhooks: an id that holds what follows it in the signed text", id_with_a_body));
    tests.push(test("two senders of one project that share an id", two_senders));
    tests.push(test("a captured GitHub body under another delivery's id", captured_body));
    tests
}

/// The same signature over the same text, the text cut otherwise.
fn cut(request: &Request, target: &str, body: &str) -> Request {
    let mut copy = request.clone().body(body);
    copy.target = target.into();
    copy
}

fn one_key(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    let fields = [("AccountSid", "AC1"), ("MessageSid", "SM1"), ("MessageStatus", "delivered"), ("To", "15550100")];
    let text = "AccountSidAC1MessageSidSM1MessageStatusdeliveredTo15550100";
    for path in [TWILIO_PATH.to_owned(), format!("{TWILIO_PATH}?bot=7")] {
        let genuine = deliveries::twilio(PUBLIC_URL, &path, TWILIO.1, &fields);
        let key = digest_key("twilio", &[b"\0s", &sha256(format!("{PUBLIC_URL}{path}{text}").as_bytes())]);
        let mut copies = vec![
            genuine.clone(),
            cut(&genuine, &path, "AccountSid=AC1&MessageSid=SM1&MessageStatus=deliver&edTo=15550100"),
            cut(&genuine, &path, "AccountSid=AC1&MessageSid=SM1&MessageStatus=delivered&To=15550100&To=15550100"),
            cut(&genuine, &path, text),
        ];
        if path.contains('?') {
            copies.push(cut(&genuine, &format!("{path}{text}"), ""));
            let mut other = cut(&genuine, &format!("{path}{text}"), "");
            other.headers.retain(|(name, _)| name != "content-type");
            copies.push(other);
        }
        for copy in copies {
            for copy in [copy.clone(), copy.clone().header(TOKEN, UUIDS[0]), copy.header(TOKEN, UUIDS[1])] {
                setup.forwarded(SHIPPED, protocol, &copy, Some(&key))?;
            }
        }
    }
    // Where a key is not required, an identifier that is cut out of sight is not gone.
    let path = TWILIO_PATH.replace("/hooks/", "/accepted/");
    let genuine = deliveries::twilio(PUBLIC_URL, &path, TWILIO.1, &fields);
    let key = digest_key("twilio", &[b"\0s", &sha256(format!("{PUBLIC_URL}{path}{text}").as_bytes())]);
    setup.forwarded(SHIPPED, protocol, &cut(&genuine, &path, text), Some(&key))?;
    setup.forwarded(SHIPPED, protocol, &genuine, Some(&key))
}

fn no_key_by_a_token(setup: &WebhooksSetup) -> Result<()> {
    let fields = [("CallSid", "CA1"), ("CallStatus", "in-progress"), ("Digits", "1234")];
    let accepted = TWILIO_PATH.replace("/hooks/", "/accepted/");
    for uuid in UUIDS {
        let required = deliveries::twilio(PUBLIC_URL, TWILIO_PATH, TWILIO.1, &fields).header(TOKEN, uuid);
        setup.refused(SHIPPED, Http1, &required, 400, "transport_translation_failed")?;
        let accepted = deliveries::twilio(PUBLIC_URL, &accepted, TWILIO.1, &fields).header(TOKEN, uuid);
        setup.forwarded(SHIPPED, Http1, &accepted, None)?;
    }
    Ok(())
}

fn hash_of_a_form(setup: &WebhooksSetup) -> Result<()> {
    let body = "{\"type\":\"x\"}";
    let hash: String = sha256(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("{TWILIO_PATH}?bodySHA256={hash}");
    let signed = deliveries::twilio(PUBLIC_URL, &path, TWILIO.1, &[]).header(TOKEN, UUIDS[0]);
    for other in ["", "&", "&&"] {
        let copy = signed.clone().body(other);
        setup.refused(SHIPPED, Http1, &copy, 401, "webhook_signature_invalid")?;
    }
    let mut json = signed.body(body);
    json.headers.retain(|(name, _)| name != "content-type");
    let json = json.header("content-type", "application/json");
    setup.forwarded(SHIPPED, Http1, &json, Some(&format!("twilio-{}", UUIDS[0])))
}

/// Beside the lines that were signed or read: other spellings of them, the headers of the other scheme, and a line twice.
fn twins(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    let genuine = deliveries::standard(STANDARD_PATH, STANDARD.1, "msg_1", now(), "{}");
    let key = format!(
        "t-acme:health-prod:service:webhook-ingest:{}",
        digest_key("standard_webhooks", &[b"wh_standard", b"\0msg_1"])
    );
    let mut sent = genuine.clone().header("webhook-id", "msg_1");
    for name in
        ["webhook_id", "Webhook_Id", "svix-id", "Svix_Id", "svix_timestamp", "webhook_timestamp", "svix-signature"]
    {
        sent = sent.header(name, "msg_FORGED");
    }
    expect_forwarded(&setup.send(SHIPPED, protocol, &sent)?, &delivered(&genuine, Some(&key)))?;
    let id = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
    let path = "/api/v1/internal/github/wh_github04";
    let genuine = deliveries::github(path, GITHUB.1, id, "{}");
    let sent = genuine.clone().header("X_GitHub_Delivery", "FORGED").header("x-github_delivery", "FORGED");
    expect_forwarded(&setup.send(SHIPPED, protocol, &sent)?, &delivered(&genuine, None))
}

/// `{id}.{time}.{body}`: a body could hold a second time, and the first would belong to the identifier.
fn id_with_a_body(setup: &WebhooksSetup) -> Result<()> {
    let at = now();
    let genuine = deliveries::standard(STANDARD_PATH, STANDARD.1, "msg_9", at, format!("hello.{at}.{{\"forged\":1}}"));
    let key = digest_key("standard_webhooks", &[b"wh_standard", b"\0msg_9"]);
    setup.forwarded(SHIPPED, Http1, &genuine, Some(&key))?;
    let mut forged = genuine.body("{\"forged\":1}");
    forged.headers.retain(|(name, _)| name != "webhook-id");
    let forged = forged.header("webhook-id", format!("msg_9.{at}.hello"));
    setup.refused(SHIPPED, Http1, &forged, 401, "webhook_signature_invalid")
}

fn two_senders(setup: &WebhooksSetup) -> Result<()> {
    let at = now();
    let first = deliveries::standard(STANDARD_PATH, STANDARD.1, "msg_shared", at, "{\"from\": 1}");
    let second = deliveries::standard(STANDARD_PATH_2, STANDARD_2.1, "msg_shared", at, "{\"from\": 2}");
    let key = |id: &str| digest_key("standard_webhooks", &[id.as_bytes(), b"\0msg_shared"]);
    ensure!(key("wh_standard") != key("wh_standar2"), "one key");
    setup.forwarded(SHIPPED, Http1, &second, Some(&key("wh_standar2")))?;
    setup.forwarded(SHIPPED, Http1, &first, Some(&key("wh_standard")))?;
    // Neither can sign for the other.
    let forged = deliveries::standard(STANDARD_PATH, STANDARD_2.1, "msg_shared", at, "{\"from\": 2}");
    setup.refused(SHIPPED, Http1, &forged, 401, "webhook_signature_invalid")
}

fn captured_body(setup: &WebhooksSetup) -> Result<()> {
    let (id, path) = ("72d3162e-cc78-11e3-81ab-4c9367dc0958", "/api/v1/hooks/github/wh_github04");
    let key = |body: &str| digest_key("github", &[b"\0b", &sha256(body.as_bytes()), id.as_bytes()]);
    let (captured, genuine) = ("{\"captured\": true}", "{\"genuine\": true}");
    ensure!(key(captured) != key(genuine), "one key");
    setup.forwarded(SHIPPED, Http1, &deliveries::github(path, GITHUB.1, id, captured), Some(&key(captured)))?;
    // The delivery itself, and once more: "Redeliver".
    setup.forwarded(SHIPPED, Http1, &deliveries::github(path, GITHUB.1, id, genuine), Some(&key(genuine)))?;
    setup.forwarded(SHIPPED, Http1, &deliveries::github(path, GITHUB.1, id, genuine), Some(&key(genuine)))
}
