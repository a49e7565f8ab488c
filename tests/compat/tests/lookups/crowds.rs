//! Many deliveries that are nobody's.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow, ensure};
use e2e::gateway::TestGateway;
use e2e::lookup_stores::Hook;
use e2e::raw::{Request, send_each};
use e2e::runner::Test;

use super::setup::{LIMIT, LIMITED, LookupsSetup, PROXIED, send, test};

const HOOKS: usize = 50;

pub(crate) fn tests() -> Vec<Test<LookupsSetup>> {
    vec![
        test("more deliveries from one address than the gateway takes: 429, and the filter is not asked", too_many),
        test("a flood of made-up ids from one address: other senders' deliveries go on", others_go_on),
    ]
}

/// What a flood shares with those who go on beside it.
#[derive(Default)]
struct Flood {
    /// How many made-up ids were answered something else than 404
    refused: AtomicUsize,
    /// Nobody needs it any more
    ended: AtomicBool,
}

/// Asks for ids that are made up, from one address, on several connections, until the flood is ended.
fn flood(setup: &LookupsSetup, flood: &Flood) -> Result<()> {
    const MOST: u64 = 50_000;
    let address = setup.gateway.address(PROXIED)?;
    let numbers = (0..MOST).take_while(|_| !flood.ended.load(Ordering::Relaxed));
    let request = |number| made_up_delivery(&format!("wh_made_up_{number:08}")).header("x-forwarded-for", STRANGER);
    send_each(address, numbers, request, |_, reply| {
        ensure!(matches!(reply.status, 404 | 429 | 503), "status {}", reply.status);
        flood.refused.fetch_add(usize::from(reply.status != 404), Ordering::Relaxed);
        Ok(())
    })
}

/// A delivery for a webhook that does not exist.
fn made_up_delivery(id: &str) -> Request {
    Request::post(format!("/webhooks/stripe/{id}")).header("Stripe-Signature", "t=1")
}

/// Who makes ids up.
const STRANGER: &str = "203.0.113.7";
/// Who sends for webhooks that exist.
const SENDER: &str = "198.51.100.1";

/// Deliveries for webhooks that were never looked up, while the shipped limits of the gateway refuse a stranger's made-up ids: each is
/// forwarded.
fn others_go_on(setup: &LookupsSetup) -> Result<()> {
    let hooks =
        (0..HOOKS).map(|number| setup.lookup_stores.hook(&format!("beside{number}"))).collect::<Result<Vec<_>>>()?;
    setup.lookup_stores.forget();
    let shared = Flood::default();
    let deliver = |hook: &Hook| -> Result<()> {
        let request = hook.delivery("evt_1").header("x-forwarded-for", SENDER);
        let reply = send(&setup.gateway, PROXIED, &request)?;
        ensure!(reply.status == 200, "{}: status {}", hook.id, reply.status);
        Ok(())
    };
    thread::scope(|scope| {
        let flood = scope.spawn(|| flood(setup, &shared));
        let refused = |_: &TestGateway| Ok(shared.refused.load(Ordering::Relaxed) > 100 || flood.is_finished());
        let begun = setup.gateway.until("made-up ids are refused", refused);
        let sent = begun.and_then(|()| hooks.iter().try_for_each(deliver));
        let lasted = !flood.is_finished();
        shared.ended.store(true, Ordering::Relaxed);
        flood.join().map_err(|_| anyhow!("the flood panicked"))??;
        sent?;
        ensure!(lasted, "the flood ended before the deliveries were sent");
        Ok(())
    })
}

/// The gateway's own limit comes before any lookup.
fn too_many(setup: &LookupsSetup) -> Result<()> {
    let deliver_from = |address: &str, id: u32| {
        let request = Request::post(format!("/webhooks/stripe/wh_limited_{id}")).header("Stripe-Signature", "t=1");
        send(&setup.gateway, LIMITED, &request.header("x-forwarded-for", address))
    };
    let deliver = |id: u32| deliver_from(STRANGER, id);
    for id in 0..LIMIT {
        let reply = deliver(id)?;
        ensure!(reply.status == 404, "status {}", reply.status);
    }
    let reply = deliver(LIMIT)?;
    ensure!(reply.status == 429, "status {}", reply.status);
    ensure!(reply.text_header("content-type") != Some("application/problem+json"), "the filter answers");
    let lookups = setup.lookup_stores.unkey.server().total();
    ensure!(lookups == u64::from(LIMIT), "{lookups} lookups");
    // Another address has a limit of its own.
    let reply = deliver_from(SENDER, LIMIT)?;
    ensure!(reply.status == 404, "status {} for another address", reply.status);
    Ok(())
}
