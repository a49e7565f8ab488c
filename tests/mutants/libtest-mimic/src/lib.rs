//! What the tests use of `libtest-mimic`, and another way to run them: every mutant in a child process of its own, with the tests
//! that reach it, the shortest first, until one of them fails.
//!
//! `EDGE_MUTANTS_RUN` is a file with the numbers of mutants, a line each. What came of them is written to the file
//! `EDGE_MUTANTS_RESULTS`, in lines of words with a tab between them:
//!
//! - `broken`, name of a test: it fails without a mutant
//! - `unreached`, mutant
//! - `missed`, mutant, number of tests that reach it
//! - `caught`, mutant, name of the test, how: `failed`, `stopped` (an endless loop), `died`

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A test may take so many times what it took without a mutant, and a second more.
const PATIENCE: u64 = 20;
/// So much memory a child may have, in bytes.
const MEMORY: u64 = 3 << 30;
/// A child that sleeps is ended after so many seconds.
const ASLEEP: u32 = 120;
/// Exit status of a child in which a test failed.
const FAILED: i32 = 101;

/// The command line, which is not looked at.
pub struct Arguments;

impl Arguments {
    pub fn from_args() -> Self {
        Self
    }
}

/// Why a test failed.
pub struct Failed(String);

impl<M: ToString> From<M> for Failed {
    fn from(message: M) -> Self {
        Self(message.to_string())
    }
}

type TrialRun = Box<dyn FnOnce() -> Result<(), Failed> + Send>;

/// A test.
pub struct Trial {
    name: String,
    run: TrialRun,
}

