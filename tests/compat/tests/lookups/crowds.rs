//! Many at once, and many that are nobody's.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use e2e::gateway::TestGateway;
use e2e::lookup_stores::Hook;
use e2e::raw::{Request, send_each};
use e2e::runner::Test;
use harness::faults::Fault;

use super::setup::{FLOODED, LASTING, LIMIT, LIMITED, LookupsSetup, PROXIED, accepted, forwarded, keys, send, test};

const HOOKS: usize = 50;
/// Deliveries for each.
const DELIVERIES: usize = 10;

pub(crate) fn tests() -> Vec<Test<LookupsSetup>> {
    vec![
        test("500 deliveries at once for 50 webhooks: each is looked up once", at_once),
        test("the first client of each leaves: each is still looked up once", leaving),
        test("100,000 webhooks that are none: bounded memory and lookups, and a warm one is served", made_up),
        test("more deliveries from one address than the gateway takes: 429, and the filter is not asked", too_many),
        test("a flood of made-up ids from one address: other senders' deliveries go on", made_up_beside_others),
        test("more made-up ids than a worker looks up: other senders' deliveries go on", paced_beside_others),
    ]
}

fn hooks(setup: &LookupsSetup, name: &str) -> Result<Vec<Hook>> {
    (0..HOOKS).map(|number| setup.lookup_stores.hook(&format!("{name}{number}"))).collect()
}

/// Deliveries `from` and on of each webhook, all under way before the registry answers.
fn crowd(setup: &LookupsSetup, hooks: &[Hook], from: usize) -> Result<()> {
    let (gateway, registry) = (&setup.gateway, setup.lookup_stores.unkey.server());
    let deliveries = || (from..DELIVERIES).flat_map(|number| hooks.iter().map(move |hook| (hook, number)));
    let expected = deliveries().count();
    let statuses = thread::scope(|scope| {
        let deliver = |(hook, number): (&Hook, usize)| {
            let request = hook.delivery(&format!("evt_{number}"));
            scope.spawn(move || send(gateway, LASTING, &request).map(|reply| reply.status))
        };
        let clients: Vec<_> = deliveries().map(deliver).collect();
        let waiting = gateway.until("all of them wait", |gateway| {
            let active = usize::try_from(gateway.stat("http.gateway.downstream_rq_active")?)?;
            Ok(active >= expected && registry.counts().len() >= hooks.len())
        });
        registry.recover();
        waiting?;
        let joined = clients.into_iter().map(|client| client.join().map_err(|_| anyhow!("a client panicked"))?);
        joined.collect::<Result<Vec<_>>>()
    })?;
    ensure!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let mut wanted: Vec<_> = deliveries().map(|(hook, number)| hook.key(&format!("evt_{number}"))).collect();
    wanted.sort();
    ensure!(keys(&forwarded(gateway)?) == wanted, "not each of them went on once");
    for hook in hooks {
        ensure!(setup.lookup_stores.lookups(hook) == (1, 1), "{}: {:?}", hook.id, setup.lookup_stores.lookups(hook));
    }
    Ok(())
}

fn at_once(setup: &LookupsSetup) -> Result<()> {
    let hooks = hooks(setup, "crowd")?;
    setup.lookup_stores.forget();
    setup.lookup_stores.unkey.server().fail(Fault::Held);
    crowd(setup, &hooks, 0)
}

fn leaving(setup: &LookupsSetup) -> Result<()> {
    let hooks = hooks(setup, "leaving")?;
    setup.lookup_stores.forget();
    setup.lookup_stores.unkey.server().fail(Fault::Held);
    let address = setup.gateway.address(LASTING)?;
    let first = hooks.iter().map(|hook| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&hook.delivery("evt_0").http1())?;
        Ok(stream)
    });
    let first = first.collect::<Result<Vec<_>>>()?;
    setup
        .gateway
        .until("each is being looked up", |_| Ok(setup.lookup_stores.unkey.server().counts().len() == HOOKS))?;
    drop(first);
    setup
        .gateway
        .until("the first clients have left", |gateway| Ok(gateway.stat("http.gateway.downstream_rq_active")? == 0))?;
    crowd(setup, &hooks, 1)
}

fn made_up(setup: &LookupsSetup) -> Result<()> {
    const ALL: u64 = 100_000;
    const FIRST: u64 = 10_000;
    let hook = setup.lookup_stores.hook("warm")?;
    accepted(&setup.gateway, FLOODED, &hook, &hook.delivery("evt_1"), "evt_1")?;
    setup.lookup_stores.forget();
    let address = setup.gateway.address(FLOODED)?;
    // In no order, so that they come from all over what is held.
    let request = |number: u64| made_up_delivery(&format!("wh_{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let ask = |numbers| {
        send_each(address, numbers, request, |_, reply| {
            // 503: the worker asks for no more of them for now.
            ensure!(matches!(reply.status, 404 | 503), "status {}", reply.status);
            Ok(())
        })
    };
    let begin = Instant::now();
    ask(0..FIRST)?;
    let before = setup.gateway.resident_bytes()?;
    ask(FIRST..ALL)?;
    let after = setup.gateway.resident_bytes()?;
    ensure!(after < before + (8 << 20), "resident memory went from {before} to {after} bytes");
    // One worker: 1,024 in a row, and 50 in each second that it took.
    let (lookups, most) = (setup.lookup_stores.unkey.server().total(), 1024 + 50 * (begin.elapsed().as_secs() + 1));
    ensure!((1024..=most).contains(&lookups), "{lookups} lookups, and {most} may be");
    accepted(&setup.gateway, FLOODED, &hook, &hook.delivery("evt_2"), "evt_2")?;
    ensure!(setup.lookup_stores.lookups(&hook) == (0, 0), "the warm one was looked up again");
    Ok(())
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
fn flood(setup: &LookupsSetup, listener: &str, flood: &Flood) -> Result<()> {
    const MOST: u64 = 50_000;
    let address = setup.gateway.address(listener)?;
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

/// Deliveries for webhooks that were never looked up, while a stranger's made-up ids are refused: each is forwarded.
fn others_go_on(setup: &LookupsSetup, listener: &str) -> Result<()> {
    let hooks = hooks(setup, &format!("beside_{listener}_"))?;
    setup.lookup_stores.forget();
    let shared = Flood::default();
    let deliver = |hook: &Hook| -> Result<()> {
        let request = hook.delivery("evt_1").header("x-forwarded-for", SENDER);
        let reply = send(&setup.gateway, listener, &request)?;
        ensure!(reply.status == 200, "{}: status {}", hook.id, reply.status);
        Ok(())
    };
    thread::scope(|scope| {
        let flood = scope.spawn(|| flood(setup, listener, &shared));
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

/// With the shipped limits of the gateway.
fn made_up_beside_others(setup: &LookupsSetup) -> Result<()> {
    others_go_on(setup, PROXIED)
}

/// Without them: the filter's own pacing.
fn paced_beside_others(setup: &LookupsSetup) -> Result<()> {
    others_go_on(setup, FLOODED)
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
