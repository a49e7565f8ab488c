//! The soak in its short form: one Restate node, so that every fault of it is an outage; and set-ups that are wrong on purpose, which
//! the check has to find.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};

/// Runs the program, with its logs in a directory of their own.
fn soak(name: &str, arguments: &[&str]) -> Result<Output> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak").join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    command.args(["--nodes", "1", "--seed", "14", "--directory"]).arg(directory).args(arguments);
    command.output().context("the soak")
}

/// All rules that a run found broken.
fn violations(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak").join(name).join("violations.txt");
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn nothing_is_lost_or_doubled() -> Result<()> {
    let output = soak("short", &["--operations", "200", "--faults", "6", "--seconds", "10", "--clients", "200"])?;
    let text = text(&output);
    ensure!(output.status.success(), "{text}");
    let said = ["lost: nothing; doubled: nothing; every rule holds", "\nfaults: 6\n"];
    ensure!(said.iter().all(|said| text.contains(said)), "{text}");
    Ok(())
}

#[test]
fn keys_that_are_removed_are_noticed() -> Result<()> {
    let output = soak("without-keys", &["--operations", "60", "--faults", "0", "--sabotage", "keys"])?;
    let text = text(&output);
    ensure!(output.status.code() == Some(1), "{text}");
    ensure!(text.contains("an operation has several effects"), "{text}");
    Ok(())
}

#[test]
fn answers_of_other_callers_are_noticed() -> Result<()> {
    let output = soak("without-namespace", &["--operations", "60", "--faults", "0", "--sabotage", "namespace"])?;
    let text = text(&output);
    ensure!(output.status.code() == Some(1), "{text}");
    ensure!(text.contains("a caller got an answer that belongs to another request"), "{text}");
    // What it got was made for another caller: `… of {caller}, …: Answer { answer: Answer { nonce: …, caller: "{caller}", …`.
    let violations = violations("without-namespace")?;
    let between = |line: &str, from: &str, to: &str| -> Option<String> {
        Some(line.split_once(from)?.1.split_once(to)?.0.to_owned())
    };
    let foreign = |line: &str| match (between(line, " of ", ", "), between(line, "caller: \"", "\"")) {
        (Some(asked), Some(served)) => asked != served,
        _ => false,
    };
    ensure!(violations.lines().any(foreign), "{violations}");
    Ok(())
}

#[test]
fn bodies_that_nobody_compares_are_noticed() -> Result<()> {
    let output = soak("without-guard", &["--operations", "60", "--faults", "0", "--sabotage", "guard"])?;
    let text = text(&output);
    ensure!(output.status.code() == Some(1), "{text}");
    ensure!(text.contains("a key was taken again with another body"), "{text}");
    Ok(())
}
