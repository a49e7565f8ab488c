//! The requests, and the counts that they make: each case of tests/cases/metrics.json, some of them several times.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::behaviour::{answer, listener_for, request};
use e2e::callers::signed_at;
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::deliveries::now;
use e2e::gateway::TestGateway;
use e2e::prometheus::{Prometheus, Sample};
use e2e::raw::Request;
use e2e::runner::Test;
use harness::tokens;
use serde_json::{Value, json};
use testkit::cases::{Case, directory, load_dir};

use super::setup::{FOLDING, HOOKS, ObservabilitySetup, PHASES, PROMISES};

/// The filter's counters.
const COUNTERS: &str = r#"{__name__=~"(idempotency|transport_translation|handler_internal)_.+_total"}"#;

/// A series: name and labels, without those that Prometheus adds.
pub(crate) type Series = (String, BTreeMap<String, String>);

/// One of the requests, and what it counts.
pub(crate) struct MixPart {
    pub(crate) name: String,
    listener: String,
    claims: Option<Value>,
    request: Request,
    answer: Answer,
    status: u16,
    series: Vec<Series>,
    /// How often it is sent in a phase.
    pub(crate) times: usize,
}

/// The requests, and the listeners that they need.
#[derive(Default)]
pub(crate) struct Mix {
    pub(crate) parts: Vec<MixPart>,
    pub(crate) listeners: Vec<(String, ListenerSpec)>,
    pub(crate) environment: Vec<(String, String)>,
}

impl Mix {
    /// The cases that can run here: what they look up and the clock cannot be set in a real gateway.
    pub(crate) fn load() -> Result<Self> {
        let files = load_dir(&directory()).map_err(|error| anyhow!(error))?;
        let file = files.into_iter().find(|file| file.name == "metrics").context("no metrics.json")?;
        let mut mix = Self::default();
        for case in file.cases {
            let signed = signed_at(&case, now());
            if case.lookups.is_none() && (case.now_unix_ms.is_none() || signed.is_some()) {
                mix.add(signed.unwrap_or(case))?;
            }
        }
        mix.add_collision()?;
        ensure!(mix.parts.len() > 30, "only {} cases can run here", mix.parts.len());
        Ok(mix)
    }

    /// A key that was used with another request. The upstream gives every request the same answer, so it is the guard, too.
    fn add_collision(&mut self) -> Result<()> {
        let policy = json!({
            "version": 1,
            "identity": {"sources": [tokens::source()]},
            "backend": {"kind": "generic", "cluster": "backend", "guard": {"service": "Claims"}},
            "routes": [
                {"endpoint": "guarded", "path": "/guarded", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce"}
            ]
        });
        let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
        let name = format!("listener-{}", self.listeners.len());
        self.listeners.push((name.clone(), listener));
        let labels = "tenant=acme;project=shop;endpoint=guarded";
        let series = [
            format!("idempotency_key_present_total;case=A;form=bare;{labels}"),
            format!("idempotency_lookup_total;store=guard;result=mismatch;{labels}"),
            format!("idempotency_key_collision_total;mode=enforce;{labels}"),
            format!("idempotency_problem_total;code=idempotency_key_reused;{labels}"),
        ];
        self.parts.push(MixPart {
            listener: name,
            claims: Some(json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1"})),
            request: Request::post("/guarded").header("idempotency-key", "k1"),
            answer: Answer { body: b"\"1r.another\"".to_vec(), ..Answer::default() },
            status: 422,
            series: series.iter().map(|series| taken_apart(series)).collect::<Result<_>>()?,
            times: 3,
            name: "a key that was used with another request".to_owned(),
        });
        Ok(())
    }

    fn add(&mut self, case: Case) -> Result<()> {
        self.environment.extend(case.environment.clone());
        let (listener, claims) = listener_for(&case);
        let known = self.listeners.iter().find(|(_, known)| *known == listener).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = format!("listener-{}", self.listeners.len());
            self.listeners.push((name.clone(), listener));
            name
        });
        let series = case.metrics.as_deref().context("a case without metrics")?;
        let counters = series.iter().filter(|series| series.split(';').next().is_some_and(|n| n.ends_with("_total")));
        self.parts.push(MixPart {
            listener: name,
            claims,
            request: request(&case.request)?,
            answer: answer(&case.response)?,
            status: case.client.status,
            series: counters.map(|series| taken_apart(series)).collect::<Result<_>>()?,
            // Different numbers, so that no two series can be taken for each other.
            times: 1 + self.parts.len() % 4,
            name: case.name,
        });
        Ok(())
    }

