//! Two workers, and a policy that is replaced again and again while deliveries come in.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::discovery::Discovery;
use e2e::gateway::{TestEnvironment, TestGateway, tools};
use e2e::lookup_stores::{Hook, LookupStores};
use e2e::runner::Test;
use e2e::wire::PATIENCE;
use tempfile::TempDir;

use super::setup::{Clear, LONG, Times, forwarded, keys, policy, send, test};

const LISTENER: &str = "reloaded";
const COUNTERS: &str = "^extension_config_discovery.http_filter.edge-idempotency.config_";
const CLIENTS: usize = 8;
const RELOADS: u64 = 6;
/// What comes in between two of them, at the least.
const BETWEEN: usize = 40;

pub(crate) struct Reloaded {
    gateway: TestGateway,
    discovery: Discovery,
    lookup_stores: LookupStores,
    _directory: TempDir,
}

impl Clear for Reloaded {
    fn clear(&self) {
        self.lookup_stores.forget();
        self.gateway.capture().take();
    }
}

pub(crate) fn start() -> Result<Reloaded> {
    let directory = tempfile::tempdir()?;
    let lookup_stores = LookupStores::start(directory.path())?;
    let discovery = Discovery::new(directory.path().join("filter.yaml"), tools()?.filter);
    discovery.put(&policy(LONG))?;
    // The clients send as fast as they can, and none of their deliveries may meet the gateway's limit for deliveries.
    let changes = vec![Change::Instead(discovery.filter()?), Change::DeliveriesAnHour(None)];
    let listener = ListenerSpec { policy: String::from("{}"), changes };
    let around = TestEnvironment { stores: Some(lookup_stores.stores()), concurrency: 2, ..TestEnvironment::default() };
    let gateway = TestGateway::start_within(&around, &[(LISTENER.to_owned(), listener)])?;
    Ok(Reloaded { gateway, discovery, lookup_stores, _directory: directory })
}

pub(crate) fn tests() -> Vec<Test<Reloaded>> {
    vec![test("two workers and reloads in between: none lost, none accepted unverified", reloads)]
}

fn reloads(setup: &Reloaded) -> Result<()> {
    let hooks =
        (0..CLIENTS).map(|number| setup.lookup_stores.hook(&format!("reload{number}"))).collect::<Result<Vec<_>>>()?;
    setup.lookup_stores.forget();
    let (done, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let delivered = thread::scope(|scope| {
        let clients: Vec<_> =
            hooks.iter().map(|hook| scope.spawn(|| deliver(&setup.gateway, hook, &done, &sent))).collect();
        let reloaded = (1..=RELOADS).try_for_each(|number| {
            let before = sent.load(Ordering::Relaxed);
            setup.gateway.until("deliveries come in", |_| Ok(sent.load(Ordering::Relaxed) >= before + BETWEEN))?;
            // Another document each time, so that there is something to reload.
            let times = Times { timeout_ms: LONG.timeout_ms + u32::try_from(number)?, ..LONG };
            let counted = setup.gateway.stat(COUNTERS)?;
            setup.discovery.put(&policy(times))?;
            setup.gateway.until("the policy is replaced", |gateway| Ok(gateway.stat(COUNTERS)? > counted))
        });
        done.store(true, Ordering::Relaxed);
        let joined = clients.into_iter().map(|client| client.join().map_err(|_| anyhow!("a client panicked"))?);
        let delivered = joined.collect::<Result<Vec<_>>>()?;
        reloaded.map(|()| delivered)
    })?;
    let mut wanted: Vec<String> = delivered.into_iter().flatten().collect();
    wanted.sort();
    let got = keys(&forwarded(&setup.gateway)?);
    ensure!(got == wanted, "{} deliveries were sent, {} went on", wanted.len(), got.len());
    let log = setup.gateway.log()?;
    let trap = log.lines().find(|line| line.contains("[critical]") || line.contains("panicked"));
    ensure!(trap.is_none(), "{trap:?}");
    // One for each VM that there was, at the most: two workers, and two more after each reload.
    let most = 2 * (RELOADS + 1);
    for hook in &hooks {
        let (bindings, _) = setup.lookup_stores.lookups(hook);
        ensure!((1..=most).contains(&bindings), "{}: {bindings} lookups", hook.id);
    }
    Ok(())
}

/// Sends genuine deliveries and forged ones in turn; the keys of the genuine ones.
fn deliver(gateway: &TestGateway, hook: &Hook, done: &AtomicBool, sent: &AtomicUsize) -> Result<Vec<String>> {
    let started = std::time::Instant::now();
    let mut keys = Vec::new();
    while !done.load(Ordering::Relaxed) {
        ensure!(started.elapsed() < 4 * PATIENCE, "the reloads take too long");
        let event = format!("evt_{}", keys.len());
        let genuine = send(gateway, LISTENER, &hook.delivery(&event)).with_context(|| event.clone())?;
        let forged = send(gateway, LISTENER, &hook.signed("whsec_guessed", &event)).with_context(|| event.clone())?;
        ensure!((genuine.status, forged.status) == (200, 401), "{event}: {} and {}", genuine.status, forged.status);
        keys.push(hook.key(&event));
        sent.fetch_add(1, Ordering::Relaxed);
    }
    Ok(keys)
}
