//! Many at once, and many that are nobody's.

use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use e2e::raw::send_each;
use e2e::runner::Test;
use harness::faults::Fault;

use super::setup::{FLOODED, KeysSetup, LASTING, accepted, forwarded, order, send, test};

pub(crate) fn tests() -> Vec<Test<KeysSetup>> {
    vec![
        test("200 requests at once with 20 keys: each key is looked up once", at_once),
        test("50,000 keys that are made up: bounded memory and calls, and a warm one is served", made_up),
    ]
}

fn at_once(setup: &KeysSetup) -> Result<()> {
    const KEYS: usize = 20;
    const REQUESTS: usize = 10;
    let keys: Vec<String> = (0..KEYS).map(|number| setup.key(&format!("crowd{number}"))).collect();
    setup.unkey.server().fail(Fault::Held);
    let gateway = &setup.gateway;
    let statuses = thread::scope(|scope| {
        let ask = |key: &str| {
            let request = order(key);
            scope.spawn(move || send(gateway, LASTING, &request).map(|reply| reply.status))
        };
        let clients: Vec<_> = (0..REQUESTS).flat_map(|_| keys.iter().map(|key| ask(key))).collect();
        let waiting = gateway.until("all of them wait", |gateway| {
            let active = usize::try_from(gateway.stat("http.gateway.downstream_rq_active")?)?;
            Ok(active >= KEYS * REQUESTS && setup.unkey.server().counts().len() >= KEYS)
        });
        setup.unkey.server().recover();
        waiting?;
        let joined = clients.into_iter().map(|client| client.join().map_err(|_| anyhow!("a client panicked"))?);
        joined.collect::<Result<Vec<_>>>()
    })?;
    ensure!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    ensure!(forwarded(gateway)?.len() == KEYS * REQUESTS, "not each of them went on");
    ensure!(keys.iter().all(|key| setup.asked(key) == 1), "{:?}", setup.unkey.server().counts());
    Ok(())
}

fn made_up(setup: &KeysSetup) -> Result<()> {
    const ALL: u64 = 50_000;
    const FIRST: u64 = 10_000;
    let warm = setup.key("warm");
    accepted(&setup.gateway, FLOODED, &order(&warm), "warm")?;
    setup.unkey.server().forget();
    let address = setup.gateway.address(FLOODED)?;
    let request = |number: u64| order(&format!("sk_{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let ask = |numbers| {
        send_each(address, numbers, request, |_, reply| {
            // 503: the worker asks for no more of them for now.
            ensure!(matches!(reply.status, 401 | 503), "status {}", reply.status);
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
    let (lookups, most) = (setup.unkey.server().total(), 1024 + 50 * (begin.elapsed().as_secs() + 1));
    ensure!((1024..=most).contains(&lookups), "{lookups} lookups, and {most} may be");
    // The warm one was looked up again at most once, if its time was over.
    accepted(&setup.gateway, FLOODED, &order(&warm), "warm")?;
    ensure!(setup.asked(&warm) <= 1, "the warm one was looked up {} times", setup.asked(&warm));
    Ok(())
}
