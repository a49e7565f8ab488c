//! AdCP's storyboard of idempotency, run by AdCP's own runner against a seller whose charges go through the gateway to Restate. The seller
//! keeps no keys: they, the comparison and the mark of a replay are the gateway's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::runner::{Group, Test, runtime, sharing};
use harness::demo_policy::POLICY;
use harness::process::Process;
use harness::stack::{Stack, StackOptions};
use harness::tools::repository;
use serde_json::{Value, json};

/// What charges are for, in the ledger of the sample service.
const ORDER: &str = "acme-outdoor";
/// How long the seller may take until it listens.
const READY: Duration = Duration::from_secs(30);

pub(crate) fn groups() -> Result<Vec<Group>> {
    let test = Test::new("the storyboard of idempotency", |(): &()| runtime()?.block_on(storyboard()));
    Ok(vec![sharing(|| Ok(()), vec![test])])
}

async fn storyboard() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut policy: Value = serde_json::from_str(POLICY)?;
    let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("no routes")?;
    // AdCP compares canonical JSON (RFC 8785) without these members.
    routes.push(json!({
        "endpoint": "media_buys.charge", "path": "/api/v1/media-buys", "policy": "REQUIRED_A", "target": "Refunds/create",
        "key": {"from": ["/idempotency_key"]}, "replay_member": "replayed", "collision": "enforce", "fingerprint": "json",
        "fingerprint_without": [
            "/idempotency_key", "/context", "/governance_context", "/push_notification_config/authentication/credentials",
        ],
    }));
    let options = StackOptions { policy: policy.to_string(), ..StackOptions::new(tools()?, directory.path()) };
    let stack = Stack::start(options, &|_| {}).await?;

    let claims = json!({"tenant_id": "acme", "project_id": "health-prod", "sub": "buyer"});
    let seller =
        json!({"charges": format!("{}/api/v1/media-buys", stack.gateway_url()), "token": stack.signer.mint(&claims)?});
    let mut command = node();
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adcp/seller.mjs")).arg(seller.to_string());
    let log = directory.path().join("seller.log");
    let mut seller = Process::spawn("the seller", &mut command, &log)?;
    let port = || Ok(fs::read_to_string(&log)?.lines().next().context("no port yet")?.parse::<u16>()?);
    seller.ready(READY, async || port().map(drop)).await?;

    let summary = directory.path().join("summary.json");
    let mut runner = node();
    runner.arg(sdk()?.join("bin/adcp.js")).args([
        "storyboard",
        "run",
        &format!("http://127.0.0.1:{}/mcp", port()?),
        "idempotency",
    ]);
    runner.args(["--protocol", "mcp", "--allow-http", "--webhook-receiver", "--summary-output"]).arg(&summary);
    runner.env("ADCP_COMPLIANCE_DIR", storyboards(directory.path())?).env("ADCP_SKIP_VERSION_CHECK", "1");
    let output = runner.output().with_context(|| format!("cannot run {runner:?}"))?;
    let said = || {
        [output.stdout.clone(), output.stderr.clone()].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()
    };
    let summary: Value = serde_json::from_slice(&fs::read(summary).with_context(said)?)?;
    let steps = ["passed", "failed", "skipped"].map(|count| summary.get(count).and_then(Value::as_u64));
    ensure!(steps == [Some(8), Some(0), Some(0)], "{summary:#}\n{}", said());
    // The first call and the one with another key, and neither the replay nor the conflict.
    let effects = stack.service.effects().await?;
    ensure!(effects.get(ORDER) == Some(&2), "{effects:?}");
    Ok(())
}

/// The storyboards of the kit, with dates that have not passed: the runner would replace others by ones that differ from call to call.
fn storyboards(directory: &Path) -> Result<PathBuf> {
    let version = fs::read_to_string(sdk()?.join("ADCP_VERSION"))?;
    let copy = directory.join("storyboards");
    let copied =
        Command::new("cp").arg("-r").arg(sdk()?.join("compliance/cache").join(version.trim())).arg(&copy).status()?;
    ensure!(copied.success(), "cannot copy the storyboards");
    let file = copy.join("universal/idempotency.yaml");
    let text = fs::read_to_string(&file)?;
    fs::write(file, text.replace("2026-0", "2096-0"))?;
    Ok(copy)
}

fn sdk() -> Result<PathBuf> {
    let sdks = env::var_os("EDGE_SDKS").map_or_else(|| repository().join(".tools/sdks"), PathBuf::from);
    let sdk = sdks.join("adcp/node_modules/@adcp/sdk");
    ensure!(sdk.is_dir(), "{} is not there: run `make tools-all`, or set EDGE_SDKS", sdk.display());
    Ok(sdk)
}

fn node() -> Command {
    let mut node = Command::new("node");
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        node.env_remove(proxy);
    }
    node
}
