//! Puts the commit into the command.

#[path = "../build.rs"]
mod commit;

/// The sources of the command. A change in them makes the commit `-dirty`.
const SOURCES: [&str; 10] = [
    "cli/src",
    "cli/build.rs",
    "explain/src",
    "lints/src",
    "engine/src",
    "envoy/src",
    "policies",
    "build.rs",
    "Cargo.toml",
    "Cargo.lock",
];

fn main() {
    commit::put_commit(&SOURCES);
}
