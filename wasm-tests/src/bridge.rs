//! A case through the Go bridge: `krakend/internal/caserunner` hosts the built module with the bridge, reads a case as a line
//! of JSON and answers with what came of it. While it runs a case it asks what the stores answer. Bytes are in base64.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use simulated_stores::{SimulatedStores, StoreReply, StoreRequest};
use testkit::cases::{Case, CaseOutcome, StartErrors, workspace};
use testkit::http::{Headers, Message};
use testkit::stores::stores_of;

use crate::engine::{CLUSTERS, ERROR_PREFIX};
use direct::trials::Engine;

/// Runs cases through the Go bridge.
pub struct Bridge {
    program: PathBuf,
    module: PathBuf,
    /// Runners that no case uses at the moment. There are as many as cases ran at once.
    idle: Mutex<Vec<Runner>>,
}

/// What `variable` names, or else what the Makefile leaves there.
fn built(variable: &str, default: &str) -> PathBuf {
    workspace().join(std::env::var_os(variable).map_or_else(|| default.into(), PathBuf::from))
}

impl Bridge {
    /// Whether `make build` found no Go to build the runner with, and has said so.
    pub fn left_out() -> bool {
        built("EDGE_KRAKEND", "target/krakend").join("without-go").is_file()
    }

    /// Finds the runner that `make build` leaves (`EDGE_KRAKEND` names the directory), and the module that `EDGE_WASM` names.
    ///
    /// # Errors
    /// There is no runner.
    pub fn load() -> Result<Self, String> {
        let program = built("EDGE_KRAKEND", "target/krakend").join("caserunner");
        if !program.is_file() {
            return Err(format!("no runner for the bridge: {}\nRun `make build` to build it.", program.display()));
        }
        Ok(Self { program, module: built("EDGE_WASM", "dist/edge_idempotency.wasm"), idle: Mutex::new(Vec::new()) })
    }

    /// Has a runner do something. One that fails is not used again.
    fn ask(&self, order: &Value, stores: &SimulatedStores) -> Result<Value, String> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle().pop();
        let mut runner = known.map_or_else(|| Runner::start(self), Ok)?;
        let result = runner.ask(order, stores)?;
        idle().push(runner);
        Ok(result)
    }

    fn exchange(&self, case: &Case) -> Result<CaseOutcome, String> {
        let order = json!({
            "exchange": {
                "policy": encoded(&case.policy),
                "environment": case.environment,
                "upstreams": CLUSTERS,
                "now_unix_ms": case.now_unix_ms,
                "request": message(&case.request),
                "metadata": case.metadata,
                "route_metadata": case.route_metadata,
                "response": message(&case.response),
            },
        });
        let result = self.ask(&order, &stores_of(case)?)?;
        let member = |name: &str| result.get(name).filter(|value| !value.is_null());
        let read =
            |name: &str| member(name).map(|value| read_message(value).ok_or(format!("{name} cannot be read: {value}")));
        let mut outcome = CaseOutcome {
            upstream: read("upstream").transpose()?,
            client: read("client").transpose()?,
            metrics: texts(member("metrics")),
            record: None,
            log: texts(member("log")),
            failures: texts(member("failures")),
        };
        outcome.record = match member("record").map(decoded) {
            None => None,
            Some(record) => match record.and_then(|record| serde_json::from_slice(&record).ok()) {
                Some(record) => Some(record),
                None => return Err("the record cannot be read".to_owned()),
            },
        };
        outcome.metrics.sort();
        Ok(outcome)
    }

    fn errors(&self, case: &StartErrors) -> Result<Vec<String>, String> {
        let order = json!({
            "start": {"policy": encoded(&case.policy), "environment": case.environment, "upstreams": CLUSTERS},
        });
        let result = self.ask(&order, &SimulatedStores::default())?;
        let lines = texts(result.get("errors"));
        let policy = lines.iter().filter_map(|line| line.strip_prefix(ERROR_PREFIX)).map(str::to_owned);
        Ok(policy.chain(texts(result.get("failures"))).collect())
    }
}

