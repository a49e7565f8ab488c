//! Running the libraries. A program gets a line for each request on its standard input, with tabs between the words: the situation, the
//! URL, the token, the key, the timeout of an attempt in milliseconds, the body. It sends all of them at the same time, and prints a
//! line for each: the situation, a tab, and what the application gets, which is a status or the name of an error.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use harness::tools::repository;
use tempfile::TempDir;

use super::recipe::{Recipe, Runner};
use super::rust;
use super::situations::{self, Situation};

/// A request that a library is to send.
#[derive(Clone, Debug)]
pub(crate) struct RecipeCall {
    pub(crate) situation: Situation,
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) key: String,
    pub(crate) body: &'static str,
}

impl RecipeCall {
    /// What a result is found by.
    fn name(&self) -> String {
        format!("{:?}", self.situation)
    }
}

/// What the application gets, by situation.
pub(crate) type Told = BTreeMap<String, String>;

/// `EDGE_RECIPES`, else `.tools/recipes`: a directory for each language.
fn installed() -> PathBuf {
    env::var_os("EDGE_RECIPES").map_or_else(|| repository().join(".tools/recipes"), PathBuf::from)
}

/// `EDGE_SDKS`, else `.tools/sdks`.
fn sdks() -> PathBuf {
    env::var_os("EDGE_SDKS").map_or_else(|| repository().join(".tools/sdks"), PathBuf::from)
}

fn examples() -> PathBuf {
    repository().join("examples/retries")
}

fn programs() -> PathBuf {
    repository().join("tests/compat/tests/recipes/programs")
}

/// Why the recipe cannot run on this machine; none if it can.
pub(crate) fn missing(recipe: &Recipe) -> Option<String> {
    let in_tools = |part: &str| {
        let is_there = installed().join(part).is_dir();
        (!is_there).then(|| {
            "it is not installed. `crates/xtask/scripts/tools.sh recipes` installs it; elsewhere set EDGE_RECIPES."
                .to_owned()
        })
    };
    match recipe.runner {
        Runner::Node | Runner::Python if recipe.is_stripe() => {
            let is_there = sdks().is_dir();
            (!is_there).then(|| {
                "it is not installed. `crates/xtask/scripts/tools.sh sdks` installs it; elsewhere set EDGE_SDKS."
                    .to_owned()
            })
        }
        Runner::Node => in_tools("node"),
        Runner::Python => in_tools("python"),
        Runner::Go => in_tools("go"),
        Runner::Java => in_tools("java"),
        Runner::Curl(_) | Runner::CurlExample(_) => {
            let output = Command::new("curl").arg("--version").output();
            let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
            let version = version.split(' ').nth(1).unwrap_or("none").to_owned();
            let is_wanted = recipe.label.contains(&format!("curl {version}"));
            (!is_wanted).then(|| format!("this machine has curl {version}, which may do something else."))
        }
        Runner::Rust => None,
    }
}

/// Sends the requests with the library, all at the same time.
pub(crate) fn run(recipe: &Recipe, calls: &[RecipeCall]) -> Result<Told> {
    match recipe.runner {
        Runner::Rust => rust::run(recipe.is_configured, calls),
        Runner::Curl(options) => curl(Path::new("curl"), options, calls),
        Runner::CurlExample(options) => curl(&examples().join("curl.sh"), options, calls),
        Runner::Node | Runner::Python | Runner::Go | Runner::Java => program(recipe, calls),
    }
}

