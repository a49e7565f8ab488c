//! The gateway, the recorder, Restate and the API, each of which can be killed.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway, tools};
use e2e::raw::{self, Reply, Request};
use e2e::runner::runtime;
use harness::cluster::{self, NodePorts};
use harness::ports::{free, loopback, loopback_url};
use harness::process::Process;
use harness::restate::Restate;
use harness::tokens;
use harness::tools::built;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::idempotent_apis::servers::node;

/// How long a program may take to listen on a busy machine.
const READY: Duration = Duration::from_secs(60);
/// The listener whose paths Envoy makes uniform.
pub(super) const UNIFORM: &str = "uniform";
/// The listener whose paths reach the filter as they were written.
pub(super) const AS_WRITTEN: &str = "as-written";

/// What is started.
pub(super) struct Shape {
    pub(super) on_unknown: &'static str,
    /// How many nodes Restate has.
    pub(super) nodes: usize,
    /// Whether there is another API, which no route leads to: the recorder's own `--status`.
    pub(super) elsewhere: bool,
}

pub(super) struct Recorded {
    listeners: BTreeMap<&'static str, SocketAddr>,
    tokens: BTreeMap<(&'static str, &'static str), String>,
    pub(super) directory: TempDir,
    pub(super) ports: RecorderPorts,
    processes: Mutex<Processes>,
}

/// Where the programs listen.
pub(super) struct RecorderPorts {
    pub(super) api: u16,
    pub(super) front: u16,
    service: u16,
    pub(super) status: u16,
    nodes: Vec<NodePorts>,
}

pub(super) struct Processes {
    gateway: TestGateway,
    pub(super) api: Process,
    pub(super) recorder: Process,
    pub(super) restate: Vec<Restate>,
}

/// What is killed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Gateway,
    Api,
    Recorder,
    /// The node with this number.
    Restate(usize),
}

