//! Puts the commit into the command.

#[path = "../../src/build.rs"]
mod commit;

/// The sources of the command. A change in them makes the commit `-dirty`.
const SOURCES: [&str; 10] = [
    "crates/command/src",
    "crates/command/build.rs",
    "crates/explain/src",
    "crates/lints/src",
    "crates/engine/src",
    "crates/envoy/src",
    "policies",
    "src/build.rs",
    "Cargo.toml",
    "Cargo.lock",
];

fn main() {
    commit::put_commit(&SOURCES);
}
