//! The middlewares of the examples between others: sessions, compression, CORS, security headers, and what handlers do with an answer in all
//! forms of their platform. With a key an answer is as without one, and a replay is as the first answer, but for cookies. `around.json` has
//! the requests for all frameworks.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::raw::{self, Connection, Reply, Request};
use e2e::runner::{Group, Test, sharing, until};
use harness::ports::{free, loopback};
use harness::process::Process;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use super::POLL;
use super::servers::{Framework, go, java, node, python, until_it_listens};

/// What is of one moment, of one connection, or how a body is written on it.
const OF_ONE_ANSWER: [&str; 7] =
    ["date", "server", "connection", "keep-alive", "transfer-encoding", "content-length", "set-cookie"];
/// What marks a replay.
const MARK: (&str, &str) = ("idempotent-replayed", "true");

/// A request that is sent without a key, with one, and with the same key again.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// The frameworks that it is for, if not for all
    #[serde(default)]
    only: Vec<String>,
    #[serde(default = "post")]
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    /// Without a key the platform answers something else.
    #[serde(default)]
    alone: bool,
    /// Whether the answer is stored
    #[serde(default = "yes")]
    r#final: bool,
    /// Headers that a middleware around adds when the handler has run, or `body` if an answer that is not stored tells the time
    #[serde(default)]
    around: Vec<String>,
    /// How many cookies a handler or a session sets
    #[serde(default)]
    cookies: usize,
    /// The answer to the same request without a key that brings the cookies of the first answer
    #[serde(default)]
    then: Option<String>,
    /// `status`, `reason`, `body`, and headers or trailers: their values with commas between them, or null
    expect: BTreeMap<String, Value>,
}

fn post() -> String {
    "POST".to_owned()
}

const fn yes() -> bool {
    true
}

pub(super) fn group(framework: Framework) -> Result<Group> {
    let rows: Vec<Row> = serde_json::from_str(include_str!("around.json"))?;
    let name = framework.name();
    let is_for = |row: &Row| row.only.is_empty() || row.only.iter().any(|only| only == name);
    let tests = rows
        .into_iter()
        .filter(is_for)
        .map(|row| Test::new(format!("around: {}", row.name), move |api: &Api| api.plays(&row)).within(name));
    let others = [
        Test::new("around: a body that ends early", Api::takes_no_part_of_a_body).within(name),
        Test::new("around: the same path below two others", Api::tells_paths_apart).within(name),
    ];
    Ok(sharing(move || Api::start(framework), tests.chain(others).collect()))
}

/// The handlers of `around/`, each between other middlewares.
struct Api {
    port: u16,
    _directory: TempDir,
    _process: Process,
}

impl Api {
    fn start(framework: Framework) -> Result<Self> {
        let (port, directory) = (free()?, tempfile::tempdir()?);
        let folder = harness::tools::repository().join("tests/compat/tests/idempotent_apis/around");
        let mut command = match framework {
            Framework::FastApi => python(port, "fastapi_app:app", &folder),
            Framework::Express => node(port, &folder.join("express.js")),
            Framework::Spring => java(port, "Around"),
            Framework::GoHttp => go(port, "others"),
        };
        command.current_dir(&folder);
        command.env("IDEMPOTENCY_DB", directory.path().join("results.db"));
        let log = directory.path().join("api.log");
        let process = until_it_listens(port, Process::spawn("the API", &mut command, &log)?)?;
        Ok(Self { port, _directory: directory, _process: process })
    }

    fn send(&self, request: &Request) -> Result<Reply> {
        raw::exchange(loopback(self.port), &request.method, &request.http1())
    }

    /// How often the handlers of a path have run.
    fn runs(&self, path: &str) -> Result<u64> {
        let runs = self.send(&Request::new("GET", "/runs"))?.json();
        Ok(runs.get(path).and_then(Value::as_u64).unwrap_or_default())
    }

    /// What a handler makes of a part of a request is not stored.
    fn takes_no_part_of_a_body(&self) -> Result<()> {
        let path = "/bare/body";
        let request =
            Request::new("POST", path).header("idempotency-key", "whole").header("content-type", "text/plain");
        let before = self.runs(path)?;
        let mut caller = Connection::open(loopback(self.port))?;
        caller.send(&request.clone().header("content-length", "5").body("who").http1())?;
        until("the handler runs", POLL, || Ok(self.runs(path)? > before))?;
        drop(caller);
        until("the whole request is answered", POLL, || {
            let reply = self.send(&request.clone().body("whole"))?;
            ensure!(matches!(reply.status, 200 | 409) && part(&reply, MARK.0).is_null(), "{reply:?}");
            ensure!(reply.status == 409 || reply.body == b"WHOLE", "{reply:?}");
            Ok(reply.status == 200)
        })
    }

