//! The table, and the same as JSON.

use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::claims::CollisionVariant;
use crate::cost::Cost;
use crate::delivery::{Sender, Size};
use crate::start::Start;
use crate::statistics::Summary;
use crate::variant::{Kind, names};
use crate::{Files, Options};
use sha2::{Digest as _, Sha256};
use std::time::Instant;

/// Everything that was measured.
pub(crate) struct Report {
    conditions: Vec<(&'static str, String)>,
    costs: Vec<Cost>,
    starts: Vec<Start>,
    goals: Vec<Goal>,
}

/// What the filter is held to. A number above its limit is told, and fails nothing: machines differ.
struct Goal {
    text: &'static str,
    measured: f64,
    limit: Option<Limit>,
    unit: &'static str,
}

#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    /// The sign and the number.
    const fn parts(self) -> (&'static str, f64) {
        match self {
            Self::AtMost(limit) => ("≤", limit),
            Self::AtLeast(limit) => ("≥", limit),
        }
    }
}

impl Report {
    pub(crate) fn new(files: &Files, options: &Options, costs: Vec<Cost>, starts: Vec<Start>) -> Result<Self> {
        let size = fs::metadata(&files.module).with_context(|| files.module.display().to_string())?.len();
        let conditions = vec![
            ("date", command("date", &["--utc", "--iso-8601=minutes"])),
            ("machine", machine()),
            ("system", command("uname", &["-srm"])),
            ("envoy", envoy_version(files)),
            ("commit", command("git", &["describe", "--always", "--dirty", "--abbrev=12"])),
            (
                "rounds",
                format!("{} starts of {} rounds, {} requests a turn", options.starts, options.rounds, options.requests),
            ),
        ];
        let mut goals = goals(&costs, &starts, size);
        // What was not measured in this run.
        goals.retain(|goal| !goal.measured.is_nan());
        Ok(Self { conditions, costs, starts, goals })
    }

    pub(crate) fn to_json(&self) -> Value {
        let summary = |summary: &Summary| {
            json!({
                "median": rounded(summary.median),
                "quartiles": [rounded(summary.lower_quartile), rounded(summary.upper_quartile)],
            })
        };
        let costs: Vec<Value> = self
            .costs
            .iter()
            .map(|cost| {
                json!({
                    "variant": cost.name,
                    "request": match cost.kind {
                        Kind::Keyed => "keyed",
                        Kind::Claimed => "keyed, claims in headers",
                        Kind::Passed => "keyed, payload in a header",
                        Kind::Idle => "no key",
                        Kind::Order => "keyed, 1 KiB",
                        Kind::Delivery(size) => size.name(),
                    },
                    "added_mb_per_second": cost.throughput().map(rounded),
                    "cpu_us": summary(&cost.cpu),
                    "added_us": summary(&cost.added),
                    "requests_per_second": summary(&cost.rate),
                })
            })
            .collect();
        let starts: Vec<Value> = self
            .starts
            .iter()
            .map(|start| {
                json!({
                    "variant": start.name,
                    "workers": start.workers,
                    "time_ms": summary(&start.time),
                    "added_ms": summary(&start.added_time),
                    "memory_mib": summary(&start.memory),
                    "added_mib": summary(&start.added_memory),
                })
            })
            .collect();
        let goals: Vec<Value> = self
            .goals
            .iter()
            .map(|goal| {
                let (sign, limit) = goal.limit.map(Limit::parts).unzip();
                json!({
                    "what": goal.text, "measured": rounded(goal.measured), "sign": sign, "limit": limit,
                    "unit": goal.unit,
                })
            })
            .collect();
        let conditions = self.conditions.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())));
        json!({"conditions": Value::Object(conditions.collect()), "cost": costs, "start": starts, "goals": goals})
    }
}

/// How long this processor takes for the SHA-256 of such a body with the code that the filter has, in µs.
fn hash_us(size: Size) -> f64 {
    let body = vec![b'x'; size.bytes()];
    let once = || {
        let began = Instant::now();
        std::hint::black_box(Sha256::digest(&body));
        began.elapsed().as_secs_f64() * 1e6
    };
    Summary::of((0..31).map(|_| once())).median
}

fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

