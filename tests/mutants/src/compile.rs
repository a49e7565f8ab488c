//! Compiles the copy with all mutants, and leaves out those that do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::copy::{self, CheckoutCopy};
use crate::find::{MutableFile, Mutant, Switched};
use crate::project::{Checkout, ENGINE, SCOPE, TESTS};

/// No more than so many attempts. Each shows the errors of one phase of the compiler.
const ATTEMPTS: usize = 12;

/// The compiled tests of the engine.
pub(crate) struct Compiled {
    /// The test programs with libtest's options: of the crate itself, and of `tests/`
    pub(crate) tests: Vec<PathBuf>,
    /// The program of the behaviour cases and the vectors
    pub(crate) cases: PathBuf,
    /// The folder that the programs are run in
    pub(crate) folder: PathBuf,
    /// Every mutant that can be switched on
    pub(crate) mutants: Vec<Mutant>,
    /// How many do not compile
    pub(crate) wrong: usize,
    /// How many are in functions that are called at compile time
    pub(crate) constant: usize,
}

/// A line that cargo prints.
#[derive(Deserialize)]
struct CargoLine {
    reason: String,
    message: Option<CompilerMessage>,
    target: Option<CargoTarget>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
}

#[derive(Deserialize)]
struct CompilerMessage {
    level: String,
    message: String,
    rendered: Option<String>,
    spans: Vec<SpanOfMessage>,
    children: Vec<CompilerMessage>,
}

#[derive(Deserialize)]
struct SpanOfMessage {
    file_name: PathBuf,
    byte_start: usize,
    byte_end: usize,
}

/// The sources in scope, by their names in the engine's `src/`.
pub(crate) struct Sources {
    files: BTreeMap<String, MutableFile>,
}

impl Sources {
    /// Reads them, and numbers their mutants.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn read(project: &Checkout) -> anyhow::Result<Self> {
        let folder = project.package(ENGINE)?.join("src");
        let mut files = BTreeMap::new();
        let mut next = 1;
        for path in project.files()? {
            let Some(name) = path.strip_prefix(&folder).ok().and_then(Path::to_str) else { continue };
            if !name.ends_with(".rs") || !SCOPE.iter().any(|scope| name.starts_with(scope)) {
                continue;
            }
            let mut source = MutableFile::read(name, std::fs::read_to_string(project.root.join(&path))?)?;
            for mutant in &mut source.mutants {
                mutant.number = next;
                next += 1;
            }
            files.insert(name.to_owned(), source);
        }
        Ok(Self { files })
    }

    pub(crate) fn mutants(&self) -> impl Iterator<Item = &Mutant> {
        self.files.values().flat_map(|source| &source.mutants)
    }
}

/// The files of the copy, each with its name in the engine's `src/` and its changes.
type SwitchedFiles = BTreeMap<PathBuf, (String, Switched)>;

/// What is left out: mutants that do not compile, and functions that stay `const`.
#[derive(Default)]
struct NotCompiled {
    wrong: BTreeSet<u32>,
    constant: BTreeSet<String>,
}

impl NotCompiled {
    fn is_constant(&self, mutant: &Mutant) -> bool {
        mutant.const_fn.as_ref().is_some_and(|name| self.constant.contains(name))
    }
}

/// Compiles the copy.
///
/// # Errors
/// It does not compile, and no mutant is to blame.
pub(crate) fn compile(project: &Checkout, sources: &Sources) -> anyhow::Result<Compiled> {
    let mut left_out = NotCompiled::default();
    for attempt in 0..ATTEMPTS {
        let (folder, switched) = write(project, sources, &left_out)?;
        // Errors of types come early, those of borrows and of constants later. Only when there are none is the rest built.
        let checked = cargo(project, &folder, &["check", "--lib"])?;
        if !learn(&checked, &switched, sources, &mut left_out)? {
            let built = cargo(project, &folder, &["test", "--no-run"])?;
            if !learn(&built, &switched, sources, &mut left_out)? {
                return finish(project, sources, &left_out, built, folder);
            }
        }
        eprintln!("  build {}: {} mutants do not compile", attempt + 1, left_out.wrong.len());
    }
    bail!("after {ATTEMPTS} builds there are still mutants that do not compile")
}

/// Writes the copy. Gives its folder, and the files with their changes.
fn write(project: &Checkout, sources: &Sources, left_out: &NotCompiled) -> anyhow::Result<(PathBuf, SwitchedFiles)> {
    let engine = project.package(ENGINE)?;
    let mut switched = BTreeMap::new();
    let mut changed = BTreeMap::new();
    for (name, source) in &sources.files {
        let is_wanted = |mutant: &Mutant| !left_out.wrong.contains(&mutant.number);
        let file = source.switched(is_wanted, |function| left_out.constant.contains(function));
        let path = engine.join("src").join(name);
        changed.insert(path.clone(), file.text.clone());
        switched.insert(path, (name.clone(), file));
    }
    let read = |path: &Path| std::fs::read_to_string(project.root.join(path));
    let own = project.own()?;
    let up = "../".repeat(engine.components().count());
    let manifest = engine.join("Cargo.toml");
    let dependency = format!("[dependencies]\nedge_mutants = {{ path = \"{up}{}\" }}\n", own.join("switch").display());
    changed.insert(manifest.clone(), read(&manifest)?.replacen("[dependencies]\n", &dependency, 1));
    let patch =
        format!("\n[patch.crates-io]\nlibtest-mimic = {{ path = \"{}\" }}\n", own.join("libtest-mimic").display());
    changed.insert("Cargo.toml".into(), read(Path::new("Cargo.toml"))? + &patch);
    // Without its entry in the lock file cargo takes the stand-in.
    let lock = read(Path::new("Cargo.lock"))?;
    let entries: Vec<&str> = lock.split("\n\n").filter(|entry| !entry.contains("name = \"libtest-mimic\"")).collect();
    changed.insert("Cargo.lock".into(), entries.join("\n\n"));
    let copy = CheckoutCopy::make(project, FOLDER, &changed)?;
    Ok((copy.root, switched))
}

