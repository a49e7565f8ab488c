//! Istio: `pilot-discovery` with resources from a folder, and `pilot-agent`, which starts Envoy, as in a gateway's pod. There is no
//! Kubernetes: a stand-in for its API server (`api_server`) says that it has nothing.

mod api_server;
mod resources;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Capture;
use e2e::raw::{Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing, until};
use harness::ports::loopback;
use harness::process::Process;
use harness::tools::{Tools, repository};

use super::image::{Layout, Registry};
use super::scenario::{self, Abilities, Around, Behind, ClaimPlace, HOSTS, SECRET, Scene, nothing_reaches};
use resources::{GATEWAY_PORT, Lack, Rendered};

/// How long the control plane, and a gateway with all its configuration, may take to start.
const READY: Duration = Duration::from_secs(90);
/// How long a changed resource may take to get to Envoy.
const CHANGED: Duration = Duration::from_secs(30);
const DISCOVERY: &str = "127.0.0.1:15010";
/// Envoy's admin interface, as Istio has it.
const ADMIN: &str = "http://127.0.0.1:15000";

/// What `render kubernetes` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    EnvoyFilter,
    TrafficExtension,
}

/// Where the proxy gets the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    File,
    Image,
}

impl Form {
    const ALL: [(Self, From); 4] = [
        (Self::EnvoyFilter, From::File),
        (Self::EnvoyFilter, From::Image),
        (Self::TrafficExtension, From::File),
        (Self::TrafficExtension, From::Image),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::EnvoyFilter => "envoy-filter",
            Self::TrafficExtension => "traffic-extension",
        }
    }

    /// Webhooks wait for their bodies.
    const fn can(self, from: From) -> Abilities {
        let claims = match (self, from) {
            (Self::EnvoyFilter, From::Image) => ClaimPlace::Payload,
            _ => ClaimPlace::Metadata,
        };
        Abilities { webhooks: matches!(self, Self::EnvoyFilter), claims }
    }
}

pub(super) fn groups() -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for behind in Behind::ALL {
        for (form, from) in Form::ALL {
            let named = |name: &str| format!("istio::{}, {from:?}, {}: {name}", form.name(), behind.name());
            let mut tests: Vec<Test<Istio>> = scenario::tests(behind, form.can(from));
            tests.push(Test::new("metrics have their labels", metrics));
            tests.push(Test::new("`check --live` finds the filter", found));
            tests.push(Test::new("a module that cannot be had lets nothing pass unfiltered", replaced));
            // The last: it ends the filter.
            tests.push(Test::new("nothing reaches the backend once the resource is gone", removed));
            groups.push(sharing(
                move || Istio::start(behind, form, from, Lack::Nothing),
                tests.into_iter().map(|test| test.within(&named("with the filter"))).collect(),
            ));
            for &lack in Lack::of(form, from) {
                let name = named(lack.name());
                groups.push(sharing(
                    move || Istio::start(behind, form, from, lack),
                    vec![
                        Test::new(format!("{name}: nothing reaches the backend"), nothing_reaches),
                        Test::new(format!("{name}: `check --live` says that the filter is missing"), missing),
                    ],
                ));
            }
        }
    }
    Ok(groups)
}

/// A gateway of Istio.
struct Istio {
    around: Around,
    /// Resources, as files
    configuration: PathBuf,
    _agent: Process,
    _pilot: Process,
    _api_server: Capture,
    registry: Option<Registry>,
}

impl Scene for Istio {
    fn gateway(&self) -> SocketAddr {
        loopback(GATEWAY_PORT)
    }

    fn around(&self) -> &Around {
        &self.around
    }
}

