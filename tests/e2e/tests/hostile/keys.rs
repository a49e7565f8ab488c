//! `Idempotency-Key` in every shape, on all five policies.

use anyhow::Result;
use e2e::raw::Request;
use e2e::runner::Test;

use super::Protocol::{Http1, Http2};
use super::{
    ACCEPTED, BARE, ExpectedFate, HostileSetup, INTERNAL, PROHIBITED, Protocol, REQUIRED_A, REQUIRED_B, SHIPPED,
    forwarded,
};

/// What some header lines are to a filter that reads keys.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// This key.
    Key(&'static str),
    /// A key that is refused for this reason.
    Invalid(&'static str),
    /// No key at all.
    Absent,
}
use Meaning::{Absent, Invalid, Key};

const NAME: &str = "Idempotency-Key";
const LONGEST: &str = {
    const BYTES: [u8; 255] = [b'k'; 255];
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => "",
    }
};

pub(crate) fn tests() -> Vec<Test<HostileSetup>> {
    let mut tests: Vec<Test<HostileSetup>> = shapes()
        .into_iter()
        .flat_map(|(name, lines, meaning)| {
            super::over_both(&format!("key: {name}"), move |setup, protocol| {
                everywhere(setup, protocol, &lines, meaning)
            })
        })
        .collect();
    let bytes = |setup: &HostileSetup, protocol| {
        (0x80..=0xff).try_for_each(|byte| everywhere(setup, protocol, &[(NAME, vec![b'k', byte])], Invalid("charset")))
    };
    tests.extend(super::over_both("key: every byte from 0x80 to 0xff", bytes));
    tests.extend(super::over_both("key: 61,000 bytes, as much as Envoy takes", |setup, protocol| {
        let request = Request::post(REQUIRED_A).header(NAME, vec![b'k'; 61_000]);
        let expected = ExpectedFate::Refused(400, "idempotency_key_invalid", Some("length"));
        setup.check(BARE, protocol, &request, &expected)
    }));
    tests.push(Test::new("key: folded lines, http1", folded));
    tests.push(Test::new("key: control bytes, http1", control_bytes));
    tests
}

type HeaderTexts = Vec<(&'static str, Vec<u8>)>;

/// What differs by protocol, names and lengths; `tests/cases/keys.json` has what a value can be.
fn shapes() -> Vec<(&'static str, HeaderTexts, Meaning)> {
    let one = |value: &[u8]| vec![(NAME, value.to_vec())];
    let two = |first: &[u8], second: &[u8]| vec![(NAME, first.to_vec()), (NAME, second.to_vec())];
    vec![
        ("none", vec![], Absent),
        ("bare", one(b"k-1"), Key("k-1")),
        ("two lines", two(b"k-1", b"k-2"), Invalid("multiple")),
        ("a hundred lines", vec![(NAME, b"k-1".to_vec()); 90], Invalid("multiple")),
        (
            "names in different case",
            vec![(NAME, b"k-1".to_vec()), ("IDEMPOTENCY-KEY", b"k-2".to_vec())],
            Invalid("multiple"),
        ),
        ("a comma list", one(b"k-1,k-2"), Invalid("multiple")),
        ("quoted with parameters", one(b"\"k-1\";a=1"), Key("k-1")),
        ("UTF-8", one("clé-ключ".as_bytes()), Invalid("charset")),
        ("blanks around", one(b"  k-1  "), Key("k-1")),
        ("255 bytes", one(LONGEST.as_bytes()), Key(LONGEST)),
        ("60,000 bytes", one(&[b'k'; 60_000]), Invalid("length")),
        ("15,000 bytes that are no text", one(&[0xff; 15_000]), Invalid("length")),
        ("a name in upper case", vec![("IDEMPOTENCY-KEY", b"k-1".to_vec())], Key("k-1")),
        ("a name with an underscore", vec![("Idempotency_Key", b"k-1".to_vec())], Absent),
        ("both names", vec![("Idempotency_Key", b"k-2".to_vec()), (NAME, b"k-1".to_vec())], Key("k-1")),
    ]
}

/// Sends the lines to a route of each policy; the table is that of docs/contract.md section 2.
fn everywhere(setup: &HostileSetup, protocol: Protocol, lines: &[(&str, Vec<u8>)], meaning: Meaning) -> Result<()> {
    let refused = |code, reason| ExpectedFate::Refused(400, code, reason);
    let invalid = |reason| refused("idempotency_key_invalid", Some(reason));
    for listener in [SHIPPED, BARE] {
        let to = |path: &str, expected: &ExpectedFate| {
            let request = Request::post(path).bearer(&setup.token);
            let request = lines.iter().fold(request, |request, (name, value)| request.header(name, value.clone()));
            setup.check(listener, protocol, &request, expected)
        };
        match meaning {
            Key(key) => {
                to(REQUIRED_A, &forwarded(REQUIRED_A, Some(key)))?;
                to(ACCEPTED, &forwarded(ACCEPTED, Some(key)))?;
            }
            Invalid(reason) => {
                to(REQUIRED_A, &invalid(reason))?;
                to(ACCEPTED, &invalid(reason))?;
            }
            Absent => {
                to(REQUIRED_A, &refused("idempotency_key_required", None))?;
                to(ACCEPTED, &forwarded(ACCEPTED, None))?;
            }
        }
        to(INTERNAL, &forwarded(INTERNAL, None))?;
        match meaning {
            Absent => to(PROHIBITED, &forwarded(PROHIBITED, None))?,
            Key(_) | Invalid(_) => to(PROHIBITED, &refused("idempotency_key_prohibited", None))?,
        }
        // No webhook is bound, so none is let in, whatever its key.
        to(REQUIRED_B, &ExpectedFate::Refused(404, "webhook_unknown", None))?;
    }
    Ok(())
}

/// A value that goes on in the next line (obs-fold, RFC 9112 section 5.2).
fn folded(setup: &HostileSetup) -> Result<()> {
    everywhere(setup, Http1, &[(NAME, b"k-1\r\n k-2".to_vec())], Invalid("charset"))?;
    everywhere(setup, Http1, &[(NAME, b"\r\n\tk-1".to_vec())], Key("k-1"))?;
    let hidden = Request::post(REQUIRED_A).bearer(&setup.token).header("x-other", "a\r\n Idempotency-Key: k-1");
    setup.check(BARE, Http1, &hidden, &ExpectedFate::Refused(400, "idempotency_key_required", None))
}

/// Envoy refuses what no header may hold, before any filter. (The HTTP/2 client would not send it.)
fn control_bytes(setup: &HostileSetup) -> Result<()> {
    for byte in (0..0x20).filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r')).chain([0x7f]) {
        let request = Request::post(REQUIRED_A).bearer(&setup.token).header(NAME, vec![b'k', byte]);
        setup.check(BARE, Http1, &request, &ExpectedFate::RefusedByEnvoy(400))?;
    }
    let request = Request::post(REQUIRED_A).bearer(&setup.token).header(NAME, "k");
    setup.check(BARE, Http2, &request, &forwarded(REQUIRED_A, Some("k")))
}
