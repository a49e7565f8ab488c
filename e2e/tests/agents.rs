//! `examples/agents` as it ships: a host and a server of MCP with the real SDK, in front of `examples/own-api`. The commands of
//! docs/agents.md print what the page says.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::runner::{Group, Test, sharing};
use harness::tools::repository;
use tempfile::TempDir;

use crate::own_api::{OwnApiSetup, token};

/// The oldest Node.js that the SDK runs with.
const NODE: u32 = 20;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let version = Command::new("node").arg("--version").output().context("Node.js is needed")?;
    let version = String::from_utf8(version.stdout)?;
    let major: u32 = version.trim_start_matches('v').split('.').next().unwrap_or_default().parse()?;
    if major < NODE {
        println!("SKIPPED: the agents of docs/agents.md are not run: the SDK of MCP needs Node.js {NODE}, and this is {version}");
        return Ok(Vec::new());
    }
    let tests = vec![Test::new("the commands of docs/agents.md print what it says", page)];
    Ok(vec![sharing(OwnApiSetup::start, tests)])
}

/// The blocks of a page that are typed.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn page(setup: &OwnApiSetup) -> Result<()> {
    let text = fs::read_to_string(repository().join("docs/agents.md"))?;
    let [preparing, running] = blocks(&text)[..] else { anyhow::bail!("the page has other blocks") };
    let (_, transcript) = preparing.split_once("<<'EOF'\n").context("the transcript")?;
    let (transcript, _) = transcript.split_once("EOF\n").context("the end of the transcript")?;
    let (_, identity) = preparing.split_once("token.mjs ").context("a token")?;
    let [tenant, _, agent] = identity.split([' ', ')']).take(3).collect::<Vec<_>>()[..] else {
        anyhow::bail!("{identity}")
    };

    let directory = tempfile::tempdir()?;
    install(&directory)?;
    fs::write(directory.path().join("transcript.json"), transcript)?;
    let mut printed = String::new();
    for command in running.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let mut host = Command::new("node");
        host.arg(directory.path().join("host.mjs")).arg(directory.path().join("transcript.json"));
        host.env("GATEWAY", setup.url()).env("TOKEN", token(setup.directory(), tenant, agent)?);
        if command.starts_with("CRASH=1 ") {
            host.env("CRASH", "1");
        }
        let output = host.output()?;
        ensure!(output.status.success() != command.starts_with("CRASH"), "{command}: {output:?}");
        printed += &String::from_utf8(output.stdout)?;
    }
    let expected: Vec<&str> = running.lines().filter(|line| !line.starts_with("$ ")).collect();
    ensure!(printed.lines().count() == expected.len(), "printed:\n{printed}");
    for (line, expected) in printed.lines().zip(expected) {
        let same = expected.strip_suffix('…').map_or(line == expected, |start| line.starts_with(start));
        ensure!(same, "the page says: {expected}\nit printed:    {line}");
    }
    let log = setup.api_log()?;
    ensure!(log.matches("key=t-acme:shop:user:agent-7:c-81-call_1 ->").count() == 2, "{log}");
    ensure!(log.matches("POST /orders").count() == 3, "{log}");
    Ok(())
}

/// Copies the example, and links the SDK beside it.
fn install(directory: &TempDir) -> Result<()> {
    let sdks = env::var_os("EDGE_SDKS").map_or_else(|| repository().join(".tools/sdks"), PathBuf::from);
    let modules = sdks.join("agents/node_modules");
    ensure!(modules.is_dir(), "{} is missing: run `make tools`, or set EDGE_SDKS", modules.display());
    std::os::unix::fs::symlink(modules, directory.path().join("node_modules"))?;
    for file in ["host.mjs", "server.mjs"] {
        fs::copy(repository().join("examples/agents").join(file), directory.path().join(file))?;
    }
    Ok(())
}
