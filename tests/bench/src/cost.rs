//! Rounds in which the variants take turns, in one Envoy and on the same worker thread: what drifts, drifts for all of them.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::client::Connections;
use crate::gateway::BenchGateway;
use crate::statistics::Summary;
use crate::variant::{Kind, Variant};
use crate::{Files, Options};

/// The part of a turn's requests that warms up caches before it, unmeasured.
const WARM_UP: usize = 10;

/// What a variant costs.
pub(crate) struct Cost {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Worker CPU for each request, in µs.
    pub(crate) cpu: Summary,
    /// The same less that of Envoy without a filter in the same round.
    pub(crate) added: Summary,
    /// Requests per second.
    pub(crate) rate: Summary,
}

impl Cost {
    /// The bytes of deliveries that the added CPU time gets through, in MB per second.
    pub(crate) fn throughput(&self) -> Option<f64> {
        match self.kind {
            Kind::Delivery(size) if self.name != self.kind.bare() => Some(size.bytes() as f64 / self.added.median),
            _ => None,
        }
    }
}

/// One turn.
#[derive(Clone, Copy)]
struct Sample {
    cpu: f64,
    rate: f64,
}

/// Measures variants beside each other, in an Envoy with one worker thread.
pub(crate) fn measure(files: &Files, options: &Options, variants: &[Variant], run_dir: &Path) -> Result<Vec<Cost>> {
    // For each round, a sample of each variant.
    let mut rounds: Vec<Vec<Sample>> = Vec::new();
    for start in 0..options.starts {
        eprintln!(
            "cost: start {} of {}, {} rounds of {} variants",
            start + 1,
            options.starts,
            options.rounds,
            variants.len()
        );
        let gateway = BenchGateway::start(&files.envoy, variants, 1, run_dir)?;
        let mut connections = Vec::new();
        for (variant, port) in variants.iter().zip(&gateway.ports) {
            gateway.check(variant, *port)?;
            let mut opened = Connections::open(*port, variant.kind.connections(), variant.kind.request())?;
            opened.send(variant.kind.requests(options.requests)).with_context(|| variant.name.clone())?;
            connections.push(opened);
        }
        for round in 0..options.rounds {
            let mut samples = vec![None; variants.len()];
            for place in turns(variants.len(), start + round) {
                if let (Some(variant), Some(connections), Some(sample)) =
                    (variants.get(place), connections.get_mut(place), samples.get_mut(place))
                {
                    *sample = Some(turn(&gateway, connections, variant.kind, options.requests)?);
                }
            }
            rounds.push(samples.into_iter().flatten().collect());
        }
    }
    let costs = variants.iter().enumerate();
    Ok(costs.map(|(place, variant)| cost(variant, place, variants, &rounds)).collect())
}

/// Sends this many requests to each variant, and lets Envoy end by itself.
pub(crate) fn exercise(files: &Files, variants: &[Variant], requests: usize, run_dir: &Path) -> Result<()> {
    let gateway = BenchGateway::start(&files.envoy, variants, 1, run_dir)?;
    for (variant, port) in variants.iter().zip(&gateway.ports) {
        gateway.check(variant, *port)?;
        eprintln!("{}", variant.name);
        let mut opened = Connections::open(*port, variant.kind.connections(), variant.kind.request())?;
        opened.send(variant.kind.requests(requests)).with_context(|| variant.name.clone())?;
    }
    gateway.end()
}

/// The order of turns: another beginning in each round, and every other round backwards.
fn turns(count: usize, round: usize) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..count).map(|place| (place + round) % count).collect();
    if round % 2 == 1 {
        turns.reverse();
    }
    turns
}

fn turn(gateway: &BenchGateway, connections: &mut Connections, kind: Kind, requests: usize) -> Result<Sample> {
    // Deliveries are signed for the time at which they are sent.
    connections.exchange(kind.request());
    let requests = kind.requests(requests);
    connections.send(requests / WARM_UP)?;
    let before = gateway.worker_cpu()?;
    let began = Instant::now();
    connections.send(requests)?;
    let elapsed = began.elapsed();
    let used = gateway.worker_cpu()? - before;
    Ok(Sample { cpu: used.as_secs_f64() * 1e6 / requests as f64, rate: requests as f64 / elapsed.as_secs_f64() })
}

fn cost(variant: &Variant, place: usize, variants: &[Variant], rounds: &[Vec<Sample>]) -> Cost {
    let bare = variants.iter().position(|other| other.name == variant.kind.bare()).unwrap_or_default();
    let samples = |place: usize| rounds.iter().filter_map(move |round| round.get(place).copied());
    Cost {
        name: variant.name.clone(),
        kind: variant.kind,
        cpu: Summary::of(samples(place).map(|sample| sample.cpu)),
        added: Summary::of(samples(place).zip(samples(bare)).map(|(sample, bare)| sample.cpu - bare.cpu)),
        rate: Summary::of(samples(place).map(|sample| sample.rate)),
    }
}
