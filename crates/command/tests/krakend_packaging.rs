//! What is copied to build KrakenD with the bridge: Dockerfiles, the folder of a custom build, and the table of KrakenD's releases. None
//! of it can be built here without KrakenD's modules and images, so its files and versions are compared.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use crate::repository;
use std::collections::BTreeMap;
use std::fs;

const DOCKERFILES: [&str; 2] = ["krakend/custom/Dockerfile", "krakend/plugin/Dockerfile"];

fn text(file: &str) -> String {
    fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What stands behind `before`, with which a line of a file begins, up to `after`.
fn between(file: &str, before: &str, after: char) -> String {
    let whole = text(file);
    let found = whole.lines().find_map(|line| line.trim_start().strip_prefix(before));
    let found = found.unwrap_or_else(|| panic!("{file} has no {before}"));
    found.split(after).next().unwrap().trim().to_owned()
}

/// KrakenD's releases: the Go of each, and versions of modules.
fn releases() -> BTreeMap<String, (String, BTreeMap<String, String>)> {
    let rows = text("krakend/releases.txt");
    let rows = rows.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        let (release, go) = (words.next().unwrap(), words.next().unwrap());
        let modules =
            words.map(|word| word.split_once('@').map(|(name, version)| (name.into(), version.into())).unwrap());
        (release, (go, modules.collect()))
    });
    rows.collect()
}

/// Modules of `krakend/go.mod` with their versions.
fn modules() -> Vec<(String, String)> {
    let file = text("krakend/go.mod");
    let lines = file.lines().map(|line| line.trim_start_matches("require").trim());
    let modules = lines.filter(|line| line.contains(" v") && line.contains('.') && !line.starts_with("//"));
    modules.filter_map(|line| Some((line.split(' ').next()?.to_owned(), line.split(' ').nth(1)?.to_owned()))).collect()
}

#[test]
fn a_dockerfile_copies_what_is_there() {
    for dockerfile in DOCKERFILES {
        let file = text(dockerfile);
        let copies =
            file.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.starts_with("--from"));
        let mut count = 0;
        for line in copies {
            let words: Vec<_> = line.split(' ').collect();
            for source in &words[..words.len() - 1] {
                // `make wasm` makes it.
                let is_built = between("Makefile", "MODULE := ", ' ') == **source;
                assert!(is_built || repository().join(source).exists(), "{dockerfile}: COPY {source}");
                count += 1;
            }
        }
        assert!(count >= 2, "{dockerfile}: {file}");
    }
}

/// The release that everything is built for if nothing else is said.
#[test]
fn all_files_name_the_same_release_of_krakend() {
    let release = between("krakend/custom/go.mod", "github.com/krakend/krakend-ce/v2 v", ' ');
    for dockerfile in DOCKERFILES {
        assert_eq!(between(dockerfile, "ARG KRAKEND=", ' '), release, "{dockerfile}");
    }
    assert_eq!(between("Makefile", "KRAKEND ?= ", ' '), release);
    let minor = release.rsplit_once('.').unwrap().0;
    assert!(text("krakend/examples/demo/krakend.json").contains(&format!("krakend.io/schema/v{minor}/")), "{minor}");
    let (_, of_release) = releases().remove(&release).unwrap();
    for (name, version) in modules().iter().filter(|(name, _)| of_release.contains_key(name)) {
        assert_eq!(of_release[name], *version, "krakend/go.mod has another {name} than KrakenD {release}");
    }
}

/// A module that KrakenD has, too, and that the table lacks would keep the plugin from being loaded.
#[test]
fn the_table_of_releases_has_every_module_of_the_plugin() {
    let modules = modules();
    assert!(modules.iter().any(|(name, _)| name == "golang.org/x/sys"), "{modules:?}");
    for (release, (go, versions)) in releases() {
        assert!(go.starts_with("go1."), "{release}: {go}");
        // KrakenD has no WebAssembly.
        for (name, _) in modules.iter().filter(|(name, _)| name != "github.com/tetratelabs/wazero") {
            assert!(
                versions.contains_key(name),
                "krakend/releases.txt: {release} has no {name}; `{name}@-` if KrakenD has none"
            );
        }
    }
}

/// The names that the checks of the bridge rely on are those that the custom build gives to KrakenD.
#[test]
fn a_custom_build_knows_the_names_of_krakend() {
    let (own, checked) = (text("krakend/custom/aliases.go"), text("krakend/gateway/config.go"));
    let list = checked.split_once("var aliases = ").unwrap().1.split_once("\n}").unwrap().0;
    let names: Vec<(&str, &str)> = list
        .lines()
        .filter_map(|line| {
            let mut parts = line.split('"').skip(1).step_by(2);
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    assert!(names.len() >= 4, "{list}");
    for (short, long) in names {
        assert!(
            own.lines().any(|line| line.contains(&format!("\"{long}\"")) && line.contains(&format!("\"{short}\""))),
            "{short}"
        );
    }
}
