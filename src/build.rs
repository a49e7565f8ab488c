//! Puts the commit into a module (`EDGE_IDEMPOTENCY_GIT_HASH`, logged at start). The command's build script does the same with
//! [`put_commit`].

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "EDGE_IDEMPOTENCY_GIT_HASH";

/// The sources of the modules. A change in them makes the hash `-dirty`; a change in docs or tests does not.
const SOURCES: [&str; 8] = [
    "src",
    "crates/dynamic-module/src",
    "crates/engine/src",
    "crates/envoy/src",
    "policies",
    "src/build.rs",
    "Cargo.toml",
    "Cargo.lock",
];

#[allow(dead_code, reason = "another build script uses this file as a module")]
fn main() {
    put_commit(&SOURCES);
}

/// Puts the commit into the program that is built of these sources.
pub(crate) fn put_commit(sources: &[&str]) {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    // The module at the root is built with this script, and what has a folder of its own.
    if !Path::new(SOURCES[1]).exists() && std::env::set_current_dir("../..").is_err() {
        return;
    }
    for path in sources {
        watch(path);
    }
    // A source archive has no repository and sets the variable instead.
    let hash = std::env::var(VARIABLE).ok().filter(|given| !given.is_empty()).or_else(|| from_git(sources));
    println!("cargo::rustc-env={VARIABLE}={}", hash.as_deref().unwrap_or("unknown"));
}

fn from_git(sources: &[&str]) -> Option<String> {
    // The output is empty at the root of a repository. If it is not, this is an archive that was unpacked inside
    // another repository.
    if !git(&["rev-parse", "--show-cdup"])?.is_empty() {
        return None;
    }
    // A checkout changes HEAD and a commit changes the file of the branch. With packed refs only the log of HEAD
    // changes.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    for name in ["HEAD", "logs/HEAD", "packed-refs", &branch] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            watch(&path);
        }
    }
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    status.extend(sources);
    let dirty = if git(&status)?.is_empty() { "" } else { "-dirty" };
    Some(format!("{hash}{dirty}"))
}

fn git(arguments: &[&str]) -> Option<String> {
    // Without optional locks, `git status` does not write the index, which a commit may be using.
    let output = Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Watches a path if it exists. With a missing path, Cargo would run this script on every build.
fn watch(path: &str) {
    if let Ok(path) = std::fs::canonicalize(path) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
