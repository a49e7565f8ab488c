//! What callers see of a real Restate behind a real Envoy: every way an operation can end, asking for the result of an
//! earlier call by its key and by its operation id, duplicates in flight, and what crashes leave.

mod asking;
mod crashes;
mod endings;
mod in_flight;
mod operations;
mod streaming;
mod visible_keys;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::config::plain_policy;
use e2e::gateway::tools;
use e2e::runner::{Group, Test, runtime, sharing, until_async};
use harness::http::{Reply, Request};
use harness::restate::Invocation;
use harness::stack::{Stack, StackOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

const REFUNDS: &str = "/api/v1/refunds";
/// Webhooks that go to the same handler.
const REFUND_HOOKS: &str = "/webhooks/refunds";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [endings::tests(), asking::tests(), crashes::tests()];
    let operations = [operations::tests(), in_flight::tests()];
    // One request at a time: the next is turned away.
    let one = [("RESTATE_INGRESS__CONCURRENT_API_REQUESTS_LIMIT", "1")];
    Ok(vec![
        sharing(RecoverySetup::start, tests.into_iter().flatten().collect()),
        sharing(
            || RecoverySetup::of(operations::with_operations(&policy()?)?, &[]),
            operations.into_iter().flatten().collect(),
        ),
        sharing(move || RecoverySetup::of(policy()?, &one), endings::of_a_busy_backend()),
        sharing(streaming::start, streaming::tests()),
        sharing(visible_keys::start, visible_keys::tests()),
    ])
}

/// A test that has everything to itself.
fn test(name: &str, body: impl AsyncFnOnce(&mut Stack) -> Result<()> + Send + 'static) -> Test<RecoverySetup> {
    Test::new(name, move |setup: &RecoverySetup| {
        let mut stack = setup.stack.lock().unwrap_or_else(PoisonError::into_inner);
        runtime()?.block_on(body(&mut stack))
    })
}

struct RecoverySetup {
    stack: Mutex<Stack>,
    _directory: TempDir,
}

impl RecoverySetup {
    fn start() -> Result<Self> {
        // What has expired goes when the cleaner comes, by default once an hour.
        Self::of(policy()?, &[("RESTATE_WORKER__CLEANUP_INTERVAL", "1s")])
    }

    /// With this policy, and these settings of Restate.
    fn of(policy: String, settings: &[(&str, &str)]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let restate_env = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = StackOptions { policy, restate_env, ..StackOptions::new(tools()?, directory.path()) };
        let stack = runtime()?.block_on(Stack::start(options, &|_| {}))?;
        Ok(Self { stack: Mutex::new(stack), _directory: directory })
    }
}

/// The demo's policy with a short wait, and with routes to what is not there.
fn policy() -> Result<String> {
    let mut policy = plain_policy()?;
    let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("the demo's routes")?;
    let route = |endpoint: &str, path: &str, target: &str| json!({"endpoint": endpoint, "path": path, "policy": "REQUIRED_A", "target": target});
    routes.extend([
        route("no.handler", "/api/v1/no-handler", "Refunds/nothing"),
        route("no.service", "/api/v1/no-service", "Absent/create"),
        json!({
            "endpoint": "refunds.webhook", "path": format!("{REFUND_HOOKS}/{{provider}}/{{webhook_id}}"),
            "policy": "REQUIRED_B", "target": "Refunds/create", "webhook": {},
        }),
    ]);
    policy.as_object_mut().context("a policy")?.insert("recovery_wait_ms".to_owned(), json!(WAIT_MS));
    Ok(policy.to_string())
}

/// The secret of operation ids.
const SECRET: &str = "the-secret-of-operations";

/// How long an attach waits here.
const WAIT_MS: u64 = 1500;

/// How often a test looks whether something has happened.
const POLL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) tenant: &'static str,
    pub(crate) project: &'static str,
    pub(crate) user: &'static str,
}

pub(crate) const ALICE: Caller = Caller { tenant: "acme", project: "health-prod", user: "alice" };
const BOB: Caller = Caller { user: "bob", ..ALICE };

impl Caller {
    pub(crate) fn namespaced(&self, raw: &str) -> String {
        let Self { tenant, project, user } = self;
        format!("t-{tenant}:{project}:user:{user}:{raw}")
    }
}

pub(crate) async fn send(stack: &Stack, caller: &Caller, request: Request) -> Result<Reply> {
    signed(stack, caller, request)?.send(&stack.gateway_url()).await
}

pub(crate) fn signed(stack: &Stack, caller: &Caller, request: Request) -> Result<Request> {
    let claims = json!({"tenant_id": caller.tenant, "project_id": caller.project, "sub": caller.user});
    Ok(request.bearer(&stack.signer.mint(&claims)?))
}

