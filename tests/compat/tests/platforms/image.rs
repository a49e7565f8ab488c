//! A registry on this machine with the image of the module.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::runner::runtime;
use harness::ports::{free, loopback};
use harness::process::Process;
use harness::tools::tool;

const READY: Duration = Duration::from_secs(30);

/// A running registry.
pub(crate) struct Registry {
    /// The image's name, without a scheme
    pub(crate) image: String,
    /// `sha256:…`
    pub(crate) digest: String,
    _process: Process,
}

/// How the module lies in its image: `deploy/release/images.sh` writes both.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// One layer with `plugin.wasm`
    Image,
    /// The bare module as one of two layers
    Artifact,
}

impl Registry {
    /// Starts a registry and pushes the module into it, as it is published.
    pub(crate) fn start(folder: &Path, layout: Layout) -> Result<Self> {
        let crane = tool("EDGE_CRANE", "crane")?;
        let images = std::env::var("EDGE_MODULE_IMAGES")
            .context("EDGE_MODULE_IMAGES: crates/xtask/scripts/platforms.sh sets it")?;
        let name = match layout {
            Layout::Image => "module",
            Layout::Artifact => "module-artifact",
        };
        let port = free()?;
        let disk = folder.join("registry");
        fs::create_dir_all(&disk)?;
        let mut serve = Command::new(&crane);
        serve.args(["registry", "serve", "--address", &loopback(port).to_string(), "--disk"]).arg(&disk);
        let mut process = Process::spawn("crane", &mut serve, &folder.join("registry.log"))?;
        let listens = async || {
            std::net::TcpStream::connect(loopback(port))?;
            Ok(())
        };
        runtime()?.block_on(process.ready(READY, listens))?;
        let image = format!("127.0.0.1:{port}/edge-idempotency:0.1.0");
        said(Command::new(&crane).arg("push").arg(Path::new(&images).join(name)).arg(&image))?;
        let digest = said(Command::new(&crane).args(["digest", &image]))?.trim().to_owned();
        Ok(Self { image, digest, _process: process })
    }
}

fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
