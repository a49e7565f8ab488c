//! What operators do: a key whose outcome nobody knows is freed, and `check --live` asks the recorder.

use std::fs;
use std::process::{Command, Output};
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::raw::{self, Request};
use e2e::runner::{Group, Test, runtime, separate, until};
use harness::ports::loopback_url;
use harness::restate::Restate;
use harness::tools::built;
use serde_json::Value;

use super::setup::{Part, Recorded, Shape};
use super::{POLL, is_problem};

/// One Restate and one API.
const SHAPE: Shape = Shape { on_unknown: "fail", nodes: 1, elsewhere: false };

pub(super) fn group() -> Group {
    let one = |name: &str, test: fn() -> Result<()>| Test::new(name.to_owned(), move |(): &()| test());
    separate(vec![one("one command frees a key", freed), one("check --live asks the recorder", live)])
}

fn command(setup: &Recorded, args: &[&str]) -> Result<(Output, String)> {
    let admin = setup.processes().restate.first().context("no Restate")?.admin_url();
    let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
    let output = command.args(args).env("RESTATE_ADMIN_URL", admin).output()?;
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    Ok((output, said))
}

/// One key on two operations: that of the second one stays. Before the first one was interrupted, the API did nothing once.
fn freed() -> Result<()> {
    let setup = Recorded::start(&SHAPE)?;
    let request = |target: &str| Ok::<_, anyhow::Error>(setup.request("PUT", target)?.header("idempotency-key", "k.1"));
    let (lost, kept) = (request("/orders/lost")?, request("/orders/kept")?);
    ensure!(setup.send(&request("/orders/lost?status=429&after=9")?)?.status == 429, "it is not refused");
    let first = setup.send(&kept)?;
    let held = request("/orders/lost?hold=1")?;
    thread::scope(|scope| {
        let cut = scope.spawn(|| setup.send(&held));
        until("the API works", POLL, || Ok(setup.effects("PUT /orders/lost")? == 2))?;
        setup.crash(Part::Recorder, || Ok(()))?;
        cut.join().map_err(|_| anyhow!("a client panicked"))
    })??;
    is_problem(&setup.send(&held)?, 500, "outcome_unknown", "never")?;
    let purge = ["keys", "purge", "--tenant=acme", "--project=shop", "--subject=user:alice", "--key=k.1", "--yes"];
    let (output, said) = command(&setup, &purge)?;
    ensure!(output.status.code() == Some(2) && said.contains("--operation"), "{said}");
    let digest = sha256("t-acme:shop:user:alice:k.1")?;
    let (output, said) = command(&setup, &[&purge[..], &["--operation", "PUT /orders/lost"]].concat())?;
    let is_told = said.contains("purged: 2 results") && said.contains(&digest);
    ensure!(output.status.success() && is_told, "{said}");
    let again = setup.send(&lost)?;
    ensure!(again.status == 200 && setup.effects("PUT /orders/lost")? == 3, "it did not run: {again:?}");
    super::is_replay_of(&setup.send(&kept)?, &first)?;
    // The number is no part of the key, and neither is the operation.
    let (output, said) = command(&setup, &["keys", "show", "--json", "--key-hash", &digest])?;
    let found: Value = serde_json::from_slice(&output.stdout).with_context(|| said.clone())?;
    let rows = found.pointer("/invocations").and_then(Value::as_array).context("no rows")?;
    ensure!(rows.len() == 2 && rows.iter().all(|row| row.get("key") == Some(&Value::from("k.1"))), "{said}");
    for other in ["k", "1", "k.1.", "lice:k.1"] {
        let (_, said) = command(&setup, &["keys", "show", "--tenant=acme", "--key", other])?;
        ensure!(said.contains("nothing is stored"), "{other}: {said}");
    }
    Ok(())
}

fn sha256(text: &str) -> Result<String> {
    let output = Command::new("sh").args(["-c", &format!("printf %s '{text}' | sha256sum | cut -c 1-64")]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn live() -> Result<()> {
    let setup = Recorded::start(&SHAPE)?;
    let policy = setup.directory.path().join("policy.json");
    let file = policy.display().to_string();
    let (output, said) = command(&setup, &["init", "--yes", "--backend=recorder", &file])?;
    ensure!(output.status.success() && fs::exists(&policy)?, "{said}");
    let status = loopback_url(setup.ports.status);
    let finds = |address: &str, parts: &[&str]| -> Result<()> {
        let (_, said) = command(&setup, &["check", "--live", "--recorder", address, &file])?;
        let missing = parts.iter().find(|part| !said.contains(**part));
        ensure!(missing.is_none(), "{missing:?} is not in:\n{said}");
        Ok(())
    };
    finds(&status, &["gets a connection to `counter`", "has the service of the recorder"])?;
    finds(
        &loopback_url(setup.ports.front),
        &["error[live-unreachable]: the recorder: ", "is the address of its --status"],
    )?;
    setup.processes().api.kill()?;
    finds(
        &status,
        &["error[live-unreachable]: the recorder gets no connection to `counter`", "refused", "start this API"],
    )?;
    forget(setup.processes().restate.first().context("no Restate")?)?;
    finds(&status, &["error[live-missing-handler]: Restate has no service `Recorder`", "with --admin URL"])?;
    setup.processes().recorder.kill()?;
    finds(&status, &["error[live-unreachable]: the recorder: ", "refused", "start it"])
}

/// Removes all that is registered.
fn forget(restate: &Restate) -> Result<()> {
    let admin = restate.admin_url();
    let address = admin.trim_start_matches("http://").parse()?;
    let ids = runtime()?.block_on(restate.query("select id from sys_deployment"))?;
    for id in ids.iter().filter_map(|row| row.get("id")?.as_str()) {
        let request = Request::new("DELETE", format!("/deployments/{id}?force=true"));
        let reply = raw::exchange(address, "DELETE", &request.http1())?;
        ensure!(reply.status == 202, "{reply:?}");
    }
    Ok(())
}
