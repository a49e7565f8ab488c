//! The commands of the tutorials in docs/ are run as they stand there, in a folder that looks like a repository after `make`. What they print is
//! what the pages say; `…` in a page stands for any text, and on a line of its own for any lines.

use std::env;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::ports::Ports;
use harness::process::Process;
use harness::tools::{built, repository};
use tempfile::TempDir;

use crate::idempotent_apis::servers::node;
use crate::path_readers::installed;

/// How long a program may take until it listens.
const READY: Duration = Duration::from_secs(60);
/// The oldest Node.js that the SDK of MCP runs with.
const NODE_OF_MCP: u32 = 20;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let test = |name: &str, run: fn() -> Result<()>| Test::new(name, move |(): &()| run());
    let mut tests =
        vec![test("production.md", production), test("restate.md", restate), test("webhooks.md", first_webhook)];
    let version = Command::new("node").arg("--version").output().context("Node.js is needed")?;
    let version = String::from_utf8(version.stdout)?;
    let major: u32 = version.trim_start_matches('v').split('.').next().unwrap_or_default().parse()?;
    if major < NODE_OF_MCP {
        println!(
            "SKIPPED: the commands of docs/callers.md: MCP's SDK needs Node.js {NODE_OF_MCP}, and this is {version}"
        );
    } else {
        tests.push(test("callers.md", agents));
    }
    if installed().join("express/node_modules").is_dir() {
        tests.push(test("backends.md", recorder));
    } else {
        println!("SKIPPED: the commands of docs/backends.md: Express is not installed");
    }
    Ok(tests.into_iter().map(|test| sharing(|| Ok(()), vec![test])).collect())
}

fn production() -> Result<()> {
    let mut tutorial = Tutorial::new()?;
    tutorial.run("production.md", |block| !block.contains("make wasm"))?;
    // That of the API which was started last.
    let log = tutorial.log("server.mjs")?;
    let keys: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("POST /orders key=")).collect();
    ensure!(keys == ["order-7 -> 201", "t-acme:shop:user:alice:order-7 -> 201"], "{log}");
    Ok(())
}

fn restate() -> Result<()> {
    let mut tutorial = Tutorial::new()?;
    tutorial.run("production.md", |block| block.contains("token.mjs"))?;
    tutorial.install(&tools("EDGE_GUARDS", ".tools/guards").join("typescript/node_modules"), "trial/node_modules")?;
    tutorial.run("restate.md", |_| true)?;
    let log = tutorial.log("server.mjs")?;
    ensure!(log.matches("POST /orders key=t-acme:shop:user:alice:order-7 ->").count() == 1, "{log}");
    ensure!(log.matches("POST /orders").count() == 1, "{log}");
    Ok(())
}

/// Without the blocks for which OpenBao has to run.
fn first_webhook() -> Result<()> {
    let mut tutorial = Tutorial::new()?;
    let (policy, _) = block("webhooks.md", "json", 0)?;
    fs::write(tutorial.folder.path().join("policy.json"), policy)?;
    tutorial.run("webhooks.md", |block| block.contains("webhook sign"))
}

/// From an Express API that knows nothing of keys to the first replay, and a key that is freed.
fn recorder() -> Result<()> {
    let mut tutorial = Tutorial::new()?;
    let effects = tutorial.folder.path().join("effects.log");
    let mut api = node(tutorial.port("8000")?, &repository().join("tests/compat/tests/recorded/counter.js"));
    let log = tutorial.folder.path().join("api.log");
    tutorial.running.push((tutorial.port("8000")?, Process::spawn("the API", api.env("EFFECTS", &effects), &log)?));
    tutorial.listens("8000")?;
    tutorial.run("backends.md", |block| {
        ["recorder --upstream", "localhost:10000"].iter().any(|part| block.contains(part))
    })?;
    let answers = tutorial.printed.iter().flat_map(|text| text.split("HTTP/1.1 200"));
    let bodies: Vec<_> = answers.filter_map(|answer| Some(answer.split_once("\r\n\r\n")?.1)).collect();
    ensure!(matches!(bodies.as_slice(), [first, again] if first == again && !first.is_empty()), "{bodies:?}");
    let ran = || Ok::<_, anyhow::Error>(fs::read_to_string(&effects)?.lines().count());
    ensure!(ran()? == 1, "the API did not work once");
    tutorial.run("backends.md", |block| block.contains("keys purge"))?;
    tutorial.run("backends.md", |block| block.contains("localhost:10000"))?;
    ensure!(ran()? == 2, "the key is not free");
    Ok(())
}

