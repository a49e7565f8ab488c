//! The grammars of signature headers, beside readers of one line each.

use crate::{FuzzedLines, lines, own};
use edge_idempotency_engine::provider::Provider;
use serde_json::{Value, json};
use std::sync::LazyLock;
use testkit::signatures::{base64, hex, hmac_sha256};

/// Unix seconds, in a delivery and on the clock.
const TIME: &str = "1767225600";
const NOW_MS: u64 = 1_767_225_600_000;
/// The most signatures that are looked at.
const MOST: usize = 16;

struct SignatureGrammar {
    provider: Provider,
    base64: bool,
    /// The timestamp is signed
    timed: bool,
    /// Whether a request carries `tag`, by the grammar
    carries: fn(&FuzzedLines, &[u8]) -> Option<bool>,
}

static GRAMMARS: LazyLock<[SignatureGrammar; 5]> = LazyLock::new(|| {
    let grammar = |signature: Value, timestamp: Option<Value>, carries: fn(&FuzzedLines, &[u8]) -> Option<bool>| {
        let mut scheme = json!({"algorithm": "hmac-sha256", "template": "{body}"});
        let base64 = signature["encoding"] == "base64";
        scheme["signature"] = signature;
        let timed = timestamp.is_some();
        if let Some(mut timestamp) = timestamp {
            timestamp["unit"] = "s".into();
            timestamp["max_age_s"] = 300.into();
            scheme["timestamp"] = timestamp;
            scheme["template"] = "{timestamp}.{body}".into();
        }
        let file = json!({"schemes": [scheme], "identifiers": [{"header": "x-id", "signed": false}]});
        SignatureGrammar { provider: own::provider(&file), base64, timed, carries }
    };
    [
        grammar(json!({"header": "x-a", "prefix": "v0=", "encoding": "hex"}), None, |lines, tag| {
            Some(header(lines, "x-a")??.strip_prefix(b"v0=")? == tag)
        }),
        grammar(
            json!({"header": "x-a", "pairs": {"separator": ",", "key": "v1"}, "encoding": "hex"}),
            Some(json!({"pair": "t"})),
            pairs,
        ),
        grammar(
            json!({"header": "x-a", "versions": {"separator": " ", "version": "v1"}, "encoding": "base64"}),
            Some(json!({"header": "x-time"})),
            versions,
        ),
        grammar(json!({"headers": ["x-a", "x-b"], "encoding": "base64"}), None, |lines, tag| {
            let found: Option<Vec<_>> = ["x-a", "x-b"].iter().map(|name| header(lines, name)).collect();
            Some(found?.contains(&Some(tag)))
        }),
        grammar(json!({"numbered_headers": "x-s-", "encoding": "hex"}), None, |lines, tag| {
            let numbers: Vec<String> = (1..=100).map(|number| format!("x-s-{number}")).collect();
            let mut values = lines
                .iter()
                .filter(|(name, value)| {
                    numbers.iter().any(|number| number.as_bytes() == name) && !value.trim_ascii().is_empty()
                })
                .take(MOST);
            Some(values.any(|(_, value)| value.trim_ascii() == tag))
        }),
    ]
});

/// `{name}: t={time},v1={signature}`, as Stripe has it.
fn pairs(lines: &FuzzedLines, tag: &[u8]) -> Option<bool> {
    let items: Option<Vec<(&[u8], &[u8])>> = header(lines, "x-a")??
        .split(|byte| *byte == b',')
        .map(|item| {
            let at = item.iter().position(|byte| *byte == b'=')?;
            Some((item[..at].trim_ascii(), item[at + 1..].trim_ascii()))
        })
        .collect();
    let items = items?;
    let of = |key: &'static [u8]| items.iter().filter(move |(name, _)| *name == key).map(|(_, value)| *value);
    Some(of(b"t").collect::<Vec<_>>() == [TIME.as_bytes()] && of(b"v1").take(MOST).any(|value| value == tag))
}

/// `{name}: v1,{signature} v1,{signature}`, as Standard Webhooks has it.
fn versions(lines: &FuzzedLines, tag: &[u8]) -> Option<bool> {
    let signed = [b"v1,", tag].concat();
    let mut items = header(lines, "x-a")??.split(|byte| *byte == b' ').filter(|item| item.starts_with(b"v1,"));
    Some(header(lines, "x-time")?? == TIME.as_bytes() && items.by_ref().take(MOST).any(|item| item == signed))
}

/// The value of a header, `Some(None)` if it is absent or empty, `None` if its lines differ.
fn header<'l>(lines: &'l FuzzedLines, name: &str) -> Option<Option<&'l [u8]>> {
    let mut values = lines.iter().filter(|(line, _)| line == name.as_bytes()).map(|(_, value)| value.trim_ascii());
    let Some(first) = values.next() else { return Some(None) };
    values.all(|value| value == first).then_some(Some(first).filter(|value| !value.is_empty()))
}

/// Header lines, an empty line, and a body. A byte 1 stands for the right signature, 2 for one with a wrong bit. A
/// delivery verifies if and only if the grammar says that it carries the signature, and then neither with another
/// body, clock or secret.
pub fn signature(input: &[u8]) {
    let at = input.windows(2).position(|two| two == b"\n\n").unwrap_or(input.len());
    let (head, body) = (&input[..at], input.get(at + 2..).unwrap_or_default());
    for grammar in GRAMMARS.iter() {
        let tag = grammar.tag(body);
        let mut wrong = tag.clone();
        wrong[input.len() % 2] ^= 1;
        let mut lines = lines(head);
        for (_, value) in &mut lines {
            let put = |byte: &u8| match byte {
                1 => tag.clone(),
                2 => wrong.clone(),
                other => vec![*other],
            };
            *value = value.iter().flat_map(put).collect();
        }
        let verified = grammar.verifies(&lines, body, NOW_MS, own::SECRET);
        assert_eq!(verified, (grammar.carries)(&lines, &tag).unwrap_or_default());
        if verified {
            let mut changed = body.to_vec();
            match changed.len() {
                0 => changed.push(0),
                length => changed[input.len() % length] ^= 1 << (input.len() % 8),
            }
            assert!(!grammar.verifies(&lines, &changed, NOW_MS, own::SECRET));
            assert!(!grammar.verifies(&lines, body, NOW_MS, b"another secret"));
            assert!(!grammar.timed || !grammar.verifies(&lines, body, NOW_MS + 301_000, own::SECRET));
            assert!(!grammar.timed || !grammar.verifies(&lines, body, NOW_MS - 301_000, own::SECRET));
        }
    }
}

impl SignatureGrammar {
    /// The right signature, as the header has it.
    fn tag(&self, body: &[u8]) -> Vec<u8> {
        let time = if self.timed { format!("{TIME}.") } else { String::new() };
        let tag = hmac_sha256(own::SECRET, &[time.as_bytes(), body].concat());
        if self.base64 { base64(&tag).into_bytes() } else { hex(&tag).into_bytes() }
    }

    fn verifies(&self, lines: &FuzzedLines, body: &[u8], now_ms: u64, secret: &[u8]) -> bool {
        own::deliver(lines, b"https://h/", body, |delivery| self.provider.verify(delivery, &[secret], now_ms).is_ok())
    }
}
