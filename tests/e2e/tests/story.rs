//! The story that `make demo` plays: every check is as expected.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::runner::{Group, Test, separate};
use harness::tools::built;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("every step is as expected", |(): &()| plays(&[], true)),
        Test::new("with OpenBao, in the configuration that `render envoy` makes", |(): &()| {
            plays(&["--rendered"], false)
        }),
    ];
    Ok(vec![separate(tests)])
}

/// The steps with a secret store may be left out where OpenBao is not installed; no other step may.
fn plays(options: &[&str], without_openbao: bool) -> Result<()> {
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
    let left_out = told.lines().filter_map(|line| line.trim_start().strip_prefix("left out: "));
    let missing: Vec<&str> = left_out.filter(|why| !(without_openbao && why.starts_with("needs OpenBao"))).collect();
    let last = told.lines().rev().find(|line| line.contains(" checks, ")).unwrap_or("no summary");
    ensure!(
        output.status.success() && differences.is_empty() && missing.is_empty(),
        "{last}\n{missing:?}\n{}\n{}",
        differences.join("\n\n"),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
