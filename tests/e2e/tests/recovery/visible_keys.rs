//! Keys of every visible character at a real Restate: what is stored under them, who gets it, and what the command finds. The
//! gateway's configuration is the one that `render` writes.

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::runner::{Test, runtime};
use harness::demo_policy::POLICY;
use harness::http::{Reply, Request};
use harness::stack::{Stack, StackOptions};
use harness::tools::built;
use serde_json::{Value, json};

use super::{ALICE, BOB, ExpectedAnswer, REFUNDS, RecoverySetup, code, effects, output, send, test, under};

/// Keys of APIs that deduplicate already, and what readers of keys may trip over.
const KEYS: [&str; 11] = [
    "order:123",
    "a/b",
    "//a",
    "a%2Fb",
    "a\"b",
    "a\\b",
    "\\\\",
    "a''_or_1=1;--",
    "a?b#c",
    "`$(a)`|&",
    "!\"#$%&'()*+-./:;<=>?@[\\]^_`{|}~",
];

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    vec![test("both forms of a key are one call, and its result can be asked for", both_forms).within("visible_keys")]
}

pub(crate) fn start() -> Result<RecoverySetup> {
    let mut policy: Value = serde_json::from_str(POLICY)?;
    policy.as_object_mut().context("a policy")?.insert("key".to_owned(), json!({"charset": "visible"}));
    let directory = tempfile::tempdir()?;
    let renderer = Some(built("EDGE_CLI", "edge-idempotency")?);
    let options =
        StackOptions { policy: policy.to_string(), renderer, ..StackOptions::new(tools()?, directory.path()) };
    let stack = runtime()?.block_on(Stack::start(options, &|_| {}))?;
    Ok(RecoverySetup { stack: stack.into(), _directory: directory })
}

fn string(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The header of a key: bare, or as a string where it has no bare form.
fn header(key: &str) -> String {
    if key.starts_with('"') { string(key) } else { key.to_owned() }
}

fn refund(key: &str, header: &str, amount: u64) -> Request {
    Request::post(REFUNDS).header("idempotency-key", header).json(&json!({"order_id": key, "amount": amount}))
}

fn encoded(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Sends it as a caller does: while the guard takes longer than a second, which it can on a busy machine, the answer is 503, and the caller
/// sends the same again.
async fn refunded(stack: &Stack, request: Request) -> Result<Reply> {
    for _ in 0..5 {
        let reply = send(stack, &ALICE, request.clone()).await?;
        if reply.status != 503 {
            return Ok(reply);
        }
    }
    send(stack, &ALICE, request).await
}

async fn both_forms(stack: &mut Stack) -> Result<()> {
    for key in KEYS {
        let first = refunded(stack, refund(key, &header(key), 4200)).await?;
        ensure!(first.status == 200 && first.header("idempotency-status") == Some("stored"), "{key}: {first:?}");
        let again = refunded(stack, refund(key, &string(key), 4200).http2()).await?;
        ExpectedAnswer { status: 200, key: Some("replayed"), replayed: true, retry: None }.check(&again)?;
        ensure!(again.body == first.body, "{key}: {} instead of {}", again.text(), first.text());
        ensure!(effects(stack, key).await? == 1, "{key}: another number of effects");
        under(stack, &ALICE.namespaced(key)).await?;
        for request in [super::attach(&encoded(key)), output(&encoded(key)), output(&encoded(key)).http2()] {
            let path = request.path.clone();
            let reply = send(stack, &ALICE, request).await?;
            ensure!(reply.status == 200 && reply.body == first.body, "{key} {path}: {} {}", reply.status, reply.text());
        }
        code(&send(stack, &BOB, output(&encoded(key))).await?, "idempotency_key_unknown")?;
    }
    Ok(())
}