    /// Sends every request as often as it says.
    pub(crate) fn send(&self, gateway: &TestGateway) -> Result<()> {
        self.parts.iter().try_for_each(|part| (0..part.times).try_for_each(|_| part.send(gateway)))
    }

    /// The counts after all phases.
    fn counts(&self, phases: usize) -> BTreeMap<Series, u64> {
        let mut counts = BTreeMap::new();
        for part in &self.parts {
            for series in &part.series {
                *counts.entry(series.clone()).or_default() += (part.times * phases) as u64;
            }
        }
        counts
    }

    /// Waits until Prometheus has the counts of so many phases.
    pub(crate) fn counted(&self, prometheus: &Prometheus, phases: usize) -> Result<()> {
        let expected = self.counts(phases);
        let so = |prometheus: &Prometheus| Ok(seen(prometheus)? == expected);
        prometheus.until("Prometheus has the counts", so).with_context(|| difference(&seen(prometheus), &expected))
    }
}

impl MixPart {
    /// Sends the request once.
    pub(crate) fn send(&self, gateway: &TestGateway) -> Result<()> {
        let mut request = self.request.clone();
        if let Some(claims) = &self.claims {
            request = request.bearer(&gateway.token(claims)?);
        }
        let status = gateway.http1_answered(&self.listener, &request, &self.answer)?.reply.status;
        ensure!(status == self.status, "{}: {status} instead of {}", self.name, self.status);
        Ok(())
    }
}

pub(crate) fn tests() -> Vec<Test<ObservabilitySetup>> {
    vec![Test::new("counts are exact", exact), Test::new("failed VMs are counted", vm_failures)]
}

fn exact(setup: &ObservabilitySetup) -> Result<()> {
    setup.mix.counted(&setup.prometheus, PHASES)
}

/// What Envoy counts is what the alerts are about.
fn vm_failures(setup: &ObservabilitySetup) -> Result<()> {
    for (name, expected) in &setup.vm_failures {
        let metric = format!("envoy_wasm_edge_idempotency_vm_reload_{name}");
        let seen: f64 = setup.prometheus.query(&metric)?.iter().map(|sample| sample.value).sum();
        ensure!(seen >= *expected as f64 && (*expected > 0 || seen == 0.0), "{metric}: {seen}, not {expected}");
    }
    Ok(())
}

/// `name;label=value;…`, as the case file has it.
fn taken_apart(series: &str) -> Result<Series> {
    let mut parts = series.split(';');
    let name = parts.next().unwrap_or_default().to_owned();
    let label = |part: &str| {
        let (label, value) = part.split_once('=').with_context(|| format!("no label: {series}"))?;
        Ok((label.to_owned(), value.to_owned()))
    };
    Ok((name, parts.map(label).collect::<Result<_>>()?))
}

/// What Prometheus has of the requests of the mix.
fn seen(prometheus: &Prometheus) -> Result<BTreeMap<Series, u64>> {
    let mut all = BTreeMap::new();
    for Sample { mut labels, value } in prometheus.query(COUNTERS)? {
        let endpoint = labels.get("endpoint").map(String::as_str);
        if matches!(endpoint, None | Some(FOLDING | HOOKS | PROMISES)) {
            continue;
        }
        let name = labels.remove("__name__").context("no name")?;
        labels.remove("job");
        labels.remove("instance");
        all.insert((name, labels), value as u64);
    }
    Ok(all)
}

fn difference(seen: &Result<BTreeMap<Series, u64>>, expected: &BTreeMap<Series, u64>) -> String {
    let Ok(seen) = seen else { return "no counts".to_owned() };
    let mut lines = Vec::new();
    for series in seen.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
        let (have, want) = (seen.get(series), expected.get(series));
        if have != want {
            lines.push(format!("{series:?}: {have:?} instead of {want:?}"));
        }
    }
    lines.join("\n")
}
