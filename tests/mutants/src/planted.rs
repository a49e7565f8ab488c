//! Plants the faults of `planted.json` one by one into a copy of the repository, and tells which of them their tests do not notice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::copy::{CheckoutCopy, write};
use crate::project::Checkout;

/// A test that takes longer, in seconds, has noticed the fault. A build may take as long before it is an error.
const LIMIT_OF_A_TEST: &str = "180";
const LIMIT_OF_A_BUILD: &str = "1500";

/// What `planted.json` has for a part of the repository.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlantedPart {
    name: String,
    /// The folder of the files below
    folder: PathBuf,
    /// What is done once, before the first build
    #[serde(default)]
    prepare: String,
    /// Builds what the tests run, in bash, at the root of the copy. `$ROOT` is the repository, `$COPY` the copy and `$TARGET` where cargo
    /// builds.
    build: String,
    /// Runs the tests that its arguments name
    test: String,
    faults: Vec<PlantedFault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlantedFault {
    /// What is wrong
    what: String,
    file: PathBuf,
    /// A text that is in the file once
    find: String,
    replace: String,
    /// The tests that have to fail
    test: String,
    /// Why they do not, for a fault that no narrow test notices
    accepted: Option<String>,
}

/// How a command ended.
enum ShellEnd {
    Well,
    Badly(String),
}

/// Plants the faults with this in `part/file: what`; whether each is noticed.
///
/// # Errors
/// A text is not in its file once, or the tests do not pass without a fault.
pub(crate) fn run(project: &Checkout, only: &str, copy: &str) -> anyhow::Result<bool> {
    let path = project.root.join(project.own()?).join("planted.json");
    let mut parts: Vec<PlantedPart> =
        serde_json::from_slice(&std::fs::read(&path)?).with_context(|| path.display().to_string())?;
    for part in &mut parts {
        let name = part.name.clone();
        part.faults.retain(|fault| format!("{name}/{}: {}", fault.file.display(), fault.what).contains(only));
    }
    parts.retain(|part| !part.faults.is_empty());
    check(project, &parts)?;
    let copy = CheckoutCopy::make(project, copy, &BTreeMap::new())?;
    link_tools(project, &copy)?;
    std::fs::create_dir_all(project.work.join("build"))?;
    let (mut planted, mut missed) = (0, Vec::new());
    for part in &parts {
        let start = Instant::now();
        missed.extend(plant(project, &copy, part)?);
        planted += part.faults.len();
        println!("planted: {}: {} faults ({} s)", part.name, part.faults.len(), start.elapsed().as_secs());
    }
    for line in &missed {
        println!("not noticed: {line}");
    }
    println!("planted: {planted} faults, {} to be looked at", missed.len());
    Ok(missed.is_empty())
}

/// Looks at every fault, before anything is built.
fn check(project: &Checkout, parts: &[PlantedPart]) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for part in parts {
        for fault in &part.faults {
            let path = part.folder.join(&fault.file);
            let text = std::fs::read_to_string(project.root.join(&path)).unwrap_or_default();
            let count = text.matches(&fault.find).count();
            if count != 1 {
                wrong.push(format!("{}: {} ({count} times): {}", path.display(), fault.what, fault.find));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("the text has to be in the file once:\n{}", wrong.join("\n"));
    }
    Ok(())
}

/// The copy uses what `make tools` has installed.
fn link_tools(project: &Checkout, copy: &CheckoutCopy) -> anyhow::Result<()> {
    let link = copy.root.join(".tools");
    if !link.exists() {
        std::os::unix::fs::symlink(project.root.join(".tools"), link)?;
    }
    Ok(())
}

/// Plants the faults of a part. Gives those that are not noticed.
fn plant(project: &Checkout, copy: &CheckoutCopy, part: &PlantedPart) -> anyhow::Result<Vec<String>> {
    let shell = |command: &str, argument: &str, limit: &str| shell(project, copy, command, argument, limit);
    if let ShellEnd::Badly(output) = shell(&part.prepare, "", LIMIT_OF_A_BUILD)? {
        bail!("{}: it cannot be prepared:\n{output}", part.name);
    }
    if let ShellEnd::Badly(output) = shell(&part.build, "", LIMIT_OF_A_BUILD)? {
        bail!("{}: the build fails without a fault:\n{output}", part.name);
    }
    let tests: BTreeSet<&str> = part.faults.iter().map(|fault| fault.test.as_str()).collect();
    for test in tests {
        if let ShellEnd::Badly(output) = shell(&part.test, test, LIMIT_OF_A_BUILD)? {
            bail!("{}: `{test}` fails without a fault:\n{output}", part.name);
        }
    }
    let mut missed = Vec::new();
    for fault in &part.faults {
        let path = part.folder.join(&fault.file);
        let whole = std::fs::read_to_string(copy.root.join(&path))?;
        let start = Instant::now();
        write(&copy.root.join(&path), whole.replacen(&fault.find, &fault.replace, 1).as_bytes())?;
        let built = shell(&part.build, "", LIMIT_OF_A_BUILD)?;
        let tested = match built {
            ShellEnd::Well => Some(shell(&part.test, &fault.test, LIMIT_OF_A_TEST)?),
            ShellEnd::Badly(_) => None,
        };
        write(&copy.root.join(&path), whole.as_bytes())?;
        let name = format!("{}: {}", path.display(), fault.what);
        let how = match (&built, &tested) {
            (_, Some(ShellEnd::Badly(_))) if fault.accepted.is_some() => {
                missed.push(format!("{name}: it is noticed now, so `accepted` has to go"));
                "noticed"
            }
            (_, Some(ShellEnd::Well)) if fault.accepted.is_some() => "accepted",
            (ShellEnd::Badly(output), _) => {
                missed.push(format!("{name}: it does not compile:\n{output}"));
                "does not compile"
            }
            (_, Some(ShellEnd::Badly(_))) => "noticed",
            (_, Some(ShellEnd::Well) | None) => {
                missed.push(format!("{name} ({})", fault.test));
                "NOT NOTICED"
            }
        };
        println!("  {how}: {name} ({} s)", start.elapsed().as_secs());
    }
    Ok(missed)
}

/// Runs a command in the copy.
fn shell(
    project: &Checkout,
    copy: &CheckoutCopy,
    command: &str,
    argument: &str,
    limit: &str,
) -> anyhow::Result<ShellEnd> {
    let module =
        std::env::var_os("EDGE_WASM").map_or_else(|| project.root.join("dist/edge_idempotency.wasm"), PathBuf::from);
    let mut shell = Command::new("timeout");
    shell.args(["--kill-after", "10", limit, "bash", "-euo", "pipefail", "-c", command, "bash"]);
    shell.args(argument.split_whitespace()).current_dir(&copy.root).stdin(Stdio::null());
    let paths: [(&str, &Path); 4] = [
        ("ROOT", &project.root),
        ("COPY", &copy.root),
        ("TARGET", &project.work.join("build")),
        ("EDGE_WASM", &module),
    ];
    // A fault that a lint refuses would not run.
    let output = shell.envs(paths).env("RUSTC_WORKSPACE_WRAPPER", "").output()?;
    if output.status.success() {
        return Ok(ShellEnd::Well);
    }
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(25)..).unwrap_or_default();
    Ok(ShellEnd::Badly(last.join("\n")))
}
