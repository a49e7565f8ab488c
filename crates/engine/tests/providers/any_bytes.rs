//! Whatever bytes come, there is an answer (invariant I7).

use direct::vectors::Receive as _;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Catalogue, Delivery, Provider};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use testkit::vectors::{self, Vector};

use crate::extent::cases;

fn runner(count: u32) -> TestRunner {
    TestRunner::new(ProptestConfig { failure_persistence: None, ..cases(count) })
}

/// Pieces that readers look for, and bytes that they do not.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"",
        b"t=",
        b"v1=",
        b"v1,",
        b",",
        b" ",
        b";",
        b"=",
        b"sha256=",
        b"1760000000",
        b"9999999999999999999",
        b"-1",
        b"2025-10-09T08:53:20Z",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b":",
        b"\"id\"",
        b"\\u0069",
        b"\\ud800",
        b"\\",
        b"null",
        b"1e999",
        b"&",
        b"%",
        b"%4",
        b"%41",
        b"+",
        b"MessageSid=a",
        b"MessageStatus=b",
        b"bodySHA256=",
        b"https://",
        b"[::1]:",
        b"@",
        b"#",
        b"?",
        b"/",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"whsec_",
        b"whpk_",
        b"!!!!",
        b"AAAA",
    ];
    let piece = prop_oneof![
        3 => prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Deliveries made of nothing but such pieces, for every provider.
pub(crate) fn deliveries() -> Result<(), String> {
    let providers: Vec<Provider> =
        Catalogue::compiled_in().names().map(|name| Catalogue::compiled_in().provider(name).unwrap()).collect();
    let mut names: Vec<String> = providers.iter().flat_map(Provider::signature_headers).collect();
    names.extend(
        vectors::all()
            .iter()
            .flat_map(|vector| vector.headers.iter().map(|(name, _)| name.clone()))
            .collect::<Vec<_>>(),
    );
    names.sort();
    names.dedup();
    let header = (prop::sample::select(names), bytes());
    let strategy = (
        0..providers.len(),
        prop::collection::vec(header, 0..12),
        (bytes(), bytes(), bytes()),
        prop::collection::vec(bytes(), 0..3),
        any::<u64>(),
    );
    runner(8_000)
        .run(&strategy, |(provider, headers, (method, url, body), secrets, now)| {
            let lines = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())).collect();
            let headers = Headers::new(lines);
            let delivery = Delivery { method: &method, url: &url, headers: &headers, body: &Body::of(&body) };
            let secrets: Vec<&[u8]> = secrets.iter().map(Vec::as_slice).collect();
            answer(&providers[provider], &delivery, &secrets, now);
            Ok(())
        })
        .map_err(|error| error.to_string())
}

/// Valid deliveries with a part replaced.
pub(crate) fn mutations() -> Result<(), String> {
    let vectors: Vec<Vector> =
        vectors::all().into_iter().filter(|vector| vector.valid && vector.body.len() < 5000).collect();
    let strategy = (0..vectors.len(), 0..6_usize, any::<prop::sample::Index>(), bytes());
    runner(8_000)
        .run(&strategy, |(vector, part, place, replacement)| {
            let mut vector = vectors[vector].clone();
            let splice = |bytes: &mut Vec<u8>| {
                let at = place.index(bytes.len() + 1);
                let end = (at + replacement.len() / 2).min(bytes.len());
                bytes.splice(at..end, replacement.iter().copied());
            };
            match part {
                0 => splice(&mut vector.body),
                1 => splice(&mut vector.secrets[0]),
                2 => vector.url.push_str(&String::from_utf8_lossy(&replacement)),
                3 => {
                    vector.now_ms =
                        replacement.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(257) + u64::from(*byte))
                }
                _ if vector.headers.is_empty() => {}
                _ => {
                    let at = place.index(vector.headers.len());
                    splice(&mut vector.headers[at].1);
                }
            }
            let provider = vector.provider();
            let secrets: Vec<&[u8]> = vector.secrets.iter().map(Vec::as_slice).collect();
            vector.deliver(|delivery| answer(&provider, delivery, &secrets, vector.now_ms));
            Ok(())
        })
        .map_err(|error| error.to_string())
}

/// Identifiers read from any body: the token verifies whatever is sent with it.
pub(crate) fn identifiers() -> Result<(), String> {
    let provider = |identifiers: &str| {
        let file = format!(
            r#"{{"schemes": [{{"algorithm": "token", "signature": {{"header": "x-token"}}}}], "identifiers": [{identifiers}]}}"#
        );
        Provider::read("p", file.as_bytes()).unwrap()
    };
    let providers = [
        provider(r#"{"json": "/id", "signed": false}"#),
        provider(r#"{"json": "/a/id", "type": "integer", "signed": false}"#),
        provider(r#"{"json": "/0/id", "single": true, "signed": false}"#),
        provider(r#"{"form": [["MessageSid", "MessageStatus"], ["id"]], "signed": false}"#),
    ];
    let kinds = [b"application/json".as_slice(), b"application/x-www-form-urlencoded; charset=utf-8"];
    runner(8_000)
        .run(&(0..providers.len(), 0..kinds.len(), bytes()), |(provider, kind, body)| {
            let headers = Headers::new(vec![(b"x-token", b"secret"), (b"content-type", kinds[kind])]);
            let delivery = Delivery { method: b"POST", url: b"", headers: &headers, body: &Body::of(&body) };
            prop_assert!(providers[provider].verify(&delivery, &[b"secret"], 0).is_ok());
            answer(&providers[provider], &delivery, &[b"secret"], 0);
            Ok(())
        })
        .map_err(|error| error.to_string())
}

/// Provider files.
pub(crate) fn files() -> Result<(), String> {
    let files: Vec<Vec<u8>> = super::files::sources().into_iter().map(|(_, text)| text.into_bytes()).collect();
    let strategy = (0..files.len(), any::<prop::sample::Index>(), 0..40_usize, bytes());
    runner(4_000)
        .run(&strategy, |(file, place, length, replacement)| {
            let mut file = files[file].clone();
            let at = place.index(file.len());
            let end = (at + length).min(file.len());
            file.splice(at..end, replacement);
            if let Ok(provider) = Provider::read("p", &file) {
                let headers = Headers::new(Vec::new());
                let delivery = Delivery { method: b"POST", url: b"", headers: &headers, body: &Body::of(b"{}") };
                answer(&provider, &delivery, &[b"secret"], 0);
            }
            Ok(())
        })
        .map_err(|error| error.to_string())
}

fn answer(provider: &Provider, delivery: &Delivery<'_>, secrets: &[&[u8]], now: u64) {
    if let Ok(verified) = provider.verify(delivery, secrets, now)
        && let Ok(Some(identifier)) = provider.identifier(delivery, &verified)
    {
        let key = provider.raw_key(&identifier, None, None);
        assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)), "{key}");
    }
}
