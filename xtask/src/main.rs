//! Repository tasks on the built module.
//!
//! - `finish IN OUT` turns the linked module into the file for release, and writes its checksum next to it.
//! - `finish-page IN OUT` does the same with the module of the playground.
//! - `check-module FILE` checks the exports, the imports and the size of a finished file.

mod module;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: xtask finish|finish-page IN.wasm OUT.wasm | xtask check-module FILE.wasm";

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[PathBuf]) -> Result<()> {
    match arguments.iter().map(PathBuf::as_path).collect::<Vec<_>>().as_slice() {
        [task, input, output] if task.as_os_str() == "finish" => finish(input, output, module::finish),
        [task, input, output] if task.as_os_str() == "finish-page" => finish(input, output, module::finish_page),
        [task, file] if task.as_os_str() == "check-module" => check_module(file),
        _ => bail!(USAGE),
    }
}

fn finish(input: &Path, output: &Path, finished: fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
    let linked = read(input)?;
    let finished = finished(&linked).with_context(|| input.display().to_string())?;
    write(output, &finished)?;
    let name = output.file_name().context("the output needs a file name")?.to_string_lossy();
    write(&output.with_added_extension("sha256"), format!("{}  {name}\n", sha256(&finished)).as_bytes())?;
    println!("finish: {} -> {} bytes", linked.len(), finished.len());
    Ok(())
}

fn check_module(file: &Path) -> Result<()> {
    let bytes = read(file)?;
    let summary = module::check(&bytes).with_context(|| file.display().to_string())?;
    println!("check-module: {} bytes, {} imports, {} exports", bytes.len(), summary.imports, summary.exports);
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Replaces the file in one step, so that a gateway that reads it sees the old or the new content.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(context)?;
    }
    let unfinished = path.with_added_extension("tmp");
    std::fs::write(&unfinished, bytes).with_context(context)?;
    std::fs::rename(&unfinished, path).with_context(context)
}

fn sha256(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_sha_256_in_lower_case_hex() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_written_file_replaces_the_old_one_and_leaves_nothing_beside_it() {
        let directory = std::env::temp_dir().join(format!("xtask-write-{}", std::process::id()));
        let file = directory.join("module.wasm");
        write(&file, b"old").unwrap();
        write(&file, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
