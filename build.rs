//! Tells the module which commit it was built from (`EDGE_IDEMPOTENCY_GIT_HASH`, logged at start), and makes the
//! provider files of `policies/providers/` ready to be compiled in.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "EDGE_IDEMPOTENCY_GIT_HASH";

/// What the module is made of. A change here makes the hash `-dirty`, one in the docs or the tests does not.
const SOURCES: [&str; 5] = ["src", "policies", "build.rs", "Cargo.toml", "Cargo.lock"];

/// What people read of a provider file, and the filter does not.
const FOR_PEOPLE: [&str; 5] = ["$schema", "name", "docs_url", "no_identifier", "notes"];
/// What the filter reads of `retry`.
const OF_RETRY: &str = "same_body_on_resend";

fn main() {
    providers();
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    for path in SOURCES {
        watch(path);
    }
    // A source archive has no repository and sets the variable instead.
    let hash = std::env::var(VARIABLE).ok().filter(|given| !given.is_empty()).or_else(from_git);
    println!("cargo::rustc-env={VARIABLE}={}", hash.as_deref().unwrap_or("unknown"));
}

/// Writes `providers.rs`: a list of names and files, ordered by name, without spaces and what only people read.
fn providers() {
    let mut files: Vec<PathBuf> = std::fs::read_dir("policies/providers")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        // A file that is no JSON object is compiled in as it is, and the tests say so.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let short = serde_json::from_str(&text).map(|mut file: serde_json::Map<_, _>| {
            file.retain(|member, _| !FOR_PEOPLE.contains(&member.as_str()));
            if let Some(retry) = file.get_mut("retry").and_then(serde_json::Value::as_object_mut) {
                retry.retain(|member, known| member == OF_RETRY && *known == true);
                if retry.is_empty() {
                    file.remove("retry");
                }
            }
            serde_json::Value::Object(file).to_string()
        });
        let _ = writeln!(list, "    ({name:?}, {:?}),", short.as_ref().unwrap_or(&text));
    }
    list.push_str("]\n");
    let directory = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = std::fs::write(directory.join("providers.rs"), list) {
        println!("cargo::error=cannot write providers.rs: {error}");
    }
}

fn from_git() -> Option<String> {
    // Empty at the top of a repository: an archive unpacked inside somebody else's repository is not that repository.
    if !git(&["rev-parse", "--show-cdup"])?.is_empty() {
        return None;
    }
    // HEAD moves by a checkout, its branch by a commit; where refs are packed only the log of HEAD tells.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    for name in ["HEAD", "logs/HEAD", "packed-refs", &branch] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            watch(&path);
        }
    }
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    status.extend(SOURCES);
    let dirty = if git(&status)?.is_empty() { "" } else { "-dirty" };
    Some(format!("{hash}{dirty}"))
}

fn git(arguments: &[&str]) -> Option<String> {
    // Without optional locks `git status` leaves the index alone, which somebody may be committing from.
    let output = Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Cargo runs this script for ever again if a watched path does not exist.
fn watch(path: &str) {
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
}
