//! Running the tests of all modules, several groups at once, and an end for every process they started.

use std::any::Any;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use harness::process::still_running;
use harness::tools::is_dynamic_module;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::host;

/// For what is asynchronous, from tests that are not.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().enable_all().build());
    runtime.as_ref().map_err(|error| anyhow!("no runtime: {error}"))
}

type Body<T> = Box<dyn FnOnce(&T) -> Result<()> + Send>;

/// A test, and its name.
pub struct Test<T> {
    name: String,
    body: Body<T>,
}

impl<T> Test<T> {
    /// A test of something shared.
    pub fn new(name: impl Into<String>, body: impl FnOnce(&T) -> Result<()> + Send + 'static) -> Self {
        Self { name: name.into(), body: Box::new(body) }
    }

    /// The same test, with this name in front of its own.
    #[must_use]
    pub fn within(self, name: &str) -> Self {
        Self { name: format!("{name}::{}", self.name), ..self }
    }
}

type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// Tests that run one after the other, while those of other groups run beside them.
#[derive(Default)]
pub struct Group {
    jobs: VecDeque<(String, Job)>,
    left_out: Vec<String>,
    alone: bool,
}

impl Group {
    /// No other group runs while this one does: it measures what others would disturb.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// The same group with a test that is listed, and counted as ignored. Its name says why it does not run.
    #[must_use]
    pub fn leaving_out(mut self, name: impl Into<String>) -> Self {
        self.left_out.push(name.into());
        self
    }

    /// The same group, all of whose tests are left out.
    #[must_use]
    pub fn left_out(mut self) -> Self {
        self.left_out.extend(self.jobs.drain(..).map(|(name, _)| name));
        self
    }

    /// Leaves out what does not belong to a run of this extent.
    fn leave_out_other_extent(&mut self, module: &str, extent: RunExtent) {
        let belongs = |name: &str| {
            let name = full(module, name);
            match extent {
                RunExtent::Default => !host::is_beyond(&name) && !host::is_of_any(&name),
                RunExtent::AnyHost => !host::is_beyond(&name) && host::is_of_any(&name),
                RunExtent::Beyond => host::is_beyond(&name) || host::is_of_any(&name),
                RunExtent::None => false,
                RunExtent::All => true,
            }
        };
        self.jobs.retain(|(name, _)| belongs(name));
        self.left_out.retain(|name| belongs(name));
    }

    /// Leaves out what says nothing about this host.
    fn leave_out_other_host(&mut self, module: &str, is_dynamic_module: bool, arguments: &Arguments) {
        for (name, job) in std::mem::take(&mut self.jobs) {
            match host::left_out(&full(module, &name), is_dynamic_module) {
                None => self.jobs.push_back((name, job)),
                Some(reason) => {
                    let trial = Trial::test(full(module, &name), || Ok(()));
                    if !arguments.list && !arguments.is_filtered_out(&trial) {
                        eprintln!("NOT RUN on this host: {module}::{name}: {reason}");
                    }
                    self.left_out.push(name);
                }
            }
        }
    }
}

/// Which tests a run has, by the variable `EDGE_EXTENT`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunExtent {
    /// `default`, or no value: what one runs after a change
    Default,
    /// `any-host`: what one runs after a change, in the host that starts faster
    AnyHost,
    /// `beyond`: only what the default leaves out
    Beyond,
    /// `none`: another process runs them
    None,
    /// `all`
    All,
}

impl RunExtent {
    /// Whoever names tests gets them.
    fn of_run(is_named: bool) -> Result<Self> {
        match std::env::var("EDGE_EXTENT").as_deref() {
            Err(_) | Ok("") => Ok(if is_named { Self::All } else { Self::Default }),
            Ok("default") => Ok(Self::Default),
            Ok("any-host") => Ok(Self::AnyHost),
            Ok("beyond") => Ok(Self::Beyond),
            Ok("none") => Ok(Self::None),
            Ok("all") => Ok(Self::All),
            Ok(other) => bail!("EDGE_EXTENT is `{other}`; it can be default, any-host, beyond, none or all"),
        }
    }
}

