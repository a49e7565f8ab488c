//! The example of docs/restate.md in four languages: each program of `examples/promises` waits with Restate's SDK of its language.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use e2e::runner::{Group, sharing};
use harness::http::Request;
use harness::tools::{built, repository};
use serde_json::{Value, json};

use super::{PromisesSetup, listening, status, test};

/// A program of `examples/promises`.
#[derive(Clone, Copy)]
struct Language {
    name: &'static str,
}

const LANGUAGES: [Language; 4] =
    [Language { name: "typescript" }, Language { name: "python" }, Language { name: "go" }, Language { name: "rust" }];

pub(super) fn group() -> Group {
    let (mut tests, mut left_out) = (Vec::new(), Vec::new());
    for language in LANGUAGES {
        let name = format!("a handler in {} waits", language.name);
        if language.name == "rust" || installed().join(language.name).is_dir() {
            tests.push(test(&name, async move |setup: &PromisesSetup| waits(setup, language).await));
        } else {
            left_out.push(format!("{name} (`crates/xtask/scripts/tools.sh guards` installs its SDK)"));
        }
    }
    let group = sharing(|| PromisesSetup::start(&[]), tests);
    left_out.into_iter().fold(group, Group::leaving_out)
}

/// `EDGE_GUARDS`, else `.tools/guards`: a directory for each language, with Restate's SDK.
fn installed() -> PathBuf {
    env::var_os("EDGE_GUARDS").map_or_else(|| repository().join(".tools/guards"), PathBuf::from)
}

fn command(setup: &PromisesSetup, language: Language) -> Result<Command> {
    let (files, examples) = (installed().join(language.name), repository().join("examples/promises"));
    Ok(match language.name {
        "typescript" => {
            // Node.js finds packages beside the program only.
            let directory = setup.directory.path().join("typescript");
            fs::create_dir(&directory)?;
            symlink(files.join("node_modules"), directory.join("node_modules"))?;
            fs::copy(examples.join("typescript/orders.ts"), directory.join("orders.mts"))?;
            let mut node = Command::new(files.join("node"));
            node.arg(directory.join("orders.mts"));
            node
        }
        "python" => {
            let mut python = Command::new("python3");
            python.args(["-m", "hypercorn"]).current_dir(examples.join("python"));
            python.env("PYTHONPATH", files.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
            python
        }
        "go" => Command::new(files.join("orders")),
        _ => Command::new(built("EDGE_PROMISES_EXAMPLE", "promises-example")?),
    })
}

async fn waits(setup: &PromisesSetup, language: Language) -> Result<()> {
    let _turn = setup.turn.lock().await;
    let name = language.name;
    let (_program, url) = listening(name, &mut command(setup, language)?, &setup.directory, |command, address| {
        if name == "python" {
            command.args(["--bind", address, "orders:app"]);
        }
        command.env("PORT", address.rsplit(':').next().unwrap_or_default());
    })
    .await?;
    setup.restate.lock().await.register(&url).await?;
    for (handler, order, promise, complete, expected) in [
        ("pay", "1", "ch_", "resolve", json!({"order": "1", "charge": "ch_1", "event": "charge.failed"})),
        ("settle", "2", "charge.succeeded:ch_", "resolve", json!({"order": "2", "paid": true})),
        ("settle", "3", "charge.failed:ch_", "resolve", json!({"order": "3", "paid": false})),
        ("pay", "4", "ch_", "reject", json!("no money")),
    ] {
        // Each language has a project of its own, so that all of them can have the same orders.
        let call = |how: &str| {
            let request = Request::post(&format!("/restate/{how}/Orders/{handler}"));
            let request = request.header("x-tenant-id", "acme").header("x-project-id", name);
            request.header("idempotency-key", format!("{name}-{order}")).json(&json!(order))
        };
        status(&setup.send(call("send")).await?, 202)?;
        let key = format!("acme:{name}:stripe:{promise}{order}");
        setup.until(&key, Some("waiting")).await?;
        let event = if promise.contains("succeeded") { "charge.succeeded" } else { "charge.failed" };
        let payload = if complete == "reject" { json!("no money") } else { json!({"type": event}) };
        let reply = setup.send(setup.call(&key, complete).json(&payload)).await?;
        ensure!(reply.json().get("first") == Some(&Value::Bool(true)), "{}", reply.text());
        // The same call waits for the same result.
        let result = setup.send(call("call")).await?;
        let told = if result.status == 200 {
            result.json()
        } else {
            result.json().get("message").cloned().unwrap_or_default()
        };
        ensure!(told == expected, "{name} {handler} {order}: {} {}", result.status, result.text());
    }
    Ok(())
}
