//! What the gateway tells about each request: the access log as JSON, the filter's lines in the gateway's log, and spans.
//!
//! | module | subject |
//! |---|---|
//! | `outcomes` | every member of the record for every outcome |
//! | `endings` | requests that the client or the gateway ends |
//! | `tracing` | trace headers and spans |

mod endings;
mod outcomes;
mod tracing;

use anyhow::{Context as _, Result};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::runner::Group;
use harness::tokens;
use serde_json::{Map, Value, json};

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![outcomes::group(), endings::group(), tracing::group()])
}

/// The environment variable with the webhook's secret.
const SECRET_VARIABLE: &str = "E2E_HOOK_SECRET";
const SECRET: &str = "whsec_access_log";

/// A listener with every kind of route.
fn listener(key_in_logs: &str, mode: &str) -> ListenerSpec {
    let policy = json!({
        "version": 1,
        "mode": mode,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
        "routes": [
            {"endpoint": "refunds", "path": "/api/v1/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"},
            {"endpoint": "projects", "path": "/api/v1/projects", "methods": ["GET"], "policy": "PROHIBITED",
                "target": "Projects/list"},
            {"endpoint": "hooks", "path": "/api/v1/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B",
                "target": "Hooks/take", "mode": "enforce", "webhook": {}},
        ],
        "webhooks": {"static": {"wh_planted": {
            "tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": SECRET_VARIABLE}],
        }}},
        "key_in_logs": key_in_logs,
    });
    let changes = vec![Change::EveryPath, Change::Environment(vec![SECRET_VARIABLE.to_owned()])];
    ListenerSpec { policy: policy.to_string(), changes }
}

/// The lines of the access log, as soon as there are so many.
fn access_log(gateway: &TestGateway, lines: usize) -> Result<Vec<Map<String, Value>>> {
    gateway.until("the access log is written", |gateway| Ok(gateway.access_log()?.lines().count() >= lines))?;
    let text = gateway.access_log()?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("no JSON object: {line}"))).collect()
}

/// The filter's structured lines in the gateway's log: what each is about, and its record.
fn log_lines(gateway: &TestGateway) -> Result<Vec<(String, Map<String, Value>)>> {
    let log = gateway.log()?;
    let mut lines = Vec::new();
    for line in log.lines() {
        for word in ["refused", "shadow", "request"] {
            if let Some((_, members)) = line.split_once(&format!("edge-idempotency: {word} {{")) {
                let record = serde_json::from_str(&format!("{{{members}"));
                lines.push((word.to_owned(), record.with_context(|| format!("no JSON object: {line}"))?));
            }
        }
    }
    Ok(lines)
}
