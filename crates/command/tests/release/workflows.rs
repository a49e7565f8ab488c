//! The workflows are ones that GitHub can run: actionlint reads them. What they call is there, and other people's actions are pinned.

use super::{text, tool};
use crate::repository;
use std::process::Command;

const WORKFLOWS: [&str; 2] = [".github/workflows/test.yml", ".github/workflows/release.yml"];

#[test]
fn actionlint_finds_no_fault() {
    let Some(actionlint) = tool("actionlint", "the workflows of .github are not checked") else { return };
    let output =
        Command::new(actionlint).args(["-no-color"]).args(WORKFLOWS).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A tag of an action can be moved; a commit cannot.
#[test]
fn actions_are_pinned_by_commit() {
    for file in WORKFLOWS {
        let text = text(file);
        let actions: Vec<&str> =
            text.lines().filter_map(|line| line.split_once("uses: ").map(|(_, action)| action)).collect();
        assert!(!actions.is_empty());
        for action in actions {
            let commit = action.split(['@', ' ']).nth(1).unwrap();
            assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{file}: {action}");
            assert!(action.contains(" # v"), "{file}: {action} does not say its version");
        }
    }
}

#[test]
fn what_workflows_call_is_there() {
    let make = text("Makefile");
    for file in WORKFLOWS {
        for line in text(file).lines().map(str::trim) {
            let words = line.split_whitespace().map(|word| word.trim_end_matches(['"', ')']));
            for word in words.filter(|word| word.starts_with("crates/xtask/scripts/") || word.starts_with(".ci/")) {
                assert!(repository().join(word).is_file(), "{file}: {line}");
            }
            if let Some(target) = line.strip_prefix("run: make ") {
                assert!(make.contains(&format!("\n{target}: ")), "{file}: {line}");
            }
        }
    }
}
