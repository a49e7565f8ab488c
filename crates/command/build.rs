//! Puts the commit into the command, and generates the list of provider files (`policies/providers/`) with the notes for people, which the
//! filter does not have.

#[path = "../../src/build.rs"]
mod commit;

use std::fmt::Write as _;
use std::path::PathBuf;

/// The sources of the command. A change in them makes the commit `-dirty`.
const SOURCES: [&str; 9] = [
    "crates/command/src",
    "crates/command/build.rs",
    "crates/simulated-stores/src",
    "crates/engine/src",
    "crates/envoy/src",
    "policies",
    "src/build.rs",
    "Cargo.toml",
    "Cargo.lock",
];

/// The folder of the provider files, relative to this crate.
const FILES: &str = "../../policies/providers";

fn main() {
    write_notes();
    commit::put_commit(&SOURCES);
}

fn write_notes() {
    println!("cargo::rerun-if-changed={FILES}");
    let mut files: Vec<PathBuf> = std::fs::read_dir(FILES)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = writeln!(list, "    ({name:?}, {text:?}),");
    }
    list.push_str("]\n");
    let directory = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = std::fs::write(directory.join("provider_notes.rs"), list) {
        println!("cargo::error=cannot write provider_notes.rs: {error}");
    }
}