impl Trial {
    pub fn test(name: impl Into<String>, run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Whether all went well.
pub struct Conclusion(bool);

impl Conclusion {
    pub fn exit_code(&self) -> ExitCode {
        if self.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// A child process, and the pipe that it writes to.
struct Child {
    pid: i32,
    pipe: std::fs::File,
}

/// What a test does without a mutant.
#[derive(Default)]
struct RecordedTrial {
    passed: bool,
    micros: u64,
    reached: Vec<u32>,
}

/// Runs the tests with every mutant, if the environment says so.
pub fn run(_: &Arguments, trials: Vec<Trial>) -> Conclusion {
    std::panic::set_hook(Box::new(|_| ()));
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(list), Some(results)) = (variable("EDGE_MUTANTS_RUN"), variable("EDGE_MUTANTS_RESULTS")) else {
        return Conclusion(trials.into_iter().all(|trial| {
            let passed = passes(trial.run);
            println!("{}: {}", trial.name, if passed { "ok" } else { "FAILED" });
            passed
        }));
    };
    let jobs = variable("EDGE_MUTANTS_JOBS").and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let mutants: Vec<u32> = std::fs::read_to_string(list).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    let mut results = std::io::LineWriter::new(std::fs::File::create(results).unwrap());

    let names: Vec<String> = trials.iter().map(|trial| trial.name.clone()).collect();
    let mut runs: Vec<Option<TrialRun>> = trials.into_iter().map(|trial| Some(trial.run)).collect();
    let mut recorded: Vec<RecordedTrial> = names.iter().map(|_| RecordedTrial::default()).collect();
    let mut say = |line: String| writeln!(results, "{line}").unwrap();

    let all = (0..names.len()).collect();
    in_children(jobs, all, &mut runs, record, |trial, status, written| {
        recorded[trial] = read_record(status, &written);
        if !recorded[trial].passed {
            say(format!("broken\t{}", names[trial]));
        }
    });
    let mut reaching: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (trial, RecordedTrial { reached, .. }) in recorded.iter().enumerate() {
        for mutant in reached {
            reaching.entry(*mutant).or_default().push(trial);
        }
    }
    for trials in reaching.values_mut() {
        trials.sort_by_key(|trial| recorded[*trial].micros);
    }
    let reached = |mutant: &u32| reaching.contains_key(mutant);
    for mutant in mutants.iter().filter(|mutant| !reached(mutant)) {
        say(format!("unreached\t{mutant}"));
    }
    let work = mutants.iter().filter(|mutant| reached(mutant)).map(|mutant| *mutant as usize).collect();
    let try_mutant = |mutant: usize, runs: &mut Vec<Option<TrialRun>>, pipe: &mut std::fs::File| -> i32 {
        edge_mutants::choose(mutant as u32);
        for trial in &reaching[&(mutant as u32)] {
            let _ = pipe.write_all(&(*trial as u32).to_le_bytes());
            limit(recorded[*trial].micros);
            if !passes(runs[*trial].take().unwrap()) {
                return FAILED;
            }
        }
        0
    };
    in_children(jobs, work, &mut runs, try_mutant, |mutant, status, written| {
        let trials = &reaching[&(mutant as u32)];
        let last = written.chunks_exact(4).last().map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
        let name = &names[last as usize];
        match status {
            ChildEnd::With(0) => say(format!("missed\t{mutant}\t{}", trials.len())),
            ChildEnd::With(_) => say(format!("caught\t{mutant}\t{name}\tfailed")),
            ChildEnd::By(libc::SIGVTALRM | libc::SIGALRM) => say(format!("caught\t{mutant}\t{name}\tstopped")),
            ChildEnd::By(_) => say(format!("caught\t{mutant}\t{name}\tdied")),
        }
    });
    Conclusion(true)
}

fn passes(run: TrialRun) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_ok_and(|result| result.is_ok())
}

/// In a child: runs a test, and writes what it reached.
fn record(trial: usize, runs: &mut Vec<Option<TrialRun>>, pipe: &mut std::fs::File) -> i32 {
    edge_mutants::record();
    let start = Instant::now();
    let passed = passes(runs[trial].take().unwrap());
    let micros = start.elapsed().as_micros() as u64;
    let mut bytes = micros.to_le_bytes().to_vec();
    bytes.extend(edge_mutants::reached().iter().flat_map(|mutant| mutant.to_le_bytes()));
    let _ = pipe.write_all(&bytes);
    if passed { 0 } else { FAILED }
}

fn read_record(status: ChildEnd, written: &[u8]) -> RecordedTrial {
    let Some((micros, reached)) = written.split_at_checked(8) else { return RecordedTrial::default() };
    RecordedTrial {
        passed: matches!(status, ChildEnd::With(0)),
        micros: u64::from_le_bytes(micros.try_into().unwrap()),
        reached: reached.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect(),
    }
}

/// How a child ended: with a status, or by a signal.
#[derive(Clone, Copy)]
enum ChildEnd {
    With(i32),
    By(i32),
}

/// Does a piece of work in a child each, so many at a time. `ended` is told how a child ended and what it wrote, which must not be
/// more than a pipe holds (64 KiB).
fn in_children(
    jobs: usize,
    work: VecDeque<usize>,
    runs: &mut Vec<Option<TrialRun>>,
    child: impl Fn(usize, &mut Vec<Option<TrialRun>>, &mut std::fs::File) -> i32,
    mut ended: impl FnMut(usize, ChildEnd, Vec<u8>),
) {
    let mut work = work;
    let mut running: Vec<(usize, Child)> = Vec::new();
    loop {
        while running.len() < jobs
            && let Some(piece) = work.pop_front()
        {
            running.push((piece, start(piece, runs, &child)));
        }
        if running.is_empty() {
            return;
        }
        let mut status = 0;
        // SAFETY: `status` lives longer than the call.
        let pid = unsafe { libc::wait(&mut status) };
        let Some(index) = running.iter().position(|(_, child)| child.pid == pid) else { continue };
        let (piece, Child { mut pipe, .. }) = running.swap_remove(index);
        let mut written = Vec::new();
        pipe.read_to_end(&mut written).unwrap();
        let how = if libc::WIFEXITED(status) {
            ChildEnd::With(libc::WEXITSTATUS(status))
        } else {
            ChildEnd::By(libc::WTERMSIG(status))
        };
        ended(piece, how, written);
    }
}

fn start(
    piece: usize,
    runs: &mut Vec<Option<TrialRun>>,
    child: &impl Fn(usize, &mut Vec<Option<TrialRun>>, &mut std::fs::File) -> i32,
) -> Child {
    let mut ends = [0; 2];
    // SAFETY: the process has one thread, so that the child may do what it likes; the ends of the pipe have one owner each.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let pid = libc::fork();
        assert!(pid >= 0, "no process can be made");
        if pid == 0 {
            let memory = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
            libc::setrlimit(libc::RLIMIT_AS, &memory);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
            libc::dup2(null, 1);
            libc::dup2(null, 2);
            libc::close(ends[0]);
            let mut pipe = std::fs::File::from_raw_fd(ends[1]);
            let status = child(piece, runs, &mut pipe);
            libc::_exit(status);
        }
        libc::close(ends[1]);
        Child { pid, pipe: std::fs::File::from_raw_fd(ends[0]) }
    }
}

/// Ends this process when it has computed for too long, or slept.
fn limit(micros: u64) {
    let micros = micros * PATIENCE + 1_000_000;
    let value = libc::timeval { tv_sec: (micros / 1_000_000) as i64, tv_usec: (micros % 1_000_000) as i64 };
    let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: `timer` lives longer than the call.
    unsafe {
        libc::setitimer(libc::ITIMER_VIRTUAL, &timer, std::ptr::null_mut());
        libc::alarm(ASLEEP);
    }
}