fn program(recipe: &Recipe, calls: &[RecipeCall]) -> Result<Told> {
    let directory = TempDir::new()?;
    let (tools, library) = (installed(), recipe.library);
    let mut command = match recipe.runner {
        Runner::Node => {
            node_modules(directory.path())?;
            let mut node = Command::new("node");
            node.arg(directory.path().join("clients.mjs")).arg(library.trim_end_matches("-node"));
            node
        }
        Runner::Python => {
            let packages = if recipe.is_stripe() { sdks().join("python") } else { tools.join("python/packages") };
            let mut python = Command::new("python3");
            python.env("PYTHONPATH", env::join_paths([packages, examples()])?).env("PYTHONDONTWRITEBYTECODE", "1");
            python.arg(programs().join("clients.py")).arg(library.trim_end_matches("-python"));
            python
        }
        Runner::Java => {
            let path = format!("{0}/classes:{0}/jars/*", tools.join("java").display());
            let mut java = Command::new("java");
            java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, "Clients", library]);
            java
        }
        _ => {
            let mut go = Command::new(tools.join("go/clients"));
            go.arg(library);
            go
        }
    };
    command.arg(recipe.mode()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = without_proxy(&mut command).spawn().with_context(|| format!("cannot run {command:?}"))?;
    let lines: String = calls
        .iter()
        .map(|call| {
            let RecipeCall { situation, url, token, key, body } = call;
            format!("{}\t{url}\t{token}\t{key}\t{}\t{body}\n", call.name(), situation.timeout())
        })
        .collect();
    child.stdin.take().context("no standard input")?.write_all(lines.as_bytes())?;
    let output = child.wait_with_output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the program ended with {}: {printed}{said}", output.status);
    let told = printed.lines().map(|line| {
        let (name, told) = line.split_once('\t').with_context(|| format!("the program printed {printed}{said}"))?;
        Ok((name.to_owned(), told.to_owned()))
    });
    told.collect()
}

/// A directory with the program, the examples and their packages, as an application has them.
fn node_modules(directory: &Path) -> Result<()> {
    let modules = directory.join("node_modules");
    fs::create_dir(&modules)?;
    let ours = installed().join("node/node_modules");
    for package in ["axios", "axios-retry", "got", "undici"] {
        symlink(ours.join(package), modules.join(package))?;
    }
    symlink(sdks().join("node/node_modules/stripe"), modules.join("stripe"))?;
    for folder in [programs(), examples()] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "mjs") {
                fs::copy(&path, directory.join(path.file_name().context("a file")?))?;
            }
        }
    }
    Ok(())
}

/// The gateway is on this machine.
fn without_proxy(command: &mut Command) -> &mut Command {
    for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    command
}

fn curl(program: &Path, options: &[&str], calls: &[RecipeCall]) -> Result<Told> {
    let directory = TempDir::new()?;
    let one = |call: &RecipeCall| -> Result<(String, String)> {
        let RecipeCall { situation, url, token, key, body } = call;
        // Of several answers a file has the last one, and standard output would have all of them.
        let file = directory.path().join(call.name());
        let mut command = Command::new(program);
        if program.ends_with("curl.sh") {
            command.args([url.as_str(), token, key, body]).arg(&file);
        } else {
            let (token, key) = (format!("Authorization: Bearer {token}"), format!("Idempotency-Key: {key}"));
            command.arg(url).args(["-H", &token, "-H", &key, "-H", "Content-Type: application/json", "-d", body]);
            command.arg("-o").arg(&file);
        }
        let seconds = situation.timeout() / 1000;
        command.args(["-s", "-w", "%{http_code}", "--max-time", &seconds.to_string()]).args(options);
        let output = without_proxy(&mut command).output().with_context(|| format!("cannot run {command:?}"))?;
        let told = match output.status.code() {
            // 22 is an answer that `--fail-with-body` takes for an error.
            Some(0 | 22) => String::from_utf8_lossy(&output.stdout).into_owned(),
            code => format!("exit code {}", code.unwrap_or(-1)),
        };
        if told == "200" {
            let answer = fs::read_to_string(&file)?;
            ensure!(answer == situations::DONE, "the file has another answer: {answer}");
        }
        Ok((call.name(), told))
    };
    thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|call| scope.spawn(move || one(call))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("it panicked"))).collect()
    })
}
