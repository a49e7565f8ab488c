//! Requests that differ, with a real guard; `tests/cases/collision.json` has what makes another request of one.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::raw;
use e2e::runner::Test;
use serde_json::json;

use super::{CollisionSetup, is_reuse, member, post, post_json, repeated, test};

const KEYS: usize = 20;
const REQUESTS: usize = 10;

pub(crate) fn tests() -> Vec<Test<CollisionSetup>> {
    vec![
        test("200 at once on 20 keys have 20 effects", at_once),
        test("a corrected retry of what the backend refused", corrected),
    ]
}

fn refund(order: &str, amount: u64) -> String {
    json!({"order_id": order, "amount": amount}).to_string()
}

/// Half of the requests under each key have another body. Which of the two comes first decides.
fn at_once(setup: &CollisionSetup) -> Result<()> {
    let address = setup.address()?;
    let mut requests = Vec::new();
    for number in 0..KEYS * REQUESTS {
        let (key, amount) = (number % KEYS, (number / KEYS) % 2);
        let body = refund(&format!("at-once-{key}"), amount as u64);
        requests.push((
            key,
            amount as u64,
            setup.authenticated(&post_json("refunds-at-once", &format!("at-once-{key}"), body)),
        ));
    }
    let threads: Vec<_> = requests
        .into_iter()
        .map(|(key, amount, request)| {
            let send = move || {
                let reply = repeated(|| raw::exchange(address, "POST", &request.http1()))?;
                anyhow::Ok((key, amount, reply))
            };
            std::thread::spawn(send)
        })
        .collect();
    let mut first: BTreeMap<usize, Vec<(u64, bool)>> = BTreeMap::new();
    for thread in threads {
        let (key, amount, reply) = thread.join().map_err(|_| anyhow!("a client panicked"))??;
        let passed = match reply.status {
            200 => {
                ensure!(member(&reply, "amount") == amount, "the answer of another request: {}", reply.json());
                true
            }
            422 => is_reuse(&reply).map(|()| false)?,
            other => anyhow::bail!("status {other}: {}", String::from_utf8_lossy(&reply.body)),
        };
        first.entry(key).or_default().push((amount, passed));
    }
    for (key, seen) in &first {
        let winner = seen.iter().find(|(_, passed)| *passed).context("no request passed")?.0;
        let wrong = seen.iter().filter(|(amount, passed)| (*amount == winner) != *passed).count();
        ensure!(wrong == 0 && seen.len() == REQUESTS, "key {key}: {seen:?}");
        ensure!(setup.chain.effects(&format!("at-once-{key}"))? == 1, "key {key} has several effects");
    }
    ensure!(first.len() == KEYS, "{} keys", first.len());
    let half = (KEYS * REQUESTS / 2) as u64;
    setup.until("all are counted", || {
        let counts = (setup.collisions("enforce", "refunds-at-once")?, setup.claims("match", "refunds-at-once")?);
        Ok(counts.0 >= half && counts.1 >= half)
    })
}

/// Restate refuses the content type and stores nothing. The guard has the first request nevertheless, so a corrected one needs a
/// new key.
fn corrected(setup: &CollisionSetup) -> Result<()> {
    let body = refund("corrected", 1);
    let wrong = post("refunds", "corrected").header("content-type", "text/plain").body(body.clone());
    setup.answered("another content type", &wrong, 400)?;
    setup.reused("the corrected request", &post_json("refunds", "corrected", body.clone()))?;
    setup.answered("the first again", &wrong, 400)?;
    setup.answered("the corrected request with a new key", &post_json("refunds", "corrected-2", body), 200)?;
    ensure!(setup.chain.effects("corrected")? == 1, "one effect");
    Ok(())
}
