//! The policy changes while requests are under way: each is judged by one document, none is dropped, and a document with
//! errors changes nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::discovery::Discovery;
use e2e::gateway::{Received, TestEnvironment, TestGateway, received, tools};
use e2e::raw::{Connection, Reply, Request};
use e2e::runner::{Group, Test, long, runtime, sharing};
use e2e::wire::PATIENCE;
use harness::faults::Fault;
use harness::tools::{Filter, dynamic_module};
use harness::unkey::Unkey;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api_keys::setup as api_keys;

const LISTENER: &str = "reloaded";
const PATH: &str = "/api/v1/x";
const ONLY_A: &str = "/api/v1/only-a";
const COUNTERS: &str = "^extension_config_discovery.http_filter.edge-idempotency.config_";

/// Connections that are open all the time.
const CLIENTS: usize = 6;
const SWITCHES: usize = 10;
/// Between two looks at what the clients have seen.
const POLL: Duration = Duration::from_millis(2);

pub(crate) fn groups() -> Result<Vec<Group>> {
    let test =
        |name: &str, body: fn(&ReloadSetup) -> Result<()>| Test::new(name, move |setup: &ReloadSetup| body(setup));
    let tests = vec![
        test("a request under way ends under its document", under_way),
        test("a document with errors changes nothing", refused),
        test("to and fro under load", load),
        test("clients hang up during lookups under an old document", |_| hang_ups(tools()?.filter)),
        test("clients hang up during lookups under an old document, in the dynamic module", |_| {
            hang_ups(dynamic_module()?)
        }),
    ];
    Ok(vec![sharing(ReloadSetup::start, tests)])
}

/// One of two documents that differ in everything that a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Document {
    A,
    B,
}
use Document::{A, B};

impl Document {
    const fn other(self) -> Self {
        match self {
            A => B,
            B => A,
        }
    }

    const fn letter(self) -> &'static str {
        match self {
            A => "a",
            B => "b",
        }
    }

    fn text(self) -> String {
        let letter = self.letter();
        let policy = match self {
            A => "ACCEPTED",
            B => "REQUIRED_A",
        };
        let claims = match self {
            A => ["tenant_id", "project_id"],
            B => ["project_id", "tenant_id"],
        };
        json!({
            "version": 1,
            "docs_url": format!("https://{letter}.example.com"),
            "identity": {
                "sources": [{
                    "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                    "tenant": claims[0], "project": claims[1], "subject": {"field": "sub", "type": "user"},
                }],
                "forward": {"tenant": format!("x-{letter}-tenant"), "subject": format!("x-{letter}-subject")},
            },
            "backend": {
                "kind": "restate", "cluster": "backend", "rewrite_path": true,
                "hide_headers": [format!("x-{letter}-hidden")],
            },
            "routes": [
                {"endpoint": format!("{letter}.run"), "path": PATH, "policy": policy,
                    "target": format!("Service{letter}/run")},
                {"endpoint": format!("{letter}.only"), "path": format!("/api/v1/only-{letter}"), "policy": "PROHIBITED",
                    "methods": ["GET"], "target": format!("Service{letter}/only")},
            ],
        })
        .to_string()
    }

    /// What the upstream gets under this document and never under the other.
    fn sees(self, received: &Received, raw: Option<&str>) -> Result<()> {
        let letter = self.letter();
        let header = |name: &str| {
            let line = received.headers.iter().find(|(candidate, _)| candidate == name);
            line.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        let (tenant, project) = match self {
            A => ("acme", "shop"),
            B => ("shop", "acme"),
        };
        let expected = [
            ("idempotency-key", raw.map(|raw| format!("t-{tenant}:{project}:user:u1:{raw}"))),
            (&*format!("x-{letter}-tenant"), Some(tenant.to_owned())),
            (&*format!("x-{letter}-subject"), Some("user:u1".to_owned())),
            (&*format!("x-{}-tenant", self.other().letter()), None),
            (&*format!("x-{}-subject", self.other().letter()), None),
        ];
        let same = expected.iter().all(|(name, value)| header(name) == *value);
        let target = format!("/restate/call/Service{letter}/{}", if raw.is_some() { "run" } else { "only" });
        ensure!(same && received.target == target.as_bytes(), "not document {self:?}:\n{received}");
        Ok(())
    }
}

struct ReloadSetup {
    gateway: TestGateway,
    discovery: Discovery,
    token: String,
    _directory: TempDir,
}

