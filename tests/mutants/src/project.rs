//! Where the parts of the project are. Packages are found by their names, so that a folder that moves costs nothing here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// The package whose mutants are made.
pub(crate) const ENGINE: &str = "edge-idempotency-engine";
/// The package of its tests.
pub(crate) const TESTS: &str = "engine-tests";
/// This package.
const OWN: &str = "mutants";
/// What is copied, built and kept is in this folder of `target/`.
const WORK: &str = "mutants";

/// The files of the engine whose mutants are made: a folder, or a file, below its `src/`.
pub(crate) const SCOPE: [&str; 20] = [
    "api_keys/request.rs",
    "collision/claim.rs",
    "collision/fingerprint.rs",
    "collision/observation.rs",
    "collision/probe.rs",
    "events/",
    "exchange/",
    "identity/",
    "key/",
    "operations/answer.rs",
    "operations/request.rs",
    "policy/authority.rs",
    "policy/path.rs",
    "policy/route_table.rs",
    "provider/verify.rs",
    "recovery/answer.rs",
    "recovery/request.rs",
    "recovery/result.rs",
    "signed_callers/request.rs",
    "webhooks/request.rs",
];

/// What cargo says of the workspace.
#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// The repository.
pub(crate) struct Checkout {
    pub(crate) root: PathBuf,
    pub(crate) work: PathBuf,
    /// Where packages are, relative to the root
    packages: BTreeMap<String, PathBuf>,
}

impl Checkout {
    /// Asks cargo for it.
    ///
    /// # Errors
    /// Cargo does not answer.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let output =
            Command::new("cargo").args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).output()?;
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let (root, work) = (metadata.workspace_root, metadata.target_directory.join(WORK));
        let mut packages = BTreeMap::new();
        for Package { name, manifest_path } in metadata.packages {
            if let Some(folder) = manifest_path.parent().and_then(|folder| folder.strip_prefix(&root).ok()) {
                packages.insert(name, folder.to_owned());
            }
        }
        std::fs::create_dir_all(&work)?;
        Ok(Self { root, work, packages })
    }

    /// The folder of a package, relative to the root.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn package(&self, name: &str) -> anyhow::Result<&Path> {
        self.packages.get(name).map(PathBuf::as_path).with_context(|| format!("no package is named {name}"))
    }

    /// The folder of this package, relative to the root.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn own(&self) -> anyhow::Result<&Path> {
        self.package(OWN)
    }

    /// The files of the working copy, with what git does not know yet, relative to the root.
    ///
    /// # Errors
    /// Git does not answer.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&self.root);
        let output = git.output()?;
        if !output.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        }
        let names = String::from_utf8(output.stdout)?;
        let is_there = |path: &PathBuf| self.root.join(path).symlink_metadata().is_ok();
        Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).filter(is_there).collect())
    }
}
