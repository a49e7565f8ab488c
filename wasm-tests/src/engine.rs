//! A case through the built module, in the host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use simulated_stores::{SimulatedStores, StoreReply, StoreRequest};

use crate::host::{
    BootError, CallReply, Ending, HttpCall, LogLevel, LogLine, Options, Program, StreamInfo, Vm, counting,
};
use direct::trials::Engine;
use testkit::cases::{Case, CaseOutcome, StartErrors, sample, workspace};
use testkit::http::Message;
use testkit::records;
use testkit::stores::stores_of;

/// The clusters of every case's gateway, beside those that only Envoy knows.
pub(crate) const CLUSTERS: [&str; 3] = ["unkey", "openbao", "backend"];

/// The property with the record of a request.
const RECORD: &str = "edge_idempotency";

/// What the module puts in front of each error of a policy.
pub(crate) const ERROR_PREFIX: &str = "edge-idempotency: policy ";

/// Runs cases through the module.
#[derive(Clone)]
pub struct Wasm {
    program: Program,
}

impl Wasm {
    /// The module that `EDGE_WASM` names, or the one `make wasm` leaves. It is read once for all tests of a program.
    ///
    /// # Errors
    /// There is no module, or it is none.
    pub fn load() -> Result<&'static Self, String> {
        static MODULE: LazyLock<Result<Wasm, String>> = LazyLock::new(|| Wasm::read(Program::new));
        MODULE.as_ref().map_err(Clone::clone)
    }

    /// The same module, and it counts the instructions that it executes.
    ///
    /// # Errors
    /// There is no module, or it is none.
    pub fn load_counting() -> Result<&'static Self, String> {
        static MODULE: LazyLock<Result<Wasm, String>> =
            LazyLock::new(|| Wasm::read(|wasm| Program::new(&counting(wasm)?)));
        MODULE.as_ref().map_err(Clone::clone)
    }

    fn read(program_of: impl FnOnce(&[u8]) -> Result<Program, String>) -> Result<Self, String> {
        let file = std::env::var_os("EDGE_WASM").map_or_else(|| "dist/edge_idempotency.wasm".into(), PathBuf::from);
        let file = workspace().join(file);
        let wasm = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()));
        let program = wasm.and_then(|wasm| program_of(&wasm));
        let program = program.map_err(|error| format!("no module to test: {error}\nRun `make wasm` to build it."))?;
        Ok(Self { program })
    }

    /// The module.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl Engine for Wasm {
    /// Runs a case in a VM of its own, and then a plain request on that VM, which has to be answered as ever.
    fn run(&self, case: &Case) -> CaseOutcome {
        let options = options(&case.policy, &case.environment);
        let mut vm = match Vm::boot(&self.program, options) {
            Ok(vm) => vm,
            Err(error) => return CaseOutcome { failures: vec![error.to_string()], ..CaseOutcome::default() },
        };
        if let Some(milliseconds) = case.now_unix_ms {
            vm.set_now(milliseconds * 1_000_000);
        }
        let info = StreamInfo { metadata: case.metadata.clone(), route_metadata: case.route_metadata.clone() };
        let stores = match stores_of(case) {
            Ok(stores) => stores,
            Err(error) => return CaseOutcome { failures: vec![error], ..CaseOutcome::default() },
        };
        let id = vm.open(info);
        vm.send_request(id, &case.request);
        answer_calls(&mut vm, &stores);
        if vm.view(id).is_some_and(|exchange| exchange.ending == Ending::AwaitingUpstream) {
            vm.send_response(id, &case.response);
            answer_calls(&mut vm, &stores);
        }
        let exchange = vm.close(id);
        vm.tick();
        let counters = vm.metrics().counters();
        let repeated =
            |(name, count): (&&str, &u64)| vec![(*name).to_owned(); usize::try_from(*count).unwrap_or_default()];
        let samples = vm.metrics().histograms().iter();
        let samples = samples.flat_map(|(name, values)| values.iter().map(|value| sample(name, *value)));
        let mut metrics: Vec<String> = counters.iter().flat_map(repeated).chain(samples).collect();
        metrics.sort();
        let message = exchange.properties.get(RECORD);
        let record = message.and_then(|message| records::read(message));
        let mut failures = vm.take_failures();
        if message.is_some() != record.is_some() {
            failures.push("the record cannot be read".to_owned());
        }
        failures.extend(probe(&mut vm));
        failures.extend(vm.take_failures());
        let (upstream, client, log) = (exchange.upstream, exchange.client, texts(vm.logs()));
        CaseOutcome { upstream, client, metrics, record, log, failures }
    }

    fn start(&self, case: &StartErrors) -> Vec<String> {
        let options = options(&case.policy, &case.environment);
        match Vm::boot(&self.program, options) {
            Ok(mut vm) => vm.take_failures(),
            Err(BootError::Refused { logs, failures, .. }) => {
                let errors = logs.iter().filter(|line| line.level == LogLevel::Error);
                let errors = errors.filter_map(|line| line.message.strip_prefix(ERROR_PREFIX));
                errors.map(str::to_owned).chain(failures).collect()
            }
            Err(error) => vec![error.to_string()],
        }
    }
}

fn options(policy: &[u8], environment: &BTreeMap<String, String>) -> Options {
    let clusters = CLUSTERS.map(str::to_owned).into();
    Options {
        configuration: policy.to_vec(),
        environment: environment.clone(),
        clusters,
        whole_bodies: true,
        ..Options::default()
    }
}

/// Answers every call, and those that follow from the answers.
fn answer_calls(vm: &mut Vm, stores: &SimulatedStores) {
    while let Some(call) = vm.calls().first().copied().cloned() {
        vm.answer_call(call.token, reply(stores, &call));
    }
}

/// What a store of the case answers to a call.
fn reply(stores: &SimulatedStores, call: &HttpCall) -> CallReply {
    let line = |name: &str| call.headers.get(name).unwrap_or_default();
    match stores.reply_to(&StoreRequest { method: line(":method"), path: line(":path"), body: &call.body }) {
        StoreReply { status: Some(status), body } => {
            CallReply::Response(Message::new([(":status", status.to_string())], body))
        }
        StoreReply { status: None, .. } => CallReply::Failed,
    }
}

/// A request that no policy treats as special: forwarded or not found.
fn probe(vm: &mut Vm) -> Option<String> {
    let headers = [(":method", "GET"), (":scheme", "https"), (":authority", "probe.example"), (":path", "/probe")];
    let exchange =
        vm.exchange(StreamInfo::default(), &Message::new(headers, ""), &Message::new([(":status", "200")], ""));
    let status = exchange.client.and_then(|answer| answer.headers.status());
    let fine = matches!(status, Some(200 | 404));
    (!fine).then(|| format!("a plain request afterwards was answered with {status:?}"))
}

fn texts(logs: &[LogLine]) -> Vec<String> {
    logs.iter().map(|line| format!("{:?} {}", line.level, line.message)).collect()
}
