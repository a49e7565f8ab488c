//! The site is built from this repository, twice, and what is wrong in a page is found.

use crate::{build, check, paths};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An empty folder of a test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/site-tests").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn files(folder: &Path, below: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files(folder, &format!("{name}/"), found);
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn the_site_is_the_same_in_each_build_and_has_no_fault() {
    let folder = scratch("twice");
    let built = ["first/site", "second/elsewhere"].map(|name| {
        let target = folder.join(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        build::site(&repository(), &target).unwrap();
        let mut found = BTreeMap::new();
        files(&target, "", &mut found);
        found
    });
    let [first, second] = &built;
    assert!(first.len() > 100, "{} files", first.len());
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    let differing: Vec<_> =
        first.iter().filter(|(name, content)| second[*name] != **content).map(|(name, _)| name).collect();
    assert!(differing.is_empty(), "these differ: {differing:?}");
    let checked = check::site(&folder.join("first/site")).unwrap();
    assert!(checked.pages > 60 && checked.links > 2000, "{} pages, {} links", checked.pages, checked.links);
}

/// A small repository whose page has this text.
fn small(name: &str, page: &str) -> PathBuf {
    let folder = scratch(name);
    fs::create_dir_all(folder.join("docs")).unwrap();
    fs::write(folder.join("docs/SUMMARY.md"), "# Pages\n\n[Home](README.md)\n\n<!-- The playground stands here, if it was built. -->\n- [Other](../CONTRIBUTING.md)\n").unwrap();
    fs::write(folder.join("docs/README.md"), page).unwrap();
    fs::write(folder.join("CONTRIBUTING.md"), "# Contributing\n\n## A part\n\n[home](docs/README.md)\n").unwrap();
    fs::write(folder.join("Makefile"), "all:\n").unwrap();
    folder
}

fn fault(name: &str, page: &str) -> String {
    let folder = small(name, page);
    let target = folder.join("dist/site");
    let built = build::site(&folder, &target).and_then(|()| check::site(&target));
    built.err().map(|error| format!("{error:#}")).unwrap_or_default()
}

#[test]
fn faults_of_a_page_are_found() {
    assert_eq!(
        fault(
            "good",
            "# Home\n\n[a](../CONTRIBUTING.md#a-part) [b](../Makefile) [c](https://other.example/) [d](#home)\n"
        ),
        ""
    );
    for (name, page, found) in [
        ("file", "# Home\n\n[a](none.md)\n", "there is no such file"),
        ("anchor", "# Home\n\n[a](../CONTRIBUTING.md#none)\n", "repository/CONTRIBUTING.html has no such anchor"),
        ("own_anchor", "# Home\n\n[a](#none)\n", "index.html has no such anchor"),
        ("outside", "# Home\n\n[a](../../x)\n", "leads out of the repository"),
        ("host", "# Home\n\n![a picture](https://other.example/x.png)\n", "from another host"),
        ("script", "# Home\n\n<script src=\"https://other.example/x.js\"></script>\n", "from another host"),
        ("alternative", "# Home\n\n<img src=\"favicon.png\">\n", "has no text (`alt`)"),
        ("diagram", "# Home\n\n```mermaid\nflowchart TD\n  A --> B\n```\n", "accDescr"),
    ] {
        let fault = fault(name, page);
        assert!(fault.contains(found), "{name}: {fault}");
    }
}

#[test]
fn a_page_that_the_navigation_leaves_out_is_found() {
    let folder = small("left_out", "# Home\n");
    fs::write(folder.join("docs").join("new.md"), "# New\n").unwrap();
    let error = build::site(&folder, &folder.join("dist/site")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("leaves out ") && error.contains("new.md"), "{error}");
}

#[test]
fn the_playground_is_put_in_if_it_was_built() {
    let folder = small("playground", "# Home\n");
    fs::write(folder.join("docs/command.md"), "# The command\n\n## edge-idempotency explain\n").unwrap();
    let summary = fs::read_to_string(folder.join("docs/SUMMARY.md")).unwrap();
    fs::write(folder.join("docs/SUMMARY.md"), summary + "- [Command](command.md)\n").unwrap();
    let built = folder.join("dist/playground");
    fs::create_dir_all(&built).unwrap();
    fs::write(built.join("index.html"), "<!DOCTYPE html><html lang=en><title>p</title><meta name=viewport content=x>")
        .unwrap();
    let target = folder.join("dist/site");
    build::site(&folder, &target).unwrap();
    check::site(&target).unwrap();
    assert!(target.join("playground/index.html").is_file());
    assert!(fs::read_to_string(target.join("playground.html")).unwrap().contains("href=\"playground/index.html\""));
}

#[test]
fn paths_are_joined_and_made_relative() {
    assert_eq!(paths::join("docs/decisions", "../policy.md").as_deref(), Some("docs/policy.md"));
    assert_eq!(paths::join("docs", "../../a.md"), None);
    assert_eq!(paths::relative("decisions", "decisions/0011-json.md"), "0011-json.md");
    assert_eq!(paths::relative("decisions", "a.md"), "../a.md");
    assert_eq!(paths::relative("", "source/x/index.html"), "source/x/index.html");
}