/// A refund of an order that is named as its key.
fn refund(key: &str, how: &Value) -> Request {
    let mut body = json!({"order_id": key, "amount": 4200});
    if let (Some(body), Some(how)) = (body.as_object_mut(), how.as_object()) {
        body.extend(how.clone());
    }
    Request::post(REFUNDS).header("Idempotency-Key", key).json(&body)
}

fn attach(key: &str) -> Request {
    Request::get(&format!("{REFUNDS}/by-idempotency-key/{key}"))
}

fn output(key: &str) -> Request {
    Request::get(&format!("{REFUNDS}/by-idempotency-key/{key}/output"))
}

/// Begins a refund that takes so long, and breaks the connection once the handler runs.
async fn begin(stack: &Stack, key: &str, milliseconds: u64) -> Result<()> {
    let before = stack.service.calls(usize::MAX).await?.total;
    let request = signed(stack, &ALICE, refund(key, &json!({"provider_ms": milliseconds})))?;
    let url = stack.gateway_url();
    let waiting = tokio::spawn(async move { request.send(&url).await });
    until("the handler runs", async || Ok(stack.service.calls(before).await?.total > before)).await?;
    waiting.abort();
    Ok(())
}

/// Asks until it is so.
async fn until(what: &str, so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    until_async(what, POLL, so).await
}

/// The one invocation under Alice's key.
async fn only(stack: &Stack, raw: &str) -> Result<Invocation> {
    under(stack, &ALICE.namespaced(raw)).await
}

/// The one invocation under a namespaced key.
async fn under(stack: &Stack, key: &str) -> Result<Invocation> {
    let all = stack.restate.invocations().await?;
    let mut found = all.into_iter().filter(|invocation| invocation.idempotency_key.as_deref() == Some(key));
    let first = found.next().with_context(|| format!("no invocation under {key}"))?;
    ensure!(found.next().is_none(), "several invocations under {key}");
    Ok(first)
}

/// Tells Restate to do something with Alice's invocation: `cancel`, `kill`, `pause`, `resume`, `purge`.
async fn command(stack: &Stack, raw: &str, what: &str) -> Result<()> {
    order(stack, &only(stack, raw).await?, what).await
}

async fn order(stack: &Stack, invocation: &Invocation, what: &str) -> Result<()> {
    let path = format!("/invocations/{}/{what}", invocation.id);
    let reply = Request::new("PATCH", &path).send(&stack.restate.admin_url()).await?;
    ensure!(reply.status < 300, "{what}: {} {}", reply.status, reply.text());
    Ok(())
}

async fn effects(stack: &Stack, id: &str) -> Result<u64> {
    Ok(stack.service.effects().await?.get(id).copied().unwrap_or_default())
}

/// What an answer has to be.
struct ExpectedAnswer<'a> {
    status: u16,
    /// `Idempotency-Status`
    key: Option<&'a str>,
    replayed: bool,
    /// `Idempotency-Retry`
    retry: Option<&'a str>,
}

impl ExpectedAnswer<'_> {
    fn check(&self, reply: &Reply) -> Result<()> {
        let told = || format!("{} {:?} {}", reply.status, reply.headers, reply.text());
        ensure!(reply.status == self.status, "status {}: {}", self.status, told());
        let replayed = self.replayed.then_some("true");
        let marks =
            [("idempotency-status", self.key), ("idempotent-replayed", replayed), ("idempotency-retry", self.retry)];
        for (name, expected) in marks {
            ensure!(reply.header(name) == expected, "{name} is not {expected:?}: {}", told());
        }
        discreet(reply)
    }
}

/// No byte of the answer names the backend or a service of it.
fn discreet(reply: &Reply) -> Result<()> {
    let mut all = reply.text();
    for (name, value) in &reply.headers {
        all.push_str(&format!("\n{name}: {}", String::from_utf8_lossy(value)));
    }
    for telling in ["restate", "stacktrace", "invocationid", "access-control", "ingress"] {
        ensure!(!all.to_lowercase().contains(telling), "the answer holds `{telling}`: {all}");
    }
    for service in ["Refunds", "Absent", "Cart"] {
        ensure!(!all.contains(service), "the answer names {service}: {all}");
    }
    let length = reply.header("content-length").and_then(|length| length.parse().ok());
    ensure!(length.is_none_or(|length: usize| length == reply.body.len()), "another length: {all}");
    Ok(())
}

fn code(reply: &Reply, expected: &str) -> Result<()> {
    let kind = reply.header("content-type");
    ensure!(kind == Some("application/problem+json"), "no problem document: {kind:?} {}", reply.text());
    ensure!(reply.code() == expected, "the code is {} instead of {expected}", reply.code());
    Ok(())
}