    /// A router that cuts the begin of a path off does not make two operations one.
    fn tells_paths_apart(&self) -> Result<()> {
        for path in ["/bare/empty", "/session/empty"] {
            let reply = self.send(&Request::new("POST", path).header("idempotency-key", "two paths"))?;
            ensure!(reply.status == 204 && part(&reply, MARK.0).is_null(), "{path}: {reply:?}");
        }
        Ok(())
    }

    fn plays(&self, row: &Row) -> Result<()> {
        let mut request = Request::new(&row.method, row.path.as_str()).body(row.body.as_str());
        for (name, value) in &row.headers {
            request = request.header(name, value.as_str());
        }
        let keyed = request.clone().header("idempotency-key", row.name.as_str());
        let before = self.runs(&row.path)?;
        let without = if row.alone { None } else { Some(self.send(&request)?) };
        let first = self.send(&keyed)?;
        let again = self.send(&keyed)?;
        let expected = u64::from(!row.alone) + if row.r#final { 1 } else { 2 };
        let ran = self.runs(&row.path)?.saturating_sub(before);
        ensure!(ran == expected, "the handler ran {ran} times, not {expected}: {first:?}, then {again:?}");

        for (name, value) in &row.expect {
            let seen = part(&first, name);
            ensure!(seen == *value, "{name} is {seen}: {first:?}");
        }
        if let Some(without) = &without {
            ensure!(is_like(&first, without, &[]), "with a key: {first:?}\nwithout: {without:?}");
            ensure!(cookies(without).len() == row.cookies, "cookies without a key: {without:?}");
        }
        let mut answer = again.clone();
        if row.r#final {
            answer.headers.retain(|(name, value)| (name.as_str(), value.as_slice()) != (MARK.0, MARK.1.as_bytes()));
            ensure!(answer != again, "no mark: {again:?}");
        }
        ensure!(is_like(&first, &answer, &row.around), "first: {first:?}\nagain: {again:?}");
        // A caller can rely on a length that the handler has set; a stream gets one when it is replayed.
        let (length, was) = (again.header("content-length"), first.header("content-length"));
        ensure!(was.is_none() || length == was, "the length of the first answer is {was:?}, then {length:?}");
        ensure!(cookies(&first).len() == row.cookies, "cookies: {first:?}");
        // Those of middlewares around are no part of the stored answer.
        let replayed: Vec<_> = cookies(&again).into_iter().filter(|cookie| cookies(&first).contains(cookie)).collect();
        ensure!(!row.r#final || replayed.iter().all(|cookie| cookie.starts_with("seen=")), "replayed: {replayed:?}");

        let Some(then) = &row.then else { return Ok(()) };
        let pairs: Vec<&str> = cookies(&first).into_iter().filter_map(|cookie| cookie.split(';').next()).collect();
        let next = self.send(&request.header("cookie", pairs.join("; ")))?;
        ensure!(next.body == then.as_bytes(), "with the cookies of the first answer: {next:?}");
        Ok(())
    }
}

/// Status, body, trailers and headers are the same, but for what belongs to one answer, and but for `others`.
fn is_like(one: &Reply, other: &Reply, others: &[String]) -> bool {
    let lines = |reply: &Reply| {
        let mut lines = reply.headers.clone();
        lines.retain(|(name, _)| !OF_ONE_ANSWER.contains(&name.as_str()) && !others.contains(name));
        lines.sort();
        lines
    };
    // gzip writes the time into bytes 4 to 7 of its head.
    let body = |reply: &Reply| {
        let mut body = reply.body.clone();
        if let [0x1f, 0x8b, _, _, time @ .., _, _] = body.get_mut(..10).unwrap_or_default() {
            time.fill(0);
        }
        body
    };
    (one.status, &one.reason, &one.trailers) == (other.status, &other.reason, &other.trailers)
        && lines(one) == lines(other)
        && (others.iter().any(|part| part == "body") || body(one) == body(other))
}

/// A part of an answer, as a row names it.
fn part(reply: &Reply, name: &str) -> Value {
    let text = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
    match name {
        "status" => return reply.status.into(),
        "reason" => return reply.reason.clone().into(),
        "body" => return text(&reply.body).into(),
        _ => {}
    }
    let lines = reply.headers.iter().chain(&reply.trailers);
    let values: Vec<String> = lines.filter(|(line, _)| line == name).map(|(_, value)| text(value)).collect();
    if values.is_empty() { Value::Null } else { values.join(", ").into() }
}

fn cookies(reply: &Reply) -> Vec<&str> {
    let lines = reply.headers.iter().filter(|(name, _)| name == "set-cookie");
    lines.filter_map(|(_, value)| std::str::from_utf8(value).ok()).collect()
}
