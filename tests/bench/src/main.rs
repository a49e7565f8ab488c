//! What the filter costs, in a real Envoy: CPU time of the worker thread for each request, requests per second, start and
//! memory, beside an Envoy without the filter, with Lua filters that do the same work, and with a wasm filter that does
//! nothing; verified deliveries beside a wasm filter that hashes them. `make bench` runs it; docs/operate.md says what the numbers mean.
//!
//! | module | what it holds |
//! |---|---|
//! | [`variant`] | the filters that are compared, and what each must have done to a request |
//! | [`config`] | Envoy's configuration: one listener for each variant |
//! | [`policy`] | the policy documents |
//! | [`delivery`] | webhook deliveries and who signs them |
//! | [`claims`] | requests whose payload is compared, and a stand-in for the guard service |
//! | [`client`] | requests over keep-alive connections |
//! | [`gateway`] | a running Envoy: when it is ready, its worker's CPU time, its memory |
//! | [`cost`] | rounds in which the variants take turns |
//! | [`start`] | starts in which the variants take turns |
//! | [`steady`] | a stream with a fixed rate, and its latencies |
//! | [`reload`] | a stream while the policy is replaced |
//! | [`flood`] | a stream beside a flood of large webhooks |
//! | [`report`] | the table, and the same as JSON |

mod claims;
mod client;
mod config;
mod cost;
mod delivery;
mod flood;
mod gateway;
mod policy;
mod reload;
mod report;
mod start;
mod statistics;
mod steady;
mod variant;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use harness::tools::repository;
use serde_json::Value;
use variant::{Variant, names};

/// Measures what the filter costs in a real Envoy.
#[derive(Parser)]
struct Options {
    /// How often Envoy is started for the rounds.
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// How often the variants take turns after each start.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Measured requests of a variant in a round.
    #[arg(long, default_value_t = 4_000)]
    requests: usize,
    /// How often each variant is started for start time and memory.
    #[arg(long, default_value_t = 9)]
    boots: usize,
    /// A short run, for development: its numbers are rough.
    #[arg(long, conflicts_with_all = ["starts", "rounds", "requests", "boots"])]
    quick: bool,
    /// Another build of the module, measured beside it: NAME=FILE.
    #[arg(long, value_parser = named_file)]
    compare: Vec<(String, PathBuf)>,
    /// Measures nothing: sends requests of every kind to the dynamic module, and lets Envoy end by itself, as a module needs that records a
    /// profile.
    #[arg(long)]
    exercise: bool,
    /// Measures only the variants with these names, beside Envoy without a filter, on one worker, and no starts.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["deliveries", "reload", "flood"])]
    only: Vec<String>,
    /// Measures only webhook deliveries, and no starts.
    #[arg(long)]
    deliveries: bool,
    /// Measures only what requests wait while the policy is replaced.
    #[arg(long)]
    reload: bool,
    /// Measures only what other requests wait during a flood of webhooks of 1 MiB.
    #[arg(long)]
    flood: bool,
    /// Where the numbers go, as JSON.
    #[arg(long, default_value = "target/bench/report.json")]
    report: PathBuf,
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected NAME=FILE")?;
    Ok((name.to_owned(), file.into()))
}

/// The programs and modules that are measured.
pub(crate) struct Files {
    /// Envoy: `EDGE_ENVOY`, else `.tools/bin/envoy`.
    pub(crate) envoy: PathBuf,
    /// The filter: `EDGE_WASM`, else `dist/edge_idempotency.wasm`.
    pub(crate) module: PathBuf,
    /// The dynamic module: `EDGE_DYNAMIC_MODULE`, else `dist/libedge_idempotency.so`. It is compared as another build of the module.
    pub(crate) dynamic_module: PathBuf,
    /// The filter that does nothing, finished as ours is.
    pub(crate) noop: PathBuf,
    /// The filter that hashes the body, finished as ours is.
    pub(crate) hash: PathBuf,
    /// The one that does nothing as the linker left it, with every callback that the SDK has.
    pub(crate) noop_linked: PathBuf,
}

impl Files {
    fn locate() -> Result<Self> {
        Ok(Self {
            envoy: file("EDGE_ENVOY", ".tools/bin/envoy")?,
            module: file("EDGE_WASM", "dist/edge_idempotency.wasm")?,
            noop: file("EDGE_BENCH_NOOP", "target/bench/noop.wasm")?,
            dynamic_module: file("EDGE_DYNAMIC_MODULE", "dist/libedge_idempotency.so")?,
            hash: file("EDGE_BENCH_HASH", "target/bench/hash.wasm")?,
            noop_linked: file("EDGE_BENCH_NOOP_LINKED", "target/wasm/bench_noop.wasm")?,
        })
    }
}

