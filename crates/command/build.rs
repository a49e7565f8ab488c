//! Puts the commit into the command, and generates the lists of provider files (`policies/providers/`), with the notes for people, which
//! the filter does not have, and of profiles (`policies/profiles/`).

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

fn main() {
    write_list("../../policies/providers", "provider_notes.rs");
    write_list("../../policies/profiles", "profiles.rs");
    commit::put_commit(&SOURCES);
}

/// Writes the names and contents of the files in a folder, which is relative to this crate.
fn write_list(folder: &str, generated: &str) {
    println!("cargo::rerun-if-changed={folder}");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
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
    if let Err(error) = std::fs::write(directory.join(generated), list) {
        println!("cargo::error=cannot write {generated}: {error}");
    }
}
