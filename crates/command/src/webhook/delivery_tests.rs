//! Every provider's deliveries verify through the engine, with each of its schemes; signing verifies itself, so an error of
//! `sign` is an error of the signer.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::provider::Provider;

const NOW: u64 = 1_790_000_000;
const URL: &str = "https://api.example.com/webhooks/x%3A/wh_01JTEST?a=1";

/// A secret in the form of a scheme; `None` where the scheme signs with a private key.
fn secret(scheme: &SchemeFile) -> Option<String> {
    let key = b"0123456789abcdef0123456789abcdef";
    let text = match (scheme.algorithm.as_str(), scheme.secret.encoding.as_deref()) {
        ("ed25519" | "ecdsa-p256", _) => return None,
        (_, Some("base64" | "base64_or_raw")) => STANDARD.encode(key),
        (_, Some("hex")) => base16ct::lower::encode_string(key),
        _ => String::from_utf8_lossy(key).into_owned(),
    };
    Some(format!("{}{text}", scheme.secret.prefix.as_deref().unwrap_or_default()))
}

fn order<'a>(provider: &'a KnownProvider, scheme: usize, secret: Option<&'a str>) -> DeliveryOrder<'a> {
    let secret = secret.map(str::as_bytes);
    DeliveryOrder { provider, scheme: Some(scheme), url: URL, secret, id: "4711", body: None, now_unix: NOW }
}

/// Whether the engine takes a delivery.
fn verifies(provider: &Provider, delivery: &SignedDelivery, secret: &[u8], now_unix: u64) -> bool {
    let lines: Vec<(String, &str)> =
        delivery.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
    let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
    let received =
        Delivery { method: b"POST", url: delivery.url.as_bytes(), headers: &headers, body: &Body::of(&delivery.body) };
    provider.verify(&received, &[secret], now_unix * 1000).is_ok()
}

#[test]
fn every_scheme_of_every_provider_signs_what_the_engine_verifies() {
    let mut schemes = 0;
    for provider in KnownProvider::all() {
        for (index, scheme) in provider.file.schemes.iter().enumerate() {
            schemes += 1;
            let text = secret(scheme);
            let delivery = order(&provider, index + 1, text.as_deref())
                .sign()
                .unwrap_or_else(|why| panic!("{} {index}: {why}", provider.name));
            let name = &provider.name;
            assert_eq!(delivery.identifier.is_some(), !provider.file.identifiers.is_empty(), "{name} {delivery:?}");
            let key = delivery.public_key.clone().or(text).unwrap();
            assert!(verifies(&provider.engine, &delivery, key.as_bytes(), NOW), "{name}");
            // What was signed is what is checked: with another secret, or too late, nothing fits.
            let other = order(&provider, index + 1, None).sign().ok().and_then(|other| other.public_key);
            let other = other.unwrap_or_else(|| secret(scheme).unwrap().replace(['0', 'M'], "9"));
            assert!(!verifies(&provider.engine, &delivery, other.as_bytes(), NOW), "{name}");
            if scheme.timestamp.is_some() {
                assert!(!verifies(&provider.engine, &delivery, key.as_bytes(), NOW + 100_000), "{name}");
            }
        }
    }
    assert!(schemes >= 50, "{schemes}");
}

#[test]
fn bodies_of_the_user_are_signed_as_they_stand() {
    for (name, body, kind) in [
        ("stripe", r#"{ "id": "evt_own" }"#, Some("stripe-evt_own")),
        ("twilio", "MessageSid=SM1&MessageStatus=sent&Body=a+b%26", Some("twilio-~")),
        ("mandrill", "mandrill_events=%5B%5D", None),
    ] {
        let provider = KnownProvider::named(name, None).unwrap();
        let secret = "0123456789abcdef";
        let ordered = DeliveryOrder { body: Some(body.as_bytes().to_vec()), ..order(&provider, 1, Some(secret)) };
        let delivery = ordered.sign().unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(delivery.body, body.as_bytes());
        assert_eq!(delivery.identifier.is_some(), kind.is_some(), "{name}");
        assert!(delivery.identifier.unwrap_or_default().starts_with(kind.unwrap_or_default()), "{name}");
    }
    let provider = KnownProvider::named("stripe", None).unwrap();
    let ordered = DeliveryOrder { body: Some(b"{}".to_vec()), ..order(&provider, 1, Some("planted")) };
    let error = ordered.sign().unwrap_err();
    assert!(error.contains("delivery_id_missing") && !error.contains("planted"), "{error}");
}

#[test]
fn a_secret_of_another_form_is_told_and_not_repeated() {
    for (name, secret, told) in [
        ("discord", Some("planted"), "private key"),
        ("discord", Some("-----BEGIN planted"), "Ed25519"),
        ("sendgrid", Some("-----BEGIN planted"), "P-256"),
        ("adyen", Some("planted"), "hexadecimal"),
        ("stripe", None, "--secret"),
    ] {
        let provider = KnownProvider::named(name, None).unwrap();
        let order = DeliveryOrder { scheme: None, ..order(&provider, 1, secret) };
        let error = order.sign().unwrap_err();
        assert!(error.contains(told) && !error.contains("planted"), "{name}: {error}");
    }
    let provider = KnownProvider::named("stripe", None).unwrap();
    assert!(order(&provider, 9, Some("x")).sign().unwrap_err().contains("--scheme 9"));
}

/// The key of RFC 8032, section 7.1, test 1, in PKCS #8.
#[test]
fn private_keys_are_read_as_openssl_writes_them() {
    let ed25519 = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    let provider = KnownProvider::named("discord", None).unwrap();
    let delivery = order(&provider, 1, Some(ed25519)).sign().unwrap();

    assert_eq!(
        delivery.public_key.as_deref(),
        Some("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    );
}

#[test]
fn times_have_the_units_of_provider_files() {
    for (unit, expected) in [
        ("s", "1790000000"),
        ("ms", "1790000000000"),
        ("rfc3339", "2026-09-21T14:13:20Z"),
        ("http_date", "Mon, 21 Sep 2026 14:13:20 GMT"),
    ] {
        assert_eq!(time_text(unit, NOW).unwrap(), expected);
    }
}