fn main() -> Result<()> {
    let mut options = Options::parse();
    if options.quick {
        (options.starts, options.rounds, options.requests, options.boots) = (1, 7, 2_000, 3);
    }
    let files = Files::locate()?;
    options.compare.insert(0, (names::DYNAMIC_MODULE.to_owned(), files.dynamic_module.clone()));
    let run_dir = tempfile::tempdir().context("cannot make a run directory")?;
    claims::answer_claims(&run_dir.path().join(gateway::GUARD_SOCKET))?;
    if options.deliveries {
        let variants = variant::deliveries(&files, &options.compare);
        let costs = cost::measure(&files, &options, &variants, run_dir.path())?;
        return tell(&files, &options, costs, Vec::new());
    }
    if options.exercise {
        let mut variants = variants_of_every_kind(&files, &options)?;
        let dynamic_module = names::of(names::DYNAMIC_MODULE, names::OURS);
        variants.retain(|variant| variant.name.starts_with(&dynamic_module) && !variant.name.contains(names::LARGE));
        variants.retain(|variant| options.only.is_empty() || options.only.contains(&variant.name));
        return cost::exercise(&files, &variants, options.requests, run_dir.path());
    }
    if !options.only.is_empty() {
        return measure_only(&files, &options, run_dir.path());
    }
    if options.reload || options.flood {
        return measure_latencies(&files, &options, run_dir.path());
    }
    let variants = variant::all(&files, &options.compare);
    let mut costs = cost::measure(&files, &options, &variants, run_dir.path())?;
    costs.extend(cost::measure(&files, &options, &variant::orders(&files, &options.compare), run_dir.path())?);
    costs.extend(cost::measure(&files, &options, &variant::deliveries(&files, &options.compare), run_dir.path())?);
    let starts = start::measure(&files, &options, run_dir.path())?;
    tell(&files, &options, costs, starts)
}

/// All variants, if those that are asked for by name are among them.
fn variants_of_every_kind(files: &Files, options: &Options) -> Result<Vec<Variant>> {
    let all = [variant::all, variant::orders, variant::deliveries];
    let variants: Vec<Variant> = all.into_iter().flat_map(|of| of(files, &options.compare)).collect();
    for name in &options.only {
        let known = || variants.iter().map(|variant| format!("\n  {}", variant.name)).collect::<String>();
        ensure!(
            variants.iter().any(|variant| variant.name == *name),
            "no variant has the name {name:?}; there are:{}",
            known()
        );
    }
    Ok(variants)
}

/// Measures the variants that are asked for by name.
fn measure_only(files: &Files, options: &Options, run_dir: &Path) -> Result<()> {
    let mut variants = variants_of_every_kind(files, options)?;
    let is_asked = |variant: &Variant| options.only.contains(&variant.name);
    let bare: Vec<String> =
        variants.iter().filter(|variant| is_asked(variant)).map(|variant| variant.kind.bare()).collect();
    variants.retain(|variant| is_asked(variant) || bare.contains(&variant.name));
    let costs = cost::measure(files, options, &variants, run_dir)?;
    tell(files, options, costs, Vec::new())
}

/// Prints the table, and writes it as JSON.
fn tell(files: &Files, options: &Options, costs: Vec<cost::Cost>, starts: Vec<start::Start>) -> Result<()> {
    let report = report::Report::new(files, options, costs, starts)?;
    println!("{report}");
    write(&options.report, &report.to_json())
}

/// Measures what a steady stream of requests waits.
fn measure_latencies(files: &Files, options: &Options, run_dir: &Path) -> Result<()> {
    if options.reload {
        write(&options.report.with_file_name("reload.json"), &reload::measure(files, options, run_dir)?)?;
    }
    if options.flood {
        write(&options.report.with_file_name("flood.json"), &flood::measure(files, options, run_dir)?)?;
    }
    Ok(())
}

/// Writes a report and prints its place.
fn write(place: &Path, report: &Value) -> Result<()> {
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let written = serde_json::to_string_pretty(report)? + "\n";
    fs::write(place, written).with_context(|| format!("cannot write {}", place.display()))?;
    println!("{}", place.display());
    Ok(())
}

/// A file whose path a variable may set.
fn file(variable: &str, default: &str) -> Result<PathBuf> {
    let path = env::var_os(variable).map_or_else(|| repository().join(default), PathBuf::from);
    ensure!(path.is_file(), "{} is not there: run `make bench`, or set {variable}", path.display());
    std::path::absolute(&path).with_context(|| path.display().to_string())
}
