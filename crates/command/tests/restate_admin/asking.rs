//! Audit lines that cannot be written, and questions on a terminal.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use super::program;
use super::stand_in::{Sound, StandIn};

const ERASE: [&str; 7] = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:u"];

/// Restate with two results of the subject.
fn server() -> Result<StandIn> {
    let row = |number: usize| {
        json!({"id": format!("inv_{number}"), "target_service_name": "Refunds", "target_handler_name": "create",
            "idempotency_key": format!("t-acme:p:user:u:{number}"), "status": "completed", "completion_result": "success"})
    };
    let results = json!([row(1), row(2)]);
    let one = json!([row(1)]);
    let rows = move |sql: &str| {
        if sql.contains("starts_with") {
            results.clone()
        } else if sql.contains("idempotency_key = 't-acme:p:user:u:1'") {
            one.clone()
        } else {
            json!([])
        }
    };
    StandIn::sound(Sound { rows: Box::new(rows), ..Sound::default() })
}

fn erase(server: &StandIn, more: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(ERASE).args(more).env_remove("RESTATE_AUTH_TOKEN").env("RESTATE_ADMIN_URL", &server.url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The first purge has happened, so it has a line on standard error, and there is no second one.
fn stopped(output: &Output, server: &StandIn, why: &str) -> Result<()> {
    let error = stderr(output);
    ensure!(output.status.code() == Some(2), "{output:?}");
    ensure!(error.contains("nothing more is purged") && error.contains(why), "{error}");
    let last = error.lines().last().context("no line")?;
    let line: Value = serde_json::from_str(last).with_context(|| error.clone())?;
    ensure!(line.get("id") == Some(&json!("inv_1")) && line.get("result") == Some(&json!("purged")), "{line}");
    ensure!(server.changes() == ["/invocations/inv_1/purge"], "{:?}", server.changes());
    Ok(())
}

#[test]
fn no_reader() -> Result<()> {
    let server = server()?;
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("audit.jsonl");
    let mut command = erase(&server, &["--yes", "--audit-log", file.to_str().context("a path")?]);
    let output = command.stdout(writer).output()?;
    stopped(&output, &server, "standard output: Broken pipe")?;
    // The file got the line.
    ensure!(std::fs::read_to_string(&file)?.lines().count() == 1, "{output:?}");
    Ok(())
}

#[test]
fn full_disk() -> Result<()> {
    let full = || OpenOptions::new().write(true).open("/dev/full");
    let server_of_output = server()?;
    let output = erase(&server_of_output, &["--yes"]).stdout(full()?).output()?;
    stopped(&output, &server_of_output, "standard output: No space left on device")?;
    let server_of_file = server()?;
    let output = erase(&server_of_file, &["--yes", "--audit-log", "/dev/full"]).output()?;
    stopped(&output, &server_of_file, "/dev/full: No space left on device")?;
    // Standard output got the line.
    ensure!(output.stdout.iter().filter(|byte| **byte == b'\n').count() == 1, "{output:?}");
    Ok(())
}

#[test]
fn private_file() -> Result<()> {
    let server = server()?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("audit.jsonl");
    erase(&server, &["--yes", "--audit-log", file.to_str().context("a path")?]).output()?;
    ensure!(std::fs::read_to_string(&file)?.lines().count() == 2, "two results");
    let mode = std::fs::metadata(&file)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{mode:o}");
    Ok(())
}

/// A terminal with these lines typed into it: the side that is held, and the side of the command.
fn terminal(typed: &str) -> Result<(File, File)> {
    let held = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&held)?;
    unlockpt(&held)?;
    let name = ptsname(&held, Vec::new())?;
    let side = OpenOptions::new().read(true).write(true).open(name.to_str()?)?;
    let mut held = File::from(held);
    held.write_all(typed.as_bytes())?;
    Ok((held, side))
}

#[test]
fn asks() -> Result<()> {
    for (answer, code, purges) in [("y\n", 1, 2), ("n\n", 1, 0), ("\n", 1, 0)] {
        let server = server()?;
        let (_held, side) = terminal(answer)?;
        let mut command = erase(&server, &[]);
        let output = command.stdin(side.try_clone()?).stderr(side).output()?;
        // The listener has both results for ever, so that something is left in the end.
        ensure!(output.status.code() == Some(code), "{answer:?}: {output:?}");
        ensure!(server.changes().len() == purges, "{answer:?}: {:?}", server.changes());
        // The list is on the terminal, and standard output has audit lines only.
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(text.lines().all(|line| line.starts_with('{')) && text.lines().count() == purges, "{text}");
    }
    // Without a terminal nobody is asked, and something is left.
    let server = server()?;
    let output = erase(&server, &[]).output()?;
    ensure!(output.status.code() == Some(1) && stderr(&output).contains("--yes purges"), "{output:?}");
    ensure!(String::from_utf8_lossy(&output.stdout).lines().count() == 3, "a list of two results: {output:?}");
    ensure!(server.changes().is_empty(), "{:?}", server.changes());
    Ok(())
}

/// Standard error goes to a file, so that nobody sees the question.
#[test]
fn unseen_question() -> Result<()> {
    let server = server()?;
    let (_held, side) = terminal("y\n")?;
    let mut command = Command::new(program());
    command.args(["keys", "purge", "--stored-key", "t-acme:p:user:u:1"]).env_remove("RESTATE_AUTH_TOKEN");
    command.env("RESTATE_ADMIN_URL", &server.url).stdin(side);
    let output = command.output()?;
    ensure!(output.status.code() == Some(2) && stderr(&output).contains("no terminal to ask on"), "{output:?}");
    ensure!(server.changes().is_empty(), "{:?}", server.changes());
    Ok(())
}
