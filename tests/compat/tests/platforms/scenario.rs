//! What every platform has to do, whatever it is made of: a list of tests against the address of a gateway with the filter, in front of
//! one of two backends.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::chain::start_backend;
use e2e::deliveries::{self, now};
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Test, runtime};
use harness::ports::{Ports, loopback};
use harness::process::Process;
use harness::restate::Restate;
use harness::senders::random;
use harness::service::Service;
use harness::tokens::Signer;
use harness::tools::repository;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the API may take to listen.
const READY: Duration = Duration::from_secs(30);
/// The hosts of the gateway.
pub(crate) const HOSTS: [&str; 2] = ["api.example.com", "shop.example.com"];
const HOOK: &str = "/hooks/stripe/wh_stripe01";
/// The variable with the sender's secret, which the gateway's proxy needs.
pub(crate) const SECRET: &str = "E2E_PLATFORMS_STRIPE";

/// What stands behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Restate with the sample service
    Restate,
    /// The API of `examples/own-api`
    Api,
}

/// What a form can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// It waits for the bodies of requests, so it can verify webhooks
    pub(crate) webhooks: bool,
    /// Where the policy's source reads the claims of the token
    pub(crate) claims: ClaimPlace,
}

/// Where a gateway leaves the claims of a token that it has verified.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClaimPlace {
    /// In the metadata of jwt_authn
    Metadata,
    /// In a header for each claim
    Headers,
    /// All of them in this header
    Payload,
}

/// The header of [`ClaimPlace::Payload`].
pub(crate) const PAYLOAD: &str = "x-jwt-payload";
/// The headers of [`ClaimPlace::Headers`]: of tenant, project and user.
const CLAIMS: [&str; 3] = ["x-tenant", "x-project", "x-user"];

impl Behind {
    pub(crate) const ALL: [Self; 2] = [Self::Restate, Self::Api];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Restate => "Restate",
            Self::Api => "an API",
        }
    }

    /// Where orders are taken.
    const fn path(self) -> &'static str {
        match self {
            Self::Restate => "/refunds",
            Self::Api => "/orders",
        }
    }

    /// The policy. `claims` is the member of jwt_authn's metadata with the token's claims. Every request that passes is marked.
    pub(crate) fn policy(self, can: Abilities, claims: &str) -> Value {
        let named = |place: Value, [tenant, project, user]: [&str; 3]| {
            let mut source = json!({"name": "jwt", "tenant": tenant, "project": project, "subject": {"field": user, "type": "user"}});
            if let (Some(members), Value::Object(place)) = (source.as_object_mut(), place) {
                members.extend(place);
            }
            source
        };
        let owner = "envoy.filters.http.jwt_authn";
        let claimed = ["tenant_id", "project_id", "sub"];
        let source = match can.claims {
            ClaimPlace::Metadata => named(json!({"metadata": [owner, claims]}), claimed),
            ClaimPlace::Headers => named(json!({"headers_owned_by": owner}), CLAIMS),
            ClaimPlace::Payload => named(json!({"headers_owned_by": owner, "payload_header": PAYLOAD}), claimed),
        };
        let hook = json!({"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}});
        let mut policy = match self {
            Self::Restate => json!({
                "version": 1,
                "identity": {"sources": [source]},
                "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
                "routes": [
                    {"endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"},
                    {"endpoint": "projects.list", "methods": ["GET"], "path": "/projects", "policy": "PROHIBITED", "target": "Projects/list"},
                ],
            }),
            Self::Api => json!({
                "version": 1,
                "mark_all": true,
                "unmatched": "PROHIBITED",
                "identity": {"sources": [source]},
                "backend": {"kind": "generic"},
                "routes": [
                    {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A"},
                    {"endpoint": "orders.list", "methods": ["GET"], "path": "/orders", "policy": "PROHIBITED"},
                ],
            }),
        };
        if can.webhooks
            && let Some(members) = policy.as_object_mut()
        {
            let mut hook = hook;
            if self == Self::Restate
                && let Some(hook) = hook.as_object_mut()
            {
                hook.insert("target".to_owned(), json!("Webhooks/ingest"));
            }
            members
                .get_mut("routes")
                .and_then(Value::as_array_mut)
                .into_iter()
                .for_each(|routes| routes.push(hook.clone()));
            let owner =
                json!({"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": SECRET}]});
            members.insert("webhooks".to_owned(), json!({"static": {"wh_stripe01": owner}}));
        }
        policy
    }
}

