//! Targets whose object key is in the body, with Restate behind.

use anyhow::{Context as _, Result, ensure};
use e2e::chain::Chain;
use e2e::deliveries::{self, now};
use e2e::raw::{Reply, Request, exchange};
use e2e::runner::{Test, runtime};
use serde_json::{Value, json};

use super::{SHIPPED, STRIPE, problem, text};

const STRIPE_PATH: &str = "/api/v1/objects/stripe/wh_stripe01";
const OTHER_TENANT: &str = "/api/v1/objects/stripe/wh_stripe02";

pub(crate) fn start() -> Result<Chain> {
    Chain::start(super::surroundings(), &[(SHIPPED.to_owned(), super::listener(&[]))])
}

pub(crate) fn tests() -> Vec<Test<Chain>> {
    vec![
        Test::new("a member of the body names the object", members),
        Test::new("a value of any characters is the object's key", characters),
        Test::new("a delivery for nobody is acknowledged, and calls nothing", acknowledged),
    ]
}

fn stripe(path: &str, event: &str, object: &Value) -> Request {
    let body = json!({"id": event, "data": {"object": object}}).to_string();
    deliveries::stripe(path, &[STRIPE.1], now(), body)
}

fn send(chain: &Chain, request: &Request) -> Result<Reply> {
    exchange(chain.gateway.address(SHIPPED)?, "POST", &request.http1())
}

/// What the object with this key answers: how many messages it has.
fn expect(reply: &Reply, key: &str, messages: u64) -> Result<()> {
    ensure!(reply.status == 200, "{}", text(reply));
    let answer = reply.json();
    let seen = (answer.get("inbox").cloned(), answer.get("messages").cloned());
    ensure!(seen == (Some(json!(key)), Some(json!(messages))), "{} instead of {messages} in {key}", text(reply));
    Ok(())
}

fn members(chain: &Chain) -> Result<()> {
    let charge = json!({"id": "ch_1"});
    let first = send(chain, &stripe(STRIPE_PATH, "evt_t1", &charge))?;
    expect(&first, "acme:health-prod:stripe:ch_1", 1)?;
    // A redelivery is answered by its key, and another event comes to the same object.
    let again = send(chain, &stripe(STRIPE_PATH, "evt_t1", &charge))?;
    ensure!(again.body == first.body && again.text_header("idempotent-replayed") == Some("true"), "{again:?}");
    expect(&send(chain, &stripe(STRIPE_PATH, "evt_t2", &charge))?, "acme:health-prod:stripe:ch_1", 2)?;
    expect(&send(chain, &stripe(OTHER_TENANT, "evt_t1", &charge))?, "globex:health-prod:stripe:ch_1", 1)?;
    expect(
        &send(chain, &stripe(STRIPE_PATH, "evt_t3", &json!({"id": 7}))).context("a number")?,
        "acme:health-prod:stripe:7",
        1,
    )?;
    let stored = chain.stored("t-acme:health-prod:service:webhook-ingest:stripe-evt_t1")?;
    let targets: Vec<&str> = stored.iter().map(|invocation| invocation.target.as_str()).collect();
    ensure!(targets == ["Inbox/acme:health-prod:stripe:ch_1/receive"], "{targets:?}");
    Ok(())
}

fn characters(chain: &Chain) -> Result<()> {
    let colon = |text: &str| text.replace('%', "%25").replace(':', "%3A");
    let long = "é".repeat(256);
    let values = [
        "a:b",
        "globex:health-prod:stripe:ch_1",
        "a%3Ab",
        "a%2Fb",
        "a/b",
        "a?b#c;d",
        "é ü",
        "gid://shopify/Order/1",
        &long,
    ];
    for (number, value) in values.into_iter().enumerate() {
        let reply = send(chain, &stripe(STRIPE_PATH, &format!("evt_c{number}"), &json!({"id": value})))?;
        expect(&reply, &format!("acme:health-prod:stripe:{}", colon(value)), 1).context(value.to_owned())?;
    }
    Ok(())
}

fn acknowledged(chain: &Chain) -> Result<()> {
    let runs = || Ok::<_, anyhow::Error>(runtime()?.block_on(chain.service.calls(usize::MAX))?.total);
    let before = runs()?;
    let objects = [json!({}), json!({"id": null}), json!({"id": ".."}), json!({"id": "a".repeat(513)}), json!("ch_1")];
    for (number, object) in objects.iter().enumerate() {
        let request = stripe(STRIPE_PATH, &format!("evt_n{number}"), object);
        for request in [request.clone(), request] {
            let reply = send(chain, &request)?;
            ensure!(reply.status == 200, "{}", text(&reply));
            ensure!(reply.text_header("content-type") == Some("application/json"), "{reply:?}");
            ensure!(reply.json().get("outcome") == Some(&json!("acknowledged")), "{}", text(&reply));
        }
    }
    let forged = deliveries::stripe(STRIPE_PATH, &["whsec_other"], now(), "{}");
    problem(&send(chain, &forged)?, 401, "webhook_signature_invalid")?;
    ensure!(runs()? == before, "a handler ran");
    Ok(())
}
