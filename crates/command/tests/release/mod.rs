//! What belongs to a release beside the programs: the chart, the version in one place, the versions that were tested, the workflows.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

mod chart;
mod support;
mod version;
mod workflows;

use crate::repository;
use std::path::{Path, PathBuf};

/// A program of deploy/release/tools, or `None` if it is not installed, which is said with what is not tested then.
fn tool(name: &str, untested: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("EDGE_RELEASE_TOOLS").map_or_else(|| repository().join(".tools/release-tools"), PathBuf::from);
    let program = folder.join(name).join(name);
    if program.is_file() {
        return Some(program);
    }
    eprintln!(
        "SKIPPED: {name} is not installed, so {untested}. `crates/xtask/scripts/tools.sh release-tools` installs it."
    );
    None
}

/// A file of the repository.
fn text(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