/// What runs behind the gateway, and the callers in front of it.
pub(crate) struct Around {
    pub(crate) signer: Signer,
    /// What the sender of webhooks signs with
    pub(crate) secret: String,
    /// Where requests of the gateway go
    pub(crate) backend: SocketAddr,
    running: Running,
    behind: Behind,
    can: Abilities,
    /// Data and logs
    pub(crate) directory: TempDir,
}

enum Running {
    Restate(Restate, #[expect(dead_code, reason = "it ends when it is dropped")] Service),
    Api(Process),
}

impl Around {
    /// Starts the backend.
    pub(crate) fn start(behind: Behind, can: Abilities) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (running, backend) = match behind {
            Behind::Restate => {
                let ports = Ports::free()?;
                let (restate, service) = start_backend(directory.path(), &ports)?;
                (Running::Restate(restate, service), loopback(ports.restate_ingress))
            }
            Behind::Api => {
                let mut command = Command::new("node");
                command.arg(repository().join("examples/own-api/server.mjs")).arg("0");
                let mut api = Process::spawn("the API", &mut command, &directory.path().join("api.log"))?;
                let log = api.log().to_owned();
                runtime()?.block_on(api.ready(READY, async || listening(&log).map(drop)))?;
                let port = listening(&log)?;
                (Running::Api(api), loopback(port))
            }
        };
        let secret = format!("whsec_{}", random());
        Ok(Self { signer: Signer::generate(), secret, backend, running, behind, can, directory })
    }

    /// Where the gateway leaves claims.
    pub(crate) const fn claims(&self) -> ClaimPlace {
        self.can.claims
    }

    /// The policy for this backend.
    pub(crate) fn policy(&self, claims: &str) -> Value {
        self.behind.policy(self.can, claims)
    }

    /// A key for each request that reached the backend, in their order; `-` if it had none. Restate keeps a request and its
    /// replays once.
    pub(crate) fn arrived(&self) -> Result<Vec<String>> {
        match &self.running {
            Running::Restate(restate, _) => {
                let all = runtime()?.block_on(restate.invocations())?;
                Ok(all
                    .into_iter()
                    .map(|invocation| invocation.idempotency_key.unwrap_or_else(|| "-".to_owned()))
                    .collect())
            }
            Running::Api(api) => {
                let log = fs::read_to_string(api.log())?;
                let key = |line: &str| Some(line.split_once(" key=")?.1.split_once(" -> ")?.0.to_owned());
                Ok(log.lines().filter_map(key).collect())
            }
        }
    }

    /// Where orders are taken.
    pub(crate) fn path(&self) -> &'static str {
        self.behind.path()
    }

    /// Sends a request to the gateway over HTTP/1.1.
    pub(crate) fn send(&self, gateway: SocketAddr, request: &Request) -> Result<Reply> {
        raw::exchange(gateway, &request.method, &request.http1())
    }

    /// A token of a tenant's user.
    pub(crate) fn token(&self, tenant: &str) -> Result<String> {
        self.signer.mint(&json!({"sub": "alice", "tenant_id": tenant, "project_id": "shop"}))
    }

    /// What a client of the tenant sends, with a key or without.
    fn order(&self, tenant: &str, key: Option<&str>) -> Result<Request> {
        let body = match self.behind {
            Behind::Restate => json!({"order_id": format!("{tenant}-{}", key.unwrap_or("none")), "amount": 1}),
            Behind::Api => json!({"item": format!("{tenant}-{}", key.unwrap_or("none"))}),
        };
        let request = Request::post(self.behind.path()).bearer(&self.token(tenant)?).body(body.to_string());
        Ok(match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        })
    }

    fn delivery(&self, id: &str, secret: &str) -> Request {
        let event = json!({"id": id, "object": "event", "data": {"object": {"id": format!("in_{id}")}}});
        deliveries::stripe(HOOK, &[secret], now(), event.to_string())
    }
}

