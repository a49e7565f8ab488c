//! Shapes of `Idempotency-Key` that a parser of HTTP treats; `tests/cases/keys.json` has what a value can be, for each policy.

use anyhow::Result;
use e2e::raw::Request;
use e2e::runner::Test;

use super::Protocol::{Http1, Http2};
use super::{BARE, ExpectedFate, HostileSetup, Protocol, REQUIRED_A, forwarded};

const NAME: &str = "Idempotency-Key";

pub(crate) fn tests() -> Vec<Test<HostileSetup>> {
    let mut tests = super::over_both("key: names, lines and lengths", |setup, protocol| {
        shapes().into_iter().try_for_each(|(lines, expected)| sent(setup, protocol, &lines, &expected))
    });
    tests.push(Test::new("key: folded lines, http1", folded));
    tests.push(Test::new("key: control bytes, http1", control_bytes));
    tests
}

type HeaderTexts = Vec<(&'static str, Vec<u8>)>;

fn key(raw: &str) -> ExpectedFate {
    forwarded(REQUIRED_A, Some(raw))
}

fn invalid(reason: &'static str) -> ExpectedFate {
    ExpectedFate::Refused(400, "idempotency_key_invalid", Some(reason))
}

const ABSENT: ExpectedFate = ExpectedFate::Refused(400, "idempotency_key_required", None);

fn shapes() -> Vec<(HeaderTexts, ExpectedFate)> {
    let line = |name, value: &[u8]| (name, value.to_vec());
    vec![
        (vec![], ABSENT),
        (vec![line(NAME, b"  k-1  ")], key("k-1")),
        (vec![line("IDEMPOTENCY-KEY", b"k-1")], key("k-1")),
        (vec![line("Idempotency_Key", b"k-1")], ABSENT),
        (vec![line("Idempotency_Key", b"k-2"), line(NAME, b"k-1")], key("k-1")),
        (vec![line(NAME, b"k-1"), line("IDEMPOTENCY-KEY", b"k-2")], invalid("multiple")),
        (vec![line(NAME, b"k-1"); 90], invalid("multiple")),
        (vec![line(NAME, &(0x80..=0xff).collect::<Vec<u8>>())], invalid("charset")),
        (vec![line(NAME, &[0xff; 15_000])], invalid("length")),
        // As much as Envoy takes.
        (vec![line(NAME, &[b'k'; 60_000])], invalid("length")),
    ]
}

fn sent(setup: &HostileSetup, protocol: Protocol, lines: &HeaderTexts, expected: &ExpectedFate) -> Result<()> {
    let request = Request::post(REQUIRED_A).bearer(&setup.token);
    let request = lines.iter().fold(request, |request, (name, value)| request.header(name, value.clone()));
    setup.check(BARE, protocol, &request, expected)
}

/// A value that goes on in the next line (obs-fold, RFC 9112 section 5.2).
fn folded(setup: &HostileSetup) -> Result<()> {
    sent(setup, Http1, &vec![(NAME, b"k-1\r\n k-2".to_vec())], &invalid("charset"))?;
    sent(setup, Http1, &vec![(NAME, b"\r\n\tk-1".to_vec())], &key("k-1"))?;
    sent(setup, Http1, &vec![("x-other", b"a\r\n Idempotency-Key: k-1".to_vec())], &ABSENT)
}

/// Envoy refuses what no header may hold, before any filter. (The HTTP/2 client would not send it.)
fn control_bytes(setup: &HostileSetup) -> Result<()> {
    for byte in (0..0x20).filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r')).chain([0x7f]) {
        sent(setup, Http1, &vec![(NAME, vec![b'k', byte])], &ExpectedFate::RefusedByEnvoy(400))?;
    }
    sent(setup, Http2, &vec![(NAME, b"k".to_vec())], &key("k"))
}