impl Engine for Bridge {
    /// Runs a case in a bridge of its own, and then a plain request through that bridge, which has to be answered as ever.
    fn run(&self, case: &Case) -> CaseOutcome {
        self.exchange(case).unwrap_or_else(|error| CaseOutcome { failures: vec![error], ..CaseOutcome::default() })
    }

    fn start(&self, case: &StartErrors) -> Vec<String> {
        self.errors(case).unwrap_or_else(|error| vec![error])
    }
}

/// A running program. It ends when its input ends.
struct Runner {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Runner {
    fn start(bridge: &Bridge) -> Result<Self, String> {
        let mut command = Command::new(&bridge.program);
        // A case at a time: with more threads Go's collector takes as long as the cases.
        command.env("GOMAXPROCS", "1").env("GOGC", "400");
        let spawned = command.arg(&bridge.module).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("{}: {error}", bridge.program.display()))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self { child, input, output: BufReader::new(output) }),
            _ => Err("the runner has no pipes".to_owned()),
        }
    }

    /// Gives an order, answers the calls that it makes, and returns its result.
    fn ask(&mut self, order: &Value, stores: &SimulatedStores) -> Result<Value, String> {
        self.write(order)?;
        loop {
            let line = self.read()?;
            let Some(call) = line.get("call") else {
                return line.get("result").cloned().ok_or_else(|| format!("the runner answered {line}"));
            };
            let part = |name: &str| call.get(name).and_then(decoded).unwrap_or_default();
            let (method, path, body) = (part("method"), part("path"), part("body"));
            let request = StoreRequest { method: &method, path: &path, body: &body };
            let StoreReply { status, body } = stores.reply_to(&request);
            self.write(&json!({"status": status, "body": encoded(&body)}))?;
        }
    }

    fn write(&mut self, line: &Value) -> Result<(), String> {
        let written = self.input.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.input.flush());
        written.map_err(|error| self.ended(&error.to_string()))
    }

    fn read(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(self.ended("it wrote nothing more")),
            Ok(_) => serde_json::from_str(&line).map_err(|error| format!("the runner wrote {line:?}: {error}")),
            Err(error) => Err(self.ended(&error.to_string())),
        }
    }

    fn ended(&mut self, why: &str) -> String {
        let status = self.child.try_wait().ok().flatten().map_or_else(String::new, |status| format!(", {status}"));
        format!("the runner of the bridge ended ({why}{status}); standard error has more")
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(bytes: &[u8]) -> Value {
    STANDARD.encode(bytes).into()
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
}

/// A message as the runner reads and writes it. `trailers` are absent if there are none.
fn message(message: &Message) -> Value {
    let lines = |headers: &Headers| {
        let line = |(name, value): (&str, &[u8])| json!({"name": encoded(name.as_bytes()), "value": encoded(value)});
        headers.iter().map(line).collect::<Vec<_>>()
    };
    let mut members = Map::new();
    members.insert("headers".to_owned(), lines(&message.headers).into());
    members.insert("body".to_owned(), encoded(&message.body));
    if let Some(trailers) = &message.trailers {
        members.insert("trailers".to_owned(), lines(trailers).into());
    }
    members.into()
}

fn read_message(value: &Value) -> Option<Message> {
    let lines = |lines: &Value| {
        let line =
            |line: &Value| Some((String::from_utf8(decoded(line.get("name")?)?).ok()?, decoded(line.get("value")?)?));
        lines.as_array()?.iter().map(line).collect::<Option<Headers>>()
    };
    Some(Message {
        headers: lines(value.get("headers")?)?,
        body: decoded(value.get("body")?)?,
        trailers: match value.get("trailers").filter(|trailers| !trailers.is_null()) {
            Some(trailers) => Some(lines(trailers)?),
            None => None,
        },
        complete: value.get("complete")?.as_bool()?,
    })
}
