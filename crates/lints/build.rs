//! Generates the list of provider files (`policies/providers/`) with the notes for people, which the filter does not have.

use std::fmt::Write as _;
use std::path::PathBuf;

/// The folder of the provider files, relative to this crate.
const FILES: &str = "../../policies/providers";

fn main() {
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
