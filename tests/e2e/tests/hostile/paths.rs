//! Request targets in other spellings, through a gateway that normalises paths and one that does not.

use anyhow::Result;
use e2e::raw::Request;
use e2e::runner::Test;

use super::Protocol::Http1;
use super::{BARE, ExpectedFate, HostileSetup, Protocol, SHIPPED, forwarded};

/// What becomes of a target.
#[derive(Clone, Copy, Debug)]
enum Path {
    /// Forwarded so.
    Goes(&'static str),
    /// 400 `path_ambiguous`.
    Ambiguous,
    /// 404 `not_found`.
    Missing,
    /// Envoy itself says this.
    Envoy(u16),
}
use Path::{Ambiguous, Envoy, Goes, Missing};

/// Target, on a gateway that leaves paths alone, and on the shipped one. `tests/cases/paths.json` has more for the first.
const TARGETS: &[(&str, Path, Path)] = &[
    ("/api/v1/x", Goes("/api/v1/x"), Goes("/api/v1/x")),
    ("//api//v1/x", Goes("/api/v1/x"), Goes("/api/v1/x")),
    ("/api/v1/y/%2e%2E/x", Goes("/api/v1/x"), Goes("/api/v1/x")),
    ("/api/v1/x/", Goes("/api/v1/x"), Goes("/api/v1/x")),
    // Restate gets no parameter of a query that no route lists.
    ("/api/v1/x?a=%2F&b=//;c", Goes("/api/v1/x"), Goes("/api/v1/x")),
    ("/api/v1/x;x=1", Ambiguous, Ambiguous),
    ("/api/v1%2Fx", Ambiguous, Envoy(400)),
    ("/api/v1%5Cx", Ambiguous, Envoy(400)),
    ("/api/v1/x%00", Ambiguous, Envoy(400)),
    ("/api/v1/x%zz", Ambiguous, Ambiguous),
    ("/api/v1/items/a%2Fb", Ambiguous, Envoy(400)),
    ("/api/v1/items/b%3b%20", Goes("/api/v1/items/b%3B%20"), Goes("/api/v1/items/b%3B%20")),
    ("/api/v1/items/a%0a", Ambiguous, Ambiguous),
    ("/restate/health", Missing, Missing),
    ("/api/../restate/health", Missing, Missing),
    ("/restate%2Fhealth", Missing, Envoy(400)),
];

/// Targets that only a plain socket sends.
const RAW_TARGETS: &[(&[u8], Path, Path)] = &[
    (b"http://api.example.com/api/v1/x", Goes("/api/v1/x"), Goes("/api/v1/x")),
    (b"http://api.example.com//api/v1/%78/", Goes("/api/v1/x"), Goes("/api/v1/x")),
    // Where Envoy normalises, it has made a slash of the backslash before any filter and any route sees the path.
    (b"/api/v1\\x", Ambiguous, Goes("/api/v1/x")),
    (b"/restate\\health", Ambiguous, Missing),
    (b"/api/v1/x#y", Envoy(400), Envoy(400)),
    (b"/api/v1/x y", Envoy(400), Envoy(400)),
    (b"/api/v1/x\x01", Envoy(400), Envoy(400)),
    (b"/api/v1/x\xff", Envoy(400), Envoy(400)),
    (b"api/v1/x", Envoy(400), Envoy(400)),
];

pub(crate) fn tests() -> Vec<Test<HostileSetup>> {
    let mut tests = super::over_both("path: spellings", |setup, protocol| {
        let mut all = TARGETS.iter();
        all.try_for_each(|(target, bare, shipped)| both_listeners(setup, protocol, target.as_bytes(), *bare, *shipped))
    });
    tests.push(Test::new("path: what only a socket sends, http1", |setup: &HostileSetup| {
        let mut all = RAW_TARGETS.iter();
        all.try_for_each(|(target, bare, shipped)| both_listeners(setup, Http1, target, *bare, *shipped))
    }));
    tests.push(Test::new("path: the absolute form names the host, http1", |setup: &HostileSetup| {
        let request = Request::post("http://other.example/api/v1/x").bearer(&setup.token);
        let ExpectedFate::Forwarded(mut received) = forwarded("/api/v1/x", Some("k-1")) else { return Ok(()) };
        received.authority = b"other.example".to_vec();
        setup.check(BARE, Http1, &request.header("idempotency-key", "k-1"), &ExpectedFate::Forwarded(received))
    }));
    tests
}

fn both_listeners(setup: &HostileSetup, protocol: Protocol, target: &[u8], bare: Path, shipped: Path) -> Result<()> {
    for (listener, path) in [(BARE, bare), (SHIPPED, shipped)] {
        let expected = match path {
            Goes(path) => forwarded(path, Some("k-1")),
            Ambiguous => ExpectedFate::Refused(400, "path_ambiguous", None),
            Missing => ExpectedFate::Refused(404, "not_found", None),
            Envoy(status) => ExpectedFate::RefusedByEnvoy(status),
        };
        let request = Request::post(target).bearer(&setup.token).header("idempotency-key", "k-1");
        setup.check(listener, protocol, &request, &expected)?;
    }
    Ok(())
}
