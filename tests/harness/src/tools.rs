//! Where the programs are. Each path can be set by an environment variable; the defaults are what the Makefile leaves.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The filter's module, and so the host that it runs in.
#[derive(Clone, Debug)]
pub enum Filter {
    /// The WebAssembly module.
    Wasm(PathBuf),
    /// The dynamic module.
    DynamicModule(PathBuf),
}

impl Filter {
    /// The module's file.
    pub fn path(&self) -> &Path {
        let (Self::Wasm(path) | Self::DynamicModule(path)) = self;
        path
    }

    /// The component of Envoy's log in which the filter's lines are.
    pub const fn component(&self) -> &'static str {
        match self {
            Self::Wasm(_) => "wasm",
            Self::DynamicModule(_) => "dynamic_modules",
        }
    }
}

/// Whether `EDGE_HOST` asks for the dynamic module.
///
/// # Errors
/// It names no host.
pub fn is_dynamic_module() -> Result<bool> {
    match env::var("EDGE_HOST").as_deref() {
        Ok("" | "wasm") | Err(env::VarError::NotPresent) => Ok(false),
        Ok("dynamic-module") => Ok(true),
        other => bail!("EDGE_HOST is wasm or dynamic-module, and not {other:?}"),
    }
}

/// Paths of everything the stack runs.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The filter: `EDGE_WASM`, else `dist/edge_idempotency.wasm`. With `EDGE_HOST=dynamic-module` it is `EDGE_DYNAMIC_MODULE`, else
    /// `dist/libedge_idempotency.so`.
    pub filter: Filter,
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
        let is_dynamic_module = is_dynamic_module()?;
        let filter = if is_dynamic_module {
            Filter::DynamicModule(find(DYNAMIC_MODULE.0, DYNAMIC_MODULE.1))
        } else {
            Filter::Wasm(find("EDGE_WASM", "dist/edge_idempotency.wasm"))
        };
        let envoy = find("EDGE_ENVOY", ".tools/bin/envoy");
        let restate = find("EDGE_RESTATE", ".tools/bin/restate-server");
        if !missing.is_empty() {
            let module = if is_dynamic_module { "dynamic-module" } else { "wasm" };
            bail!("not there:\n{}\nrun `make tools {module}` first", missing.join("\n"));
        }
        let openbao = Some(path_of("EDGE_OPENBAO", ".tools/bin/bao")).filter(|path| path.is_file());
        Ok(Self { filter, envoy, restate, openbao, service: service()? })
    }
}

/// The variable that names the dynamic module, and the place where it is without it.
const DYNAMIC_MODULE: (&str, &str) = ("EDGE_DYNAMIC_MODULE", "dist/libedge_idempotency.so");

/// The dynamic module, for what is about that host alone.
///
/// # Errors
/// It is not there.
pub fn dynamic_module() -> Result<Filter> {
    let path = path_of(DYNAMIC_MODULE.0, DYNAMIC_MODULE.1);
    ensure!(
        path.is_file(),
        "{} is not there (or set {}): run `make dynamic-module` first",
        path.display(),
        DYNAMIC_MODULE.0
    );
    Ok(Filter::DynamicModule(path))
}

/// The WebAssembly module, for what is about that host alone.
///
/// # Errors
/// It is not there.
pub fn wasm() -> Result<PathBuf> {
    let path = path_of("EDGE_WASM", "dist/edge_idempotency.wasm");
    ensure!(path.is_file(), "{} is not there (or set EDGE_WASM): run `make wasm` first", path.display());
    Ok(path)
}

/// A program that only a few tests need: where `variable` says, else in `.tools/bin`.
///
/// # Errors
/// It is not there.
pub fn tool(variable: &str, program: &str) -> Result<PathBuf> {
    let path = path_of(variable, &format!(".tools/bin/{program}"));
    ensure!(
        path.is_file(),
        "{} is not there (or set {variable}): run `crates/xtask/scripts/tools.sh {program}` first",
        path.display()
    );
    Ok(path)
}

/// The repository this program was built from.
pub fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
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
    found.with_context(|| format!("{program} is not built: run `make build`, or set {variable}"))
}