impl Istio {
    /// Starts a gateway in front of a backend. `lack` is what is not there.
    fn start(behind: Behind, form: Form, from: From, lack: Lack) -> Result<Self> {
        let around = Around::start(behind, form.can(from))?;
        let folder = around.directory.path().to_owned();
        let path = |name: &str| folder.join(name);
        let tools = Tools::locate()?;
        let layout = match form {
            Form::EnvoyFilter => Layout::Image,
            Form::TrafficExtension => Layout::Artifact,
        };
        let registry = (from == From::Image).then(|| Registry::start(&folder, layout)).transpose()?;
        let rendered = Rendered::of(&around, form, registry.as_ref(), lack)?;
        let configuration = path("resources");
        fs::create_dir_all(&configuration)?;
        fs::write(configuration.join("operator.yaml"), resources::of_operator(&around, form, &rendered))?;
        fs::write(configuration.join("rendered.yaml"), &rendered.resources)?;
        fs::write(path("bootstrap.json"), &rendered.bootstrap)?;
        let registry = registry.filter(|_| lack != Lack::Registry);

        let api_server = api_server::start()?;
        fs::write(path("kubeconfig"), api_server::kubeconfig(api_server.address()))?;
        let mesh = serde_json::json!({"defaultConfig": {
            "discoveryAddress": DISCOVERY, "controlPlaneAuthPolicy": "NONE", "binaryPath": tools.envoy, "configPath": path("proxy"),
        }});
        fs::write(path("mesh.yaml"), mesh.to_string())?;
        let pilot = pilot(&folder, &configuration)?;
        let agent = agent(&folder, &around)?;
        let mut istio = Self { around, configuration, _agent: agent, _pilot: pilot, _api_server: api_server, registry };
        istio.ready(lack)?;
        Ok(istio)
    }

