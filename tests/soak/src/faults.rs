//! Faults: which process is hit, how and when, from the seed; and hitting it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use harness::cluster::Leads;
use harness::envoy::Envoy;
use harness::openbao::OpenBao;
use harness::process::Process;
use harness::restate::Restate;
use tokio::sync::Mutex as Turn;
use tokio::task::JoinSet;

use crate::client::Notes;
use crate::system::{RestartableProgram, RunningSystem};

/// How long a process is down.
const SHORTEST: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(8);
/// A node of Restate that has come back is a suspect to the others for five seconds. Until then it is not one of the two that have to
/// agree, so the next node has to wait.
const SUSPECT: Duration = Duration::from_secs(8);
/// How long a process may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);

/// What processes have in common that are never down at the same time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Group {
    /// The nodes of Restate: a quorum stays.
    Restate,
    /// The gateways.
    Envoy,
    /// The services.
    Service,
    /// The guard.
    Guard,
    /// The secret store.
    Store,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Restate, Self::Envoy, Self::Service, Self::Guard, Self::Store];

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restate => "Restate",
            Self::Envoy => "Envoy",
            Self::Service => "service",
            Self::Guard => "the guard",
            Self::Store => "the secret store",
        }
    }
}

/// The groups that are hit after each has been hit once.
const MIX: [Group; 10] = [
    Group::Restate,
    Group::Restate,
    Group::Restate,
    Group::Restate,
    Group::Envoy,
    Group::Envoy,
    Group::Service,
    Group::Service,
    Group::Guard,
    Group::Store,
];

/// What is done to a process.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Blow {
    /// `kill -9`; started again later.
    Kill,
    /// SIGSTOP; SIGCONT later.
    Pause,
    /// SIGTERM; started again later.
    Restart,
}

impl Blow {
    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Pause => "paused",
            Self::Restart => "restarted",
        }
    }
}

/// A fault to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// When, since the start of the run.
    pub at: Duration,
    /// What is hit.
    pub group: Group,
    /// How.
    pub blow: Blow,
    /// How long it is down.
    pub down: Duration,
    /// Which member of the group, by a number to divide.
    pub member: usize,
    /// Of Restate's nodes, the one that leads most partitions.
    pub leader: bool,
}

/// A fault that was.
#[derive(Clone, Debug)]
pub struct Struck {
    /// When, since the start of the run.
    pub at: Duration,
    /// When it was over: the process answered again.
    pub until: Duration,
    /// The group.
    pub group: Group,
    /// Which process, for people.
    pub name: String,
    /// How.
    pub blow: Blow,
    /// What the node led when it was hit.
    pub led: Leads,
    /// It did not end when it was asked to, and was killed.
    pub forced: bool,
}

/// The plan: `count` faults over `time`.
pub fn plan(seed: u64, count: usize, time: Duration) -> Vec<Planned> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut groups = Group::ALL.to_vec();
    random.shuffle(&mut groups);
    while groups.len() < count {
        let mut more = MIX;
        random.shuffle(&mut more);
        groups.extend(more);
    }
    let step = time.checked_div(u32::try_from(count).unwrap_or(u32::MAX).max(1)).unwrap_or_default();
    // A fault of a short run is short.
    let most = step.clamp(SHORTEST, LONGEST);
    let mut decks: BTreeMap<Group, Vec<Blow>> = BTreeMap::new();
    let mut restate = 0;
    let planned = groups.into_iter().take(count).enumerate().map(|(number, group)| {
        // Each in its own part of the time, so that faults may overlap and are never all at once.
        let at = step.mul_f64(number as f64 + 0.8 * random.f64());
        let first_leader = group == Group::Restate && restate == 0;
        restate += usize::from(group == Group::Restate);
        // Each group suffers each blow before it suffers one again.
        let blows = decks.entry(group).or_default();
        if blows.is_empty() {
            blows.extend([Blow::Restart, Blow::Pause, Blow::Kill]);
            random.shuffle(blows);
        }
        let next = if first_leader { blows.iter().position(|blow| *blow == Blow::Kill) } else { None };
        let blow = blows.remove(next.unwrap_or_default());
        let down = SHORTEST.mul_f64(random.f64() + 1.0).max(most.mul_f64(random.f64()));
        let leader = first_leader || random.u8(0..10) < 7;
        Planned { at, group, blow, down, member: random.usize(..), leader }
    });
    planned.collect()
}