fn agents() -> Result<()> {
    let mut tutorial = Tutorial::new()?;
    // Its first two blocks: the policy and the programs, without the page's own requests.
    tutorial.run("production.md", |block| block.contains("token.mjs") || block.contains("$ node "))?;
    tutorial.install(&tools("EDGE_SDKS", ".tools/sdks").join("agents/node_modules"), "examples/agents/node_modules")?;
    tutorial.run("callers.md", |block| block.contains("examples/agents"))?;
    let log = tutorial.log("server.mjs")?;
    ensure!(log.matches("key=t-acme:shop:user:agent-7:c-81-call_1 ->").count() == 2, "{log}");
    ensure!(log.matches("POST /orders").count() == 3, "{log}");
    Ok(())
}

fn tools(variable: &str, place: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| repository().join(place), PathBuf::from)
}

/// The block with this number of a page, and how many there are.
fn block(page: &str, language: &str, number: usize) -> Result<(String, usize)> {
    let text = fs::read_to_string(repository().join("docs").join(page))?;
    let fence = format!("```{language}\n");
    let blocks: Vec<&str> = text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect();
    Ok((blocks.get(number).with_context(|| format!("{page} has no block {number}"))?.to_string(), blocks.len()))
}

/// A folder in which a reader types.
struct Tutorial {
    folder: TempDir,
    /// Ports as pages have them, and as this test has them
    ports: Vec<(&'static str, u16)>,
    /// What commands have printed that ended
    printed: Vec<String>,
    /// The variables that were set
    variables: String,
    /// How many programs were started
    started: usize,
    /// Programs, by the ports at which they listen
    running: Vec<(u16, Process)>,
}

impl Tutorial {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let root = folder.path();
        for name in [".tools/bin", "dist", "scripts", "target/release"] {
            fs::create_dir_all(root.join(name))?;
        }
        for example in ["own-api", "agents"] {
            let (from, to) = (repository().join("examples").join(example), root.join("examples").join(example));
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(from)? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "mjs") {
                    fs::copy(&path, to.join(path.file_name().context("a name")?))?;
                }
            }
        }
        for (there, here) in [
            (built("EDGE_CLI", "edge-idempotency")?, "dist/edge-idempotency"),
            (built("EDGE_RECORDER", "recorder")?, "target/release/recorder"),
            (tools("EDGE_WASM", "dist/edge_idempotency.wasm"), "dist/edge_idempotency.wasm"),
            (tools("EDGE_ENVOY", ".tools/bin/envoy"), ".tools/bin/envoy"),
            (tools("EDGE_RESTATE", ".tools/bin/restate-server"), ".tools/bin/restate-server"),
        ] {
            symlink(fs::canonicalize(&there).with_context(|| there.display().to_string())?, root.join(here))?;
        }
        symlink(repository().join("deploy"), root.join("deploy"))?;
        // Without the display of progress. A reader repeats a question whether a program is ready.
        fs::write(root.join(".curlrc"), "silent\nshow-error\nretry = 60\nretry-delay = 1\nretry-all-errors\n")?;
        let free = Ports::free()?;
        let ports = vec![
            ("10000", free.gateway),
            ("9901", free.admin),
            ("9000", free.service),
            ("9001", free.registry),
            ("9080", free.ledger),
            ("8080", free.restate_ingress),
            ("9070", free.restate_admin),
            ("5122", free.restate_node),
            ("8000", harness::ports::free()?),
            ("9100", harness::ports::free()?),
            ("9101", harness::ports::free()?),
            ("9102", harness::ports::free()?),
        ];
        Ok(Self { folder, ports, printed: Vec::new(), variables: String::new(), started: 0, running: Vec::new() })
    }

    /// Puts what a command of the page would fetch into its place.
    fn install(&self, from: &Path, to: &str) -> Result<()> {
        ensure!(from.is_dir(), "{} is missing: run `make tools-all`", from.display());
        Ok(symlink(fs::canonicalize(from)?, self.folder.path().join(to))?)
    }

    /// Runs the commands of those blocks of a page that are chosen.
    fn run(&mut self, page: &str, chosen: fn(&str) -> bool) -> Result<()> {
        let (_, count) = block(page, "console", 0)?;
        let mut any = false;
        for number in 0..count {
            let (text, _) = block(page, "console", number)?;
            if chosen(&text) {
                any = true;
                for (command, expected) in commands(&text) {
                    let own = self.with_own_ports(&with_usual_ports(&command));
                    let ran = self.command(&own, &self.with_own_ports(&expected));
                    ran.with_context(|| format!("docs/{page}: {command}"))?;
                }
            }
        }
        ensure!(any, "{page} has no such block");
        Ok(())
    }

    fn with_own_ports(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (there, here) in &self.ports {
            text = text
                .replace(&format!(":{there}"), &format!(":{here}"))
                .replace(&format!("port: {there}"), &format!("port: {here}"))
                .replace(&format!("PORT={there}"), &format!("PORT={here}"));
        }
        text
    }

    fn port(&self, there: &str) -> Result<u16> {
        let known = self.ports.iter().find(|(page, _)| *page == there);
        known.map(|(_, port)| *port).with_context(|| format!("no port {there}"))
    }

    fn command(&mut self, command: &str, expected: &str) -> Result<()> {
        // What they install is there.
        if ["npm ", "crates/xtask/scripts/tools.sh "].iter().any(|start| command.starts_with(start)) {
            return Ok(());
        }
        if (command.contains("envoy -c") || command.starts_with(".tools/bin/envoy --"))
            && !command.contains("--mode validate")
        {
            return self.start(command, "10000");
        }
        if command.contains("examples/own-api/server.mjs") {
            return self.start(&format!("{command} {}", self.port("9000")?), "9000");
        }
        if command.contains("/recorder --") {
            self.start(command, "9100")?;
            let (_, process) = self.running.last_mut().context("a program")?;
            let log = process.log().to_owned();
            let knows = async || {
                ensure!(fs::read_to_string(&log)?.contains(" knows "), "Restate does not know it");
                Ok(())
            };
            return runtime()?.block_on(process.ready(READY, knows));
        }
        if command.contains("restate-server") {
            return self.start(command, "9070").and_then(|()| self.listens("8080"));
        }
        if command.contains("trial/orders.mts") && !command.contains("<<") {
            return self.start(command, "9080");
        }
        let is_variable = command.split_once('=').is_some_and(|(name, _)| {
            name.trim_start_matches("export ").chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
        });
        let is_variable = is_variable && !command.starts_with("CRASH=");
        let output = self.shell(command).output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(
            expected.is_empty() || fits(&printed, expected),
            "it printed:\n{printed}\nand the page has:\n{expected}"
        );
        let may_fail = expected.contains("REFUSED") || expected.contains("error[") || command.starts_with("CRASH=");
        ensure!(output.status.success() || may_fail, "{}:\n{printed}", output.status);
        if is_variable {
            self.variables += &format!("{command}\n");
        }
        self.printed.push(printed.into_owned());
        self.configurations()
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("exec 2>&1\n{}{command}", self.variables)).current_dir(self.folder.path());
        // For its `.curlrc`.
        shell.env("HOME", self.folder.path());
        shell
    }

    /// Gives configurations of Envoy that were written the test's ports.
    fn configurations(&self) -> Result<()> {
        let Ok(written) = fs::read_dir(self.folder.path().join("trial")) else { return Ok(()) };
        for entry in written {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let mut text = fs::read_to_string(&path)?;
                for there in ["10000", "9901", "9000"] {
                    let here = self.port(there)?;
                    text = text.replace(&format!("port_value: {there}"), &format!("port_value: {here}"));
                }
                fs::write(&path, text)?;
            }
        }
        Ok(())
    }

    /// Starts a program that a reader leaves running in another terminal, and ends the one before it at its port.
    fn start(&mut self, command: &str, port: &str) -> Result<()> {
        let own = self.port(port)?;
        self.running.retain(|(other, _)| *other != own);
        self.started += 1;
        let log = self.folder.path().join(format!("{}.log", self.started));
        self.running.push((own, Process::spawn(command, &mut self.shell(command), &log)?));
        self.listens(port)
    }

    /// Waits until the program that was started last listens.
    fn listens(&mut self, port: &str) -> Result<()> {
        let port = self.port(port)?;
        let (_, process) = self.running.last_mut().context("a program")?;
        runtime()?.block_on(process.ready(READY, async || Ok(TcpStream::connect(("127.0.0.1", port)).map(drop)?)))
    }

    /// What a program has printed.
    fn log(&self, part: &str) -> Result<String> {
        let process = self
            .running
            .iter()
            .map(|(_, process)| process)
            .find(|process| process.record().name.contains(part))
            .context("no such program")?;
        Ok(fs::read_to_string(process.log())?)
    }
}

