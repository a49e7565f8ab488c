//! Switches the engine's mutants on one by one, and tells which of them no test notices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::compile::{Compiled, Sources, compile, write_list};
use crate::find::Mutant;
use crate::project::Checkout;

/// Tests of a short time share a process, up to so many seconds.
const TOGETHER: Duration = Duration::from_millis(500);
/// A process may take so many times the time on a processor that its tests took without a mutant, and some seconds more.
const PATIENCE: u32 = 10;
/// So much memory a process may have, in KiB.
const MEMORY_KIB: u32 = 4 << 20;
/// It tries thousands of documents, and reads nothing that is in scope in another way than the others do.
const LEFT_OUT: &str = "schema::both_refuse_the_same_single_faults";
/// A mutant that is accepted is not tried with tests that take longer: they would find nothing.
const SLOW: Duration = Duration::from_secs(2);

/// A mutant that no test can tell from the code.
#[derive(Deserialize)]
struct AcceptedMutant {
    /// The file, below the engine's `src/`
    file: String,
    /// What is changed, and in which function
    change: String,
    /// A text in the line of the change: the same change may be possible in several lines of a function
    code: String,
    /// Why no test can tell
    reason: String,
}

impl AcceptedMutant {
    fn is(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file && self.change == mutant.change && mutant.code.contains(&self.code)
    }
}

/// The mutants that may survive. They are not part of the program, so that a change needs no build.
fn accepted(project: &Checkout) -> anyhow::Result<Vec<AcceptedMutant>> {
    let path = project.root.join(project.own()?).join("accepted.json");
    serde_json::from_slice(&std::fs::read(&path)?).with_context(|| path.display().to_string())
}

/// A test of a program with libtest's options.
struct TimedTest {
    program: PathBuf,
    name: String,
    took: Duration,
    reached: BTreeSet<u32>,
}

/// Which mutants are tried.
pub(crate) struct EngineOptions {
    /// Those of files whose names begin so
    pub(crate) file: String,
    pub(crate) jobs: usize,
    /// Whether each mutant is printed with what noticed it
    pub(crate) verbose: bool,
}

/// Runs them all; whether each that survives is accepted.
///
/// # Errors
/// The tests do not compile, or do not pass without a mutant.
pub(crate) fn run(project: &Checkout, options: &EngineOptions) -> anyhow::Result<bool> {
    let start = Instant::now();
    let accepted = accepted(project)?;
    let sources = Sources::read(project)?;
    println!("engine: {} mutants", sources.mutants().count());
    let compiled = compile(project, &sources)?;
    println!(
        "engine: built after {} s; {} do not compile, {} are in functions that are called at compile time",
        start.elapsed().as_secs(),
        compiled.wrong,
        compiled.constant
    );
    let mutants: Vec<&Mutant> =
        compiled.mutants.iter().filter(|mutant| mutant.file.starts_with(&options.file)).collect();
    let mut noticed = run_cases(project, &compiled, &mutants, options)?;
    let by_cases = noticed.len();
    println!("engine: {by_cases} of {} caught by cases and vectors ({} s)", mutants.len(), start.elapsed().as_secs());
    let left = mutants.iter().filter(|mutant| !noticed.contains_key(&mutant.number));
    let slowest = |mutant: &Mutant| if accepted.iter().any(|known| known.is(mutant)) { SLOW } else { Duration::MAX };
    let left: Vec<(u32, Duration)> = left.map(|mutant| (mutant.number, slowest(mutant))).collect();
    let tests = record(project, &compiled, options)?;
    println!("engine: {} unit and property tests recorded ({} s)", tests.len(), start.elapsed().as_secs());
    noticed.extend(run_tests(&compiled.folder, &tests, left, options));
    if options.verbose {
        for mutant in &mutants {
            let by = noticed.get(&mutant.number).map_or("nothing", String::as_str);
            println!("  {}:{}: {}: {by}", mutant.file, mutant.line, mutant.change);
        }
    }
    let reached: BTreeSet<u32> = tests.iter().flat_map(|test| &test.reached).copied().collect();
    println!(
        "engine: {} caught by unit and property tests ({} s)",
        noticed.len() - by_cases,
        start.elapsed().as_secs()
    );
    let survivors: Vec<&Mutant> = mutants.into_iter().filter(|mutant| !noticed.contains_key(&mutant.number)).collect();
    Ok(report(&survivors, &reached, &accepted, options))
}

