//! docs/operate.md: the versions that tests run with, as the scripts that install them name them.

use super::text;
use crate::repository;

const PAGE: &str = "docs/operate.md";
const BEGIN: &str = "<!-- versions: written by crates/command/tests/release/support.rs -->\n";
const END: &str = "<!-- end of versions -->\n";

/// The value of `NAME=value` in a script; a list in parentheses is read as it is.
fn setting(script: &str, name: &str) -> String {
    let text = text(script);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}=")))
        .unwrap_or_else(|| panic!("{script} has no {name}"));
    line.trim_matches(['(', ')']).trim_start_matches('v').to_owned()
}

/// The first and the last release of KrakenD.
fn krakend() -> (String, String) {
    let text = text("krakend/releases.txt");
    let releases: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(' ').next()).collect();
    (releases[0].to_owned(), releases[releases.len() - 1].to_owned())
}

/// The release that runs, which is also the one whose definitions are compared.
fn envoy_gateway() -> String {
    let version = setting("crates/xtask/scripts/tools.sh", "ENVOY_GATEWAY_VERSION");
    assert_eq!(
        version,
        setting("crates/xtask/scripts/kubernetes-crds.sh", "ENVOY_GATEWAY"),
        "crates/xtask/scripts/kubernetes-crds.sh"
    );
    version
}

/// The day of the sources of Istio that run: Go's proxy has no releases of them.
fn istio_sources() -> String {
    let version = setting("crates/xtask/scripts/tools.sh", "ISTIO_VERSION");
    let date: Vec<char> = version.trim_start_matches("0.0.0-").chars().take(8).collect();
    let part = |from: usize, to: usize| date[from..to].iter().collect::<String>();
    format!("{}-{}-{}", part(0, 4), part(4, 6), part(6, 8))
}

fn table() -> String {
    let (envoy, older) = (
        setting("crates/xtask/scripts/lib.sh", "ENVOY_VERSION"),
        setting("crates/xtask/scripts/lib.sh", "OLDER_ENVOYS"),
    );
    let dynamic_module: Vec<&str> = older.split(' ').chain([envoy.as_str()]).collect();
    let (first, last) = krakend();
    let crds = |name| setting("crates/xtask/scripts/kubernetes-crds.sh", name);
    let rows = [
        (
            "Envoy, WebAssembly module",
            format!("{older} and newer"),
            format!("{envoy} by every end-to-end test, {older} by a part of them (`make envoys`)"),
        ),
        ("Envoy, dynamic module", dynamic_module.join(", "), format!("{envoy} and {older}, in the same way")),
        (
            "KrakenD CE",
            format!("{first} to {last}"),
            "the bridge in a stand-in made of KrakenD's router and proxies".to_owned(),
        ),
        (
            "Restate",
            setting("crates/xtask/scripts/tools.sh", "RESTATE_VERSION"),
            "every end-to-end test with Restate, and the soak".to_owned(),
        ),
        (
            "Istio",
            crds("ISTIO"),
            format!("its own processes without Kubernetes, from the sources of {}", istio_sources()),
        ),
        ("Envoy Gateway", envoy_gateway(), "its own processes without Kubernetes".to_owned()),
        (
            "OpenBao",
            setting("crates/xtask/scripts/tools.sh", "OPENBAO_VERSION"),
            "webhooks whose secrets are looked up".to_owned(),
        ),
    ];
    let mut table = "| | versions | tested by |\n|---|---|---|\n".to_owned();
    for (what, versions, by) in rows {
        table.push_str(&format!("| {what} | {versions} | {by} |\n"));
    }
    table
}

#[test]
fn the_page_has_the_versions_of_the_scripts() {
    let page = text(PAGE);
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (old, after) = rest.split_once(END).unwrap();
    let new = format!("\n{}\n", table());
    if old != new && std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(repository().join(PAGE), format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(old, new, "UPDATE_DOCS=1 cargo test --test cli release::support writes it");
}

/// What pages say of the machine beside the table.
#[test]
fn pages_have_what_the_build_says() {
    let page = text(PAGE);
    let glibc = setting("deploy/release/build.sh", "GLIBC");
    assert!(page.contains(&format!("glibc {glibc} or newer")), "{glibc}");
    let manifest = text("Cargo.toml");
    let rust = manifest.split_once("rust-version = \"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
    assert!(text("README.md").contains(&format!("Rust toolchain ({rust} or newer)")), "{rust}");
}
