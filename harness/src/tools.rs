//! Where the programs are. Each path can be set by an environment variable; the defaults are what the Makefile leaves.

use std::env;
use std::path::{Path, PathBuf};

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
    /// The sample service: `EDGE_DEMO_SERVICE`, else beside the running program.
    pub service: PathBuf,
}

impl Tools {
    /// Finds all of them. One error names everything that is missing; that
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
    built("EDGE_DEMO_SERVICE", "demo-service")
}

/// A program of this repository: where `variable` says, else where cargo leaves it beside the running program.
pub fn built(variable: &str, program: &str) -> Result<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        // Tests run in the directory of their package.
        let path = repository().join(path);
        ensure!(path.is_file(), "{variable} names {}, which is not there", path.display());
        return Ok(path);
    }
    let running = env::current_exe()?;
    // Programs are in target/debug, and tests in target/debug/deps.
    let beside = running.ancestors().skip(1).take(2).map(|directory| directory.join(program));
    let found = beside.into_iter().find(|path| path.is_file());
    found.with_context(|| format!("{program} is not built: run `make programs`, or set {variable}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_holds_this_package() {
        assert!(repository().join("harness/Cargo.toml").is_file());
    }
}
