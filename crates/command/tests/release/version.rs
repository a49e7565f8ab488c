//! The version stands in the workspace's manifest. Where another file has to repeat it, it is the same.

use super::text;
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first text between these two of a file.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).map_or("", |(found, _)| found)
}

#[test]
fn every_file_has_the_version_of_the_workspace() {
    let files = [
        ("Cargo.toml", "[workspace.package]\nversion = \"", "\""),
        ("deploy/chart/edge-idempotency/Chart.yaml", "\nversion: ", "\n"),
        ("deploy/chart/edge-idempotency/Chart.yaml", "\nappVersion: ", "\n"),
        ("clients/typescript/package.json", "\"version\": \"", "\""),
        ("clients/typescript/package-lock.json", "\"version\": \"", "\""),
        ("clients/python/pyproject.toml", "\nversion = \"", "\""),
        ("clients/jvm/pom.xml", "<version>", "</version>"),
        ("clients/go/doc.go", "const Version = \"", "\""),
    ];
    for (file, before, after) in files {
        assert_eq!(between(&text(file), before, after), VERSION, "{file}");
    }
    let pages = [
        ("deploy/chart/edge-idempotency/README.md", "edge-idempotency-chart-", ".tgz"),
        ("clients/go/README.md", "edge-idempotency-clients-go-v", ".zip"),
        ("clients/go/README.md", "edge-idempotency/clients/go@v", " "),
        ("clients/jvm/README.md", "edge-idempotency-okhttp-", ".jar"),
        ("clients/python/README.md", "edge_idempotency_client-", "-py3"),
        ("clients/typescript/README.md", "edge-idempotency-client-", ".tgz"),
    ];
    for (file, before, after) in pages {
        assert_eq!(between(&text(file), before, after), VERSION, "{file}");
    }
}

/// A version such as 0.1.0 has a part "0.1" in the changelog.
#[test]
fn the_changelog_has_the_version() {
    let short = VERSION.strip_suffix(".0").unwrap_or(VERSION);
    let changelog = text("CHANGELOG.md");
    let headings: Vec<&str> = changelog.lines().filter(|line| line.starts_with("## ")).collect();
    let is_ours = |line: &&&str| [short, VERSION].iter().any(|version| line.split(' ').nth(1) == Some(version));
    assert!(headings.first().is_some_and(|line| is_ours(&line)), "{headings:?}");
}

#[test]
fn the_command_says_version_and_commit() {
    let output = Command::new(env!("CARGO_BIN_EXE_edge-idempotency")).arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let commit = between(&said, &format!("edge-idempotency {VERSION} ("), ")\n");
    let known = commit.strip_suffix("-dirty").unwrap_or(commit);
    assert!(known == "unknown" || known.len() >= 12 && known.bytes().all(|byte| byte.is_ascii_hexdigit()), "{said}");
}
