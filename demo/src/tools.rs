//! Where the programs are. Each path can be set by an environment variable; the defaults are what the Makefile leaves.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Paths of everything the stack runs.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The filter: `EDGE_WASM`, else `dist/edge_idempotency.wasm`.
    pub wasm: PathBuf,
    /// `EDGE_ENVOY`, else `.tools/bin/envoy`.
    pub envoy: PathBuf,
    /// `EDGE_RESTATE`, else `.tools/bin/restate-server`.
    pub restate: PathBuf,
    /// `EDGE_OPENBAO`, else `.tools/bin/bao`; none if it is not there.
    pub openbao: Option<PathBuf>,
    /// The sample service: `EDGE_DEMO_SERVICE`, else built by cargo, so that it is never an old one.
    pub service: PathBuf,
}

impl Tools {
    /// Finds all of them, and builds the sample service if it has changed. One error names everything that is missing; that
    /// OpenBao is, concerns only those who need it.
    pub fn locate() -> Result<Self> {
        Self::locate_with(service)
    }

    /// As [`Tools::locate`], with another service behind Restate: `service` gives its path, if all the rest is there.
    pub fn locate_with(service: impl FnOnce() -> Result<PathBuf>) -> Result<Self> {
        let mut missing = Vec::new();
        let mut find = |variable: &str, default: &str| {
            let path = path_of(variable, default);
            if !path.is_file() {
                missing.push(format!("  {} (or set {variable})", path.display()));
            }
            path
        };
        let wasm = find("EDGE_WASM", "dist/edge_idempotency.wasm");
        let envoy = find("EDGE_ENVOY", ".tools/bin/envoy");
        let restate = find("EDGE_RESTATE", ".tools/bin/restate-server");
        if !missing.is_empty() {
            bail!("not there:\n{}\nrun `make tools wasm` first", missing.join("\n"));
        }
        let openbao = Some(path_of("EDGE_OPENBAO", ".tools/bin/bao")).filter(|path| path.is_file());
        Ok(Self { wasm, envoy, restate, openbao, service: service()? })
    }
}

/// The repository this program was built from.
pub fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

fn path_of(variable: &str, default: &str) -> PathBuf {
    match env::var_os(variable) {
        Some(path) => std::path::absolute(&path).unwrap_or_else(|_| path.into()),
        None => repository().join(default),
    }
}

fn service() -> Result<PathBuf> {
    built("EDGE_DEMO_SERVICE", env!("CARGO_PKG_NAME"), "demo-service")
}

/// A program of this repository: where `variable` says, else built by cargo if it has changed.
pub fn built(variable: &str, package: &str, program: &str) -> Result<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "{variable} names {}, which is not there", path.display());
        return Ok(path);
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .args(["build", "--quiet", "--package", package, "--bin", program])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(repository())
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}; set {variable} instead", cargo.display()))?;
    ensure!(output.status.success(), "{program} does not build");
    executable(&output.stdout).with_context(|| format!("cargo did not say where it left {program}"))
}

/// The executable's path, out of cargo's messages (one JSON document a line).
fn executable(messages: &[u8]) -> Option<PathBuf> {
    messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_is_read_from_cargos_messages() {
        let messages = br#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/work/target/debug/demo-service"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages), Some(PathBuf::from("/work/target/debug/demo-service")));
        assert_eq!(executable(b"not json"), None);
    }

    #[test]
    fn repository_holds_this_package() {
        assert!(repository().join("demo/Cargo.toml").is_file());
    }
}
