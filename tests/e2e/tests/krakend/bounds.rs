//! What the bridge bounds: the bodies that it keeps, and what a module that fails costs.

use anyhow::{Context as _, Result, ensure};
use e2e::deliveries::{github, now, stripe};
use e2e::raw::{Connection, Request};
use e2e::runner::Test;
use harness::senders::{GITHUB_PATH, STRIPE_PATH};
use serde_json::{Value, json};
use walrus::ir::{BinaryOp, Instr, Value as Constant};
use walrus::{ConstExpr, ExportItem, FunctionBuilder, Module, ValType};

use super::captured::{KrakendSetup, MESSAGES, REFUNDS, claims, keyed, shown};
use super::load::send_through_traps;
use super::standin::Way;

pub(crate) fn tests(way: Way) -> Vec<Test<()>> {
    let test = |name: &str, body: fn(Way) -> Result<()>| Test::new(name, move |()| body(way));
    let tests = vec![
        test("bodies that are kept have a limit, and nobody takes that of others", held),
        test("a body that is malformed is a 400", malformed),
        test("a module that traps fails the requests of its instance", traps),
    ];
    tests.into_iter().map(|test| test.within(way.name()).within("bounds")).collect()
}

/// A third of 4 MiB holds one long body.
fn held(way: Way) -> Result<()> {
    let setup = KrakendSetup::start_with(way, false, None, vec![("held_bodies_mib", json!(4))])?;
    let body = |event: &str| json!({"id": event, "pad": "x".repeat(900_000)}).to_string();
    let whole = stripe(STRIPE_PATH, &[&setup.senders.stripe], now(), body("evt_1")).http1();
    let (begin, end) = whole.split_at(whole.len() - 10_000);
    let mut first = Connection::open(setup.gateway.address())?;
    first.send(begin)?;
    setup.gateway.until("most of the first is kept", |gateway| {
        Ok(gateway.metric("idempotency_bridge_held_bytes")? > 850_000.0)
    })?;

    let busy = |request: &Request, reason: &str| {
        let reply = setup.refused(request, 503, "dependency_unavailable")?;
        ensure!(reply.text_header("retry-after") == Some("5"), "{}", shown(&reply));
        ensure!(reply.text_header("idempotency-retry") == Some("same_key"), "{}", shown(&reply));
        let name = format!("idempotency_bridge_unanswered_total{{reason=\"{reason}\"}}");
        setup.gateway.until(&name, |gateway| Ok(gateway.sample(&name)? == 1.0))
    };
    busy(&stripe(STRIPE_PATH, &[&setup.senders.stripe], now(), body("evt_2")), "waiting_share")?;
    busy(&github(GITHUB_PATH, &setup.senders.github, "guid-1", body("evt_3")), "waiting_full")?;
    // Who stops in a body that is refused has the answer at once. The plugin's is held up by KrakenD, which reads on.
    if way == Way::Executor {
        let mut stopped = Connection::open(setup.gateway.address())?;
        stopped.send(begin)?;
        let reply = stopped.answer("POST")?;
        ensure!(reply.status == 503 && reply.text_header("connection") == Some("close"), "{}", shown(&reply));
    }
    // Another sender's small delivery, and callers with a token, are served.
    setup.forwarded(&github(GITHUB_PATH, &setup.senders.github, "guid-2", r#"{"action": "opened"}"#))?;
    let long = keyed(REFUNDS, "k").body(json!({"pad": "x".repeat(500_000)}).to_string());
    let reply = setup.gateway.send(&setup.signed(long, &claims("acme", "alice"))?)?;
    ensure!(reply.status == 200, "{}", shown(&reply));
    setup.clear();

    first.send(end)?;
    let reply = first.answer("POST")?;
    ensure!(reply.status == 200, "{}", shown(&reply));
    setup.clear();
    setup.forwarded(&stripe(STRIPE_PATH, &[&setup.senders.stripe], now(), body("evt_4")))?;
    setup.gateway.until("nothing is kept", |gateway| Ok(gateway.metric("idempotency_bridge_held_bytes")? == 0.0))
}

/// On a route that waits for the body, and on one whose body passes.
fn malformed(way: Way) -> Result<()> {
    let setup = KrakendSetup::start(way, false)?;
    let token = setup.signer.mint(&claims("acme", "alice"))?;
    for path in [REFUNDS, MESSAGES] {
        for chunks in ["zz\r\n", "5\r\nabcdefgh\r\n0\r\n\r\n", "fffffffffffffffff\r\n"] {
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: api.example.com\r\nauthorization: Bearer {token}\r\nidempotency-key: k\r\n\
                 content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"
            );
            let mut connection = Connection::open(setup.gateway.address())?;
            connection.send(request.as_bytes())?;
            let reply = connection.answer("POST")?;
            let code = reply.json().get("code").and_then(Value::as_str).map(str::to_owned);
            ensure!(
                (reply.status, code.as_deref()) == (400, Some("request_invalid")),
                "{path} {chunks:?}: {}",
                shown(&reply)
            );
            ensure!(reply.text_header("idempotency-retry") == Some("never"), "{}", shown(&reply));
        }
    }
    Ok(())
}

/// How many requests the module takes before it traps.
const EVERY: i32 = 97;
const REQUESTS: usize = 3_000;

fn traps(way: Way) -> Result<()> {
    let module = trapping(&std::fs::read(e2e::gateway::tools()?.filter.path())?)?;
    let setup = KrakendSetup::start_with(way, false, Some(&module), vec![("instances", json!(2))])?;
    let failed = send_through_traps(&setup, REQUESTS)?;
    let trapped = setup.gateway.metric("idempotency_bridge_instances_closed_total")?;
    // Some requests do not get to the module, and each trap fails what its instance had.
    let said = format!("{failed} requests failed, {trapped} calls trapped");
    ensure!(trapped >= REQUESTS as f64 / f64::from(2 * EVERY), "{said}");
    ensure!(failed as f64 >= trapped && failed < REQUESTS, "{said}\n{}", setup.gateway.log()?);
    Ok(())
}

/// The module, whose every 97th request traps.
fn trapping(module: &[u8]) -> Result<Vec<u8>> {
    const NAME: &str = "proxy_on_request_headers";
    let mut module = Module::from_buffer(module)?;
    let export = module.exports.iter().find(|export| export.name == NAME).context("no such export")?;
    let (id, ExportItem::Function(real)) = (export.id(), export.item) else { anyhow::bail!("{NAME} is no function") };
    let count = module.globals.add_local(ValType::I32, true, false, ConstExpr::Value(Constant::I32(0)));
    let parameters = [ValType::I32; 3];
    let locals: Vec<_> = parameters.iter().map(|kind| module.locals.add(*kind)).collect();
    let mut builder = FunctionBuilder::new(&mut module.types, &parameters, &[ValType::I32]);
    let mut body = builder.func_body();
    body.global_get(count).i32_const(1).binop(BinaryOp::I32Add).global_set(count);
    body.global_get(count).i32_const(EVERY).binop(BinaryOp::I32RemU);
    body.if_else(None, |_| {}, |fails| _ = fails.instr(Instr::Unreachable(walrus::ir::Unreachable {})));
    for local in &locals {
        body.local_get(*local);
    }
    body.call(real);
    let wrapper = builder.finish(locals, &mut module.funcs);
    module.exports.get_mut(id).item = ExportItem::Function(wrapper);
    Ok(module.emit_wasm())
}
