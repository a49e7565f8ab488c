//! What deploy/observability/dashboard-picture.py draws: five minutes of traffic with visible shapes, and what the dashboard's queries say
//! of them. Only `EDGE_DASHBOARD_DATA=FILE` asks for it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::Result;
use e2e::deliveries::now;
use harness::faults::Fault;
use serde_json::{Value, json};

use super::documents::dashboard;
use super::expressions::substituted;
use super::setup::ObservabilitySetup;

const SECONDS: u64 = 300;
/// The range of the queries' rates: longer would flatten the shapes.
const RATE_INTERVAL: &str = "20s";
const TICK: Duration = Duration::from_millis(250);

/// Sends the traffic, and writes the series of each panel as JSON.
pub(crate) fn write(setup: &mut ObservabilitySetup, path: &Path) -> Result<()> {
    let (begin, start) = (Instant::now(), now());
    let hook = setup.stores.hook("picture")?;
    let mut ticks = 0_u32;
    while begin.elapsed().as_secs() < SECONDS {
        let time = begin.elapsed().as_secs_f64() / SECONDS as f64;
        // A store is away for a while.
        if (0.55..0.75).contains(&time) {
            setup.stores.openbao_proxy.fail(Fault::Slow(Duration::from_millis(60)));
        } else if (0.75..0.85).contains(&time) {
            setup.stores.openbao_proxy.fail(Fault::Status(500));
        } else {
            setup.stores.forget();
        }
        let mut owed = Vec::new();
        for (number, part) in setup.mix.parts.iter().enumerate() {
            owed.push(share(&part.name, number, time, ticks));
        }
        for (part, times) in setup.mix.parts.iter().zip(owed) {
            for _ in 0..times {
                part.send(&setup.gateway)?;
            }
        }
        for number in 0..2 {
            setup.deliver(&hook.delivery(&format!("evt_{ticks}_{number}")))?;
        }
        ticks += 1;
        thread::sleep((TICK * ticks).saturating_sub(begin.elapsed()));
    }
    let (start, end) = (start + 25, now());
    let mut panels: Vec<Value> = Vec::new();
    for query in dashboard()? {
        let expression = substituted(&query.expression.replace("$__rate_interval", RATE_INTERVAL))?;
        let result = setup.prometheus.query_range(&expression, start, end, 2)?;
        panels.push(json!({"panel": query.panel, "legend": query.legend, "result": result}));
    }
    fs::write(path, json!({"start": start, "end": end, "queries": panels}).to_string())?;
    Ok(())
}

/// How often a request of the mix is sent in this tick: `time` runs from 0 to 1.
fn share(name: &str, number: usize, time: f64, ticks: u32) -> u32 {
    let wave = (time * std::f64::consts::TAU * 2.0).sin();
    let whole = |mean: f64| (mean + uniform(number, ticks)).floor().max(0.0) as u32;
    match name {
        "a stored result" => whole(4.0 + 1.5 * wave),
        "a replay" => whole(2.0 + 0.7 * wave + if time > 0.4 { 1.0 } else { 0.0 }),
        // A client's release that is taken back.
        "a key that is too long" if (0.3..0.45).contains(&time) => whole(1.5),
        "a delivery without an identifier" if (0.5..0.7).contains(&time) => whole(0.5),
        "a delivery without an identifier" => 0,
        // Clients learn what shadow mode reports.
        _ if name.starts_with("shadow mode") => whole(0.5 * (1.0 - time)),
        _ => whole(0.1 + 0.05 * wave),
    }
}

/// A number from 0 to 1 that looks random, and is the same in each run.
fn uniform(number: usize, ticks: u32) -> f64 {
    let mut hasher = DefaultHasher::new();
    (number, ticks).hash(&mut hasher);
    f64::from((hasher.finish() >> 32) as u32) / f64::from(u32::MAX)
}
