//! Repository tasks: on what was built (the module, OCI images, descriptions of what files consist of), and the layout of test data.

mod image;
mod layout;
mod module;
mod sbom;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Parser)]
#[command(about = "Tasks of the repository")]
enum Task {
    /// Turn the linked module into the file for release, and write its checksum next to it
    Finish {
        input: PathBuf,
        output: PathBuf,
        /// The wasm-opt of Binaryen, to make it smaller
        #[arg(long)]
        optimizer: Option<PathBuf>,
    },
    /// Turn the linked module into one whose functions note when they are called first
    NoteFirstCalls { input: PathBuf, output: PathBuf },
    /// Turn the linked module of the playground into the file for its page
    FinishPage { input: PathBuf, output: PathBuf },
    /// Check the exports, the imports and the size of a finished module
    CheckModule { file: PathBuf },
    /// Write the module as OCI layouts FOLDER/module and FOLDER/module-artifact, and print each with its digest
    ModuleImages {
        module: PathBuf,
        folder: PathBuf,
        #[command(flatten)]
        about: About,
    },
    /// Write an OCI layout that runs a program, and print it with its digest
    Image {
        layout: PathBuf,
        /// The processor, as Go names it
        #[arg(long, value_parser = ["amd64", "arm64"])]
        arch: String,
        /// The program; once more for each of its first arguments
        #[arg(long, required = true, allow_hyphen_values = true)]
        entrypoint: Vec<String>,
        /// An argument that users replace; once for each
        #[arg(long, allow_hyphen_values = true)]
        command: Vec<String>,
        /// The numbers of user and group
        #[arg(long, default_value = "65532:65532")]
        user: String,
        /// A folder that becomes a layer; once for each, the lowest first
        #[arg(long, required = true)]
        layer: Vec<PathBuf>,
        #[command(flatten)]
        about: About,
    },
    /// Join OCI layouts for several processors into one, and print it with its digest
    ImageIndex {
        layout: PathBuf,
        #[arg(required = true)]
        images: Vec<PathBuf>,
        #[command(flatten)]
        about: About,
    },
    /// Give the test data in JSON its layout
    FormatCases {
        /// Change nothing, and fail if a file has another layout
        #[arg(long)]
        check: bool,
    },
    /// Print what a built file consists of, in CycloneDX
    Sbom {
        file: PathBuf,
        /// The package that it is built of
        #[arg(long)]
        package: String,
        #[arg(long)]
        target: String,
        /// What it is called, if not as the file
        #[arg(long)]
        name: Option<String>,
        /// When it was built, in RFC 3339
        #[arg(long)]
        time: Option<String>,
        /// A file with a JSON list of further components; once for each
        #[arg(long)]
        part: Vec<PathBuf>,
    },
}

#[derive(Args)]
struct About {
    /// A text about the image, NAME=TEXT; once for each
    #[arg(long, value_parser = annotation)]
    annotation: Vec<(String, String)>,
}

fn annotation(argument: &str) -> Result<(String, String), String> {
    let (name, text) = argument.split_once('=').ok_or("it has the form NAME=TEXT")?;
    Ok((name.to_owned(), text.to_owned()))
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Finish { input, output, optimizer } => finish(&input, &output, |linked| {
            let module = module::finish(linked)?;
            match &optimizer {
                Some(optimizer) => optimize(optimizer, &module, &output),
                None => Ok(module),
            }
        }),
        Task::NoteFirstCalls { input, output } => finish(&input, &output, module::note_first_calls),
        Task::FinishPage { input, output } => finish(&input, &output, module::finish_page),
        Task::CheckModule { file } => check_module(&file),
        Task::ModuleImages { module, folder, about } => {
            let module = read(&module)?;
            let layout = folder.join("module");
            print_image(&layout, &image::module_image(&module, &layout, &about.annotation)?);
            let layout = folder.join("module-artifact");
            print_image(&layout, &image::module_artifact(&module, &layout, &about.annotation)?);
            Ok(())
        }
        Task::Image { layout, arch, entrypoint, command, user, layer, about } => {
            let container = image::Container {
                architecture: &arch,
                entrypoint: &entrypoint,
                command: &command,
                user: &user,
                layers: &layer,
            };
            print_image(&layout, &image::container_image(&container, &layout, &about.annotation)?);
            Ok(())
        }
        Task::ImageIndex { layout, images, about } => {
            print_image(&layout, &image::index(&images, &layout, &about.annotation)?);
            Ok(())
        }
        Task::FormatCases { check } => format_cases(check),
        Task::Sbom { file, package, target, name, time, part } => {
            let artifact = sbom::Artifact {
                file: &file,
                package: &package,
                target: &target,
                name: name.as_deref(),
                time: time.as_deref(),
                parts: &part,
            };
            println!("{:#}", sbom::describe(&artifact, root()?)?);
            Ok(())
        }
    }
}

fn root() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("xtask is not in crates/")
}

/// The test data that has the layout, with the lock files of npm, without what tests write themselves. Snapshots have lines of
/// `crates/command/tests/`.
const CASES: [&str; 10] = [
    "tests/cases/*.json",
    "tests/vectors/*.json",
    "crates/engine/tests/*.json",
    ":!crates/engine/tests/golden",
    "tests/e2e/tests/*.json",
    "tests/compat/*.json",
    "krakend/internal/*.json",
    "deploy/observability/*.json",
    "tests/mutants/*.json",
    "*package-lock.json",
];

fn format_cases(check: bool) -> Result<()> {
    let files =
        Command::new("git").arg("ls-files").args(CASES).current_dir(root()?).output().context("git ls-files")?;
    let files = String::from_utf8(files.stdout)?;
    ensure!(!files.is_empty(), "git ls-files names no test data");
    for file in files.lines() {
        let path = root()?.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
        let formatted = layout::format(&text).with_context(|| file.to_owned())?;
        if formatted != text {
            ensure!(!check, "{file} has another layout: cargo run --bin xtask -- format-cases");
            write(&path, formatted.as_bytes())?;
        }
    }
    Ok(())
}

fn print_image(layout: &Path, digest: &str) {
    println!("{} {digest}", layout.display());
}

fn finish(input: &Path, output: &Path, finished: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
    let linked = read(input)?;
    let finished = finished(&linked).with_context(|| input.display().to_string())?;
    write(output, &finished)?;
    let name = output.file_name().context("the output needs a file name")?.to_string_lossy();
    write(&output.with_added_extension("sha256"), format!("{}  {name}\n", sha256(&finished)).as_bytes())?;
    println!("finish: {} -> {} bytes", linked.len(), finished.len());
    Ok(())
}

/// Runs wasm-opt on a module. Its files lie beside `output`.
fn optimize(optimizer: &Path, module: &[u8], output: &Path) -> Result<Vec<u8>> {
    let (before, after) = (output.with_added_extension("before"), output.with_added_extension("after"));
    write(&before, module)?;
    let mut command = Command::new(optimizer);
    let status = command.args(module::OPTIMIZATIONS.split_whitespace()).arg(&before).arg("-o").arg(&after).status();
    let status = status.with_context(|| format!("cannot run {}", optimizer.display()))?;
    ensure!(status.success(), "{} failed: {status}", optimizer.display());
    let optimized = read(&after)?;
    for file in [before, after] {
        std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(optimized)
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
