//! Everything that runs: Restate nodes, Envoys, the guard, the services and their balancer, the secret store.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use harness::cluster::{self, Leads, NodePorts};
use harness::envoy::{Envoy, EnvoyOptions, Stores};
use harness::openbao::{OpenBao, OpenBaoOptions};
use harness::ports::{loopback, loopback_url};
use harness::process::Process;
use harness::restate::Restate;
use harness::senders::random;
use harness::tokens::Signer;
use harness::tools::Tools;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::checker::EffectLedger;
use crate::gateway::{write_balancer, write_gateway};
use crate::policy::{CALLERS, GUARD_RETENTION, HOOKS, OPERATIONS_SECRET, Sabotage, document};
use crate::ports::PortSlice;
use crate::service::{ENTRIES, Entry};

const ENVOYS: usize = 2;
const SERVICES: usize = 2;
const READY: Duration = Duration::from_secs(60);
/// How long invocations may take to end when nothing fails any more.
const SETTLE: Duration = Duration::from_secs(90);

/// What is run, and how.
#[derive(Clone, Debug)]
pub struct SystemOptions {
    /// Envoy, Restate, OpenBao, the module; as the service the program that serves [`crate::service`].
    pub tools: Tools,
    /// The program `idempotency-guard`.
    pub guard: PathBuf,
    /// Configurations, data and logs. It has to exist and to be empty.
    pub directory: PathBuf,
    /// How many Restate nodes: one, or a cluster.
    pub nodes: usize,
    /// What is wrong on purpose.
    pub sabotage: Option<Sabotage>,
}

/// The running set-up. Dropping it ends every process.
pub struct RunningSystem {
    /// The backend.
    pub restate: Vec<Mutex<Restate>>,
    /// Node addresses, where metrics are.
    pub node_urls: Vec<String>,
    /// The gateways.
    pub envoys: Vec<Mutex<Envoy>>,
    /// The guard.
    pub guard: Mutex<RestartableProgram>,
    /// The services.
    pub services: Vec<Mutex<RestartableProgram>>,
    /// The secret store.
    pub store: Mutex<OpenBao>,
    /// Where clients send requests.
    pub gateways: Vec<String>,
    /// A token for each of [`CALLERS`].
    pub tokens: Vec<String>,
    /// What webhooks are signed with.
    pub webhook_secret: String,
    balancer: Mutex<Envoy>,
    _ports: PortSlice,
}

/// A program that can be started again as it was.
pub struct RestartableProgram {
    /// The process.
    pub process: Process,
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    address: SocketAddr,
}

impl RestartableProgram {
    async fn start(name: &str, program: &Path, arguments: &[&str], log: PathBuf, address: SocketAddr) -> Result<Self> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let process = Process::spawn(name, Command::new(program).args(&arguments), &log)?;
        let mut started = Self { process, name: name.to_owned(), program: program.to_owned(), arguments, log, address };
        started.ready().await?;
        Ok(started)
    }

    /// Starts it again, if it has ended.
    pub async fn restart(&mut self) -> Result<()> {
        self.process = Process::spawn(&self.name, Command::new(&self.program).args(&self.arguments), &self.log)?;
        self.ready().await
    }

    /// Waits until it listens.
    pub async fn ready(&mut self) -> Result<()> {
        let address = self.address;
        let listens = async || TcpStream::connect(address).await.map(drop).context("it does not listen");
        self.process.ready(READY, listens).await
    }
}

