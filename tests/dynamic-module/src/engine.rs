//! Behaviour cases through the dynamic module, in the stand-in for Envoy.

use crate::envoy::{Config, Envoy, HttpCall};
use crate::stream::{Stream, StreamInfo, exchange};
use direct::trials::Engine;
use edge_idempotency_engine::{OperatorAdvice, Policy};
use edge_idempotency_envoy::metadata_object;
use serde_json::{Map, Value};
use simulated_stores::{SimulatedStores, StoreReply, StoreRequest};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::cases::{Case, CaseOutcome, StartErrors, sample};
use testkit::http::Message;
use testkit::stores::stores_of;

/// The clock of a case without one: 2026-01-01 UTC.
pub const NOW_UNIX_MS: u64 = 1_767_225_600_000;

/// What the module puts in front of each error of a policy.
const ERROR_PREFIX: &str = "Error edge-idempotency: policy ";

/// Runs cases through the module. Bodies come in parts of this size.
pub struct Module {
    /// The size of a part in bytes
    pub part: usize,
}

impl Engine for Module {
    /// Runs a case in a process of its own, and then a plain request, which has to be answered as ever.
    fn run(&self, case: &Case) -> CaseOutcome {
        self.exchange(case).unwrap_or_else(|error| CaseOutcome { failures: vec![error], ..CaseOutcome::default() })
    }

    fn start(&self, case: &StartErrors) -> Vec<String> {
        let envoy = Envoy::new(1);
        let started = envoy.configure(&case.policy, &case.environment).is_some();
        let mut errors: Vec<String> =
            envoy.log().iter().filter_map(|line| line.strip_prefix(ERROR_PREFIX)).map(str::to_owned).collect();
        if started != errors.is_empty() {
            errors.push(format!("(stand-in): it starts: {started}"));
        }
        errors.extend(envoy.take_failures());
        errors
    }

    fn advice(&self) -> &'static OperatorAdvice {
        &edge_idempotency_envoy::DYNAMIC_MODULE_ADVICE
    }
}

impl Module {
    fn exchange(&self, case: &Case) -> Result<CaseOutcome, String> {
        edge_idempotency::process::set_now(Some(case.now_unix_ms.unwrap_or(NOW_UNIX_MS)));
        let envoy = Envoy::new(2);
        let config = envoy.configure(&case.policy, &case.environment).ok_or_else(|| envoy.log().join("\n"))?;
        envoy.take_log();
        let stores = stores_of(case)?;
        let info = StreamInfo {
            filter_state: metadata(&case.policy, &case.metadata),
            route_metadata: case.route_metadata.clone(),
            ..StreamInfo::default()
        };
        let stream = Stream::new(&config, 1, info);
        let messages = (&case.request, &case.response);
        exchange((&envoy, &config), &stream, messages, self.part, &|call| reply(&stores, call));
        let mut failures = Vec::new();
        if !stream.is_destroyed() && stream.client().is_none() {
            failures.push("the request waits for ever".to_owned());
        }
        stream.close();
        config.tick();

        let repeated = |(name, count): (String, u64)| vec![name; usize::try_from(count).unwrap_or_default()];
        let samples = envoy.histograms().into_iter();
        let samples = samples.flat_map(|(name, values)| values.into_iter().map(move |value| sample(&name, value)));
        let mut metrics: Vec<String> = envoy.counters().into_iter().flat_map(repeated).chain(samples).collect();
        metrics.sort();
        let log = envoy.log();
        failures.extend(probe(&envoy, &config, &case.policy));
        drop(config);
        failures.extend(envoy.take_failures());
        let record = stream.record();
        Ok(CaseOutcome {
            upstream: stream.upstream(),
            client: stream.client(),
            metrics,
            record: (!record.is_empty()).then_some(record),
            log,
            failures,
        })
    }
}

/// The objects that `set_filter_state` writes for this policy, by their keys (docs/gateways.md).
pub fn metadata(policy: &[u8], metadata: &Map<String, Value>) -> BTreeMap<String, Vec<u8>> {
    let Ok(policy) = Policy::from_json(policy) else { return BTreeMap::new() };
    let object = |namespace: String| {
        let text = metadata.get(&namespace).map_or_else(|| "-".to_owned(), Value::to_string);
        (metadata_object(&namespace), text.into_bytes())
    };
    policy.metadata_namespaces().into_iter().map(object).collect()
}

/// What a store of the case answers to a call.
pub fn reply(stores: &SimulatedStores, call: &HttpCall) -> Option<Message> {
    let line = |name: &str| call.headers.get(name).unwrap_or_default();
    match stores.reply_to(&StoreRequest { method: line(":method"), path: line(":path"), body: &call.body }) {
        StoreReply { status: Some(status), body } => Some(Message::new([(":status", status.to_string())], body)),
        StoreReply { status: None, .. } => None,
    }
}

/// A request that no policy treats as special: forwarded or not found.
fn probe(envoy: &Envoy, config: &Arc<Config>, policy: &[u8]) -> Option<String> {
    let info = StreamInfo { filter_state: metadata(policy, &Map::new()), ..StreamInfo::default() };
    let stream = Stream::new(config, 0, info);
    let headers = [(":method", "GET"), (":scheme", "https"), (":authority", "probe.example"), (":path", "/probe")];
    let messages = (&Message::new(headers, ""), &Message::new([(":status", "200")], ""));
    exchange((envoy, config), &stream, messages, 1, &|_| None);
    let status = stream.client().and_then(|answer| answer.headers.status());
    let is_fine = matches!(status, Some(200 | 404));
    (!is_fine).then(|| format!("a plain request afterwards was answered with {status:?}"))
}