/// Tests that share what `start` gives: it is there from the first that runs, and dropped with the last.
pub fn sharing<T>(start: impl FnOnce() -> Result<T> + Send + 'static, tests: Vec<Test<T>>) -> Group
where
    T: Send + Sync + 'static,
{
    let shared = Arc::new(Mutex::new(Shared::New(Box::new(start))));
    let jobs = tests.into_iter().map(|Test { name, body }| {
        let shared = Arc::clone(&shared);
        let job: Job = Box::new(move || Shared::running(&shared).and_then(|running| body(&running)));
        (name, job)
    });
    Group { jobs: jobs.collect(), ..Group::default() }
}

/// Tests that share nothing.
pub fn separate(tests: Vec<Test<()>>) -> Group {
    sharing(|| Ok(()), tests)
}

enum Shared<T> {
    New(Box<dyn FnOnce() -> Result<T> + Send>),
    Running(Arc<T>),
    Failed(String),
}

impl<T> Shared<T> {
    fn running(shared: &Mutex<Self>) -> Result<Arc<T>> {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = match std::mem::replace(&mut *shared, Self::Failed("it panicked".to_owned())) {
            Self::New(start) => match start() {
                Ok(running) => Self::Running(Arc::new(running)),
                Err(error) => Self::Failed(format!("{error:#}")),
            },
            other => other,
        };
        match &*shared {
            Self::Running(running) => Ok(Arc::clone(running)),
            Self::Failed(error) => bail!("what this test shares with others did not start: {error}"),
            Self::New(_) => bail!("what this test shares with others did not start"),
        }
    }
}

/// Whether this is `make test-long`, which also runs tests that need many repetitions to find a fault.
pub fn long() -> bool {
    std::env::var_os("EDGE_LONG").is_some()
}

/// A module's name, and what it tests.
pub type Module = (&'static str, fn() -> Result<Vec<Group>>);

/// Runs the tests of these modules as `cargo test` expects it, and ends what they started: also when they are interrupted.
///
/// `--test-threads` tests run at the same time; without it two for each processor, because most of them wait for an Envoy. With
/// `EDGE_TEST_TIMES` each test adds a line to that file: milliseconds, a space, its name. With `EDGE_MODULES`, names with spaces between
/// them, only the tests of these modules are there.
pub fn run(modules: &[Module]) -> ExitCode {
    match try_run(modules) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(modules: &[Module]) -> Result<ExitCode> {
    end_with_signals()?;
    let mut arguments = Arguments::from_args();
    let workers = arguments.test_threads.unwrap_or(2 * thread::available_parallelism().map_or(1, Into::into)).max(1);
    // The workers here run the tests, libtest-mimic waits for their outcomes in the order of the list.
    arguments.test_threads = Some(1);
    let times = std::env::var_os("EDGE_TEST_TIMES")
        .map(|path| File::options().create(true).append(true).open(path))
        .transpose()
        .context("EDGE_TEST_TIMES")?;

    let is_dynamic_module = is_dynamic_module()?;
    let extent = RunExtent::of_run(arguments.filter.is_some())?;
    let (mut trials, mut queue, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let chosen = chosen(modules)?;
    for (module, groups) in &chosen {
        let groups = groups().unwrap_or_else(|error| {
            vec![separate(vec![Test::new("its tests could not be listed", move |()| Err(error))])]
        });
        for mut group in groups {
            names.extend(group.jobs.iter().map(|(name, _)| name).chain(&group.left_out).map(|name| full(module, name)));
            group.leave_out_other_extent(module, extent);
            group.leave_out_other_host(module, is_dynamic_module, &arguments);
            let (left_out, planned) = Planned::new(module, group, &arguments, &mut trials);
            let left_out = left_out.into_iter().map(|name| Trial::test(name, || Err("it is left out here".into())));
            trials.extend(left_out.map(|trial| trial.with_ignored_flag(true)));
            queue.extend(planned);
        }
    }
    let modules: Vec<&str> = chosen.iter().map(|(module, _)| *module).collect();
    let unused = host::unused(names.iter().map(String::as_str), &modules);
    ensure!(unused.is_empty(), "tests/e2e/src/host.rs names tests that there are not: {unused:?}");
    let pool = Pool { queue: Mutex::new(queue), changed: Condvar::new(), times: times.map(Mutex::new) };
    let runs = !arguments.list;
    Ok(thread::scope(|scope| {
        if runs {
            (0..workers).for_each(|_| drop(scope.spawn(|| pool.work())));
        }
        libtest_mimic::run(&arguments, trials).exit_code()
    }))
}

/// The modules that `EDGE_MODULES` names, in the order of the list; without it, all of them.
fn chosen(modules: &[Module]) -> Result<Vec<Module>> {
    let Ok(names) = std::env::var("EDGE_MODULES") else { return Ok(modules.to_vec()) };
    let names: Vec<&str> = names.split_whitespace().collect();
    let unknown = names.iter().find(|name| modules.iter().all(|(module, _)| module != *name));
    ensure!(unknown.is_none(), "EDGE_MODULES: no module is named {}", unknown.unwrap_or(&""));
    Ok(modules.iter().filter(|(module, _)| names.contains(module)).copied().collect())
}

/// A test that waits for a worker, and where its outcome goes.
struct Waiting {
    name: String,
    job: Job,
    outcome: Sender<Result<(), String>>,
}

/// What is left of a group.
struct Planned {
    waiting: VecDeque<Waiting>,
    alone: bool,
    started: bool,
    runs: bool,
}

impl Planned {
    /// The full names of the tests that are left out, and those that were asked for, if any. Each of the others gets its trial.
    fn new(module: &str, group: Group, arguments: &Arguments, trials: &mut Vec<Trial>) -> (Vec<String>, Option<Self>) {
        let mut waiting = VecDeque::new();
        for (name, job) in group.jobs {
            let name = full(module, &name);
            let (outcome, told) = channel();
            let trial = Trial::test(name.clone(), move || wait_for(&told));
            if !arguments.is_filtered_out(&trial) && !arguments.is_ignored(&trial) {
                waiting.push_back(Waiting { name, job, outcome });
            }
            trials.push(trial);
        }
        let left_out = group.left_out.iter().map(|name| full(module, name)).collect();
        let planned = Self { waiting, alone: group.alone, started: false, runs: false };
        (left_out, Some(planned).filter(|planned| !planned.waiting.is_empty()))
    }
}

fn full(module: &str, name: &str) -> String {
    format!("{module}::{name}")
}

fn wait_for(told: &Receiver<Result<(), String>>) -> Result<(), Failed> {
    told.recv().map_err(|_| Failed::from("no worker ran it"))?.map_err(Failed::from)
}

/// The groups, and the workers that take tests from them.
struct Pool {
    queue: Mutex<Vec<Planned>>,
    changed: Condvar,
    times: Option<Mutex<File>>,
}

impl Pool {
    fn queue(&self) -> MutexGuard<'_, Vec<Planned>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs tests until none is left.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let (group, Waiting { name, job, outcome }) = loop {
                if queue.iter().all(|group| group.waiting.is_empty()) {
                    return;
                }
                match next(&mut queue) {
                    Some(taken) => break taken,
                    None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            let start = Instant::now();
            let result =
                catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|cause| bail!("panicked: {}", said(&*cause)));
            self.write_time(&name, start.elapsed());
            // Nobody listens if the run was cut short.
            drop(outcome.send(result.map_err(|error| format!("{error:#}"))));
            if let Some(group) = self.queue().get_mut(group) {
                group.runs = false;
            }
            self.changed.notify_all();
        }
    }

    fn write_time(&self, name: &str, took: Duration) {
        if let Some(times) = &self.times {
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            drop(writeln!(times, "{} {name}", took.as_millis()));
        }
    }
}

/// The next test, and its group's index. Groups that have begun come first, so that what they share ends soon; groups that
/// want to be alone come last.
fn next(queue: &mut [Planned]) -> Option<(usize, Waiting)> {
    let nothing_runs = !queue.iter().any(|group| group.runs);
    let others_left = queue.iter().any(|group| !group.alone && !group.waiting.is_empty());
    let alone_runs = queue.iter().any(|group| group.alone && group.runs);
    let free = |group: &Planned| {
        let may_start = if group.alone { nothing_runs && !others_left } else { !alone_runs };
        may_start && !group.waiting.is_empty() && !group.runs
    };
    let begun = queue.iter().position(|group| group.started && free(group));
    let index = begun.or_else(|| queue.iter().position(free))?;
    let group = queue.get_mut(index)?;
    (group.started, group.runs) = (true, true);
    Some((index, group.waiting.pop_front()?))
}

/// What a panic said.
fn said(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Child processes lead groups of their own, so that no signal to this one reaches them.
fn end_with_signals() -> Result<()> {
    for (kind, code) in [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143)] {
        runtime()?.spawn(async move {
            if let Ok(mut signals) = signal(kind)
                && signals.recv().await.is_some()
            {
                still_running().iter().for_each(|process| drop(process.kill()));
                std::process::exit(code);
            }
        });
    }
    Ok(())
}

/// How long something may take to come about. Stores write to disks that other tests write to, too.
const EVENTUALLY: Duration = Duration::from_secs(120);

/// Asks `so` every `poll` until it is so, for two minutes at most. `what` is for the error.
pub fn until(what: &str, poll: Duration, so: impl Fn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !so()? {
        ensure!(start.elapsed() < EVENTUALLY, "not within {EVENTUALLY:?}: {what}");
        thread::sleep(poll);
    }
    Ok(())
}

/// As [`until`], for what is asynchronous.
pub async fn until_async(what: &str, poll: Duration, so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !so().await? {
        ensure!(start.elapsed() < EVENTUALLY, "not within {EVENTUALLY:?}: {what}");
        tokio::time::sleep(poll).await;
    }
    Ok(())
}