/// A command with the ports that it has without options.
fn with_usual_ports(command: &str) -> String {
    let restate = "RESTATE_BIND_ADDRESS=127.0.0.1:5122 RESTATE_INGRESS__BIND_ADDRESS=127.0.0.1:8080 RESTATE_ADMIN__BIND_ADDRESS=127.0.0.1:9070";
    let recorder =
        "--restate http://127.0.0.1:8080 --listen 127.0.0.1:9100 --service 127.0.0.1:9101 --status 127.0.0.1:9102";
    match command {
        ".tools/bin/restate-server" => format!("{restate} {command}"),
        _ => command
            .replace("recorder --upstream", &format!("recorder {recorder} --upstream"))
            .replace("envoy --policy -", "envoy --listen 127.0.0.1:10000 --admin 127.0.0.1:9901 --policy -"),
    }
}

/// The commands of a block, each with what the page says that it prints.
fn commands(block: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else {
            if let Some((_, expected)) = found.last_mut() {
                *expected += &format!("{line}\n");
            }
            continue;
        };
        let mut command = first.to_owned();
        let is_document = command.contains("<<'EOF'");
        let mut last = first;
        while (is_document && last != "EOF") || last.ends_with('\\') {
            let Some(next) = lines.next() else { break };
            command += &format!("\n{next}");
            last = next;
        }
        found.push((command, String::new()));
    }
    found
}

/// Whether lines are what a page says.
fn fits(printed: &str, expected: &str) -> bool {
    let printed: Vec<_> = printed.lines().map(str::trim_end).collect();
    let expected: Vec<_> = expected.lines().collect();
    lines_fit(&printed, &expected)
}

fn lines_fit(printed: &[&str], expected: &[&str]) -> bool {
    match (expected, printed) {
        ([], []) => true,
        (["…", rest @ ..], [_, below @ ..]) => lines_fit(printed, rest) || lines_fit(below, expected),
        (["…", rest @ ..], []) => lines_fit(printed, rest),
        ([first, rest @ ..], [line, below @ ..]) => line_fits(line, first) && lines_fit(below, rest),
        _ => false,
    }
}

fn line_fits(line: &str, expected: &str) -> bool {
    let Some((start, after)) = expected.split_once('…') else { return line == expected };
    let Some(rest) = line.strip_prefix(start) else { return false };
    // What stands for any text ends where the rest of the page's line begins.
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| rest.get(at..).is_some_and(|end| line_fits(end, after)))
}