/// The copy with all mutants.
const FOLDER: &str = "engine";

fn cargo(project: &Checkout, folder: &Path, arguments: &[&str]) -> anyhow::Result<Vec<CargoLine>> {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).args(["--package", ENGINE, "--offline", "--message-format", "json", "--quiet"]);
    if arguments.contains(&"test") {
        cargo.args(["--package", TESTS, "--lib", "--test", "engine", "--test", "cases"]);
    }
    // Warnings are those of the switches. Nobody looks for lines in this program.
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", project.work.join("build")).env("RUSTFLAGS", "--cap-lints allow");
    cargo.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
    let output = cargo.stderr(std::process::Stdio::inherit()).output()?;
    let lines = String::from_utf8(output.stdout)?;
    lines.lines().map(|line| serde_json::from_str(line).context("a line of cargo")).collect()
}

/// Learns from errors what to leave out; whether there were any.
fn learn(
    lines: &[CargoLine],
    switched: &SwitchedFiles,
    sources: &Sources,
    left_out: &mut NotCompiled,
) -> anyhow::Result<bool> {
    let errors: Vec<&CompilerMessage> =
        lines.iter().filter_map(|line| line.message.as_ref()).filter(|message| message.level == "error").collect();
    let before = (left_out.wrong.len(), left_out.constant.len());
    let mut unknown = None;
    for error in &errors {
        if let Some(function) = called_at_compile_time(&error.message) {
            left_out.constant.insert(function);
            continue;
        }
        let blamed = blamed(error, switched, sources);
        if blamed.is_empty() && !error.message.starts_with("aborting due to") {
            unknown = error.rendered.clone();
        }
        left_out.wrong.extend(blamed);
    }
    if before == (left_out.wrong.len(), left_out.constant.len()) && !errors.is_empty() {
        bail!("an error that no mutant is to blame for:\n{}", unknown.unwrap_or_default());
    }
    Ok(!errors.is_empty())
}

/// The name of the function in `cannot call non-const method `a::B::name` in constants`.
fn called_at_compile_time(message: &str) -> Option<String> {
    let rest = message.strip_prefix("cannot call non-const ")?;
    let path = rest.split('`').nth(1)?;
    let path = path.split('<').next().filter(|start| !start.is_empty()).map_or(path, |_| path);
    let name = path.rsplit("::").find(|part| !part.starts_with('<') && !part.ends_with('>'))?;
    Some(name.to_owned())
}

/// The mutants that a message points at.
fn blamed(error: &CompilerMessage, switched: &SwitchedFiles, sources: &Sources) -> Vec<u32> {
    let mut all = Vec::new();
    let spans = error.spans.iter().chain(error.children.iter().flat_map(|child| &child.spans));
    for span in spans {
        let Some((name, file)) = switched.get(&span.file_name) else { continue };
        let Some(source) = sources.files.get(name) else { continue };
        let inside =
            file.changes.iter().filter(|(range, _)| range.start <= span.byte_start && span.byte_end <= range.end);
        all.extend(inside.filter_map(|(_, index)| source.mutants.get(*index)).map(|mutant| mutant.number));
    }
    all
}

fn finish(
    project: &Checkout,
    sources: &Sources,
    left_out: &NotCompiled,
    built: Vec<CargoLine>,
    folder: PathBuf,
) -> anyhow::Result<Compiled> {
    let mut tests = Vec::new();
    let mut cases = None;
    for line in built.into_iter().filter(|line| line.reason == "compiler-artifact") {
        let (Some(target), Some(program)) = (line.target, line.executable) else { continue };
        if target.name == "cases" { cases = Some(program) } else { tests.push(program) }
    }
    let is_there = |mutant: &&Mutant| !left_out.wrong.contains(&mutant.number) && !left_out.is_constant(mutant);
    Ok(Compiled {
        tests,
        cases: cases.context("cargo built no program of the behaviour cases")?,
        folder: folder.join(project.package(ENGINE)?),
        mutants: sources.mutants().filter(is_there).cloned().collect(),
        wrong: left_out.wrong.len(),
        constant: sources.mutants().filter(|mutant| left_out.is_constant(mutant)).count(),
    })
}

/// Writes a list for a program, a line each.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_list(path: &Path, lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    copy::write(path, lines.collect::<Vec<_>>().join("\n").as_bytes())
}
