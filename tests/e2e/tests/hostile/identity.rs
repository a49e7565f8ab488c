//! Identities that are none: claims of other types as Envoy hands them over, and headers that claim to be somebody.
//! `tests/cases/identity.json` has what a claim can be.

use anyhow::{Context as _, Result};
use e2e::raw::Request;
use e2e::runner::Test;
use serde_json::{Value, json};

use super::Protocol::Http1;
use super::{
    ACCEPTED, BARE, ExpectedFate, HostileSetup, INTERNAL, PROHIBITED, REQUIRED_A, REQUIRED_B, SHIPPED, claims, received,
};

/// Eight characters that, read as a number's eight bytes, are one.
const EIGHT: &str = "acmecorp";

pub(crate) fn tests() -> Vec<Test<HostileSetup>> {
    let mut tests = vec![
        Test::new("claims: a tenant that is no string, or none", other_types),
        Test::new("claims: a tenant of eight characters, and the number with the same bytes", eight_bytes),
    ];
    tests.extend(super::over_both(
        "spoofed identity headers, with and without the tenant's claim",
        |setup, protocol| {
            let without_tenant = setup.gateway.token(&json!({"project_id": "shop", "uid": "u1"}))?;
            for listener in [SHIPPED, BARE] {
                for (path, expected) in by_policy(ExpectedFate::Refused(401, "identity_missing", None)) {
                    let request = with_key(spoofed(Request::post(path)));
                    setup.check(listener, protocol, &request, &expected)?;
                    setup.check(listener, protocol, &request.bearer(&without_tenant), &expected)?;
                }
                for path in [REQUIRED_A, ACCEPTED, INTERNAL, PROHIBITED] {
                    let key = matches!(path, REQUIRED_A | ACCEPTED).then_some("k-1");
                    let request = with_key(spoofed(Request::post(path))).bearer(&setup.token);
                    setup.check(listener, protocol, &request, &super::forwarded(path, key))?;
                }
            }
            Ok(())
        },
    ));
    tests
}

/// What becomes of a request without a usable identity, with a key where one is taken: policies that need no identity
/// forward without any.
fn by_policy(refused: ExpectedFate) -> [(&'static str, ExpectedFate); 5] {
    [
        (REQUIRED_A, refused.clone()),
        (ACCEPTED, refused),
        (INTERNAL, ExpectedFate::Forwarded(received(INTERNAL, None, &[]))),
        (PROHIBITED, ExpectedFate::Forwarded(received(PROHIBITED, None, &[]))),
        (REQUIRED_B, ExpectedFate::Refused(404, "webhook_unknown", None)),
    ]
}

/// A key, unless the path's policy takes none.
fn with_key(request: Request) -> Request {
    if request.target == PROHIBITED.as_bytes() { request } else { request.header("idempotency-key", "k-1") }
}

fn spoofed(request: Request) -> Request {
    let names = ["x-tenant-id", "X-Tenant-Id", "x_tenant_id", "x-project-id", "x_project-id", "X-Subject", "x_subject"];
    names.into_iter().fold(request, |request, name| request.header(name, "evil"))
}

/// A token whose tenant is this.
fn token(setup: &HostileSetup, tenant: Value) -> Result<String> {
    let mut claims = claims();
    claims.as_object_mut().context("claims")?.insert("tenant_id".to_owned(), tenant);
    setup.gateway.token(&claims)
}

fn other_types(setup: &HostileSetup) -> Result<()> {
    for (tenant, status, code) in [
        (json!(null), 401, "identity_missing"),
        (json!(7), 403, "identity_invalid"),
        (json!(9_007_199_254_740_993_u64), 403, "identity_invalid"),
        (json!(true), 403, "identity_invalid"),
        (json!([null]), 403, "identity_invalid"),
        (json!(["acme"]), 403, "identity_invalid"),
        (json!({"id": "acme"}), 403, "identity_invalid"),
        (json!("a\u{0}b"), 403, "identity_invalid"),
        (json!("a".repeat(300)), 403, "identity_invalid"),
    ] {
        let token = token(setup, tenant.clone())?;
        for (path, expected) in by_policy(ExpectedFate::Refused(status, code, None)) {
            let request = with_key(Request::post(path)).bearer(&token);
            setup.check(BARE, Http1, &request, &expected).with_context(|| tenant.to_string())?;
        }
    }
    Ok(())
}

/// Metadata comes from the host without a type, and a number as eight bytes: these bytes are printable.
fn eight_bytes(setup: &HostileSetup) -> Result<()> {
    let bytes = EIGHT.as_bytes().first_chunk().context("eight characters")?;
    let request = |tenant: Value| anyhow::Ok(with_key(Request::post(REQUIRED_A)).bearer(&token(setup, tenant)?));
    let refusal = ExpectedFate::Refused(403, "identity_invalid", None);
    setup.check(BARE, Http1, &request(json!(f64::from_le_bytes(*bytes)))?, &refusal)?;
    let key = format!("t-{EIGHT}:shop:user:u1:k-1");
    let identity = [("x-tenant-id", EIGHT), ("x-project-id", "shop"), ("x-subject", "user:u1")];
    let forwarded = ExpectedFate::Forwarded(received(REQUIRED_A, Some(&key), &identity));
    setup.check(BARE, Http1, &request(json!(EIGHT))?, &forwarded)
}