/// The port that the API says it listens on.
fn listening(log: &Path) -> Result<u16> {
    let text = fs::read_to_string(log)?;
    let port = text.lines().find_map(|line| line.strip_prefix("listening on "));
    Ok(port.context("the API does not listen yet (it needs Node.js 18 or newer)")?.parse()?)
}

/// A gateway with the filter, and what is around it.
pub(crate) trait Scene: Send + Sync + 'static {
    fn gateway(&self) -> SocketAddr;
    fn around(&self) -> &Around;

    fn send(&self, request: &Request) -> Result<Reply> {
        self.around().send(self.gateway(), request)
    }

    /// What reached the backend while `act` ran.
    fn reached(&self, act: impl FnOnce() -> Result<()>) -> Result<Vec<String>>
    where
        Self: Sized,
    {
        let before = self.around().arrived()?.len();
        act()?;
        Ok(self.around().arrived()?.into_iter().skip(before).collect())
    }
}

/// The scenario against a gateway.
pub(crate) fn tests<S: Scene>(behind: Behind, can: Abilities) -> Vec<Test<S>> {
    let mut tests = vec![
        Test::new("two tenants with the same key get answers of their own", tenants::<S>),
        Test::new("a request that comes again gets the first answer", replay),
        Test::new("a request without a key is refused with a problem document", without_key),
        Test::new("nobody gets in without a token", without_token),
        Test::new("a client's own headers with claims name nobody", token_and_more),
        Test::new("a client's own mark opens nothing", spoofed_mark),
        Test::new("a client's own namespace is refused", spoofed_key),
        Test::new("both hosts have the filter", both_hosts),
        Test::new("headers and paths that other gateways change arrive as they are", unchanged),
    ];
    if can.webhooks {
        tests.push(Test::new("a signed webhook gets in, a forged one does not", webhook));
    }
    if behind == Behind::Restate {
        tests.push(Test::new("the answer to an earlier key can be asked for", recovery));
    }
    tests
}

/// Nothing that a client can send reaches the backend: the gateway runs without the filter.
pub(crate) fn nothing_reaches<S: Scene>(scene: &S) -> Result<()> {
    let around = scene.around();
    let order = around.order("acme", Some("closed-1"))?;
    let marks = ["1", "backend"].map(|mark| order.clone().header("x-edge-idempotency", mark));
    let mut all: Vec<Request> = vec![
        order.clone(),
        around.order("acme", None)?,
        around.order("acme", Some("t-globex:shop:user:alice:closed-1"))?,
        around.delivery("evt_closed", &around.secret),
        Request::new("GET", around.behind.path()).bearer(&around.token("acme")?),
        Request { target: b"/Refunds/create".to_vec(), ..order.clone() },
        Request { target: b"/restate/call/Refunds/create".to_vec(), ..order },
    ];
    all.extend(marks);
    for host in HOSTS {
        for request in &all {
            let request = Request { authority: host.to_owned(), ..request.clone() };
            let what = format!("{} {} at {host}", request.method, String::from_utf8_lossy(&request.target));
            let mut reply = Reply::default();
            let arrived = scene.reached(|| scene.send(&request).map(|got| reply = got))?;
            ensure!(arrived.is_empty(), "{what} reached the backend: {arrived:?}");
            ensure!(!(200..400).contains(&reply.status), "{what}: {}", said(&reply));
        }
    }
    Ok(())
}

fn said(reply: &Reply) -> String {
    format!("{} {:?}: {}", reply.status, reply.headers, String::from_utf8_lossy(&reply.body))
}

fn is_success(reply: &Reply) -> Result<()> {
    ensure!(matches!(reply.status, 200 | 201), "{}", said(reply));
    Ok(())
}