    /// Waits until the gateway answers as it should from now on.
    fn ready(&mut self, lack: Lack) -> Result<()> {
        let asked = self.list()?;
        let gateway = self.gateway();
        let around = &self.around;
        let answered = async || {
            let reply = around.send(gateway, &asked)?;
            let expected =
                if lack == Lack::Nothing { reply.status == 200 } else { [403, 500, 503].contains(&reply.status) };
            ensure!(expected, "{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
            Ok(())
        };
        runtime()?.block_on(self._agent.ready(READY, answered))
    }

    /// A request that the filter lets through.
    fn list(&self) -> Result<Request> {
        let path = if self.around.path() == "/refunds" { "/projects" } else { "/orders" };
        let request = Request::new("GET", path).bearer(&self.around.token("acme")?);
        Ok(Request { authority: HOSTS.first().context("a host")?.to_string(), ..request })
    }

    fn list_until(&self, what: impl Fn(&Reply) -> bool) -> Result<()> {
        self.answers(&self.list()?, what)
    }

    /// Sends a request until the answer is as it should be.
    fn answers(&self, request: &Request, what: impl Fn(&Reply) -> bool) -> Result<()> {
        let start = std::time::Instant::now();
        loop {
            let reply = self.send(request)?;
            if what(&reply) {
                return Ok(());
            }
            ensure!(start.elapsed() < CHANGED, "{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn program(name: &str) -> Result<PathBuf> {
    let path = repository().join(".tools/istio").join(name);
    ensure!(path.is_file(), "{} is not there: run `crates/xtask/scripts/tools.sh istio` first", path.display());
    Ok(path)
}

/// The control plane.
fn pilot(folder: &Path, configuration: &Path) -> Result<Process> {
    let mut command = Command::new(program("pilot-discovery")?);
    command
        .arg("discovery")
        .arg("--configDir")
        .arg(configuration)
        .arg("--meshConfig")
        .arg(folder.join("mesh.yaml"))
        .arg("--kubeconfig")
        .arg(folder.join("kubeconfig"))
        .args(["--grpcAddr", DISCOVERY, "--secureGRPCAddr=", "--httpsAddr=", "--httpAddr=127.0.0.1:15017"])
        .args(["--monitoringAddr=127.0.0.1:15014", "--ctrlz_port=0"])
        .current_dir(folder)
        .envs([
            ("ENABLE_CA_SERVER", "false"),
            ("INJECTION_WEBHOOK_CONFIG_NAME", ""),
            ("VALIDATION_WEBHOOK_CONFIG_NAME", ""),
            // Filters that only Istio's own build of Envoy has.
            ("PILOT_ENABLE_METADATA_EXCHANGE", "false"),
            ("PILOT_ENABLE_ALPN_FILTER", "false"),
            ("POD_NAMESPACE", "istio-system"),
        ]);
    let mut process = Process::spawn("pilot-discovery", &mut command, &folder.join("pilot.log"))?;
    let listens = async || {
        std::net::TcpStream::connect(DISCOVERY)?;
        Ok(())
    };
    runtime()?.block_on(process.ready(READY, listens))?;
    Ok(process)
}

/// The agent of a gateway's pod, which starts Envoy.
fn agent(folder: &Path, around: &Around) -> Result<Process> {
    let mut command = Command::new(program("pilot-agent")?);
    command
        .args(["proxy", "router", "--domain", "default.svc.cluster.local", "--meshConfig"])
        .arg(folder.join("mesh.yaml"))
        .arg("--templateFile")
        .arg(program("envoy_bootstrap.json")?)
        .current_dir(folder)
        .env("ISTIO_BOOTSTRAP_OVERRIDE", folder.join("bootstrap.json"))
        .env(SECRET, &around.secret)
        .envs([
            ("FILE_MOUNTED_CERTS", "true"),
            ("CA_PROVIDER", ""),
            ("INSTANCE_IP", "127.0.0.1"),
            ("POD_NAME", "gateway-1"),
            ("POD_NAMESPACE", "default"),
            ("ISTIO_META_CLUSTER_ID", "Kubernetes"),
            ("ISTIO_METAJSON_LABELS", r#"{"istio":"ingressgateway"}"#),
            ("GRPC_XDS_BOOTSTRAP", ""),
        ]);
    Process::spawn("pilot-agent", &mut command, &folder.join("agent.log"))
}

fn admin(path: &str) -> Result<String> {
    let reply = runtime()?.block_on(harness::http::Request::get(path).send(ADMIN))?;
    Ok(reply.text())
}

fn metrics(istio: &Istio) -> Result<()> {
    istio.list_until(|reply| reply.status == 200)?;
    let start = std::time::Instant::now();
    loop {
        let text = admin("/stats/prometheus")?;
        let counted =
            text.lines().any(|line| line.starts_with("idempotency_answer_total{") && line.contains("tenant=\"acme\""));
        if counted {
            return Ok(());
        }
        ensure!(
            start.elapsed() < CHANGED,
            "{}",
            text.lines().filter(|line| line.contains("idempotency")).collect::<Vec<_>>().join("\n")
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What `check --live` says of the gateway.
fn check_live(istio: &Istio) -> Result<String> {
    let folder = istio.around.directory.path();
    let output = Command::new(harness::tools::built("EDGE_CLI", "edge-idempotency")?)
        .arg("check")
        .arg(folder.join("policy.json"))
        .args(["--live", "--admin-envoy", ADMIN])
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

fn found(istio: &Istio) -> Result<()> {
    let said = check_live(istio)?;
    ensure!(said.contains("runs this policy in"), "{said}");
    Ok(())
}

fn missing(istio: &Istio) -> Result<()> {
    let said = check_live(istio)?;
    ensure!(!said.contains("runs this policy in"), "{said}");
    ensure!(said.contains("live-gateway"), "{said}");
    Ok(())
}

/// The resource names another module, which is not there. Envoy keeps the filter that it has, or the agent has everything refused; and
/// it recovers once the resource is right again.
fn replaced(istio: &Istio) -> Result<()> {
    let file = istio.configuration.join("rendered.yaml");
    let (good, zeros) = (fs::read_to_string(&file)?, "0".repeat(64));
    let bad = match &istio.registry {
        Some(registry) => good.replace(registry.digest.trim_start_matches("sha256:"), &zeros),
        None => good.replace("/edge_idempotency-", "/absent-"),
    };
    ensure!(bad != good, "the module's name is not in the resource");
    fs::write(&file, bad)?;
    let log = istio.around.directory.path().join("agent.log");
    until("the new module is refused", Duration::from_millis(100), || {
        let text = fs::read_to_string(&log)?;
        Ok(text.contains("rejected: Invalid path") || text.contains("applying deny RBAC filter"))
    })?;
    let around = &istio.around;
    let order = Request::post(around.path()).bearer(&around.token("acme")?).body("{}");
    let arrived = istio.reached(|| {
        istio.answers(&order, |reply| {
            reply.status == 403 || reply.json().get("code").is_some_and(|code| code == "idempotency_key_required")
        })
    })?;
    ensure!(arrived.is_empty(), "{arrived:?}");
    fs::write(&file, good)?;
    istio.list_until(|reply| reply.status == 200)
}

fn removed(istio: &Istio) -> Result<()> {
    fs::write(
        istio.configuration.join("rendered.yaml"),
        resources::without_filter(&fs::read_to_string(istio.configuration.join("rendered.yaml"))?),
    )?;
    istio.list_until(|reply| reply.status == 503)?;
    nothing_reaches(istio)
}