/// Prints what survives; whether all of it is accepted, and all that is accepted survives.
fn report(
    survivors: &[&Mutant],
    reached: &BTreeSet<u32>,
    accepted: &[AcceptedMutant],
    options: &EngineOptions,
) -> bool {
    let (known, new): (Vec<&Mutant>, Vec<&Mutant>) =
        survivors.iter().copied().partition(|mutant| accepted.iter().any(|known| known.is(mutant)));
    for mutant in &new {
        let note = if reached.contains(&mutant.number) { "" } else { " (no unit or property test reaches it)" };
        println!("survives: {}:{}: {}{note}", mutant.file, mutant.line, mutant.change);
    }
    let mut is_fresh = true;
    for accepted in accepted.iter().filter(|accepted| accepted.file.starts_with(&options.file)) {
        if !known.iter().any(|mutant| accepted.is(mutant)) {
            is_fresh = false;
            println!("accepted, but it does not survive: {}: {} ({})", accepted.file, accepted.change, accepted.reason);
        }
    }
    println!("engine: {} survive, {} of them accepted", survivors.len(), known.len());
    new.is_empty() && is_fresh
}

/// Runs the behaviour cases and the vectors. Gives what noticed each mutant.
fn run_cases(
    project: &Checkout,
    compiled: &Compiled,
    mutants: &[&Mutant],
    options: &EngineOptions,
) -> anyhow::Result<BTreeMap<u32, String>> {
    let (list, results) = (project.work.join("run"), project.work.join("results"));
    write_list(&list, mutants.iter().map(|mutant| mutant.number.to_string()))?;
    let status = Command::new(&compiled.cases)
        .current_dir(&compiled.folder)
        .env("EDGE_MUTANTS_RUN", &list)
        .env("EDGE_MUTANTS_RESULTS", &results)
        .env("EDGE_MUTANTS_JOBS", options.jobs.to_string())
        .envs(PROPERTIES)
        .status()?;
    let lines = std::fs::read_to_string(&results)?;
    if !status.success() {
        bail!("the program of the cases ended with {status}");
    }
    let mut noticed = BTreeMap::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["broken", name] => println!("engine: `{name}` does not pass without a mutant"),
            ["caught", mutant, name, how] => {
                noticed.insert(mutant.parse()?, format!("{name} ({how})"));
            }
            _ => {}
        }
    }
    if lines.contains("broken\t") {
        bail!("cases and vectors have to pass");
    }
    Ok(noticed)
}