/// The filter refuses it with this code, as a problem document.
fn is_refused(reply: &Reply, status: u16, code: &str) -> Result<()> {
    let is_so = reply.status == status && reply.json().get("code").and_then(Value::as_str) == Some(code);
    ensure!(is_so && reply.text_header("content-type") == Some("application/problem+json"), "{}", said(reply));
    Ok(())
}

fn tenants<S: Scene>(scene: &S) -> Result<()> {
    let arrived = scene.reached(|| {
        let mut bodies = Vec::new();
        for tenant in ["acme", "globex"] {
            let reply = scene.send(&scene.around().order(tenant, Some("same-1"))?)?;
            is_success(&reply)?;
            ensure!(reply.header("idempotent-replayed").is_none(), "{tenant}: {}", said(&reply));
            bodies.push(reply.body);
        }
        ensure!(bodies.first() != bodies.last(), "both got the same answer");
        Ok(())
    })?;
    ensure!(arrived == ["t-acme:shop:user:alice:same-1", "t-globex:shop:user:alice:same-1"], "{arrived:?}");
    Ok(())
}

fn replay<S: Scene>(scene: &S) -> Result<()> {
    let order = scene.around().order("acme", Some("again-1"))?;
    let first = scene.send(&order)?;
    is_success(&first)?;
    let again = scene.send(&order)?;
    ensure!((again.status, &again.body) == (first.status, &first.body), "{}", said(&again));
    ensure!(again.text_header("idempotent-replayed") == Some("true"), "{}", said(&again));
    Ok(())
}

fn without_key<S: Scene>(scene: &S) -> Result<()> {
    let arrived = scene
        .reached(|| is_refused(&scene.send(&scene.around().order("acme", None)?)?, 400, "idempotency_key_required"))?;
    ensure!(arrived.is_empty(), "{arrived:?}");
    Ok(())
}

/// The request with lines of the client's own that say which tenant calls.
fn claiming(request: Request, tenant: &str) -> Result<Request> {
    let token = Signer::generate().mint(&json!({"sub": tenant, "tenant_id": tenant, "project_id": tenant}))?;
    let payload = token.split('.').nth(1).context("a token has three parts")?;
    let request = CLAIMS.into_iter().fold(request, |request, name| request.header(name, tenant));
    Ok(request.header(PAYLOAD, payload))
}

/// The token counts, and not what a client writes beside it.
fn token_and_more<S: Scene>(scene: &S) -> Result<()> {
    let order = claiming(scene.around().order("acme", Some("claiming-1"))?, "globex")?;
    let mut reply = Reply::default();
    let arrived = scene.reached(|| scene.send(&order).map(|got| reply = got))?;
    ensure!(arrived == ["t-acme:shop:user:alice:claiming-1"], "{}: {arrived:?}", said(&reply));
    Ok(())
}

/// The gateway's own authentication refuses it before the filter.
fn without_token<S: Scene>(scene: &S) -> Result<()> {
    let forged = Signer::generate().mint(&json!({"sub": "alice", "tenant_id": "acme", "project_id": "shop"}))?;
    let plain = Request::post(scene.around().behind.path()).header("idempotency-key", "anonymous-1");
    let headers = claiming(plain.clone(), "acme")?;
    let arrived = scene.reached(|| {
        for request in [plain.clone(), plain.bearer(&forged), headers] {
            let reply = scene.send(&request)?;
            ensure!(matches!(reply.status, 401 | 403), "{}", said(&reply));
        }
        Ok(())
    })?;
    ensure!(arrived.is_empty(), "{arrived:?}");
    Ok(())
}

