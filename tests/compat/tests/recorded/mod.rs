//! The program `recorder` in front of an Express API that knows nothing of keys, behind the filter in a real Envoy, with a real Restate.

mod adversary;
mod crashes;
mod operators;
mod setup;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, sharing, until};
use harness::ports::{loopback, loopback_url};
use serde_json::{Value, json};

use crate::path_readers::installed;
use setup::{Recorded, Shape};

const POLL: Duration = Duration::from_millis(50);
/// In `x-seen`
const TARGET: usize = 0;
const HEADERS: usize = 1;
const BODY: usize = 2;
const METHOD: usize = 3;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let one = |name: &str, test: fn(&Recorded) -> Result<()>| Test::new(name.to_owned(), test);
    let tests = vec![
        one("a replay is the first answer byte for byte", replay),
        one("requests without a key go through, each of them", unkeyed),
        one("upgraded connections", upgraded),
        one("what the API gets", what_the_api_gets),
        one("other tenants, other operations, other content", other_requests),
        one("errors are kept, and what did nothing is not", errors),
        one("many at once have one effect", at_once),
        one("bounds", bounds),
        one("a node of Restate that hangs", hung_node),
        one("no request chooses where it goes", forgery),
        one("metrics and upstreams", status),
        one("adversary: random requests of two tenants", adversary::run),
    ];
    let start = || Recorded::start(&Shape { on_unknown: "fail", nodes: 1, elsewhere: true });
    let groups = [sharing(start, tests), crashes::group(), operators::group()];
    let is_installed = installed().join("express/node_modules").is_dir();
    if !is_installed {
        eprintln!(
            "SKIPPED: Express is not installed, so the recorder has no API. `crates/xtask/scripts/tools.sh path-readers` installs it."
        );
    }
    Ok(groups.map(|group| if is_installed { group } else { group.left_out() }).into())
}

/// What the API says it got.
fn seen(reply: &Reply, part: usize) -> Result<Value> {
    let seen: Value = serde_json::from_str(reply.text_header("x-seen").context("no x-seen")?)?;
    Ok(seen.get(part).cloned().unwrap_or_default())
}

fn is_replay_of(reply: &Reply, first: &Reply) -> Result<()> {
    let lines = |reply: &Reply| -> Vec<(String, Vec<u8>)> {
        let marks = ["idempotent-replayed", "idempotency-status", "idempotency-retry", "x-envoy-upstream-service-time"];
        reply.headers.iter().filter(|(name, _)| !marks.contains(&name.as_str())).cloned().collect()
    };
    ensure!(reply.text_header("idempotent-replayed") == Some("true"), "no mark: {reply:?}");
    ensure!(first.header("idempotent-replayed").is_none(), "the first answer is marked: {first:?}");
    let same = (reply.status, &reply.body, lines(reply)) == (first.status, &first.body, lines(first));
    ensure!(same, "{reply:?}\n is not {first:?}");
    Ok(())
}

pub(super) fn is_problem(reply: &Reply, status: u16, code: &str, retry: &str) -> Result<()> {
    let document = reply.json();
    let is = |member: &str, value: &str| document.get(member).and_then(Value::as_str) == Some(value);
    let told = reply.status == status && is("code", code) && is("retry", retry);
    let advice = reply.text_header("idempotency-retry");
    ensure!(advice == Some(retry), "the advice is {advice:?}: {reply:?}");
    ensure!(told && reply.header("idempotent-replayed").is_none(), "not {status} {code} {retry}: {reply:?}");
    Ok(())
}

fn replay(setup: &Recorded) -> Result<()> {
    let bytes: Vec<u8> = (0..=255).collect();
    for (item, status, content_type) in [
        ("a", 201, "multipart/form-data; boundary=x"),
        ("b", 404, "application/octet-stream"),
        ("c", 500, "text/plain"),
        ("d", 302, "a/b"),
    ] {
        let target = format!("/orders/{item}?status={status}&location=http%3A%2F%2Fexample.com%2F");
        let request = setup.request("POST", &target)?.header("idempotency-key", item);
        let request = request.header("content-type", content_type).body(bytes.clone());
        let first = setup.send(&request)?;
        ensure!(first.status == status && first.body.len() == 40, "{first:?}");
        ensure!(first.headers.iter().filter(|(name, _)| name == "set-cookie").count() == 2, "{first:?}");
        for _ in 0..2 {
            is_replay_of(&setup.send(&request)?, &first)?;
        }
        ensure!(setup.effects(&format!("POST /orders/{item}"))? == 1, "{item} ran again");
    }
    Ok(())
}

fn unkeyed(setup: &Recorded) -> Result<()> {
    let note = setup.request("POST", "/notes/unkeyed")?.body("{}");
    let get = setup.request("GET", "/orders/unkeyed?bytes=3000000")?;
    let bodies = [setup.send(&note)?.body, setup.send(&note)?.body];
    ensure!(bodies[0] != bodies[1] && setup.effects("POST /notes/unkeyed")? == 2, "one of them did not run");
    let answer = setup.send(&get)?;
    ensure!(answer.status == 200 && answer.body.len() == 3_000_000, "{} {}", answer.status, answer.body.len());
    Ok(())
}

