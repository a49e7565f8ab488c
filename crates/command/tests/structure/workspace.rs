//! The crates of the workspace as Cargo knows them, and their picture in docs/architecture.md.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::repository;
use serde_json::Value;

/// The page, and the lines around the picture.
const PAGE: &str = "docs/architecture.md";
const BEGIN: &str = "  %% from cargo metadata: UPDATE_DOCS=1 cargo test --test cli structure:: writes it\n";
const END: &str = "  %% end\n";

/// A crate of the workspace.
pub(super) struct WorkspaceCrate {
    pub(super) name: String,
    /// From the root of the repository; `.` is the root
    pub(super) folder: String,
    pub(super) description: String,
    /// Names of crates of the workspace that its programs and libraries use; tests are left out
    pub(super) uses: BTreeSet<String>,
}

/// All crates that hold sources.
pub(super) fn crates() -> Vec<WorkspaceCrate> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--offline", "--no-deps", "--format-version=1"]).current_dir(repository());
    let output = command.output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let root = text(&metadata["workspace_root"]);
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    let mut members: Vec<WorkspaceCrate> = packages
        .iter()
        .map(|package| {
            let manifest = text(&package["manifest_path"]);
            let folder = Path::new(&manifest).parent().unwrap().strip_prefix(&root).unwrap();
            let used = package["dependencies"].as_array().unwrap().iter();
            let used =
                used.filter(|dependency| dependency["kind"].is_null()).map(|dependency| text(&dependency["name"]));
            WorkspaceCrate {
                name: text(&package["name"]),
                folder: if folder == Path::new("") { ".".to_owned() } else { folder.to_str().unwrap().to_owned() },
                description: text(&package["description"]),
                uses: used.filter(|name| names.contains(name)).collect(),
            }
        })
        .collect();
    members.sort_by(|one, other| one.folder.cmp(&other.folder));
    members
}

/// Crates of tests are left out.
fn picture(members: &[WorkspaceCrate]) -> String {
    let id = |name: &str| name.replace('-', "_");
    let mut lines = String::new();
    let is_shown = |folder: &str| !folder.starts_with("tests/") && folder != "wasm-tests";
    let shown: BTreeSet<&str> =
        members.iter().filter(|member| is_shown(&member.folder)).map(|member| member.name.as_str()).collect();
    let drawn = || members.iter().filter(|member| shown.contains(member.name.as_str()));
    for WorkspaceCrate { name, folder, description, .. } in drawn() {
        let place = if folder == "." { "src" } else { folder };
        let about = description.split(['.', ':', ';', ',']).next().unwrap_or_default().replace('`', "");
        lines += &format!("  {}[\"{place}/<br>{about}\"]\n", id(name));
    }
    for WorkspaceCrate { name, uses, .. } in drawn() {
        for used in uses.iter().filter(|used| shown.contains(used.as_str())) {
            lines += &format!("  {} --> {}\n", id(name), id(used));
        }
    }
    lines
}

#[test]
fn the_page_draws_the_crates_as_cargo_knows_them() {
    let file = repository().join(PAGE);
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let made = format!("{before}{BEGIN}{}{END}{after}", picture(&crates()));
    if page != made && std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &made).unwrap();
        return;
    }
    assert!(page == made, "{PAGE} draws other crates than there are: UPDATE_DOCS=1 writes them");
}
