//! Secrets and credentials: where commands send them, and that no output and no argument of a process holds them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod pasted;
mod sending;
pub(crate) mod stand_in;
mod stores;

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A text that is hard to quote.
const SECRET: &str = r#"pl'an"ted $(id) `id` \n%s"#;
const ROOT_KEY: &str = "planted-root-key";

/// Exit status, standard output and standard error.
struct Ran {
    status: i32,
    text: String,
    errors: String,
}

/// A policy whose webhooks are in the registry and the secret store.
fn policy() -> Value {
    json!({
        "version": 1,
        "backend": {"kind": "generic"},
        "routes": [{"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
        "webhooks": {
            "public_base_url": "https://api.example.com",
            "unkey": {"cluster": "unkey"},
            "openbao": {"cluster": "openbao", "mount": "webhooks"}
        }
    })
}

/// Runs the command in a folder that has `policy.json`.
fn run(folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
    std::fs::write(folder.join("policy.json"), policy().to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    for name in
        ["RESTATE_AUTH_TOKEN", "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy"]
    {
        command.env_remove(name);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    command.env("HOOK_SECRET", SECRET).env("UNKEY_ROOT_KEY", ROOT_KEY).env("BAO_TOKEN", "planted-token");
    let output = command.current_dir(folder).envs(environment.iter().copied()).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status: output.status.code().unwrap(), text: text(output.stdout), errors: text(output.stderr) }
}
