//! Claims of every type: KrakenD propagates them as text, and different values become the same text. The bridge believes a
//! claim only if the verified token has it as a string.

use anyhow::{Result, ensure};
use e2e::raw::Request;
use e2e::runner::Test;
use serde_json::{Map, Value, json};

use super::captured::{KrakendSetup, MESSAGES, claims, keyed, shown, values};
use super::standin::Way;

pub(crate) fn tests(way: Way) -> Vec<Test<KrakendSetup>> {
    let test = |name: &str, body: fn(&KrakendSetup) -> Result<()>| {
        let test = Test::new(name, move |setup: &KrakendSetup| {
            setup.clear();
            body(setup)
        });
        test.within(way.name()).within("claims")
    };
    vec![test("only strings are identities", types), test("the token is the one that KrakenD verified", tokens)]
}

/// The request with a token whose claim has this JSON text, and with what the client says of itself in every header.
fn request(setup: &KrakendSetup, claim: &str, value: Option<Value>) -> Result<Request> {
    let mut all = claims("acme", "alice").as_object().cloned().unwrap_or_else(Map::new);
    all.remove(claim);
    all.extend(value.map(|value| (claim.to_owned(), value)));
    let spoofed = keyed(MESSAGES, "k").header("X-Claim-Tenant", "victim").header("X-Claim-Subject", "victim");
    setup.signed(spoofed.header("X-Tenant-Id", "victim"), &all.into())
}

fn types(setup: &KrakendSetup) -> Result<()> {
    // KrakenD makes the same text of 2^53 and 2^53 + 1.
    let wrong = [
        None,
        Some(Value::Null),
        Some(json!(["acme"])),
        Some(json!(true)),
        Some(json!({"a": 1})),
        Some(json!(5)),
        Some(json!(9_007_199_254_740_992_u64)),
        Some(json!(9_007_199_254_740_993_u64)),
    ];
    for claim in ["tenant_id", "project_id"] {
        for value in &wrong {
            let reply = setup.refused(&request(setup, claim, value.clone())?, 401, "identity_missing");
            reply.map_err(|error| error.context(format!("{claim} is {value:?}")))?;
        }
        for invalid in ["a,b", "null\u{1}"] {
            let reply = setup.refused(&request(setup, claim, Some(json!(invalid)))?, 403, "identity_invalid");
            reply.map_err(|error| error.context(format!("{claim} is {invalid:?}")))?;
        }
    }
    for value in [None, Some(Value::Null), Some(json!(""))] {
        setup.refused(&request(setup, "sub", value.clone())?, 401, "identity_missing")?;
    }
    // A registered claim of another type is KrakenD's own 401.
    for value in [json!(5), json!(["alice"]), json!(true)] {
        let reply = setup.gateway.send(&request(setup, "sub", Some(value))?)?;
        ensure!(reply.status == 401 && reply.body.is_empty(), "{}", shown(&reply));
        setup.nothing_forwarded()?;
    }
    Ok(())
}

/// KrakenD reads the first line of the header, and the cookie only without the header.
fn tokens(setup: &KrakendSetup) -> Result<()> {
    let (alice, bob) = (setup.signer.mint(&claims("acme", "alice"))?, setup.signer.mint(&claims("globex", "bob"))?);
    let sent = [
        keyed(MESSAGES, "k").bearer(&alice),
        keyed(MESSAGES, "k").bearer(&alice).bearer(&bob),
        keyed(MESSAGES, "k").bearer(&alice).header("Cookie", format!("access_token={bob}")),
        keyed(MESSAGES, "k").header("Cookie", format!("access_token={alice}")),
        keyed(MESSAGES, "k").header("Authorization", format!("bEaReR {alice}")),
        keyed(MESSAGES, "k").header("Authorization", alice.clone()),
    ];
    for request in sent {
        let got = setup.forwarded(&request)?;
        ensure!(values(&got, "idempotency-key") == ["t-acme:health-prod:user:alice:k"], "{got}");
        ensure!(values(&got, "x-tenant-id") == ["acme"] && values(&got, "x-subject") == ["user:alice"], "{got}");
    }
    Ok(())
}
