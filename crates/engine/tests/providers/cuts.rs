//! One signature has one key: whoever has seen a delivery sends its signed text again, cut into other parts.

use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Catalogue, Delivery, KeyScope, Provider};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use testkit::signatures::{base64, hex, hmac_sha1, hmac_sha256};

use crate::extent::part_of;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const SECRET: &[u8] = b"0123456789abcdef-0123456789abcde!";
const NOW_MS: u64 = 1_760_000_000_000;
const TOKENS: [&str; 2] = ["38053878-a5d4-4295-a906-cca8f58027c9", "00000000-0000-4000-8000-000000000001"];

/// A delivery as somebody sends it.
#[derive(Debug, Clone)]
struct SentDelivery {
    method: &'static str,
    url: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum CutOutcome {
    Refused(&'static str),
    Key(String),
    None(&'static str),
}

impl SentDelivery {
    fn form(url: &str, body: &str, signature: &str) -> Self {
        let headers = vec![("content-type", FORM.to_owned()), ("x-twilio-signature", signature.to_owned())];
        Self { method: "POST", url: url.to_owned(), headers, body: body.to_owned() }
    }

    fn with(&self, name: &'static str, value: &str) -> Self {
        let mut sent = self.clone();
        sent.headers.retain(|(other, _)| *other != name);
        sent.headers.push((name, value.to_owned()));
        sent
    }

    fn outcome(&self, provider: &str) -> CutOutcome {
        let provider = provider_named(provider);
        let lines = self.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let headers = Headers::new(lines);
        let (url, body) = (self.url.as_bytes(), self.body.as_bytes());
        let delivery = Delivery { method: self.method.as_bytes(), url, headers: &headers, body: &Body::of(body) };
        let verified = match provider.verify(&delivery, &[SECRET], NOW_MS) {
            Ok(verified) => verified,
            Err(why) => return CutOutcome::Refused(why.reason().name()),
        };
        match provider.identifier(&delivery, &verified) {
            Ok(Some(identifier)) => CutOutcome::Key(provider.raw_key(&identifier, None, None)),
            Ok(None) => CutOutcome::None("no_delivery_id"),
            Err(why) => CutOutcome::None(why.reason().name()),
        }
    }
}

fn provider_named(name: &str) -> Provider {
    Catalogue::compiled_in().provider(name).unwrap()
}

fn twilio_signature(text: &str) -> String {
    base64(&hmac_sha1(SECRET, text.as_bytes()))
}

fn signed(text: &str) -> Vec<u8> {
    hmac_sha256(SECRET, text.as_bytes())
}

/// Every form with these names whose signed text is `text`, as its values: names in their order, values that are not empty.
fn forms<'t>(
    text: &'t str,
    names: &[&str],
    before: &mut Vec<(String, &'t str)>,
    all: &mut Vec<Vec<(String, &'t str)>>,
) {
    for (at, name) in names.iter().enumerate() {
        let Some(rest) = text.strip_prefix(name) else { continue };
        for end in 1..=rest.len() {
            before.push(((*name).to_owned(), &rest[..end]));
            if end == rest.len() {
                all.push(before.clone());
            } else {
                forms(&rest[end..], &names[at + 1..], before, all);
            }
            before.pop();
        }
    }
}

/// A form's fields as Twilio signs them.
fn signed_form(fields: &[(&str, &str)]) -> String {
    let mut fields = fields.to_vec();
    fields.sort_unstable();
    fields.dedup();
    fields.iter().flat_map(|(name, value)| [*name, *value]).collect()
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn one_key(what: &str, provider: &str, genuine: &SentDelivery, copies: &[SentDelivery]) -> Result<(), String> {
    let expected = genuine.outcome(provider);
    for copy in copies {
        let found = copy.outcome(provider);
        if !matches!(found, CutOutcome::Refused(_)) && found != expected {
            return Err(format!("{what}: {expected:?}, and as {copy:?} {found:?}"));
        }
    }
    Ok(())
}

/// A captured callback, cut otherwise: `MessageStatus=deliver&edTo=…`, names that swallow values, a query that swallows
/// the form, with and without a token of one's choice.
pub(crate) fn twilio_forms() -> Result<(), String> {
    let url = "https://api.example.com/hooks/twilio/wh_01TWILIO";
    let fields = [("AccountSid", "AC1"), ("MessageSid", "SM1"), ("MessageStatus", "delivered"), ("To", "+15550100")];
    for url in [url.to_owned(), format!("{url}?bot=7")] {
        let text = signed_form(&fields);
        let signature = twilio_signature(&format!("{url}{text}"));
        let send = |body: &str| SentDelivery::form(&url, body, &signature);
        let genuine = send("AccountSid=AC1&MessageSid=SM1&MessageStatus=delivered&To=%2B15550100");
        assert!(matches!(genuine.outcome("twilio"), CutOutcome::Key(_)), "{:?}", genuine.outcome("twilio"));
        let mut copies = vec![
            send("AccountSid=AC1&MessageSid=SM1&MessageStatus=deliver&edTo=%2B15550100"),
            send("AccountSid=AC1&MessageSid=SM1Message&Status=delivered&To=%2B15550100"),
            send("AccountSid=AC1&MessageSid=SM1&MessageStatusdelivered=&To=%2B15550100"),
            send("AccountSid=AC1MessageSidSM1MessageStatusdelivered&To=%2B15550100"),
            send(&escaped(&text)),
            send(&format!("{}&{}", escaped(&text), escaped(&text))),
        ];
        for at in 1..text.len() {
            copies.push(send(&format!("{}={}", escaped(&text[..at]), escaped(&text[at..]))));
            let mut swallowed = send(&escaped(&text[at..]));
            swallowed.url.push_str(&text[..at]);
            copies.push(swallowed);
        }
        let mut bodyless = send("");
        bodyless.url.push_str(&text);
        copies.push(SentDelivery { method: "GET", ..bodyless.clone() });
        copies.push(bodyless.with("content-type", JSON));
        copies.push(bodyless);
        let with_tokens: Vec<SentDelivery> = copies
            .iter()
            .chain([&genuine])
            .flat_map(|copy| TOKENS.map(|token| copy.with("i-twilio-idempotency-token", token)))
            .collect();
        copies.extend(with_tokens);
        let verified = copies.iter().filter(|copy| matches!(copy.outcome("twilio"), CutOutcome::Key(_))).count();
        assert!(verified > 100, "{verified}");
        one_key(&url, "twilio", &genuine, &copies)?;
    }
    Ok(())
}

/// The hash of a body that stands in a field of a captured form: moved into the query it would cover a body of JSON of
/// one's own, with a token of one's own.
pub(crate) fn twilio_hash_in_a_field() -> Result<(), String> {
    let url = "https://api.example.com/hooks/twilio/wh_01TWILIO?bot=7";
    let body = "{\"invented\":true}";
    let inner = format!("x&bodySHA256={}&y=", hex(&Sha256::digest(body)));
    let fields = [("Body", inner.as_str()), ("MessageSid", "SM1"), ("SmsStatus", "received"), ("To", "1")];
    let text = signed_form(&fields);
    let signature = twilio_signature(&format!("{url}{text}"));
    let form: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    let genuine = SentDelivery::form(url, &form.join("&"), &signature);
    let mut forged = SentDelivery::form(&format!("{url}{text}"), body, &signature).with("content-type", JSON);
    assert!(!matches!(forged.outcome("twilio"), CutOutcome::Refused(_)), "{:?}", forged.outcome("twilio"));
    let mut copies = vec![forged.clone()];
    for token in TOKENS {
        forged = forged.with("i-twilio-idempotency-token", token);
        copies.push(forged.clone());
    }
    one_key("hash in a field", "twilio", &genuine, &copies)
}

/// Whether there is a key follows from the signed text: it cannot be hidden, so that a route that accepts deliveries
/// without one would run them again; nor does a token make one for a form that has none.
pub(crate) fn twilio_forms_without_an_identifier() -> Result<(), String> {
    let url = "https://api.example.com/hooks/twilio/wh_01TWILIO";
    let text = signed_form(&[("CallSid", "CA1"), ("CallStatus", "in-progress"), ("Digits", "1234")]);
    let signature = twilio_signature(&format!("{url}{text}"));
    let genuine = SentDelivery::form(url, "CallSid=CA1&CallStatus=in-progress&Digits=1234", &signature);
    assert_eq!(genuine.outcome("twilio"), CutOutcome::None("delivery_id_missing"));
    let moved = SentDelivery::form(url, "CallSid=CA1&CallStatus=in-progress&Digits1=234", &signature);
    let copies: Vec<SentDelivery> = [&genuine, &moved]
        .into_iter()
        .flat_map(|copy| TOKENS.map(|token| copy.with("i-twilio-idempotency-token", token)))
        .collect();
    one_key("a call", "twilio", &genuine, &copies)?;
    // A URL alone, with nothing that says which body belongs to it.
    let url = "https://api.example.com/hooks/twilio/wh_01TWILIO?CallSid=CA1";
    let genuine = SentDelivery::form(url, "", &twilio_signature(url)).with("content-type", "text/plain");
    let genuine = SentDelivery { method: "GET", ..genuine };
    let copies = TOKENS.map(|token| genuine.with("i-twilio-idempotency-token", token));
    one_key("a GET", "twilio", &genuine, &copies)
}

/// A body that the signed URL has the hash of is compared with it, whatever its content type: a form of no fields, signed
/// as if there were none, brought any bytes along.
pub(crate) fn twilio_hashes_are_always_compared() -> Result<(), String> {
    let body = "[{\"id\":\"EZ1\"}]";
    let url = format!("https://api.example.com/hooks/e/wh_01EVENTS?bodySHA256={}", hex(&Sha256::digest(body)));
    let signature = twilio_signature(&url);
    for provider in ["twilio", "twilio_event_streams"] {
        let genuine = SentDelivery::form(&url, body, &signature).with("content-type", JSON);
        let genuine = genuine.with("i-twilio-idempotency-token", TOKENS[0]);
        assert!(matches!(genuine.outcome(provider), CutOutcome::Key(_)), "{:?}", genuine.outcome(provider));
        for other in ["", "&", "&&&"] {
            let sent = SentDelivery::form(&url, other, &signature).with("i-twilio-idempotency-token", TOKENS[1]);
            let found = sent.outcome(provider);
            if found != CutOutcome::Refused("body_hash_mismatch") {
                return Err(format!("{provider}: {other:?} comes to {found:?}"));
            }
        }
    }
    Ok(())
}

/// Random forms, cut anywhere.
pub(crate) fn twilio_random_cuts() -> Result<(), String> {
    let pieces = ["MessageSid", "MessageStatus", "SmsStatus", "CallSid", "SM1", "a", "b", "?", "&", "=", "bodySHA256="];
    let text = prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..4).prop_map(|parts| parts.concat());
    let fields = prop::collection::vec((text.clone(), text), 1..5);
    let cuts = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_usize), 24);
    TestRunner::new(ProptestConfig { cases: part_of(500), failure_persistence: None, ..ProptestConfig::default() })
        .run(&(fields, any::<bool>(), cuts), |(fields, query, cuts)| {
            let url = format!("https://api.example.com/hooks/twilio/w{}", if query { "?q=1" } else { "" });
            let pairs: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let text = signed_form(&pairs);
            let signature = twilio_signature(&format!("{url}{text}"));
            let form: Vec<String> = pairs.iter().map(|(n, v)| format!("{}={}", escaped(n), escaped(v))).collect();
            let genuine = SentDelivery::form(&url, &form.join("&"), &signature);
            prop_assert!(!matches!(genuine.outcome("twilio"), CutOutcome::Refused(_)));
            let mut copies = Vec::new();
            for (first, second, token) in cuts {
                let (a, b) = (first.index(text.len() + 1), second.index(text.len() + 1));
                let (a, b) = (a.min(b), a.max(b));
                let body = match &text[a..] {
                    "" => String::new(),
                    _ => format!("{}={}", escaped(&text[a..b]), escaped(&text[b..])),
                };
                let mut copy = SentDelivery::form(&format!("{url}{}", &text[..a]), &body, &signature);
                if token > 0 {
                    copy = copy.with("i-twilio-idempotency-token", TOKENS[token % 2]);
                }
                if token == 3 {
                    copy = copy.with("content-type", JSON);
                }
                copies.push(copy);
            }
            one_key("random", "twilio", &genuine, &copies).map_err(TestCaseError::fail)
        })
        .map_err(|error| error.to_string())
}

/// Digits at the end of a body are none of the timestamp's.
pub(crate) fn digits_beside_a_timestamp() -> Result<(), String> {
    let file = r#"{"schemes": [{
        "algorithm": "hmac-sha256",
        "signature": {"header": "x-signature", "encoding": "hex"},
        "timestamp": {"header": "x-time", "unit": "s", "max_age_s": 300},
        "template": "{body}{timestamp}",
        "boundaries": "timestamp"
    }]}"#;
    let provider = Provider::read("p", file.as_bytes()).unwrap();
    let text = "a100001760000000";
    let signature = hex(&signed(text));
    let mut verified = Vec::new();
    for at in 0..text.len() {
        let (body, time) = text.split_at(at);
        let headers = Headers::new(vec![(b"x-signature", signature.as_bytes()), (b"x-time", time.as_bytes())]);
        let delivery = Delivery { method: b"POST", url: b"", headers: &headers, body: &Body::of(body.as_bytes()) };
        if provider.verify(&delivery, &[SECRET], NOW_MS).is_ok() {
            verified.push(time);
        }
    }
    if verified == ["1760000000"] { Ok(()) } else { Err(format!("{verified:?}")) }
}