impl ReloadSetup {
    fn start() -> Result<Self> {
        let (gateway, discovery, directory) = start(Vec::new(), &A.text())?;
        let headers = ["x-restate-id", "x-a-hidden", "x-b-hidden"].map(|name| (name.to_owned(), b"told".to_vec()));
        gateway.capture().answer(Answer { headers: headers.into(), ..Answer::default() });
        let token = gateway.user_token()?;
        Ok(Self { gateway, discovery, token, _directory: directory })
    }

    fn keyed(&self, raw: &str) -> Request {
        keyed(&self.token, raw)
    }

    fn connect(&self) -> Result<Connection> {
        Connection::open(self.gateway.address(LISTENER)?)
    }

    fn counter(&self, name: &str) -> Result<u64> {
        self.gateway.stat(&format!("{COUNTERS}{name}$"))
    }

    /// Puts a document into force and waits until a new and an old connection have it.
    fn switch(&self, document: Document, old: &mut Connection) -> Result<()> {
        self.discovery.put(&document.text())?;
        for connection in [&mut self.connect()?, old] {
            let start = Instant::now();
            loop {
                connection.send(&self.keyed("switch").http1())?;
                if judge(&connection.answer("POST")?)? == document {
                    break;
                }
                ensure!(start.elapsed() < PATIENCE, "{document:?} is not in force");
            }
        }
        self.gateway.capture().take();
        Ok(())
    }
}

fn keyed(token: &str, raw: &str) -> Request {
    Request::post(PATH).bearer(token).header("idempotency-key", raw)
}

/// An Envoy whose filter has this document to begin with.
fn start(environment: Vec<(String, String)>, policy: &str) -> Result<(TestGateway, Discovery, TempDir)> {
    let directory = tempfile::tempdir()?;
    let discovery = Discovery::new(directory.path().join("filter.yaml"), tools()?.filter);
    let (gateway, discovery) = start_with(discovery, environment, policy)?;
    Ok((gateway, discovery, directory))
}

/// An Envoy whose filter is in this file.
fn start_with(
    discovery: Discovery,
    environment: Vec<(String, String)>,
    policy: &str,
) -> Result<(TestGateway, Discovery)> {
    discovery.put(policy)?;
    let listener = ListenerSpec { policy: String::new(), changes: vec![Change::Instead(discovery.filter()?)] };
    let around = TestEnvironment { concurrency: 2, environment, ..TestEnvironment::default() };
    let gateway = TestGateway::start_within(&around, &[(LISTENER.to_owned(), listener)])?;
    Ok((gateway, discovery))
}

/// The document that an answer belongs to: wholly, or it is an error.
fn judge(reply: &Reply) -> Result<Document> {
    let has = |document: Document, name: &str| reply.header(&format!("x-{}-{name}", document.letter())).is_some();
    let of = |document: Document| match reply.status {
        200 => !has(document, "hidden") && has(document.other(), "hidden"),
        // What only document A has.
        404 => {
            let kind = reply.json().get("type").and_then(Value::as_str).map(str::to_owned);
            document == B && kind.as_deref() == Some("https://b.example.com#not_found")
        }
        _ => false,
    };
    match (of(A), of(B)) {
        (true, false) => Ok(A),
        (false, true) => Ok(B),
        _ => bail!("of no document: {reply:?} {}", String::from_utf8_lossy(&reply.body)),
    }
}

/// The head is judged under one document, and the answer comes under the other.
fn under_way(setup: &ReloadSetup) -> Result<()> {
    let mut idle = setup.connect()?;
    setup.switch(A, &mut idle)?;
    for document in [A, B] {
        let request = setup.keyed("under-way").body("{\"long\": \"body\"}");
        let bytes = request.http1();
        let (first, last) = bytes.split_at(bytes.len() - 5);
        let mut connection = setup.connect()?;
        connection.send(first)?;
        setup.gateway.until("it has reached the upstream", |gateway| {
            Ok(gateway.stat("^cluster.backend-requests.upstream_rq_active$")? == 1)
        })?;
        setup.switch(document.other(), &mut idle)?;
        connection.send(last)?;
        let reply = connection.answer("POST")?;
        ensure!(judge(&reply)? == document, "an answer of the other document: {reply:?}");
        let mut taken = setup.gateway.capture().take();
        let message = taken.pop().context("nothing reached the upstream")?;
        document.sees(&received(message)?, Some("under-way"))?;
        // The same connection's next request has the new document.
        connection.send(&setup.keyed("next").http1())?;
        ensure!(judge(&connection.answer("POST")?)? == document.other(), "the old document is still in force");
        setup.gateway.capture().take();
    }
    Ok(())
}

