//! What makes another request of one.

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
        test("one key on two endpoints", two_endpoints),
        test("order and space of a body", spelling),
        test("numbers that share a double", big_numbers),
        test("query, content type and method", head),
        test("headers that the route names", compared_headers),
        test("a corrected retry of what the backend refused", corrected),
        test("a retry of what the handler refused", refused_by_handler),
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

fn two_endpoints(setup: &CollisionSetup) -> Result<()> {
    setup.answered("a refund", &post_json("refunds", "two-endpoints", refund("two-endpoints", 1)), 200)?;
    let message = json!({"conversation_id": "two-endpoints-message", "text": "hello"}).to_string();
    setup.answered("a message", &post_json("messages", "two-endpoints", message), 200)?;
    for effect in ["two-endpoints", "two-endpoints-message"] {
        ensure!(setup.chain.effects(effect)? == 1, "{effect}");
    }
    Ok(())
}

fn spelling(setup: &CollisionSetup) -> Result<()> {
    let written = r#"{"order_id": "spelling", "amount": 1}"#;
    let other = "{ \"amount\" : 1.0e0,\n\"order\\u005fid\":\"spelling\" }";
    for (endpoint, key, same) in [("refunds", "spelling-raw", false), ("refunds-json", "spelling-json", true)] {
        setup.answered(endpoint, &post_json(endpoint, key, written), 200)?;
        let second = post_json(endpoint, key, other);
        if same {
            let reply = setup.answered("another spelling", &second, 200)?;
            ensure!(reply.text_header("idempotent-replayed") == Some("true"), "it is no replay: {:?}", reply.headers);
        } else {
            setup.reused("another spelling", &second)?;
        }
        setup.reused("another value", &post_json(endpoint, key, written.replace('1', "2")))?;
    }
    ensure!(setup.chain.effects("spelling")? == 2, "one for each endpoint");
    Ok(())
}

fn big_numbers(setup: &CollisionSetup) -> Result<()> {
    let body = |amount: &str| format!(r#"{{"order_id": "big", "amount": {amount}}}"#);
    for (endpoint, key) in [("refunds", "big-raw"), ("refunds-json", "big-json")] {
        setup.answered(endpoint, &post_json(endpoint, key, body("9007199254740993")), 200)?;
        setup.reused(endpoint, &post_json(endpoint, key, body("9007199254740992")))?;
        setup.answered(endpoint, &post_json(endpoint, key, body("9007199254740993")), 200)?;
    }
    Ok(())
}

fn head(setup: &CollisionSetup) -> Result<()> {
    let body = refund("head", 1);
    let with_query = |query: &str| {
        let mut request = post_json("refunds", "head", body.clone());
        request.target = format!("/api/refunds{query}").into_bytes();
        request
    };
    setup.answered("the first", &with_query("?a=1"), 200)?;
    setup.answered("the same", &with_query("?a=1"), 200)?;
    for query in ["", "?a=2", "?a=1&b=2", "?a=%31"] {
        setup.reused(query, &with_query(query))?;
    }
    let typed = |kind: &str| {
        let mut request = post("refunds", "head").header("content-type", kind).body(body.clone());
        request.target = b"/api/refunds?a=1".to_vec();
        request
    };
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        setup.reused(kind, &typed(kind))?;
    }
    let mut listed = post("projects", "head");
    listed.method = "GET".to_owned();
    setup.answered("GET", &listed, 200)?;
    let mut asked = listed.clone();
    asked.method = "HEAD".to_owned();
    setup.answered("HEAD", &asked, 422)?;
    setup.answered("GET again", &listed, 200)?;
    ensure!(setup.chain.effects("head")? == 1, "the refund");
    Ok(())
}

/// The route compares `if-match` and `prefer`, and no other header.
fn compared_headers(setup: &CollisionSetup) -> Result<()> {
    let body = refund("headers", 1);
    let with = |lines: &[(&str, &str)]| {
        let request = post_json("refunds-headers", "headers", body.clone());
        lines.iter().fold(request, |request, (name, value)| request.header(name, *value))
    };
    setup.answered("the first", &with(&[("If-Match", "\"v1\""), ("Prefer", "wait=1")]), 200)?;
    let again = with(&[("X-Other", "1"), ("Prefer", "wait=1"), ("if-match", "\"v1\"")]);
    setup.answered("the same, in another order and with another header", &again, 200)?;
    for lines in [
        &[("if-match", "\"v2\""), ("prefer", "wait=1")][..],
        &[("if-match", "\"v1\"")],
        &[("prefer", "wait=1")],
        &[("if-match", "\"v1\""), ("prefer", "wait=1"), ("prefer", "wait=1")],
        &[("if-match", "wait=1"), ("prefer", "\"v1\"")],
        &[],
    ] {
        setup.reused(&format!("{lines:?}"), &with(lines))?;
    }
    ensure!(setup.chain.effects("headers")? == 1, "the refund");
    Ok(())
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

fn refused_by_handler(setup: &CollisionSetup) -> Result<()> {
    let body = |provider: &str| json!({"order_id": "declined", "amount": 1, "provider": provider}).to_string();
    let reply = setup.answered("declined", &post_json("refunds", "declined", body("declines")), 422)?;
    ensure!(member(&reply, "message") == "the card was declined", "{}", reply.json());
    let again = setup.answered("declined again", &post_json("refunds", "declined", body("declines")), 422)?;
    ensure!(member(&again, "message") == "the card was declined", "{}", again.json());
    setup.reused("another provider", &post_json("refunds", "declined", body("accepts")))?;
    ensure!(setup.chain.effects("declined")? == 0, "no effect");
    Ok(())
}
