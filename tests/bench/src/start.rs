//! Starts in which the variants take turns: how long until the first answer, and how much memory then.

use std::path::Path;

use anyhow::Result;

use crate::client::Connections;
use crate::gateway::BenchGateway;
use crate::statistics::Summary;
use crate::variant::{self, Variant, names};
use crate::{Files, Options};

/// Requests before memory is read: what is allocated on first use counts.
const REQUESTS: usize = 1_000;
/// The gateway's worker threads in the second half of the table; each has a VM of its own.
const WORKERS: u32 = 4;

/// What a start of a variant takes.
pub(crate) struct Start {
    pub(crate) name: String,
    /// Worker threads.
    pub(crate) workers: u32,
    /// Until the first answer, in ms.
    pub(crate) time: Summary,
    /// The same less that of Envoy without a filter in the same round.
    pub(crate) added_time: Summary,
    /// Resident memory, in MiB.
    pub(crate) memory: Summary,
    /// The same less that of Envoy without a filter in the same round.
    pub(crate) added_memory: Summary,
}

/// Measures the variants of which starts are told.
pub(crate) fn measure(files: &Files, options: &Options, run_dir: &Path) -> Result<Vec<Start>> {
    let mut told: Vec<String> =
        [names::BARE, names::LUA_WHOLE, names::NOOP, names::WHOLE, names::WHOLE_LARGE].map(str::to_owned).into();
    told.extend(options.compare.iter().map(|(name, _)| names::of(name, names::WHOLE)));
    let all = variant::all(files, &options.compare);
    let of_name = |name: &str| all.iter().find(|variant| variant.name == name).cloned();
    let mut lines: Vec<(Variant, u32)> = told.iter().filter_map(|name| Some((of_name(name)?, 1))).collect();
    lines.extend(
        [names::BARE, names::WHOLE, names::WHOLE_LARGE].iter().filter_map(|name| Some((of_name(name)?, WORKERS))),
    );
    let boots = options.boots;
    // For each round, time and memory of each line.
    let mut rounds: Vec<Vec<(f64, f64)>> = Vec::new();
    for round in 0..boots {
        eprintln!("start: round {} of {boots}", round + 1);
        rounds.push(
            lines.iter().map(|(variant, workers)| start(files, variant, *workers, run_dir)).collect::<Result<_>>()?,
        );
    }
    let samples = |place: usize| rounds.iter().filter_map(move |round| round.get(place).copied());
    let mut starts = Vec::new();
    for (place, (variant, workers)) in lines.iter().enumerate() {
        let bare =
            lines.iter().position(|(other, its)| other.name == names::BARE && its == workers).unwrap_or_default();
        let pairs = || samples(place).zip(samples(bare));
        starts.push(Start {
            name: variant.name.clone(),
            workers: *workers,
            time: Summary::of(samples(place).map(|(time, _)| time)),
            added_time: Summary::of(pairs().map(|((time, _), (bare, _))| time - bare)),
            memory: Summary::of(samples(place).map(|(_, memory)| memory)),
            added_memory: Summary::of(pairs().map(|((_, memory), (_, bare))| memory - bare)),
        });
    }
    Ok(starts)
}

fn start(files: &Files, variant: &Variant, workers: u32, run_dir: &Path) -> Result<(f64, f64)> {
    let gateway = BenchGateway::start(&files.envoy, std::slice::from_ref(variant), workers, run_dir)?;
    for port in &gateway.ports {
        Connections::open(*port, variant.kind.connections(), variant.kind.request())?.send(REQUESTS)?;
    }
    Ok((gateway.started_in.as_secs_f64() * 1e3, gateway.resident()? as f64 / f64::from(1 << 20)))
}