impl RunningSystem {
    /// Starts everything, and waits until requests can be answered. It has to run within a `LocalSet`.
    pub async fn start(options: &SystemOptions) -> Result<Self> {
        let SystemOptions { tools, guard, directory, nodes, sabotage } = options;
        let Some(openbao) = tools.openbao.clone() else {
            bail!("OpenBao is not there, and webhooks need it: run `make openbao`, or set EDGE_OPENBAO");
        };
        // Three for each node, two for each Envoy and the balancer, one for each service, the guard and the store.
        let (slice, ports) = PortSlice::take(nodes * 3 + ENVOYS * 2 + 2 + SERVICES + 3)?;
        let mut ports = ports.into_iter();
        let mut port = || ports.next().context("there are too few ports");
        let subdirectory = |name: &str| -> Result<PathBuf> {
            let path = directory.join(name);
            fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
            Ok(path)
        };

        let addresses = (0..*nodes).map(|_| Ok(NodePorts { node: port()?, ingress: port()?, admin: port()? }));
        let addresses = addresses.collect::<Result<Vec<_>>>()?;
        let mut restate = cluster::spawn(&tools.restate, directory, &addresses)?;

        let store_port = port()?;
        let store =
            OpenBao::start(OpenBaoOptions { program: openbao, run_dir: subdirectory("openbao")?, port: store_port })
                .await?;
        let webhook_secret = format!("whsec_{}", random());
        for hook in HOOKS {
            store.put(&hook.secret_path(), &json!({"secret": webhook_secret})).await?;
        }
        let store_token = store.token().await?;

        let guard_address = loopback(port()?);
        let listen = guard_address.to_string();
        let arguments = ["--listen", &listen, "--retention", GUARD_RETENTION];
        let guard =
            RestartableProgram::start("the guard", guard, &arguments, directory.join("guard.log"), guard_address)
                .await?;
        let (mut services, mut service_addresses) = (Vec::new(), Vec::new());
        for number in 1..=SERVICES {
            let address = loopback(port()?);
            let listen = address.to_string();
            let log = directory.join(format!("service-{number}.log"));
            let arguments = ["service", "--listen", &listen];
            services.push(Mutex::new(
                RestartableProgram::start("a service", &tools.service, &arguments, log, address).await?,
            ));
            service_addresses.push(address);
        }

        let signer = Signer::generate();
        let tokens = CALLERS.map(|caller| {
            signer.mint(&json!({"sub": caller.user, "tenant_id": caller.tenant, "project_id": caller.project}))
        });
        let tokens = tokens.into_iter().collect::<Result<Vec<_>>>()?;
        let ingress: Vec<SocketAddr> = addresses.iter().map(|ports| loopback(ports.ingress)).collect();
        let stores = Stores {
            // Bindings are in the policy, so that nobody asks the registry.
            unkey: loopback(store_port),
            unkey_root_key: random(),
            openbao: loopback(store_port),
            openbao_token: Some(store_token),
        };
        let operations_secret = random();
        let envoy = |run_dir: PathBuf, gateway_port, admin_port, stores| EnvoyOptions {
            program: tools.envoy.clone(),
            run_dir,
            filter: tools.filter.clone(),
            policy: document(*sabotage).to_string(),
            jwks: signer.jwks(),
            require_token: true,
            backend: loopback(0),
            gateway_port,
            admin_port,
            concurrency: 1,
            environment: vec![(OPERATIONS_SECRET.to_owned(), operations_secret.clone())],
            stores,
        };
        let (mut envoys, mut gateways) = (Vec::new(), Vec::new());
        for number in 1..=ENVOYS {
            let options = envoy(subdirectory(&format!("envoy-{number}"))?, port()?, port()?, Some(stores.clone()));
            let config = options.run_dir.join("envoy.yaml");
            write_gateway(&config, &options, &ingress)?;
            let envoy = Envoy::start_with(options, &config).await?;
            gateways.push(envoy.gateway_url());
            envoys.push(Mutex::new(envoy));
        }
        let options = envoy(subdirectory("balancer")?, port()?, port()?, None);
        let config = options.run_dir.join("envoy.yaml");
        write_balancer(&config, options.gateway_port, options.admin_port, &service_addresses)?;
        let balancer = Envoy::start_with(options, &config).await?;

        for node in &mut restate {
            node.ready().await?;
        }
        for url in [loopback_url(guard_address.port()), balancer.gateway_url()] {
            cluster::register(&mut restate, &url).await?;
        }
        let node_urls = restate.iter().map(Restate::node_url).collect();
        let restate = restate.into_iter().map(Mutex::new).collect();
        Ok(Self {
            restate,
            node_urls,
            envoys,
            guard: Mutex::new(guard),
            services,
            store: Mutex::new(store),
            gateways,
            tokens,
            webhook_secret,
            balancer: Mutex::new(balancer),
            _ports: slice,
        })
    }