/// Which providers scope keys to the webhook and which bind bodies, where a binding does not say.
pub(crate) fn defaults() -> Result<(), String> {
    let names = || Catalogue::compiled_in().names();
    let scoped: BTreeSet<&str> = names().filter(|name| provider_named(name).key_scope == KeyScope::Webhook).collect();
    assert_eq!(scoped, BTreeSet::from(["jira", "standard_webhooks", "woocommerce"]));
    let bound: BTreeSet<&str> = names().filter(|name| provider_named(name).may_bind_body()).collect();
    assert_eq!(bound, BTreeSet::from(["github", "shopify", "woocommerce"]));
    Ok(())
}

/// Whoever has seen a delivery of Twilio can cut its signed text into other fields. What a target is made of is then not another
/// message's SID: it is the one that was sent, or no SID at all.
pub(crate) fn recut_forms_name_no_other_message() -> Result<(), String> {
    use edge_idempotency_engine::policy::{BackendKind, Target};

    let sid = |digit: &str| format!("SM{}", digit.repeat(32));
    let (own, other) = (sid("a"), sid("b"));
    let target = Target::parse("P/{form:MessageSid}/x", &[], false, BackendKind::Restate).unwrap();
    let member = &target.members()[0];
    let provider = provider_named("twilio");
    let url = "https://api.example.com/hooks/twilio/wh_01TWILIO";
    let names = [
        "AccountSid",
        "Body",
        "From",
        "MessageSid",
        "MessageStatus",
        "SMaaaa",
        "aaaa",
        "bbbb",
        "delivered",
        "messageSid",
    ];
    let (mut seen, mut refused) = (0, 0);
    for body in
        ["hi".to_owned(), format!("MessageSid{other}"), format!("hi{other}"), format!("hiMessageSid{other}delivered")]
    {
        let fields = [("AccountSid", "AC1"), ("Body", &body), ("MessageSid", &own), ("MessageStatus", "delivered")];
        let text = signed_form(&fields);
        let signature = twilio_signature(&format!("{url}{text}"));
        let mut all = Vec::new();
        forms(&text, &names, &mut Vec::new(), &mut all);
        assert!(all.len() > 30, "{}", all.len());
        for fields in all {
            let form: Vec<String> =
                fields.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
            let sent = SentDelivery::form(url, &form.join("&"), &signature);
            let lines = sent.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let headers = Headers::new(lines);
            let delivery = Delivery {
                method: b"POST",
                url: url.as_bytes(),
                headers: &headers,
                body: &Body::of(sent.body.as_bytes()),
            };
            let Ok(verified) = provider.verify(&delivery, &[SECRET], NOW_MS) else { continue };
            match provider.member(member, &delivery, &verified) {
                Ok(value) => {
                    seen += 1;
                    if value != own.as_bytes() && value.len() == own.len() {
                        return Err(format!("{sent:?}"));
                    }
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(seen > 30 && refused > 30, "{seen} {refused}");
    Ok(())
}
