//! Each store answers, answers something else, or does not answer: and the next request works.

use anyhow::{Context as _, Result, ensure};
use e2e::lookup_stores::ROOT_KEY;
use e2e::runner::{Test, runtime};
use harness::faults::{Fault, FaultyServer};
use serde_json::{Value, json};

use super::setup::{
    BRIEF, LASTING, LookupsSetup, SHORT_TIMEOUT, accepted, forwarded, refused, send, test, unavailable,
};

pub(crate) fn tests() -> Vec<Test<LookupsSetup>> {
    vec![
        test("a webhook is looked up once, with injected credentials", once),
        test("the secret store fails in every way", secret_store),
        test("the registry fails in every way", registry),
        test("a secret is rotated: old and new signatures pass", rotated),
        test("a secret is deleted, and written again", deleted),
        test("the token is replaced through its file", token),
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

/// What only HTTP can do wrong. What a reply may say is in `tests/cases/lookups.json`.
const FAULTS: [Fault; 5] = [Fault::Status(500), Fault::Cut, Fault::Huge, Fault::NoBody, Fault::Closed];

fn secret_store(setup: &LookupsSetup) -> Result<()> {
    failing(setup, "store", &setup.lookup_stores.openbao_proxy)
}

fn registry(setup: &LookupsSetup) -> Result<()> {
    failing(setup, "registry", setup.lookup_stores.unkey.server())
}

fn failing(setup: &LookupsSetup, name: &str, server: &FaultyServer) -> Result<()> {
    for (number, fault) in FAULTS.into_iter().enumerate() {
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
