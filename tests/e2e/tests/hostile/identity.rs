//! Identities that are none: claims of other types, and headers that claim to be somebody.

use anyhow::{Context as _, Result, ensure};
use e2e::raw::Request;
use e2e::runner::Test;
use serde_json::{Value, json};

use super::Protocol::Http1;
use super::{
    ACCEPTED, BARE, ExpectedFate, HostileSetup, INTERNAL, PROHIBITED, REQUIRED_A, REQUIRED_B, SHIPPED, claims, received,
};

const PARTS: [&str; 3] = ["tenant_id", "project_id", "uid"];
/// Eight characters that, read as a number's eight bytes, are one.
const EIGHT: &str = "acmecorp";

pub(crate) fn tests() -> Vec<Test<HostileSetup>> {
    let mut tests = Vec::new();
    for part in PARTS {
        tests.push(Test::new(format!("claims: {part} that is missing, null or empty"), move |setup| {
            for value in [None, Some(json!(null)), Some(json!(""))] {
                refused(setup, part, value, ExpectedFate::Refused(401, "identity_missing", None))?;
            }
            Ok(())
        }));
        tests.push(Test::new(format!("claims: {part} that is no string"), move |setup| {
            not_strings().into_iter().try_for_each(|value| invalid(setup, part, value))
        }));
        tests.push(Test::new(format!("claims: {part} that holds a null"), move |setup| {
            [json!([null]), json!(["acme", null]), json!({"id": null})]
                .into_iter()
                .try_for_each(|value| invalid(setup, part, value))
        }));
        tests.push(Test::new(format!("claims: {part} that no identity can be"), move |setup| {
            malformed(part).into_iter().try_for_each(|value| invalid(setup, part, value.into()))
        }));
        tests.push(Test::new(format!("claims: {part} of eight characters, and the number with the same bytes"), {
            move |setup| eight_bytes(setup, part)
        }));
    }
    tests.push(Test::new("claims: none at all", |setup: &HostileSetup| {
        by_policy(ExpectedFate::Refused(401, "identity_missing", None))
            .into_iter()
            .try_for_each(|(path, expected)| setup.check(BARE, Http1, &with_key(Request::post(path)), &expected))
    }));
    for part in PARTS {
        tests.push(Test::new(format!("claims: pairs of {part} that differ in type or beyond 2^53"), {
            move |setup| pairs(setup, part)
        }));
    }
    tests.extend(super::over_both("spoofed identity headers, each claim missing in turn", |setup, protocol| {
        for missing in PARTS.map(Some).into_iter().chain([None]) {
            let token = missing.map(|part| setup.gateway.token(&with(part, None))).transpose()?;
            for listener in [SHIPPED, BARE] {
                for (path, expected) in by_policy(ExpectedFate::Refused(401, "identity_missing", None)) {
                    let mut request = with_key(spoofed(Request::post(path)));
                    if let Some(token) = &token {
                        request = request.bearer(token);
                    }
                    setup.check(listener, protocol, &request, &expected)?;
                }
            }
        }
        Ok(())
    }));
    tests.extend(super::over_both("spoofed identity headers beside a whole identity", |setup, protocol| {
        for listener in [SHIPPED, BARE] {
            for path in [REQUIRED_A, ACCEPTED, INTERNAL] {
                let key = (path != INTERNAL).then_some("k-1");
                let request = spoofed(Request::post(path)).bearer(&setup.token).header("idempotency-key", "k-1");
                setup.check(listener, protocol, &request, &super::forwarded(path, key))?;
            }
            let request = spoofed(Request::post(PROHIBITED)).bearer(&setup.token);
            setup.check(listener, protocol, &request, &super::forwarded(PROHIBITED, None))?;
        }
        Ok(())
    }));
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

/// The owner's claims with another value for one of them.
fn with(part: &str, value: Option<Value>) -> Value {
    let mut claims = claims();
    if let Some(claims) = claims.as_object_mut() {
        match value {
            Some(value) => claims.insert(part.to_owned(), value),
            None => claims.remove(part),
        };
    }
    claims
}

fn invalid(setup: &HostileSetup, part: &str, value: Value) -> Result<()> {
    let label = value.to_string();
    refused(setup, part, Some(value), ExpectedFate::Refused(403, "identity_invalid", None)).context(label)
}

fn refused(setup: &HostileSetup, part: &str, value: Option<Value>, expected: ExpectedFate) -> Result<()> {
    let token = setup.gateway.token(&with(part, value))?;
    for (path, expected) in by_policy(expected) {
        setup.check(BARE, Http1, &with_key(Request::post(path)).bearer(&token), &expected)?;
    }
    Ok(())
}

fn not_strings() -> Vec<Value> {
    vec![
        json!(0),
        json!(7),
        json!(-1.5),
        json!(9_007_199_254_740_992_u64),
        json!(9_007_199_254_740_993_u64),
        json!(true),
        json!(false),
        json!([]),
        json!(["acme"]),
        json!(["acme", "globex"]),
        json!({}),
        json!({"id": "acme"}),
    ]
}

/// Each of a pair is refused, or has a key that the other has not.
fn pairs(setup: &HostileSetup, part: &str) -> Result<()> {
    let pairs = [
        (json!("1"), json!(1)),
        (json!(1), json!(1.0)),
        (json!("1.0"), json!(1.0)),
        (json!("1"), json!("1.0")),
        (json!("true"), json!(true)),
        (json!("false"), json!(false)),
        (json!("null"), json!(null)),
        (json!("0"), json!(false)),
        (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_993_u64)),
        (json!("9007199254740992"), json!("9007199254740993")),
        (json!("9007199254740993"), json!(9_007_199_254_740_993_u64)),
        (json!("9007199254740992"), json!(9_007_199_254_740_993_u64)),
        (json!(18_446_744_073_709_551_615_u64), json!(18_446_744_073_709_551_614_u64)),
        (json!("1e3"), json!(1e3)),
        (json!("a,b"), json!(["a", "b"])),
        (json!("a b"), json!(["a", "b"])),
        (json!("ab"), json!(["a", "b"])),
        (json!("a"), json!(["a"])),
        (json!("[]"), json!([])),
        (json!("{}"), json!({})),
        (json!("a"), json!({"a": "a"})),
        (json!("a"), json!({"string_value": "a"})),
        (json!("a"), json!("A")),
        (json!("a"), json!("a ")),
        (json!("a"), json!("a\u{0}")),
        (json!("\u{e9}"), json!("e\u{301}")),
        (json!("%41"), json!("A")),
    ];
    for (one, other) in pairs {
        let keys = [key_for(setup, part, &one)?, key_for(setup, part, &other)?];
        let distinct = keys.first() != keys.last() || keys.iter().all(Option::is_none);
        ensure!(distinct, "{one} and {other} have the same key {keys:?}");
        for (value, key) in [&one, &other].into_iter().zip(&keys) {
            ensure!(value.is_string() || key.is_none(), "{value}, which is no string, has the key {key:?}");
        }
        let plain = |value: &Value| {
            value.as_str().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'))
        };
        let lost = [&one, &other].into_iter().zip(&keys).find(|(value, key)| plain(value) && key.is_none());
        ensure!(lost.is_none(), "{lost:?} is refused");
    }
    Ok(())
}