fn what_the_api_gets(setup: &Recorded) -> Result<()> {
    let request = setup.request("POST", "/orders/gets?a=%2F&b=%C3%A9")?.header("idempotency-key", "gets");
    let request = request.header("cookie", "c=1").header("x-api-key", "k").header("accept-encoding", "gzip");
    let request = request.header("connection", "x-tenant").header("x-own", "1").body("body");
    let reply = setup.send(&request)?;
    ensure!(seen(&reply, TARGET)? == json!("/orders/gets?a=%2F&b=%C3%A9"), "{reply:?}");
    ensure!(seen(&reply, BODY)? == json!("Ym9keQ=="), "{reply:?}");
    let headers = seen(&reply, HEADERS)?;
    let is = |name: &str| headers.get(name).and_then(Value::as_str);
    ensure!(is("x-own") == Some("1") && is("x-api-key") == Some("k"), "{headers}");
    ensure!(is("idempotency-key") == Some("t-acme:shop:user:alice:gets"), "{headers}");
    for gone in ["authorization", "cookie", "accept-encoding", "transfer-encoding"] {
        ensure!(is(gone).is_none(), "{gone}: {headers}");
    }
    Ok(())
}

fn other_requests(setup: &Recorded) -> Result<()> {
    let order = |tenant: &'static str, target: &str| -> Result<Request> {
        Ok(setup.request_of((tenant, "alice"), "POST", target)?.header("idempotency-key", "other").body("tea, 1"))
    };
    let first = setup.send(&order("acme", "/orders/other")?)?;
    for (what, request) in [
        ("another tenant", order("globex", "/orders/other")?),
        ("another path", order("acme", "/orders/other2")?),
        ("another method", setup.request("PUT", "/orders/other")?.header("idempotency-key", "other").body("tea, 1")),
    ] {
        let reply = setup.send(&request)?;
        ensure!(reply.status == 200 && reply.header("idempotent-replayed").is_none(), "{what}: {reply:?}");
        ensure!(reply.body != first.body, "{what} got the answer of another request");
    }
    let gold = order("acme", "/orders/other")?.body("gold bar, 99999");
    is_problem(&setup.send(&gold)?, 422, "idempotency_key_reused", "new_key")?;
    is_replay_of(&setup.send(&order("acme", "/orders/other")?)?, &first)?;
    ensure!(setup.effects("POST /orders/other")? == 2, "not one effect for each tenant");
    Ok(())
}

fn errors(setup: &Recorded) -> Result<()> {
    for (item, query, kept) in [
        ("e402", "status=402", true),
        ("e500", "status=500", true),
        ("e503", "status=503", true),
        ("e503-after", "status=503&after=9", false),
        ("e429", "status=429&after=9", false),
    ] {
        let target = format!("/orders/{item}?{query}");
        let request = setup.request("POST", &target)?.header("idempotency-key", item).body("{}");
        let (first, again) = (setup.send(&request)?, setup.send(&request)?);
        ensure!(first.body != again.body || kept, "{item} is kept: {again:?}");
        if kept {
            is_replay_of(&again, &first)?;
        }
        let effects = setup.effects(&format!("POST /orders/{item}"))?;
        ensure!(effects == if kept { 1 } else { 2 }, "{item}: {effects}");
    }
    Ok(())
}

fn at_once(setup: &Recorded) -> Result<()> {
    const CLIENTS: usize = 1_000;
    let request = setup.request("POST", "/orders/at-once")?.header("idempotency-key", "at-once").body("{}");
    let replies = crashes::side_by_side(CLIENTS, |_| setup.send(&request))?;
    let first =
        replies.iter().find(|reply| reply.header("idempotent-replayed").is_none()).context("no first answer")?;
    let others = replies.iter().filter(|reply| reply.header("idempotent-replayed").is_some());
    for reply in others.clone() {
        is_replay_of(reply, first)?;
    }
    ensure!(others.count() == CLIENTS - 1 && setup.effects("POST /orders/at-once")? == 1, "more than one effect");
    Ok(())
}

/// WebSockets pass without a key. Every other upgrade would lead past the filter.
fn upgraded(setup: &Recorded) -> Result<()> {
    let says = |lines: &str| -> Result<(TcpStream, String)> {
        let mut stream = TcpStream::connect(loopback(setup.ports.front))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let named = "x-edge-idempotency: counter\r\nconnection: upgrade";
        write!(stream, "GET /orders/socket HTTP/1.1\r\nhost: a\r\n{named}\r\n{lines}\r\n\r\n")?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend(byte);
        }
        Ok((stream, String::from_utf8(head)?))
    };
    let (mut socket, head) = says("upgrade: WebSocket")?;
    ensure!(head.starts_with("HTTP/1.1 101 ") && head.contains("upgrade: websocket"), "{head}");
    for part in [&b"\x81\x03one"[..], b"\x00\xff two"] {
        socket.write_all(part)?;
        let mut back = vec![0; part.len()];
        socket.read_exact(&mut back)?;
        ensure!(back == part, "{back:?}");
    }
    for (lines, status) in
        [("upgrade: h2c\r\nhttp2-settings: AAMAAABk", "200"), ("upgrade: websocket\r\nidempotency-key: k", "400")]
    {
        let (_, head) = says(lines)?;
        ensure!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{lines}: {head}");
    }
    Ok(())
}

