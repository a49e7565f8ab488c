//! The module's file, of either host, and the name with its checksum under which a gateway should load it (docs/production.md).

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How many digits of the checksum stand in a name.
const DIGITS: usize = 12;

/// For which host of Envoy a module is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleKind {
    /// Its proxy-wasm filter
    Wasm,
    /// Its dynamic modules
    DynamicModule,
}

impl ModuleKind {
    /// The beginning and the end of its file's name
    const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Wasm => ("edge_idempotency", "wasm"),
            Self::DynamicModule => ("libedge_idempotency", "so"),
        }
    }

    fn file_name(self) -> String {
        let (stem, extension) = self.name();
        format!("{stem}.{extension}")
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let kinds = [(Self::Wasm, &b"\0asm"[..]), (Self::DynamicModule, b"\x7fELF")];
        kinds.into_iter().find(|(_, magic)| bytes.starts_with(magic)).map(|(kind, _)| kind)
    }
}

/// A module, as a gateway names it.
#[derive(Clone, Debug)]
pub(crate) struct ModuleFile {
    /// The path at the gateway
    pub(crate) path: String,
    /// SHA-256 in hexadecimal digits, if the file was read
    pub(crate) sha256: Option<String>,
    /// Whether the name has the beginning of the checksum
    pub(crate) hashed_name: bool,
}

impl ModuleFile {
    /// Reads the module `file`. A file beside it with the same content and the checksum in its name is named instead of it, as
    /// `make wasm` and `make dynamic-module` leave one. `directory` is where the gateway has it, if that is elsewhere.
    ///
    /// # Errors
    /// The file cannot be read, or is no module of this kind.
    pub(crate) fn read(file: &Path, directory: Option<&Path>, kind: ModuleKind) -> Result<Self, String> {
        let bytes = std::fs::read(file).map_err(|error| {
            format!("{}: {error}; --module names the filter's module, {}", file.display(), kind.file_name())
        })?;
        let found = ModuleKind::of(&bytes);
        if found != Some(kind) {
            let said = match (kind, found) {
                (ModuleKind::Wasm, Some(_)) => {
                    "this is a dynamic module: add --dynamic-module, or name edge_idempotency.wasm"
                }
                (ModuleKind::Wasm, None) => "this is no WebAssembly module; --module names edge_idempotency.wasm",
                (ModuleKind::DynamicModule, Some(_)) => {
                    "this is the WebAssembly module: leave --dynamic-module out, or name libedge_idempotency.so"
                }
                (ModuleKind::DynamicModule, None) => {
                    "this is no dynamic module; with --dynamic-module --module names libedge_idempotency.so"
                }
            };
            return Err(format!("{}: {said}", file.display()));
        }
        let mut sha256 = String::new();
        for byte in Sha256::digest(&bytes) {
            let _ = write!(sha256, "{byte:02x}");
        }
        let short = beginning(&sha256);
        let (stem, extension) = kind.name();
        let hashed = format!("{stem}-{short}.{extension}");
        let beside = file.with_file_name(&hashed);
        let named: PathBuf =
            if std::fs::read(&beside).is_ok_and(|other| other == bytes) { beside } else { file.to_owned() };
        // In another directory it gets the name that it should have there.
        let path = match directory {
            Some(directory) => directory.join(hashed),
            None => std::path::absolute(&named).unwrap_or(named),
        };
        let path = path.display().to_string();
        let hashed_name = has_checksum(&path, &sha256);
        Ok(Self { path, sha256: Some(sha256), hashed_name })
    }

    /// Whether proxies fetch it: the path is the URL of an image or a file.
    pub(crate) fn is_fetched(&self) -> bool {
        self.path.contains("://")
    }

    /// A module that is not here.
    pub(crate) fn elsewhere(directory: Option<&Path>, kind: ModuleKind) -> Self {
        let directory = directory.unwrap_or_else(|| Path::new("/etc/envoy"));
        Self { path: directory.join(kind.file_name()).display().to_string(), sha256: None, hashed_name: false }
    }
}

/// Whether the name of a file has the beginning of its checksum.
pub(crate) fn has_checksum(path: &str, sha256: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.contains(&beginning(sha256)))
}

fn beginning(sha256: &str) -> String {
    sha256.chars().take(DIGITS).collect()
}
