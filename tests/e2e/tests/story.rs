//! The story that `make demo` plays, with OpenBao: every check is as expected.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::runner::{Group, Test, separate};
use harness::tools::built;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("every step is as expected", |(): &()| plays(&[])),
        Test::new("the same with the configuration that `render envoy` makes", |(): &()| plays(&["--rendered"])),
    ];
    Ok(vec![separate(tests)])
}

fn plays(options: &[&str]) -> Result<()> {
    // What is missing is told as in every other test.
    tools()?;
    let demo = built("EDGE_DEMO", "demo")?;
    let directory = tempfile::tempdir()?;
    let output =
        Command::new(&demo).arg("story").args(options).current_dir(directory.path()).output().context("the demo")?;
    let told = String::from_utf8_lossy(&output.stdout);
    // The steps with a difference: they have the answer, and so its reason.
    let differs = |step: &&str| step.lines().any(|line| line.trim_start().starts_with("DIFFERS"));
    let differences: Vec<&str> = told.split("\n\n").filter(differs).collect();
    let last = told.lines().rev().find(|line| line.contains(" checks, ")).unwrap_or("no summary");
    ensure!(
        output.status.success() && differences.is_empty() && !last.contains("left out"),
        "{last}\n{}\n{}",
        differences.join("\n\n"),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