fn spoofed_mark<S: Scene>(scene: &S) -> Result<()> {
    let around = scene.around();
    let arrived = scene.reached(|| {
        let marked = around.order("acme", None)?.header("x-edge-idempotency", "1");
        // A gateway that cannot remove the mark refuses it.
        let refused =
            |reply: Reply, status, code| if reply.status == 403 { Ok(()) } else { is_refused(&reply, status, code) };
        refused(scene.send(&marked)?, 400, "idempotency_key_required")?;
        if around.behind == Behind::Restate {
            for path in ["/Refunds/create", "/restate/call/Refunds/create"] {
                let direct = Request { target: path.as_bytes().to_vec(), ..around.order("acme", Some("direct-1"))? };
                refused(scene.send(&direct.header("x-edge-idempotency", "1"))?, 404, "not_found")?;
            }
        }
        Ok(())
    })?;
    ensure!(arrived.is_empty(), "{arrived:?}");
    Ok(())
}

fn spoofed_key<S: Scene>(scene: &S) -> Result<()> {
    let arrived = scene.reached(|| {
        let spoofed = scene.around().order("acme", Some("t-globex:shop:user:alice:same-1"))?;
        is_refused(&scene.send(&spoofed)?, 400, "idempotency_key_invalid")
    })?;
    ensure!(arrived.is_empty(), "{arrived:?}");
    Ok(())
}

fn both_hosts<S: Scene>(scene: &S) -> Result<()> {
    for (number, host) in HOSTS.into_iter().enumerate() {
        let at = |request: Request| Request { authority: host.to_owned(), ..request };
        let key = format!("host-{number}");
        let arrived = scene.reached(|| {
            is_refused(&scene.send(&at(scene.around().order("acme", None)?))?, 400, "idempotency_key_required")?;
            is_success(&scene.send(&at(scene.around().order("acme", Some(&key))?))?)
        })?;
        ensure!(arrived == [format!("t-acme:shop:user:alice:{key}")], "{host}: {arrived:?}");
    }
    Ok(())
}

/// A header with an underscore is not refused, a long body is not cut off, and an escaped slash is not answered by a redirect.
fn unchanged<S: Scene>(scene: &S) -> Result<()> {
    let around = scene.around();
    is_success(&scene.send(&around.order("acme", Some("underscore-1"))?.header("x_legacy", "1"))?)?;
    let mut long = around.order("acme", Some("long-1"))?;
    let filler = vec![b' '; 200_000];
    long.body.extend(filler);
    is_success(&scene.send(&long)?)?;
    let slash = scene.send(&Request { target: b"/a%2Fb".to_vec(), ..around.order("acme", Some("slash-1"))? })?;
    ensure!((400..500).contains(&slash.status), "{}", said(&slash));
    Ok(())
}

fn webhook<S: Scene>(scene: &S) -> Result<()> {
    let around = scene.around();
    let arrived = scene.reached(|| {
        is_refused(&scene.send(&around.delivery("evt_1", "whsec_other"))?, 401, "webhook_signature_invalid")?;
        let reply = scene.send(&around.delivery("evt_1", &around.secret))?;
        // The API of the example has no such page; it sees the delivery with its key all the same.
        match around.behind {
            Behind::Restate => is_success(&reply),
            Behind::Api => {
                ensure!(reply.json().get("error").is_some(), "{}", said(&reply));
                Ok(())
            }
        }
    })?;
    let [key] = arrived.as_slice() else { bail!("{arrived:?}") };
    ensure!(key.starts_with("t-acme:shop:service:webhook-ingest:"), "{key}");
    Ok(())
}

fn recovery<S: Scene>(scene: &S) -> Result<()> {
    let around = scene.around();
    let first = scene.send(&around.order("acme", Some("asked-1"))?)?;
    is_success(&first)?;
    let ask = |tenant: &str, rest: &str| {
        let path = format!("{}/by-idempotency-key/asked-1{rest}", around.behind.path());
        scene.send(&Request::new("GET", path).bearer(&around.token(tenant)?))
    };
    for rest in ["", "/output"] {
        let found = ask("acme", rest)?;
        ensure!((found.status, &found.body) == (200, &first.body), "{rest}: {}", said(&found));
        is_refused(&ask("globex", "/output")?, 404, "idempotency_key_unknown")?;
    }
    Ok(())
}