fn refused(setup: &ReloadSetup) -> Result<()> {
    let mut connection = setup.connect()?;
    setup.switch(A, &mut connection)?;
    let before = setup.counter("fail")?;
    let bad = [
        (B.text().replace("REQUIRED_A", "REQUIRED"), "/routes/0/policy"),
        (B.text().replace("\"version\":1", "\"version\":1,\"verzion\":1"), "/verzion"),
        ("{".to_owned(), "(document)"),
        (String::new(), "(document)"),
    ];
    for (number, (policy, pointer)) in (1..).zip(bad) {
        setup.discovery.put(&policy)?;
        let expected = before + number;
        setup.gateway.until("the document is refused", |_| Ok(setup.counter("fail")? == expected))?;
        let log = setup.gateway.log()?;
        let line = format!("edge-idempotency: policy {pointer}: ");
        ensure!(log.contains(&line), "no line `{line}…` in {log}");
        for connection in [&mut connection, &mut setup.connect()?] {
            connection.send(&setup.keyed("after-a-bad-one").http1())?;
            ensure!(judge(&connection.answer("POST")?)? == A, "{policy} changed something");
        }
    }
    // And a good one after it is taken.
    setup.switch(B, &mut connection)?;
    setup.switch(A, &mut connection)
}

/// The last stream of an old document ends on a worker, while the main thread has the document's lookups. Without care Envoy ends
/// about once in 40 replacements.
fn hang_ups(filter: Filter) -> Result<()> {
    let (replacements, lookups) = if long() { (500, 800) } else { (40, 100) };
    let unkey = runtime()?.block_on(Unkey::start(SocketAddr::from(([127, 0, 0, 1], 0)), api_keys::ROOT_KEY))?;
    let directory = tempfile::tempdir()?;
    let discovery = Discovery::new(directory.path().join("filter.yaml"), filter.clone());
    let url = |number: usize| format!("https://n{number}.example.com");
    let put = |number: usize| {
        let mut policy = api_keys::policy(&json!({"timeout_ms": 20_000}));
        policy.as_object_mut().context("no document")?.insert("docs_url".to_owned(), json!(url(number)));
        discovery.put(&policy.to_string())
    };
    put(0)?;
    let listener = ListenerSpec { policy: "{}".to_owned(), changes: vec![Change::Instead(discovery.filter()?)] };
    let stores = Some(api_keys::stores(&unkey));
    let around = TestEnvironment { concurrency: 2, stores, filter: Some(filter), ..TestEnvironment::default() };
    let gateway = TestGateway::start_within(&around, &[(LISTENER.to_owned(), listener)])?;
    let address = gateway.address(LISTENER)?;
    for number in 1..=replacements {
        unkey.server().forget();
        unkey.server().fail(Fault::Held);
        let send = |lookup| {
            let mut connection = Connection::open(address)?;
            connection.send(&api_keys::order(&format!("sk_{number}_{lookup}")).http1()).map(|()| connection)
        };
        let mut early = (0..lookups).map(send).collect::<Result<Vec<_>>>()?;
        gateway
            .until("the lookups are under way", |_| Ok(unkey.server().counts().len() == lookups))
            .with_context(|| format!("{} of {lookups} after {number} replacements", unkey.server().counts().len()))?;
        put(number)?;
        gateway.until("the document is in force", |gateway| {
            let reply = gateway.http1(LISTENER, &Request::post("/nowhere"))?.reply;
            Ok(reply.json().get("type") == Some(&json!(format!("{}#not_found", url(number)))))
        })?;
        // Half of the clients are still there when the replies come.
        let late = early.split_off(lookups / 2);
        drop(early);
        unkey.server().recover();
        drop(late);
        // The admin interface answers on the main thread.
        gateway.until("they have gone", |gateway| Ok(gateway.stat("http.gateway.downstream_rq_active")? == 0))?;
    }
    let key = "sk_of_somebody";
    unkey.says(key, api_keys::holder("acme"));
    let reply = api_keys::send(&gateway, LISTENER, &api_keys::order(key))?;
    ensure!(reply.status == 200, "{reply:?}");
    Ok(())
}

/// What the clients and the one who switches tell each other.
#[derive(Default)]
struct Progress {
    /// How many clients have seen the document of this many switches.
    arrived: AtomicUsize,
    switches: AtomicUsize,
    requests: AtomicU64,
    ended: AtomicBool,
}