/// Properties try the same cases each time, and more than in `make test`.
const PROPERTIES: [(&str, &str); 3] =
    [("PROPTEST_RNG_SEED", "1"), ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"), ("EDGE_CASES_PERCENT", "9")];

/// Does work in several threads, and gives what comes of it.
fn in_threads<W: Send, R: Send>(jobs: usize, work: Vec<W>, of: impl Fn(W) -> R + Sync) -> Vec<R> {
    let (work, results) = (Mutex::new(work.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(piece) = work.lock().ok().and_then(|mut work| work.next()) {
                    let result = of(piece);
                    if let Ok(mut results) = results.lock() {
                        results.push(result);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}

/// The time on a processor of a [`process`], which ends with the line `0m1.25s 0m0.10s` of the shell's `times`.
fn time_of(output: &str) -> Duration {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let words = output.lines().last().unwrap_or_default().split_whitespace();
    Duration::from_secs_f64(words.filter_map(seconds).sum())
}

/// A process of a test program. It ends if it takes too long on a processor, and says in its last line how long it took.
fn process(program: &Path, folder: &Path, limit: Duration) -> Command {
    let mut shell = Command::new("sh");
    let run = "timeout 1800 \"$@\"; status=$?; times; exit $status";
    let limits = format!("ulimit -v {MEMORY_KIB}; ulimit -c 0; ulimit -t {}; {run}", limit.as_secs() + 1);
    shell.args(["-c", &limits, "sh"]).arg(program).args(["--test-threads", "1", "--exact"]);
    shell.current_dir(folder).envs(PROPERTIES).stdin(Stdio::null()).stderr(Stdio::null());
    shell
}

/// Runs each test once, and notes which mutants it reaches.
fn record(project: &Checkout, compiled: &Compiled, options: &EngineOptions) -> anyhow::Result<Vec<TimedTest>> {
    let reached = project.work.join("reached");
    let _ = std::fs::remove_dir_all(&reached);
    std::fs::create_dir_all(&reached)?;
    let mut work = Vec::new();
    for program in &compiled.tests {
        let output =
            Command::new(program).args(["--list", "--format", "terse"]).current_dir(&compiled.folder).output()?;
        for name in String::from_utf8(output.stdout)?.lines().filter_map(|line| line.strip_suffix(": test")) {
            if name == LEFT_OUT {
                continue;
            }
            work.push((work.len(), program.clone(), name.to_owned()));
        }
    }
    let minute = Duration::from_secs(300);
    let recorded = in_threads(options.jobs, work, |(number, program, name)| -> anyhow::Result<TimedTest> {
        let file = reached.join(number.to_string());
        let mut first = process(&program, &compiled.folder, minute);
        let output = first.arg(&name).env("EDGE_MUTANTS_REACHED", &file).output()?;
        let took = time_of(&String::from_utf8_lossy(&output.stdout));
        // A test that counts allocations sees those of the record.
        let mut again = process(&program, &compiled.folder, minute);
        if !output.status.success() && !again.arg(&name).env("EDGE_MUTANT", "0").output()?.status.success() {
            bail!("`{name}` does not pass without a mutant:\n{}", String::from_utf8_lossy(&output.stdout));
        }
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        let reached = lines.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(TimedTest { program, name, took, reached })
    });
    let mut tests = recorded.into_iter().collect::<anyhow::Result<Vec<TimedTest>>>()?;
    tests.sort_by_key(|test| test.took);
    Ok(tests)
}

/// Runs the tests that reach these mutants, each up to the slowest one. Gives what noticed each of them.
fn run_tests(
    folder: &Path,
    tests: &[TimedTest],
    mutants: Vec<(u32, Duration)>,
    options: &EngineOptions,
) -> BTreeMap<u32, String> {
    let noticed = in_threads(options.jobs, mutants, |(mutant, slowest)| {
        let reaches = |test: &&TimedTest| test.took <= slowest && test.reached.contains(&mutant);
        let reaching: Vec<&TimedTest> = tests.iter().filter(reaches).collect();
        let noticed = together(&reaching).into_iter().find_map(|tests| try_tests(folder, mutant, &tests));
        noticed.map(|by| (mutant, by))
    });
    noticed.into_iter().flatten().collect()
}

/// Groups of tests of one program that share a process, the shortest first.
fn together<'t>(tests: &[&'t TimedTest]) -> Vec<Vec<&'t TimedTest>> {
    let mut groups: Vec<Vec<&TimedTest>> = Vec::new();
    for test in tests {
        let has_room = |group: &&mut Vec<&TimedTest>| {
            let took: Duration = group.iter().map(|test| test.took).sum();
            took + test.took < TOGETHER && group.first().is_some_and(|first| first.program == test.program)
        };
        match groups.iter_mut().rev().find(has_room) {
            Some(group) => group.push(test),
            None => groups.push(vec![test]),
        }
    }
    groups
}

/// What notices a mutant.
fn try_tests(folder: &Path, mutant: u32, tests: &[&TimedTest]) -> Option<String> {
    let took: Duration = tests.iter().map(|test| test.took).sum();
    let first = tests.first()?;
    let mut process = process(&first.program, folder, took * PATIENCE + Duration::from_secs(2));
    process.args(tests.iter().map(|test| &test.name)).env("EDGE_MUTANT", mutant.to_string());
    let output = process.output().ok()?;
    if output.status.success() {
        return None;
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = lines.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    Some(failed.map_or_else(|| format!("one of {} tests ({})", tests.len(), output.status), str::to_owned))
}