fn goals(costs: &[Cost], starts: &[Start], size: u64) -> Vec<Goal> {
    let added = |name: &str| {
        let cost = costs.iter().find(|cost| cost.name == name);
        cost.map_or(f64::NAN, |cost| cost.added.median)
    };
    let compared = |text, collision, routes| {
        let measured =
            added(&names::compared(collision, routes)) / added(&names::compared(CollisionVariant::OFF, routes));
        Goal { text, measured, limit: None, unit: "" }
    };
    let start = |name: &str, part: fn(&Start) -> Summary| {
        starts
            .iter()
            .find(|start| start.name == name && start.workers == 1)
            .map_or(f64::NAN, |start| part(start).median)
    };
    let ratio =
        |text, ours: &str, other: &str, limit| Goal { text, measured: added(ours) / added(other), limit, unit: "" };
    let speed = |text, sender, size, limit: Option<f64>| {
        let measured = added(&names::hashed(size)) / added(&names::verified(sender, size));
        Goal { text, measured, limit: limit.map(Limit::AtLeast), unit: "" }
    };
    let at_most = |limit| Some(Limit::AtMost(limit));
    let dynamic_module = |ours: &str| names::of(names::DYNAMIC_MODULE, ours);
    let time = |start: &Start| start.added_time;
    let memory = |start: &Start| start.added_memory;
    let (ms, mib) = (" ms", " MiB");
    let stripe = names::verified(Sender::Stripe, Size::Small);
    vec![
        ratio("the key alone / Lua with a constant prefix", names::KEY_ONLY, names::LUA_HEADER, at_most(1.0)),
        ratio("the key alone / Lua that does the same", names::KEY_ONLY, names::LUA_IDENTITY, at_most(1.0)),
        ratio("a keyed request / Lua that does the same", names::WHOLE, names::LUA_RECORD, at_most(1.0)),
        ratio("a keyed request / that Lua without a record", names::WHOLE, names::LUA_WHOLE, None),
        ratio("claims in headers / claims in metadata", names::CLAIMED, names::WHOLE, None),
        ratio("nothing to do / wasm that does nothing", names::IDLE, names::NOOP, at_most(2.0)),
        ratio("nothing to do / the same with all callbacks", names::IDLE, names::NOOP_LINKED, None),
        ratio("10,000 routes / 10 routes", names::WHOLE_LARGE, names::WHOLE, at_most(1.2)),
        compared("observe, raw / off", CollisionVariant::OBSERVE, 10),
        compared("enforce, raw / off", CollisionVariant::ENFORCE, 10),
        compared("observe, json / off", CollisionVariant::OBSERVE_JSON, 10),
        compared("enforce, json / off", CollisionVariant::ENFORCE_JSON, 10),
        compared("observe, raw / off, 10,000 routes", CollisionVariant::OBSERVE, 10_000),
        compared("enforce, raw / off, 10,000 routes", CollisionVariant::ENFORCE, 10_000),
        Goal { text: "start, 10 routes", measured: start(names::WHOLE, time), limit: at_most(500.0), unit: ms },
        Goal { text: "start, 10,000 routes", measured: start(names::WHOLE_LARGE, time), limit: None, unit: ms },
        Goal { text: "memory, 10 routes", measured: start(names::WHOLE, memory), limit: at_most(45.0), unit: mib },
        Goal { text: "memory, 10,000 routes", measured: start(names::WHOLE_LARGE, memory), limit: None, unit: mib },
        speed("verified / hashed, 1 KiB, id in a header", Sender::Github, Size::Small, None),
        speed("verified / hashed, 100 KiB, id in a header", Sender::Github, Size::Medium, Some(0.85)),
        speed("verified / hashed, 1 MiB, id in a header", Sender::Github, Size::Large, None),
        speed("verified / hashed, 1 KiB, id in JSON", Sender::Stripe, Size::Small, None),
        speed("verified / hashed, 100 KiB, id in JSON", Sender::Stripe, Size::Medium, Some(0.85)),
        speed("verified / hashed, 1 MiB, id in JSON", Sender::Stripe, Size::Large, None),
        ratio("a delivery, looked up / its secret in the policy", names::LOOKED_UP, &stripe, None),
        ratio("a delivery, looked up / a keyed request", names::LOOKED_UP, names::WHOLE, None),
        ratio(
            "dynamic module, a keyed request / Lua that does the same",
            &dynamic_module(names::WHOLE),
            names::LUA_RECORD,
            at_most(0.5),
        ),
        ratio(
            "dynamic module, a keyed request / without a record",
            &dynamic_module(names::WHOLE),
            names::LUA_WHOLE,
            None,
        ),
        ratio("dynamic module, claims in headers / that Lua", &dynamic_module(names::CLAIMED), names::LUA_RECORD, None),
        ratio(
            "dynamic module, payload in a header / that Lua",
            &dynamic_module(names::PASSED),
            names::LUA_RECORD,
            at_most(0.5),
        ),
        ratio(
            "dynamic module, nothing to do / that Lua",
            &dynamic_module(names::IDLE),
            names::LUA_RECORD,
            at_most(0.35),
        ),
        ratio(
            "dynamic module, nothing to do, sources read a payload / that Lua",
            &dynamic_module(names::IDLE_PASSED),
            names::LUA_RECORD,
            at_most(0.35),
        ),
        ratio("dynamic module, nothing to do / without a record", &dynamic_module(names::IDLE), names::LUA_WHOLE, None),
        ratio("dynamic module / wasm, a keyed request", &dynamic_module(names::WHOLE), names::WHOLE, None),
        ratio("dynamic module / wasm, nothing to do", &dynamic_module(names::IDLE), names::IDLE, None),
        ratio(
            "dynamic module, 10,000 routes / 10 routes",
            &dynamic_module(names::WHOLE_LARGE),
            &dynamic_module(names::WHOLE),
            at_most(1.1),
        ),
        ratio(
            "dynamic module, payload in a header, 10,000 routes / 10 routes",
            &dynamic_module(names::PASSED_LARGE),
            &dynamic_module(names::PASSED),
            at_most(1.1),
        ),
        Goal {
            text: "dynamic module, verified / hashed here, 1 MiB, id in a header",
            measured: hash_us(Size::Large) / added(&dynamic_module(&names::verified(Sender::Github, Size::Large))),
            limit: Some(Limit::AtLeast(0.9)),
            unit: "",
        },
        Goal { text: "module", measured: size as f64 / 1e3, limit: at_most(700.0), unit: " kB" },
    ]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for (name, value) in &self.conditions {
            writeln!(f, "{name:8}  {value}")?;
        }
        let tables = [
            (Kind::Keyed, "a keyed request"),
            (Kind::Claimed, "a keyed request with its claims in headers"),
            (Kind::Passed, "a keyed request with its token's payload in a header"),
            (Kind::Idle, "a request with nothing to do"),
            (Kind::Order, "a keyed request with a body"),
        ];
        for (kind, title) in tables {
            writeln!(f, "\n{title:40} {:>9} {:>9} {:>15} {:>9}", "CPU µs", "added µs", "middle half", "req/s")?;
            for cost in self.costs.iter().filter(|cost| cost.kind == kind) {
                let (low, high) = (cost.added.lower_quartile, cost.added.upper_quartile);
                let half = if cost.name == kind.bare() { String::new() } else { format!("{low:.2} – {high:.2}") };
                let (name, cpu, added, rate) = (&cost.name, cost.cpu.median, cost.added.median, cost.rate.median);
                writeln!(f, "{name:40} {cpu:9.2} {added:9.2} {half:>15} {rate:9.0}")?;
            }
        }
        let title = "a webhook's delivery";
        writeln!(f, "\n{title:40} {:>9} {:>9} {:>15} {:>9}", "CPU µs", "added µs", "middle half", "MB/s")?;
        for cost in self.costs.iter().filter(|cost| matches!(cost.kind, Kind::Delivery(_))) {
            let (name, cpu, added) = (&cost.name, cost.cpu.median, cost.added);
            let (half, speed) = match cost.throughput() {
                Some(speed) => {
                    (format!("{:.1} – {:.1}", added.lower_quartile, added.upper_quartile), format!("{speed:.0}"))
                }
                None => (String::new(), String::new()),
            };
            writeln!(f, "{name:40} {cpu:9.1} {:9.1} {half:>15} {speed:>9}", added.median)?;
        }
        writeln!(f, "\n{:40} {:>7} {:>9} {:>9} {:>9} {:>9}", "start", "workers", "ms", "added ms", "MiB", "added MiB")?;
        for start in &self.starts {
            let (name, workers, time, added_time) =
                (&start.name, start.workers, start.time.median, start.added_time.median);
            let (memory, added_memory) = (start.memory.median, start.added_memory.median);
            writeln!(f, "{name:40} {workers:>7} {time:9.0} {added_time:9.0} {memory:9.1} {added_memory:9.1}")?;
        }
        writeln!(f, "\n{:50} {:>12} {:>12}", "against bare Envoy's", "measured", "goal")?;
        for Goal { text, measured, limit, unit } in &self.goals {
            let goal =
                limit.map(Limit::parts).map_or_else(String::new, |(sign, limit)| format!("{sign} {limit}{unit}"));
            let measured = if unit.is_empty() { format!("{measured:.2}") } else { format!("{measured:.0}{unit}") };
            writeln!(f, "{text:50} {measured:>12} {goal:>12}")?;
        }
        Ok(())
    }
}

/// What a command prints, or that it is unknown.
fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    output.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, model)| model);
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {count} CPUs", model.unwrap_or("unknown"))
}

/// Envoy says `… version: COMMIT/VERSION/…`, after its own path.
fn envoy_version(files: &Files) -> String {
    let told = command(&files.envoy.to_string_lossy(), &["--version"]);
    let version = told.split_once("version: ").and_then(|(_, version)| version.split('/').nth(1));
    version.unwrap_or("unknown").to_owned()
}
