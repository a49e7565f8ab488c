//! Each store answers, answers something else, or does not answer: and the next request works.

use anyhow::{Context as _, Result, ensure};
use e2e::deliveries;
use e2e::lookup_stores::{Hook, ROOT_KEY};
use e2e::runner::{Test, runtime};
use harness::faults::{Fault, FaultyServer};
use harness::unkey::Binding;
use serde_json::{Value, json};

use super::setup::{
    BRIEF, LASTING, LookupsSetup, SHORT_TIMEOUT, STALE, accepted, forwarded, refused, send, test, unavailable,
};

pub(crate) fn tests() -> Vec<Test<LookupsSetup>> {
    vec![
        test("a webhook is looked up once, with injected credentials", once),
        test("the secret store fails in every way", secret_store),
        test("the registry fails in every way", registry),
        test("the registry says no in every way", verdicts),
        test("a secret is rotated: old and new signatures pass", rotated),
        test("a list of secrets: each of them signs", listed),
        test("a secret is deleted, and written again", deleted),
        test("a store that is down: what is held is used for longer", stale),
        test("the token is replaced through its file", token),
        test("the wrong provider's request, then the genuine one", wrong_provider),
        test("forged deliveries have the secret fetched anew once", forged),
    ]
}

fn once(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("once")?;
    setup.lookup_stores.forget();
    for event in ["evt_1", "evt_2", "evt_1"] {
        accepted(&setup.gateway, LASTING, &hook, &hook.delivery(event), event)?;
    }
    ensure!(setup.lookup_stores.lookups(&hook) == (1, 1), "{:?} lookups", setup.lookup_stores.lookups(&hook));
    refused(&setup.gateway, LASTING, &hook.signed("whsec_other", "evt_3"), 401, "webhook_signature_invalid")?;

    let asked = |server: &FaultyServer| server.last().context("no request");
    let (registry, store) = (asked(setup.lookup_stores.unkey.server())?, asked(&setup.lookup_stores.openbao_proxy)?);
    let header = |lines: &[(String, Vec<u8>)], name: &str| {
        let line = lines.iter().find(|(candidate, _)| candidate.eq_ignore_ascii_case(name));
        line.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let body: Value = serde_json::from_slice(&registry.body)?;
    ensure!(body == json!({"key": hook.id, "credits": {"cost": 0}}), "{body}");
    let key = header(&registry.headers, "authorization");
    ensure!(key == Some(format!("Bearer {ROOT_KEY}")), "{key:?}");
    let token = header(&store.headers, "x-vault-token");
    ensure!(token.as_deref() == Some(setup.lookup_stores.token().as_str()), "{token:?}");
    Ok(())
}

/// What either store can do wrong.
fn faults() -> Vec<Fault> {
    let json = |status, body: &str| {
        let lines = vec![("content-type".to_owned(), "application/json".to_owned())];
        Fault::Says(status, lines, body.to_owned())
    };
    vec![
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(429),
        Fault::Garbage,
        Fault::HalfJson,
        Fault::Cut,
        Fault::Huge,
        Fault::NoBody,
        Fault::Closed,
        json(200, "{}"),
        json(200, "[]"),
        json(200, "null"),
        json(200, r#"{"data": {"data": {"secret": "whsec_guessed"}}"#),
        json(200, &"[".repeat(10_000)),
        json(204, ""),
        json(400, r#"{"errors": ["a bad request"]}"#),
        json(401, r#"{"meta": {"requestId": "r"}, "error": {"status": 401}}"#),
        json(403, r#"{"errors": ["permission denied"]}"#),
        // Somewhere else than in KV version 2 a mount says so.
        json(404, r#"{"errors": ["no handler for route \"webhooks/data/x\". route entry not found."]}"#),
        // To the node that is active, which the cluster has to know.
        Fault::Says(307, vec![("location".to_owned(), "https://127.0.0.1:1/v1/x".to_owned())], String::new()),
    ]
}

fn secret_store(setup: &LookupsSetup) -> Result<()> {
    failing(setup, "store", &setup.lookup_stores.openbao_proxy)
}

fn registry(setup: &LookupsSetup) -> Result<()> {
    failing(setup, "registry", setup.lookup_stores.unkey.server())
}

fn failing(setup: &LookupsSetup, name: &str, server: &FaultyServer) -> Result<()> {
    for (number, fault) in faults().into_iter().enumerate() {
        let hook = setup.lookup_stores.hook(&format!("{name}{number}"))?;
        server.fail(fault.clone());
        unavailable(&setup.gateway, LASTING, &hook.delivery("evt_1")).with_context(|| format!("{fault:?}"))?;
        server.recover();
        accepted(&setup.gateway, LASTING, &hook, &hook.delivery("evt_1"), "evt_1")
            .with_context(|| format!("after {fault:?}"))?;
    }
    let hook = setup.lookup_stores.hook(&format!("{name}slow"))?;
    server.fail(Fault::Held);
    unavailable(&setup.gateway, SHORT_TIMEOUT, &hook.delivery("evt_1")).context("no answer in time")?;
    server.recover();
    // In no time at all may be too little for a busy machine.
    setup.gateway.until("the next delivery passes", |gateway| {
        let passed = send(gateway, SHORT_TIMEOUT, &hook.delivery("evt_1"))?.status == 200;
        Ok(passed && forwarded(gateway)?.len() == 1)
    })
}

fn verdicts(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("verdicts")?;
    let genuine = json!({
        "valid": true, "code": "VALID", "enabled": true,
        "identity": {"id": "i", "externalId": "verdicts"},
        "meta": {"kind": "webhook", "project_id": "shop", "provider": "stripe"},
    });
    let with = |changes: Value| {
        let mut data = genuine.clone();
        if let (Some(data), Value::Object(changes)) = (data.as_object_mut(), changes) {
            data.extend(changes);
        }
        data
    };
    let invalid = |code: &str| with(json!({"valid": false, "code": code}));
    let cases = [
        (invalid("NOT_FOUND"), 404),
        (invalid("DISABLED"), 404),
        (invalid("EXPIRED"), 404),
        (invalid("A_CODE_TO_COME"), 404),
        (with(json!({"code": "A_CODE_TO_COME"})), 404),
        (with(json!({"meta": {"kind": "api", "project_id": "shop", "provider": "stripe"}})), 404),
        (with(json!({"meta": {"project_id": "shop", "provider": "stripe"}})), 404),
        (with(json!({"meta": {"kind": "webhook", "project_id": "shop", "provider": "github"}})), 404),
        (with(json!({"meta": {"kind": "webhook", "project_id": "_shop", "provider": "stripe"}})), 503),
        (with(json!({"meta": {"kind": "webhook", "project_id": 7, "provider": "stripe"}})), 503),
        (with(json!({"identity": {"id": "i"}})), 503),
        (with(json!({"identity": null})), 503),
        (with(json!({"valid": "true"})), 503),
    ];
    for (number, (data, status)) in cases.into_iter().enumerate() {
        let hook = Hook { id: format!("wh_verdict{number}"), ..hook.clone() };
        setup.lookup_stores.unkey.says(&hook.id, data.clone());
        let code = if status == 404 { "webhook_unknown" } else { "dependency_unavailable" };
        refused(&setup.gateway, LASTING, &hook.delivery("evt_1"), status, code).with_context(|| data.to_string())?;
    }
    // What it says of a webhook may change.
    setup.lookup_stores.unkey.says(&hook.id, invalid("DISABLED"));
    refused(&setup.gateway, BRIEF, &hook.delivery("evt_1"), 404, "webhook_unknown")?;
    setup.lookup_stores.unkey.says(&hook.id, genuine);
    setup.gateway.until("a webhook that is enabled again", |gateway| {
        Ok(send(gateway, BRIEF, &hook.delivery("evt_1"))?.status == 200 && forwarded(gateway)?.len() == 1)
    })
}

fn rotated(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("rotated")?;
    let (old, new) = (hook.secret.clone(), "whsec_planted_rotated_anew");
    let pass = |secret: &str, event: &str| {
        accepted(&setup.gateway, LASTING, &hook, &hook.signed(secret, event), event).with_context(|| secret.to_owned())
    };
    pass(&old, "evt_1")?;
    setup.lookup_stores.sign_with(&hook, &json!({"secret": new}))?;
    // Held: the old one. Fetched because of it: the new one, and the version before it.
    pass(&old, "evt_2")?;
    let signed_anew = hook.signed(new, "evt_3");
    setup.gateway.until("the new secret's signature passes", |gateway| {
        let status = send(gateway, LASTING, &signed_anew)?.status;
        ensure!(matches!(status, 200 | 401), "status {status}");
        Ok(status == 200 && forwarded(gateway)?.len() == 1)
    })?;
    pass(&old, "evt_4")?;
    pass(new, "evt_5")?;
    refused(&setup.gateway, LASTING, &hook.signed("whsec_neither", "evt_6"), 401, "webhook_signature_invalid")
}

fn listed(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("listed")?;
    setup.lookup_stores.sign_with(&hook, &json!({"secrets": ["whsec_planted_one", "whsec_planted_two"]}))?;
    for (secret, event) in [("whsec_planted_one", "evt_1"), ("whsec_planted_two", "evt_2")] {
        accepted(&setup.gateway, LASTING, &hook, &hook.signed(secret, event), event)?;
    }
    refused(&setup.gateway, LASTING, &hook.signed("whsec_three", "evt_3"), 401, "webhook_signature_invalid")?;
    let none = [json!({"secret": ""}), json!({"secrets": []}), json!({"secret": 7}), json!({"other": "x"}), json!({})];
    for (number, data) in none.into_iter().enumerate() {
        let hook = setup.lookup_stores.bound(&format!("listed{number}"));
        setup.lookup_stores.sign_with(&hook, &data)?;
        unavailable(&setup.gateway, LASTING, &hook.signed("", "evt_1")).with_context(|| data.to_string())?;
    }
    Ok(())
}

fn deleted(setup: &LookupsSetup) -> Result<()> {
    for (name, erased) in [("deleted", false), ("erased", true)] {
        let hook = setup.lookup_stores.hook(name)?;
        accepted(&setup.gateway, BRIEF, &hook, &hook.delivery("evt_1"), "evt_1")?;
        let openbao = setup.lookup_stores.openbao()?;
        runtime()?.block_on(async {
            if erased { openbao.erase(&hook.stored_at()).await } else { openbao.delete(&hook.stored_at()).await }
        })?;
        drop(openbao);
        setup.gateway.until("a webhook without a secret is refused", |gateway| {
            let status = send(gateway, BRIEF, &hook.delivery("evt_2"))?.status;
            ensure!(matches!(status, 200 | 503), "{name}: status {status}");
            ensure!(forwarded(gateway)?.len() == usize::from(status == 200), "{name}: {status}, and went on");
            Ok(status == 503)
        })?;
        setup.lookup_stores.sign_with(&hook, &json!({"secret": hook.secret}))?;
        setup.gateway.until("a secret that is there again", |gateway| {
            Ok(send(gateway, BRIEF, &hook.delivery("evt_3"))?.status == 200 && forwarded(gateway)?.len() == 1)
        })?;
    }
    Ok(())
}

fn stale(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("stale")?;
    accepted(&setup.gateway, STALE, &hook, &hook.delivery("evt_1"), "evt_1")?;
    setup.lookup_stores.forget();
    for server in [setup.lookup_stores.unkey.server(), &setup.lookup_stores.openbao_proxy] {
        server.fail(Fault::Status(500));
    }
    // The first time may be shortly before what is held expires; the second is some seconds later.
    setup.gateway.until("both stores are asked again, twice", |gateway| {
        accepted(gateway, STALE, &hook, &hook.delivery("evt_2"), "evt_2")?;
        let (bindings, secrets) = setup.lookup_stores.lookups(&hook);
        Ok(bindings > 1 && secrets > 1)
    })?;
    accepted(&setup.gateway, STALE, &hook, &hook.delivery("evt_3"), "evt_3")?;
    refused(&setup.gateway, STALE, &hook.signed("whsec_guessed", "evt_4"), 503, "dependency_unavailable")?;
    // One that says no is not down.
    setup.lookup_stores.openbao_proxy.fail(Fault::Says(404, Vec::new(), r#"{"errors": []}"#.to_owned()));
    setup.gateway.until("a secret that is gone is not used for longer", |gateway| {
        Ok(send(gateway, STALE, &hook.delivery("evt_5"))?.status == 503)
    })?;
    Ok(())
}

fn token(setup: &LookupsSetup) -> Result<()> {
    let hooks = [setup.lookup_stores.hook("token1")?, setup.lookup_stores.hook("token2")?];
    let [first, second] = &hooks;
    let openbao = setup.lookup_stores.openbao()?;
    let mut token = setup.lookup_stores.token();
    runtime()?.block_on(openbao.revoke(&token))?;
    *token = runtime()?.block_on(openbao.token())?;
    drop(openbao);
    unavailable(&setup.gateway, LASTING, &first.delivery("evt_1")).context("with a revoked token")?;
    setup.gateway.rotate_openbao_token(&token)?;
    setup.gateway.until("Envoy reads the new token", |gateway| {
        Ok(send(gateway, LASTING, &first.delivery("evt_1"))?.status == 200 && forwarded(gateway)?.len() == 1)
    })?;
    accepted(&setup.gateway, LASTING, second, &second.delivery("evt_1"), "evt_1")
}

fn wrong_provider(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("provider")?;
    setup.lookup_stores.forget();
    let path = format!("/webhooks/github/{}", hook.id);
    let wrong = deliveries::github(&path, &hook.secret, "g-1", r#"{"id": "evt_1"}"#);
    refused(&setup.gateway, LASTING, &wrong, 404, "webhook_unknown")?;
    accepted(&setup.gateway, LASTING, &hook, &hook.delivery("evt_1"), "evt_1")?;
    refused(&setup.gateway, LASTING, &wrong, 404, "webhook_unknown")?;
    accepted(&setup.gateway, LASTING, &hook, &hook.delivery("evt_2"), "evt_2")?;
    ensure!(setup.lookup_stores.lookups(&hook) == (1, 1), "{:?} lookups", setup.lookup_stores.lookups(&hook));
    // A webhook that is none is not even asked for.
    for id in ["short", "wh_01%20x", &"a".repeat(65)] {
        let path = format!("/webhooks/stripe/{id}");
        let request = deliveries::stripe(&path, &[&hook.secret], deliveries::now(), "{}");
        refused(&setup.gateway, LASTING, &request, 404, "webhook_unknown")?;
    }
    ensure!(setup.lookup_stores.unkey.server().total() == 1, "{:?}", setup.lookup_stores.unkey.server().counts());
    let other = setup.lookup_stores.hook("neighbour")?;
    setup.lookup_stores.unkey.bind(&other.id, &Binding::new("provider", "shop", "stripe"));
    let theirs = Hook { id: other.id, ..hook };
    accepted(&setup.gateway, LASTING, &theirs, &theirs.delivery("evt_3"), "evt_3")
        .context("the same owner's secret")?;
    ensure!(setup.lookup_stores.lookups(&theirs) == (1, 1), "{:?} lookups", setup.lookup_stores.lookups(&theirs));
    Ok(())
}

fn forged(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("forged")?;
    setup.lookup_stores.forget();
    accepted(&setup.gateway, LASTING, &hook, &hook.delivery("evt_1"), "evt_1")?;
    for event in 0..50 {
        let request = hook.signed("whsec_guessed", &format!("evt_forged{event}"));
        refused(&setup.gateway, LASTING, &request, 401, "webhook_signature_invalid")?;
    }
    accepted(&setup.gateway, LASTING, &hook, &hook.delivery("evt_2"), "evt_2")?;
    // A busy machine may take longer than the half minute between two.
    let (bindings, secrets) = setup.lookup_stores.lookups(&hook);
    ensure!(bindings == 1 && secrets <= 4, "{bindings} and {secrets} lookups");
    Ok(())
}
