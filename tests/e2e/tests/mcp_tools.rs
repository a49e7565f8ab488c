//! MCP calls through Envoy's own bridge to a REST API (docs/gateways.md): the key is an argument of the call, and the JSON-RPC id of a
//! repeated call is another one.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Seen, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use harness::tools::repository;
use serde_json::{Value, json};

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![sharing(
        McpSetup::start,
        vec![
            Test::new("a repeated call has the first one's key, and an answer of its own", repeats),
            Test::new("a refusal is a result with the problem document", refusal),
        ],
    )])
}

struct McpSetup {
    gateway: TestGateway,
    token: String,
}

impl McpSetup {
    /// A gateway with what the page says.
    fn start() -> Result<Self> {
        let page = fs::read_to_string(repository().join("docs/gateways.md"))?;
        let (_, section) = page.split_once("## MCP tools that are your API").context("no section")?;
        let mut blocks = section.split("```json\n").skip(1).filter_map(|block| block.split_once("\n```"));
        let mut block = || -> Result<Value> { Ok(serde_json::from_str(blocks.next().context("no block")?.0)?) };
        let (bridge, route) = (block()?, block()?);
        let policy = json!({
            "version": 1,
            "identity": {"sources": [tokens::source()]},
            "backend": {"kind": "generic"},
            "routes": [route],
        });
        let listener =
            ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath, Change::Before(bridge)] };
        let gateway = TestGateway::start(&[("mcp".to_owned(), listener)])?;
        let token = gateway.user_token()?;
        Ok(Self { gateway, token })
    }

    fn call(&self, id: u32, arguments: &Value) -> Result<(Seen, Value)> {
        let params = json!({"name": "take_order", "arguments": arguments, "_meta": {"progressToken": id}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let request = Request::post("/mcp")
            .bearer(&self.token)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(call.to_string());
        let seen = self.gateway.http1("mcp", &request)?;
        let answer: Value = serde_json::from_slice(&seen.reply.body)?;
        ensure!(answer.get("id") == Some(&json!(id)), "{answer}");
        Ok((seen, answer))
    }
}

fn repeats(setup: &McpSetup) -> Result<()> {
    let arguments = json!({"item": "tea", "meta": {"idempotency-key": "k-1"}});
    for id in [1, 2] {
        let (seen, answer) = setup.call(id, &arguments)?;
        let received = seen.received.first().context("the API got nothing")?;
        ensure!(received.target == b"/orders", "{}", seen.upstream());
        let key = ("idempotency-key", b"t-acme:shop:user:u1:k-1".as_slice());
        ensure!(received.headers.iter().any(|(name, value)| (&**name, &**value) == key), "{}", seen.upstream());
        ensure!(serde_json::from_slice::<Value>(&received.body)? == arguments, "{}", seen.upstream());
        ensure!(answer.pointer("/result/isError") != Some(&json!(true)), "{answer}");
    }
    Ok(())
}

fn refusal(setup: &McpSetup) -> Result<()> {
    let (seen, answer) = setup.call(3, &json!({"item": "tea"}))?;
    ensure!(seen.received.is_empty(), "{}", seen.upstream());
    let text = answer.pointer("/result/content/0/text").and_then(Value::as_str).context("no text")?;
    let problem: Value = serde_json::from_str(text)?;
    ensure!(answer.pointer("/result/isError") == Some(&json!(true)), "{answer}");
    ensure!(problem.get("code") == Some(&json!("idempotency_key_required")), "{problem}");
    Ok(())
}