    /// What a node leads; nothing if it does not tell.
    pub async fn leads(&self, node: usize) -> Leads {
        let Some(url) = self.node_urls.get(node) else { return Leads::default() };
        cluster::leads(url, self.node_urls.len()).await
    }

    /// What each process is doing, for people; and those that have ended, which none should when nothing is hit.
    pub fn states(&self) -> (Vec<String>, Vec<String>) {
        let (mut states, mut ended) = (Vec::new(), Vec::new());
        let mut tell = |name: String, process: Option<&mut Process>| match process.map(Process::exited) {
            None => states.push(format!("{name} is being hit")),
            Some(Ok(None)) => states.push(format!("{name} is there")),
            Some(Ok(Some(status))) => ended.push(format!("{name} ended by itself: {status}")),
            Some(Err(error)) => ended.push(format!("{name}: {error:#}")),
        };
        for (number, node) in self.restate.iter().enumerate() {
            tell(format!("Restate {}", number + 1), node.try_lock().ok().as_deref_mut().map(|node| &mut node.process));
        }
        for (number, envoy) in self.envoys.iter().enumerate() {
            tell(format!("Envoy {}", number + 1), envoy.try_lock().ok().as_deref_mut().map(|envoy| &mut envoy.process));
        }
        for (number, service) in self.services.iter().enumerate() {
            tell(
                format!("service {}", number + 1),
                service.try_lock().ok().as_deref_mut().map(|service| &mut service.process),
            );
        }
        tell("the guard".to_owned(), self.guard.try_lock().ok().as_deref_mut().map(|guard| &mut guard.process));
        tell("the secret store".to_owned(), self.store.try_lock().ok().as_deref_mut().map(|store| &mut store.process));
        tell("the balancer".to_owned(), self.balancer.try_lock().ok().as_deref_mut().map(|envoy| &mut envoy.process));
        (states, ended)
    }

    /// The ledger, when every invocation has ended or has had the time to.
    pub async fn ledger(&self) -> Result<EffectLedger> {
        let node = self.restate.first().context("there is no node")?.lock().await;
        let start = tokio::time::Instant::now();
        let unfinished = loop {
            let rows = node
                .query("select id, target, status from sys_invocation where status not in ('completed', 'scheduled')")
                .await?;
            if rows.is_empty() || start.elapsed() > SETTLE {
                break rows.iter().map(Value::to_string).collect();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let states = format!("select service_name, service_key, value_utf8 from state where key = '{ENTRIES}'");
        let mut effects: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for row in node.query(&states).await? {
            let text = |name| row.get(name).and_then(Value::as_str).with_context(|| format!("no {name} in {row}"));
            let entries: Vec<Entry> = serde_json::from_str(text("value_utf8")?).context("the state of an object")?;
            let (service, key) = (text("service_name")?, text("service_key")?);
            for entry in entries {
                // Where an effect is, Restate says, whatever the entry says: the key is the nonce, or the account.
                let (nonce, account) = match service {
                    "EffectObject" => (key.to_owned(), String::new()),
                    _ => (entry.nonce.clone(), key.to_owned()),
                };
                effects.entry(nonce).or_default().push(Entry { account, ..entry });
            }
        }
        // `created_at` and `running_at` are no use: they are the times of an entry in the log, which a node may apply much later.
        let mut completed = BTreeMap::new();
        let times = "select id, cast(completed_at as bigint) as at from sys_invocation \
            where status = 'completed' and target_service_name in ('Payments', 'Account', 'Webhooks')";
        for row in node.query(times).await? {
            let id = row.get("id").and_then(Value::as_str).context("an invocation without an id")?;
            let at = row
                .get("at")
                .and_then(Value::as_u64)
                .with_context(|| format!("an invocation without a time: {row}"))?;
            completed.insert(id.to_owned(), at);
        }
        Ok(EffectLedger { effects, completed, unfinished })
    }
}