/// What is going on at the moment, and what was.
#[derive(Default)]
pub struct FaultRecord {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    active: BTreeMap<Group, String>,
    struck: Vec<Struck>,
    died: Vec<String>,
}

impl FaultRecord {
    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is down at the moment.
    pub fn active(&self) -> Vec<String> {
        self.with(|inner| inner.active.values().cloned().collect())
    }

    /// Processes that had ended before they were hit.
    pub fn died(&self) -> Vec<String> {
        self.with(|inner| inner.died.clone())
    }

    /// What was hit, in the order in which it was over.
    pub fn struck(&self) -> Vec<Struck> {
        self.with(|inner| inner.struck.clone())
    }
}

/// Carries the plan out, and returns when everything answers again. An error is a process that does not come back. It has to run
/// within a `LocalSet`.
pub async fn strike(
    system: Arc<RunningSystem>,
    plan: Vec<Planned>,
    notes: Arc<Notes>,
    record: Arc<FaultRecord>,
) -> Result<()> {
    // One of a group at a time.
    let turns: Arc<BTreeMap<Group, Turn<()>>> =
        Arc::new(Group::ALL.into_iter().map(|group| (group, Turn::new(()))).collect());
    let mut striking = JoinSet::new();
    for planned in plan {
        tokio::time::sleep(planned.at.saturating_sub(notes.elapsed())).await;
        let (system, notes, record, turns) = (system.clone(), notes.clone(), record.clone(), turns.clone());
        striking.spawn_local(async move {
            let _turn = match turns.get(&planned.group) {
                Some(turn) => Some(turn.lock().await),
                None => None,
            };
            strike_one(&system, &planned, &notes, &record).await?;
            if planned.group == Group::Restate && system.restate.len() > 1 {
                tokio::time::sleep(SUSPECT).await;
            }
            anyhow::Ok(())
        });
        while let Some(ended) = striking.try_join_next() {
            ended.context("a fault")??;
        }
    }
    while let Some(ended) = striking.join_next().await {
        ended.context("a fault")??;
    }
    Ok(())
}

async fn strike_one(system: &RunningSystem, planned: &Planned, notes: &Notes, record: &FaultRecord) -> Result<()> {
    let Planned { group, blow, down, .. } = *planned;
    let (place, led) = place(system, planned).await;
    let members = match group {
        Group::Restate => system.restate.len(),
        Group::Envoy => system.envoys.len(),
        Group::Service => system.services.len(),
        Group::Guard | Group::Store => 1,
    };
    let name = if members > 1 { format!("{} {}", group.name(), place + 1) } else { group.name().to_owned() };
    let metadata = if led.metadata { " and the metadata" } else { "" };
    let leads = match led.partitions {
        0 => String::new(),
        led => format!(" (it leads {led} of the partitions{metadata})"),
    };
    let at = notes.elapsed();
    println!("{:>6.1} s  {name}{leads} is {} for {:.1} s", at.as_secs_f64(), blow.name(), down.as_secs_f64());
    record.with(|inner| inner.active.insert(group, format!("{name} {}", blow.name())));
    let came_back = blow_at(system, group, place, blow, down).await;
    let until = notes.elapsed();
    let hit = came_back.with_context(|| format!("{name} did not come back"))?;
    record.with(|inner| {
        inner.active.remove(&group);
        inner.died.extend(
            hit.died.map(|status| format!("{name} ended by itself before {:.1} s: {status}", at.as_secs_f64())),
        );
        inner.struck.push(Struck { at, until, group, name, blow, led, forced: hit.forced });
    });
    Ok(())
}

