//! Lists the provider files (`policies/providers/`), which the command shows and signs by. The engine has them without their
//! notes for people, so the command has its own list.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The folder of the provider files, relative to this crate.
const FILES: &str = "../policies/providers";

fn main() {
    println!("cargo::rerun-if-changed={FILES}");
    let mut files: Vec<PathBuf> = std::fs::read_dir(FILES)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut list = String::from("&[\n");
    for path in &files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let _ = writeln!(list, "    ({name:?}, include_str!({path:?})),");
    }
    list.push_str("]\n");
    let directory = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = std::fs::write(Path::new(&directory).join("provider_files.rs"), list) {
        println!("cargo::error=cannot write provider_files.rs: {error}");
    }
}
