//! Trailers: what may not come as a header may not come behind the body either.

use anyhow::Result;
use e2e::raw::Request;
use e2e::runner::Test;

use super::Protocol::{Http1, Http2};
use super::{
    ACCEPTED, BARE, ExpectedFate, HostileSetup, INTERNAL, PROHIBITED, Protocol, REQUIRED_A, REQUIRED_B, SHIPPED,
    forwarded,
};

pub(crate) fn tests() -> Vec<Test<HostileSetup>> {
    let mut tests = super::over_both("trailers: a key", |setup, protocol| {
        for name in ["idempotency-key", "Idempotency-Key", "idempotency_key", "IDEMPOTENCY_KEY"] {
            everywhere(setup, BARE, protocol, &[(name, "k-9")])?;
        }
        Ok(())
    });
    tests.extend(super::over_both("trailers: everything that never goes in", |setup, protocol| {
        let names = [
            "idempotency-key",
            "x-tenant-id",
            "X_Tenant_Id",
            "x-subject",
            "x-edge-idempotency",
            "x-restate-id",
            "x-http-method-override",
        ];
        everywhere(setup, BARE, protocol, &names.map(|name| (name, "evil")))
    }));
    tests.push(Test::new("trailers: dropped by the shipped gateway, http1", |setup| {
        everywhere(setup, SHIPPED, Http1, &[("idempotency-key", "k-9")])
    }));
    tests.push(Test::new("trailers: through the shipped gateway, http2", |setup| {
        everywhere(setup, SHIPPED, Http2, &[("idempotency-key", "k-9")])
    }));
    tests
}

/// Sends these trailers, and one that is none of our business, with and without a key in the header.
fn everywhere(setup: &HostileSetup, listener: &str, protocol: Protocol, trailers: &[(&str, &str)]) -> Result<()> {
    let passes = !(listener == SHIPPED && protocol == Http1);
    let innocent = if passes { vec![("x-checksum".to_owned(), b"abc".to_vec())] } else { Vec::new() };
    let forwarded = |path: &str, key| match forwarded(path, key) {
        ExpectedFate::Forwarded(mut received) => {
            received.trailers.clone_from(&innocent);
            ExpectedFate::Forwarded(received)
        }
        other => other,
    };
    let to = |path: &str, key: Option<&str>, expected: &ExpectedFate| {
        let mut request = Request::post(path).bearer(&setup.token);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = trailers.iter().fold(request, |request, (name, value)| request.trailer(name, *value));
        setup.check(listener, protocol, &request.trailer("x-checksum", "abc"), expected)
    };
    to(REQUIRED_A, Some("k-1"), &forwarded(REQUIRED_A, Some("k-1")))?;
    to(REQUIRED_A, None, &ExpectedFate::Refused(400, "idempotency_key_required", None))?;
    to(ACCEPTED, Some("k-1"), &forwarded(ACCEPTED, Some("k-1")))?;
    to(ACCEPTED, None, &forwarded(ACCEPTED, None))?;
    to(INTERNAL, Some("k-1"), &forwarded(INTERNAL, None))?;
    to(INTERNAL, None, &forwarded(INTERNAL, None))?;
    to(PROHIBITED, None, &forwarded(PROHIBITED, None))?;
    to(PROHIBITED, Some("k-1"), &ExpectedFate::Refused(400, "idempotency_key_prohibited", None))?;
    to(REQUIRED_B, None, &ExpectedFate::Refused(404, "webhook_unknown", None))
}
