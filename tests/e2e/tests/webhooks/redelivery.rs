//! A delivery that comes again, with Restate behind: one effect.

use anyhow::{Result, ensure};
use e2e::chain::Chain;
use e2e::deliveries::{self, now};
use e2e::raw::{Reply, exchange};
use e2e::runner::Test;
use serde_json::json;

use super::{SHIPPED, STRIPE, STRIPE_PATH, STRIPE_PREVIOUS, listener, problem, surroundings};

pub(crate) fn start() -> Result<Chain> {
    Chain::start(surroundings(), &[(SHIPPED.to_owned(), listener(&[]))])
}

pub(crate) fn tests() -> Vec<Test<Chain>> {
    vec![Test::new("a redelivery is replayed", redelivered)]
}

fn redelivered(chain: &Chain) -> Result<()> {
    let send = |id: &str, secret: &str, time: u64| -> Result<Reply> {
        let body = json!({"id": id, "order_id": "order-hook", "amount": 1}).to_string();
        let request = deliveries::stripe(STRIPE_PATH, &[secret], time, body);
        exchange(chain.gateway.address(SHIPPED)?, "POST", &request.http1())
    };
    let first = send("evt_again", STRIPE.1, now())?;
    ensure!(first.status == 200 && first.header("idempotent-replayed").is_none(), "{}", super::text(&first));
    // Every attempt is signed anew, also with a secret that is being rolled.
    for (secret, time) in [(STRIPE.1, now()), (STRIPE.1, now() - 60), (STRIPE_PREVIOUS.1, now())] {
        let again = send("evt_again", secret, time)?;
        ensure!(again.status == 200 && again.body == first.body, "{}", super::text(&again));
        ensure!(again.text_header("idempotent-replayed") == Some("true"), "not a replay: {again:?}");
    }
    problem(&send("evt_again", "whsec_other", now())?, 401, "webhook_signature_invalid")?;
    ensure!(chain.effects("order-hook")? == 1, "more than one effect");
    let stored = chain.stored("t-acme:health-prod:service:webhook-ingest:stripe-evt_again")?;
    ensure!(stored.len() == 1, "{} invocations", stored.len());

    ensure!(send("evt_another", STRIPE.1, now())?.status == 200, "another event");
    ensure!(chain.effects("order-hook")? == 2, "another event has an effect of its own");
    Ok(())
}