fn bounds(setup: &Recorded) -> Result<()> {
    let post = |item: &str, query: &str| -> Result<Request> {
        Ok(setup.request("POST", &format!("/orders/{item}?{query}"))?.header("idempotency-key", item))
    };
    let long = setup.request("PUT", "/orders/long")?.header("idempotency-key", "long").body(vec![b'a'; (1 << 20) + 1]);
    is_problem(&setup.send(&long)?, 413, "body_too_large", "new_request")?;
    ensure!(setup.effects("PUT /orders/long")? == 0, "it ran");
    let grpc = post("grpc", "")?.header("x-edge-idempotency", "counter");
    let grpc = grpc.header("content-type", "application/grpc-web+proto");
    let reply = raw::exchange(loopback(setup.ports.front), "POST", &grpc.http1())?;
    is_problem(&reply, 400, "request_invalid", "new_request")?;
    let most = post("most", "bytes=1048576")?.body("{}");
    let first = setup.send(&most)?;
    ensure!(first.body.len() == 1 << 20, "{}", first.body.len());
    is_replay_of(&setup.send(&most)?, &first)?;
    let more = post("more", "bytes=3000000")?.body("{}");
    let first = setup.send(&more)?;
    ensure!(first.status == 200 && first.body.len() == 3_000_000, "{} {}", first.status, first.body.len());
    ensure!(first.header("x-seen").is_some() && first.header("idempotent-replayed").is_none(), "{:?}", first.headers);
    for _ in 0..2 {
        is_problem(&setup.send(&more)?, 502, "answer_unavailable", "never")?;
    }
    ensure!(setup.effects("POST /orders/more")? == 1, "it ran again");
    Ok(())
}

/// It takes connections and says nothing.
fn hung_node(setup: &Recorded) -> Result<()> {
    let node = TcpListener::bind(loopback(0))?;
    let (mut recorder, port) = setup.second(node.local_addr()?.port())?;
    let request = Request::new("POST", "/orders/hung").header("idempotency-key", "t-acme:shop:user:alice:hung");
    let request = request.body("{}").http1();
    let answers = [raw::exchange(loopback(port), "POST", &request)?, raw::exchange(loopback(port), "POST", &request)?];
    recorder.kill()?;
    let [first, second] = &answers;
    is_replay_of(second, first)?;
    ensure!(first.status == 200 && setup.effects("POST /orders/hung")? == 1, "{first:?}");
    Ok(())
}

fn forgery(setup: &Recorded) -> Result<()> {
    // The other host is a listener that would answer: the recorder's own, which is another upstream, too.
    let elsewhere = loopback(setup.ports.status);
    for (item, request) in [
        ("f1", setup.request("POST", &format!("http://{elsewhere}/orders/f1"))?),
        ("f2", setup.request("POST", "/orders/f2")?.header("x-edge-idempotency", "elsewhere")),
        ("f3", setup.request("POST", &format!("/orders/f3?location=http%3A%2F%2F{elsewhere}%2Fmetrics&status=307"))?),
        ("f4", setup.request("POST", "/orders/f4")?.header("x-forwarded-host", elsewhere.to_string())),
    ] {
        let reply = setup.send(&request.header("idempotency-key", item).body("{}"))?;
        ensure!(setup.effects(&format!("POST /orders/{item}"))? == 1, "{item} did not get to the API: {reply:?}");
        ensure!(reply.header("x-seen").is_some(), "{item}: {reply:?}");
    }
    for target in
        [format!("http://x@{elsewhere}/orders/f5"), format!("//{elsewhere}/orders/f5"), format!("@{elsewhere}/metrics")]
    {
        let reply = setup.send(&setup.request("POST", &target)?.header("idempotency-key", "f5").body("{}"))?;
        ensure!(!String::from_utf8_lossy(&reply.body).contains("edge_recorder"), "{target}: {reply:?}");
    }
    Ok(())
}

fn status(setup: &Recorded) -> Result<()> {
    let request = setup.request("POST", "/orders/status")?.header("idempotency-key", "status").body("{}");
    setup.send(&request)?;
    let line = r#"edge_recorder_calls_total{upstream="counter",outcome="answered"}"#;
    ensure!(setup.tell("/metrics")?.lines().any(|text| text.starts_with(line)), "{}", setup.tell("/metrics")?);
    let url = |port| format!("{}/", loopback_url(port));
    ensure!(
        serde_json::from_str::<Value>(&setup.tell("/upstreams")?)?
            == json!({
                "counter": {"url": url(setup.ports.api), "error": null},
                "elsewhere": {"url": url(setup.ports.status), "error": null},
            }),
        "{}",
        setup.tell("/upstreams")?
    );
    until("no call is under way", POLL, || Ok(setup.tell("/metrics")?.contains("edge_recorder_calls_running 0")))
}