impl Recorded {
    pub(super) fn start(shape: &Shape) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let node = |_| Ok(NodePorts { node: free()?, ingress: free()?, admin: free()? });
        let nodes = (0..shape.nodes).map(node).collect::<Result<_>>()?;
        let ports = RecorderPorts { api: free()?, front: free()?, service: free()?, status: free()?, nodes };
        // A program that was killed starts again meanwhile, also on a busy machine.
        let retry_for = if shape.on_unknown == "retry" { "60s" } else { "3s" };
        let mut upstreams = json!({"counter": {
            "url": loopback_url(ports.api), "on_unknown": shape.on_unknown, "retry_for": retry_for, "timeout": "20s",
            "max_calls": 1500, "keep_headers": ["x-api-key"],
        }});
        let mut policy = json!({
            "version": 1,
            "identity": {
                "sources": [tokens::source()],
                "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"},
            },
            "backend": {"kind": "generic"},
            "routes": [
                {"endpoint": "orders.create", "methods": ["POST"], "path": "/orders/{item}", "policy": "REQUIRED_A", "collision": "forward"},
                {"endpoint": "orders.change", "methods": ["PUT"], "path": "/orders/{item}", "policy": "REQUIRED_A"},
                {"endpoint": "notes.create", "methods": ["POST"], "path": "/notes/{item}", "policy": "ACCEPTED"},
                {"endpoint": "orders.get", "methods": ["GET"], "path": "/orders/{item}", "policy": "PROHIBITED"},
            ],
        });
        if shape.elsewhere {
            let named = json!({"counter": {"kind": "generic"}, "elsewhere": {"kind": "generic"}});
            let members = json!({"backend": "counter", "backends": named, "mark_all": true});
            for (document, members) in
                [(&mut upstreams, json!({"elsewhere": {"url": loopback_url(ports.status)}})), (&mut policy, members)]
            {
                if let (Value::Object(document), Value::Object(members)) = (document, members) {
                    document.extend(members);
                }
            }
        }
        fs::write(directory.path().join("recorder.json"), json!({"upstreams": upstreams}).to_string())?;
        let api = api(&ports, &directory)?;
        let mut restate = cluster::spawn(&tools()?.restate, directory.path(), &ports.nodes)?;
        let recorder = recorder(&ports, &directory)?;
        runtime()?.block_on(async {
            for node in &mut restate {
                node.ready().await?;
            }
            cluster::register(&mut restate, &loopback_url(ports.service)).await
        })?;
        let listener = |name: &str, mut changes: Vec<Change>| -> Result<_> {
            changes.extend([Change::Port(free()?), Change::EveryPath, Change::ShownMark]);
            Ok((name.to_owned(), ListenerSpec { policy: policy.to_string(), changes }))
        };
        let specs = [
            listener(UNIFORM, vec![])?,
            listener(AS_WRITTEN, vec![Change::PathsAsWritten, Change::AuthorityAsWritten])?,
        ];
        let around = TestEnvironment { backend: Some(loopback(ports.front)), ..TestEnvironment::default() };
        let gateway = TestGateway::start_within(&around, &specs)?;
        let listeners = [UNIFORM, AS_WRITTEN].map(|name| Ok((name, gateway.address(name)?)));
        let callers = [("acme", "alice"), ("acme", "bob"), ("globex", "alice"), ("globex", "bob")];
        let tokens = callers.map(|(tenant, subject)| {
            let claims = json!({"tenant_id": tenant, "project_id": "shop", "sub": subject});
            Ok(((tenant, subject), gateway.token(&claims)?))
        });
        Ok(Self {
            listeners: listeners.into_iter().collect::<Result<_>>()?,
            tokens: tokens.into_iter().collect::<Result<_>>()?,
            directory,
            ports,
            processes: Mutex::new(Processes { gateway, api, recorder, restate }),
        })
    }

    /// A second recorder, whose API has a second for an answer, and one node of Restate more, which it asks first: its port.
    pub(super) fn second(&self, first_node: u16) -> Result<(Process, u16)> {
        let api = json!({"url": loopback_url(self.ports.api), "timeout": "1s", "retry_for": "0s"});
        let config = json!({"upstreams": {"counter": api}});
        fs::write(self.directory.path().join("second.json"), config.to_string())?;
        let nodes: Vec<String> = self.ports.nodes.iter().map(|node| loopback_url(node.ingress)).collect();
        let ports = [free()?, free()?, free()?];
        let recorder = recorder_of(
            "second.json",
            &[&[loopback_url(first_node)], nodes.as_slice()].concat(),
            ports,
            &self.directory,
        )?;
        Ok((recorder, ports[0]))
    }

    pub(super) fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a part with SIGKILL and starts it again. What Restate's other nodes have to do without the one that ended is done before that.
    pub(super) fn crash(&self, part: Part, without: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut processes = self.processes();
        match part {
            Part::Gateway => processes.gateway.restart()?,
            Part::Api => {
                processes.api.kill()?;
                processes.api = api(&self.ports, &self.directory)?;
            }
            Part::Recorder => {
                processes.recorder.kill()?;
                processes.recorder = recorder(&self.ports, &self.directory)?;
            }
            Part::Restate(number) => {
                let nodes = processes.restate.len();
                let node = processes.restate.get_mut(number % nodes).context("there is no node")?;
                node.process.kill()?;
                if nodes > 1 {
                    without()?;
                }
                runtime()?.block_on(node.restart())?;
            }
        }
        Ok(())
    }

    /// How many partitions each node leads.
    pub(super) fn led(&self) -> Result<Vec<u32>> {
        let nodes = &self.ports.nodes;
        let led = async |node: &NodePorts| cluster::leads(&loopback_url(node.node), nodes.len()).await.partitions;
        nodes.iter().map(|node| Ok(runtime()?.block_on(led(node)))).collect()
    }

    /// What the gateway's log says that never may be there.
    pub(super) fn trapped(&self) -> Result<Option<String>> {
        let log = self.processes().gateway.log()?;
        Ok(log.lines().find(|line| line.contains("[critical]") || line.contains("panicked")).map(str::to_owned))
    }

    pub(super) fn request(&self, method: &str, target: &str) -> Result<Request> {
        self.request_of(("acme", "alice"), method, target)
    }

    /// A request of a tenant's user.
    pub(super) fn request_of(
        &self,
        caller: (&'static str, &'static str),
        method: &str,
        target: impl Into<Vec<u8>>,
    ) -> Result<Request> {
        Ok(Request::new(method, target).bearer(self.tokens.get(&caller).context("no such caller")?))
    }

    pub(super) fn address(&self, listener: &str) -> Result<SocketAddr> {
        self.listeners.get(listener).copied().context("no such listener")
    }

    pub(super) fn send(&self, request: &Request) -> Result<Reply> {
        raw::exchange(self.address(UNIFORM)?, &request.method, &request.http1())
    }

    /// What the API did, a line each: what, a tab, and what it was told about the caller.
    pub(super) fn log(&self) -> Result<String> {
        let path = self.directory.path().join("effects.log");
        if path.exists() { Ok(fs::read_to_string(path)?) } else { Ok(String::new()) }
    }

    /// How often the API did this.
    pub(super) fn effects(&self, effect: &str) -> Result<usize> {
        Ok(self.all_effects()?.remove(effect).unwrap_or_default())
    }

    /// How often the API did what.
    pub(super) fn all_effects(&self) -> Result<BTreeMap<String, usize>> {
        let mut effects = BTreeMap::new();
        for line in self.log()?.lines() {
            *effects.entry(line.split('\t').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        Ok(effects)
    }

    pub(super) fn tell(&self, path: &str) -> Result<String> {
        let reply = raw::exchange(loopback(self.ports.status), "GET", &Request::new("GET", path).http1())?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }
}

fn api(ports: &RecorderPorts, directory: &TempDir) -> Result<Process> {
    let program = harness::tools::repository().join("tests/compat/tests/recorded/counter.js");
    let mut command = node(ports.api, &program);
    command.env("EFFECTS", directory.path().join("effects.log"));
    listening("the API", ports.api, &mut command, directory)
}

fn recorder(ports: &RecorderPorts, directory: &TempDir) -> Result<Process> {
    let restate: Vec<String> = ports.nodes.iter().map(|node| loopback_url(node.ingress)).collect();
    recorder_of("recorder.json", &restate, [ports.front, ports.service, ports.status], directory)
}

/// The recorder that has this configuration and these nodes of Restate, and listens on these ports.
fn recorder_of(config: &str, restate: &[String], ports: [u16; 3], directory: &TempDir) -> Result<Process> {
    let mut command = Command::new(built("EDGE_RECORDER", "recorder")?);
    command.arg("--config").arg(directory.path().join(config)).args(["--restate", &restate.join(",")]);
    for (option, port) in ["--listen", "--service", "--status"].into_iter().zip(ports) {
        command.args([option, &loopback(port).to_string()]);
    }
    let [_, service, _] = ports;
    listening("the recorder", service, &mut command, directory)
}

fn listening(name: &str, port: u16, command: &mut Command, directory: &TempDir) -> Result<Process> {
    let mut process = Process::spawn(name, command, &directory.path().join(format!("{port}.log")))?;
    let listens = async || TcpStream::connect(loopback(port)).map(drop).context("it does not listen");
    runtime()?.block_on(process.ready(READY, listens))?;
    Ok(process)
}