/// Which member of its group, and what it leads.
async fn place(system: &RunningSystem, planned: &Planned) -> (usize, Leads) {
    match planned.group {
        Group::Restate => {
            let mut leads = Vec::new();
            for node in 0..system.restate.len() {
                leads.push(system.leads(node).await);
            }
            let most = leads.iter().enumerate().max_by_key(|(_, led)| led.partitions).map(|(place, _)| place);
            let place =
                if planned.leader { most.unwrap_or_default() } else { planned.member % system.restate.len().max(1) };
            (place, leads.get(place).copied().unwrap_or_default())
        }
        Group::Envoy => (planned.member % system.envoys.len().max(1), Leads::default()),
        Group::Service => (planned.member % system.services.len().max(1), Leads::default()),
        Group::Guard | Group::Store => (0, Leads::default()),
    }
}

async fn blow_at(system: &RunningSystem, group: Group, place: usize, blow: Blow, down: Duration) -> Result<Hit> {
    let missing = || format!("there is no {} {place}", group.name());
    match group {
        Group::Restate => hit(system.restate.get(place).with_context(missing)?, blow, down).await,
        Group::Envoy => hit(system.envoys.get(place).with_context(missing)?, blow, down).await,
        Group::Service => hit(system.services.get(place).with_context(missing)?, blow, down).await,
        Group::Guard => hit(&system.guard, blow, down).await,
        Group::Store => hit(&system.store, blow, down).await,
    }
}

/// What a blow found.
struct Hit {
    /// How the process had ended before, if it had.
    died: Option<ExitStatus>,
    /// It did not end when it was asked to.
    forced: bool,
}

/// Takes a process down, waits, brings it back, and waits until it answers.
async fn hit<M: Member>(member: &Turn<M>, blow: Blow, down: Duration) -> Result<Hit> {
    let mut member = member.lock().await;
    let died = member.process().exited()?;
    let mut forced = false;
    match blow {
        Blow::Kill => member.process().kill()?,
        Blow::Pause => member.process().pause()?,
        Blow::Restart => forced = !member.process().terminate(PATIENCE).await?,
    }
    tokio::time::sleep(down).await;
    if blow == Blow::Pause && died.is_none() {
        member.process().resume()?;
        member.answers().await?;
    } else {
        keep_log(member.process().log())?;
        member.start_again().await?;
    }
    Ok(Hit { died, forced })
}

/// What can be hit.
trait Member {
    fn process(&mut self) -> &mut Process;
    /// Waits until it answers.
    async fn answers(&mut self) -> Result<()>;
    /// Starts it again as it was, and waits until it answers.
    async fn start_again(&mut self) -> Result<()>;
}

impl Member for Restate {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn answers(&mut self) -> Result<()> {
        self.ready().await
    }

    async fn start_again(&mut self) -> Result<()> {
        self.restart().await
    }
}

impl Member for Envoy {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn answers(&mut self) -> Result<()> {
        self.ready().await
    }

    async fn start_again(&mut self) -> Result<()> {
        self.restart().await
    }
}

impl Member for RestartableProgram {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn answers(&mut self) -> Result<()> {
        self.ready().await
    }

    async fn start_again(&mut self) -> Result<()> {
        self.restart().await
    }
}

impl Member for OpenBao {
    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn answers(&mut self) -> Result<()> {
        // What is not sealed stays so.
        self.unseal().await
    }

    async fn start_again(&mut self) -> Result<()> {
        self.restart().await?;
        self.unseal().await
    }
}

/// A process that starts again writes its log anew: the log so far gets the next number.
fn keep_log(log: &Path) -> Result<()> {
    let free = (1..).map(|number| log.with_extension(format!("{number}.log"))).find(|path| !path.exists());
    match free {
        Some(free) => fs::rename(log, &free).with_context(|| format!("cannot keep {}", log.display())),
        None => Ok(()),
    }
}