fn load(setup: &ReloadSetup) -> Result<()> {
    setup.switch(A, &mut setup.connect()?)?;
    let progress = Arc::new(Progress::default());
    let connections = (0..CLIENTS).map(|_| setup.connect()).collect::<Result<Vec<_>>>()?;
    let result = thread::scope(|scope| {
        let clients: Vec<_> = (0..)
            .zip(connections)
            .map(|(number, connection)| {
                let progress = Arc::clone(&progress);
                scope.spawn(move || client(setup, number, connection, &progress))
            })
            .collect();
        let switched = switches(setup, &progress);
        progress.ended.store(true, Ordering::SeqCst);
        let seen: Vec<Result<Vec<Judged>>> = clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| Err(anyhow!("a client panicked"))))
            .collect();
        // What a client saw says more than that the switch was not seen.
        let seen = seen.into_iter().collect::<Result<Vec<_>>>()?;
        switched.map(|()| seen)
    })?;
    let judged: Vec<Judged> = result.into_iter().flatten().collect();
    let mut taken = std::collections::BTreeMap::new();
    for message in setup.gateway.capture().take() {
        let received = received(message)?;
        let number = received.headers.iter().find(|(name, _)| name == "x-number").context("no number")?;
        ensure!(taken.insert(number.1.clone(), received).is_none(), "one came twice");
    }
    for Judged { number, document, raw, status } in &judged {
        let received = taken.remove(number.as_bytes());
        match (received, status) {
            (None, 404) => {}
            (Some(received), 200) => document.sees(&received, raw.as_deref()).with_context(|| number.clone())?,
            (received, status) => bail!("{number}: {status}, and the upstream got {received:?}"),
        }
    }
    ensure!(taken.is_empty(), "{} requests that nobody has an answer for", taken.len());
    for connection in 0..CLIENTS {
        let prefix = format!("{connection}-");
        let documents: Vec<_> =
            judged.iter().filter(|one| one.number.starts_with(&prefix)).map(|one| one.document).collect();
        let changes = documents.windows(2).filter(|pair| pair.first() != pair.last()).count();
        ensure!(changes == SWITCHES, "connection {connection} saw {changes} changes instead of {SWITCHES}");
    }
    Ok(())
}

/// Switches to and fro, each time when every client has seen the last document in some answers.
fn switches(setup: &ReloadSetup, progress: &Progress) -> Result<()> {
    let mut document = A;
    for number in 0..=SWITCHES {
        if number > 0 {
            document = document.other();
            progress.arrived.store(0, Ordering::SeqCst);
            progress.switches.store(number, Ordering::SeqCst);
            setup.discovery.put(&document.text())?;
        }
        let start = Instant::now();
        while progress.arrived.load(Ordering::SeqCst) < CLIENTS {
            ensure!(start.elapsed() < PATIENCE, "{document:?} does not reach every connection");
            thread::sleep(POLL);
        }
        let enough = progress.requests.load(Ordering::SeqCst) + 100;
        while progress.requests.load(Ordering::SeqCst) < enough {
            ensure!(start.elapsed() < PATIENCE, "there are no requests");
            thread::sleep(POLL);
        }
    }
    Ok(())
}

/// An answer, and what it was given to.
struct Judged {
    number: String,
    document: Document,
    raw: Option<String>,
    status: u16,
}

/// One request after the other on one connection.
fn client(setup: &ReloadSetup, client: usize, mut connection: Connection, progress: &Progress) -> Result<Vec<Judged>> {
    let (mut judged, mut arrived) = (Vec::new(), None);
    for number in 0_usize.. {
        if progress.ended.load(Ordering::SeqCst) {
            break;
        }
        let name = format!("{client}-{number}");
        let raw = (number % 3 != 0).then(|| format!("k-{name}"));
        // Envoy closes a connection after a 400 of any filter, and stays on it after a 404.
        let request = match &raw {
            Some(raw) => setup.keyed(raw),
            None => Request::new("GET", ONLY_A).bearer(&setup.token),
        };
        let request = request.header("x-number", name.clone());
        connection.send(&request.http1()).with_context(|| name.clone())?;
        let reply = connection.answer("POST").with_context(|| name.clone())?;
        let document = judge(&reply).with_context(|| name.clone())?;
        judged.push(Judged { number: name, document, raw, status: reply.status });
        progress.requests.fetch_add(1, Ordering::SeqCst);
        let wanted = progress.switches.load(Ordering::SeqCst);
        let in_force = if wanted.is_multiple_of(2) { A } else { B };
        if arrived < Some(wanted) && document == in_force {
            arrived = Some(wanted);
            progress.arrived.fetch_add(1, Ordering::SeqCst);
        }
    }
    Ok(judged)
}