/// The key with which the upstream got a request of somebody with this claim; none if it got nothing.
fn key_for(setup: &HostileSetup, part: &str, value: &Value) -> Result<Option<String>> {
    let token = setup.gateway.token(&with(part, Some(value.clone())))?;
    let request = Request::post(REQUIRED_A).bearer(&token).header("idempotency-key", "k-1");
    let seen = setup.gateway.http1(BARE, &request)?;
    let Some(received) = seen.received.first() else {
        ensure!(matches!(seen.reply.status, 401 | 403), "{value}: status {}", seen.reply.status);
        return Ok(None);
    };
    let key = received.headers.iter().find(|(name, _)| name == "idempotency-key").context("forwarded without a key")?;
    Ok(Some(String::from_utf8(key.1.clone())?))
}

fn malformed(part: &str) -> Vec<String> {
    let mut values = vec!["a\u{0}b".to_owned(), "a\nb".to_owned(), "a\u{7f}b".to_owned(), "\u{1}".to_owned()];
    if part == "uid" {
        values.push("u".repeat(201));
        values.push(":".repeat(67));
    } else {
        let texts = ["a:b", "a,b", "_tenant", "_platform", "_a", ".", "..", "a b", "a/b", "a%41", "é", " acme"];
        values.extend(texts.map(str::to_owned));
        values.push("a".repeat(64));
        values.push("a".repeat(300));
    }
    values
}

/// Metadata comes from the host without a type, and a number as eight bytes: these bytes are printable.
fn eight_bytes(setup: &HostileSetup, part: &str) -> Result<()> {
    let bytes = EIGHT.as_bytes().first_chunk().context("eight characters")?;
    let number = f64::from_le_bytes(*bytes);
    let refusal = ExpectedFate::Refused(403, "identity_invalid", None);
    refused(setup, part, Some(json!(number)), refusal)?;

    let token = setup.gateway.token(&with(part, Some(json!(EIGHT))))?;
    let value = |name: &str, owner: &'static str| if name == part { EIGHT } else { owner };
    let (tenant, project, user) = (value("tenant_id", "acme"), value("project_id", "shop"), value("uid", "u1"));
    let subject = format!("user:{user}");
    let key = format!("t-{tenant}:{project}:{subject}:k-1");
    let identity = [("x-tenant-id", tenant), ("x-project-id", project), ("x-subject", &subject)];
    let request = Request::post(REQUIRED_A).bearer(&token).header("idempotency-key", "k-1");
    setup.check(BARE, Http1, &request, &ExpectedFate::Forwarded(received(REQUIRED_A, Some(&key), &identity)))
}
