//! Envoy Gateway without Kubernetes: its standalone server reads resources from files and starts an Envoy on this machine. The resources
//! with the filter, and those around it, are what `edge-idempotency render kubernetes` prints.
//!
//! In the form of an EnvoyExtensionPolicy for a WebAssembly module, Envoy fetches the module from Envoy Gateway by the name that it has in
//! Kubernetes, and finds certificates at `/certs`: `crates/xtask/scripts/platforms.sh` sees to both.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::image::{Layout, Registry};
use super::scenario::{self, Abilities, Around, Behind, ClaimPlace, HOSTS, Scene};
use anyhow::{Context as _, Result, bail, ensure};
use e2e::gateway::tools;
use e2e::runner::{Group, Test, runtime, sharing, until};
use harness::http::Request;
use harness::ports::{free, loopback};
use harness::process::Process;
use harness::tokens::ISSUER;
use harness::tools::{built, dynamic_module, tool, wasm};

/// The Envoy of `.tools`, whose version the EnvoyProxy names.
const ENVOY: &str = "1.40.0";
/// Where the gateway listens.
const PORT: u16 = 10080;
/// Where Envoy finds certificates of Envoy Gateway.
const CERTS: &str = "/certs";
const POLL: Duration = Duration::from_millis(100);
/// How long Envoy Gateway may take to start, and to start Envoy.
const READY: Duration = Duration::from_secs(60);

/// A way to put the filter into Envoy Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The dynamic module, by `dynamicModule`
    DynamicModule,
    /// The WebAssembly module, by an EnvoyPatchPolicy
    Patch,
    /// The WebAssembly module, by an EnvoyExtensionPolicy with a URL
    Http,
    /// The same with an image
    Image,
}

/// What is missing of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Nothing,
    /// The resource with the filter
    Resource,
    /// The module that the resource names
    Module,
    /// The listener that the resource names
    Listener,
}

impl Form {
    const ALL: [Self; 4] = [Self::DynamicModule, Self::Patch, Self::Http, Self::Image];

    const fn name(self) -> &'static str {
        match self {
            Self::DynamicModule => "dynamicModule",
            Self::Patch => "EnvoyPatchPolicy",
            Self::Http => "EnvoyExtensionPolicy with a URL",
            Self::Image => "EnvoyExtensionPolicy with an image",
        }
    }

    const fn can(self) -> Abilities {
        let webhooks = matches!(self, Self::DynamicModule | Self::Patch);
        let claims = if matches!(self, Self::DynamicModule) { ClaimPlace::Headers } else { ClaimPlace::Metadata };
        Abilities { webhooks, claims }
    }

    /// Envoy Gateway fetches the module, and Envoy gets it from there.
    const fn fetches(self) -> bool {
        matches!(self, Self::Http | Self::Image)
    }

    /// How the filter can be missing.
    const fn faults(self) -> &'static [Missing] {
        match self {
            Self::Patch => &[Missing::Resource, Missing::Listener, Missing::Module],
            _ => &[Missing::Resource, Missing::Module],
        }
    }
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for form in Form::ALL {
        for behind in Behind::ALL {
            let name = format!("Envoy Gateway::{}::{}", form.name(), behind.name());
            let mut tests = scenario::tests::<EnvoyGateway>(behind, form.can());
            tests.push(Test::new("`check --live` finds the filter", |gateway: &EnvoyGateway| {
                gateway.doctor("runs this policy in")
            }));
            let tests = tests.into_iter().map(|test| test.within(&name)).collect();
            groups.push(sharing(move || EnvoyGateway::start(form, behind, Missing::Nothing), tests));
        }
        let closed = form.faults().iter().map(|missing| {
            let name = format!("Envoy Gateway::{}::without the {missing:?} nothing reaches the backend", form.name());
            Test::new(name, move |(): &()| {
                let gateway = EnvoyGateway::start(form, Behind::Api, *missing)?;
                scenario::nothing_reaches(&gateway)?;
                gateway.doctor("no filter of this project is in use")
            })
        });
        groups.push(sharing(|| Ok(()), closed.collect()));
    }
    Ok(groups)
}

/// What serves the module to Envoy Gateway until it is dropped.
#[expect(dead_code, reason = "it ends when it is dropped")]
enum Store {
    Web(Process),
    Registry(Registry),
}

/// Envoy Gateway with its Envoy.
struct EnvoyGateway {
    controller: Process,
    _store: Option<Store>,
    around: Around,
}

impl Scene for EnvoyGateway {
    fn gateway(&self) -> SocketAddr {
        loopback(PORT)
    }

    fn around(&self) -> &Around {
        &self.around
    }
}

impl Drop for EnvoyGateway {
    fn drop(&mut self) {
        // It ends its Envoy by itself if it is asked to end.
        if let Ok(runtime) = runtime() {
            drop(runtime.block_on(self.controller.terminate(READY)));
        }
    }
}

impl EnvoyGateway {
    fn start(form: Form, behind: Behind, missing: Missing) -> Result<Self> {
        let around = Around::start(behind, form.can())?;
        let folder = around.directory.path().to_owned();
        let program = tool("EDGE_ENVOY_GATEWAY", "envoy-gateway")?;
        let home = folder.join("gateway");
        let bin = home.join(format!("data/envoy-versions/{ENVOY}/bin"));
        let resources = folder.join("resources");
        for directory in [&bin, &resources] {
            fs::create_dir_all(directory)?;
        }
        symlink(tools()?.envoy, bin.join("envoy"))?;
        run(Command::new(&program).args(["certgen", "--local", "--config-home"]).arg(home.join("config")))?;
        let (store, rendered, module) = render(form, missing, &around)?;
        let own = resource_files(form, &module, &home)?;
        fs::write(resources.join("gateway.yaml"), own)?;
        // The filter's resource is the last.
        let (surroundings, filter) = rendered.rsplit_once("\n---\n").context("one resource only")?;
        fs::write(resources.join("surroundings.yaml"), surroundings)?;
        let later = missing != Missing::Nothing && !form.fetches();
        if !later && missing != Missing::Resource {
            fs::write(resources.join("filter.yaml"), filter)?;
        }
        let config = home.join("standalone.yaml");
        fs::write(&config, standalone(&home, &resources))?;
        let mut command = Command::new(&program);
        command.args(["server", "--config-path"]).arg(&config).env(scenario::SECRET, &around.secret);
        let controller = Process::spawn("Envoy Gateway", &mut command, &folder.join("gateway.log"))?;
        let mut gateway = Self { controller, _store: store, around };
        gateway.ready(form, if later { Missing::Resource } else { missing })?;
        if later && missing != Missing::Resource {
            // The listener is there, without the filter: what comes now is refused.
            let new = folder.join("filter.yaml");
            fs::write(&new, filter)?;
            fs::rename(new, resources.join("filter.yaml"))?;
            gateway.refused(missing)?;
        }
        Ok(gateway)
    }

    /// Waits until the listener is there, with the filter or without it.
    fn ready(&mut self, form: Form, missing: Missing) -> Result<()> {
        let token = self.around.token("acme")?;
        let url = format!("http://{}", loopback(PORT));
        runtime()?.block_on(self.controller.ready(READY, async || {
            let request = Request::post(self.around.path()).header("host", HOSTS[0]).bearer(&token);
            let reply = request.send(&url).await?;
            let is_so = match missing {
                Missing::Nothing => reply.code() == "idempotency_key_required",
                // Envoy Gateway itself answers in the place of a module that it cannot fetch.
                Missing::Module if form.fetches() => reply.status == 500,
                _ => reply.status == 503,
            };
            ensure!(is_so, "{} {}", reply.status, reply.text());
            Ok(())
        }))
    }

    /// Waits until the filter's resource was refused, as an operator sees it.
    fn refused(&self, missing: Missing) -> Result<()> {
        let log = self.controller.log();
        match missing {
            Missing::Listener => until("the policy has the reason ResourceNotFound", POLL, || {
                Ok(fs::read_to_string(log)?.contains("reason: ResourceNotFound"))
            }),
            _ => until("Envoy refuses the listener with the missing module", POLL, || {
                Ok(fs::read_to_string(log)?.contains("lds: listener 'default/eg/http' config rejected"))
            }),
        }
    }

    /// What `check --live` says of Envoy's admin interface.
    fn doctor(&self, expected: &str) -> Result<()> {
        let folder = self.around.directory.path();
        let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
        command
            .args(["check", "--live", "--admin-envoy", &admin(&folder.join("gateway"))?])
            .arg(folder.join("policy.json"));
        let output = command.output()?;
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(told.contains(expected), "{told}");
        Ok(())
    }
}

/// The address of the admin interface, which Envoy Gateway lets the system choose.
fn admin(home: &Path) -> Result<String> {
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "admin-address.txt") {
                return Ok(format!("http://{}", fs::read_to_string(path)?.trim()));
            }
        }
    }
    bail!("Envoy has not said where its admin interface is")
}

/// What `render kubernetes` prints, the store of the module, and where the module is.
fn render(form: Form, missing: Missing, around: &Around) -> Result<(Option<Store>, String, PathBuf)> {
    let folder = around.directory.path();
    let (policy, keys, modules) = (folder.join("policy.json"), folder.join("jwks.json"), folder.join("modules"));
    fs::write(&policy, around.policy("jwt").to_string())?;
    fs::write(&keys, around.signer.jwks())?;
    fs::create_dir_all(&modules)?;
    let file = if form == Form::DynamicModule { dynamic_module()?.path().to_owned() } else { wasm()? };
    let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
    command.args(["render", "kubernetes", "--gateway", "eg", "--policy"]).arg(&policy);
    command.args(["--upstream", &format!("backend=http://{}", around.backend)]);
    command.args(["--jwt-issuer", ISSUER, "--jwt-keys"]).arg(&keys);
    for host in HOSTS {
        command.args(["--hostname", host]);
    }
    let mut store = None;
    match form {
        Form::DynamicModule => {
            command.args(["--form", "envoy-extension-policy", "--dynamic-module", "--module"]).arg(&file);
            command.args(
                ["x-tenant=tenant_id", "x-project=project_id", "x-user=sub"]
                    .map(|claim| format!("--jwt-claim={claim}")),
            );
        }
        Form::Patch => {
            command.args(["--form", "envoy-patch-policy", "--module"]).arg(&file);
            if missing == Missing::Listener {
                command.args(["--listener", "tcp-80"]);
            }
        }
        Form::Http => {
            let (server, url) = web(&file, &modules)?;
            let sum = run(Command::new("sha256sum").arg(&file))?;
            let sum = sum.split(' ').next().context("no checksum")?;
            let absent = if missing == Missing::Module { ".absent" } else { "" };
            command.args(["--form", "envoy-extension-policy", "--module", &format!("{url}{absent}")]);
            command.args(["--module-digest", &format!("sha256:{sum}")]);
            store = Some(Store::Web(server));
        }
        Form::Image => {
            let registry = Registry::start(folder, Layout::Image)?;
            let absent = if missing == Missing::Module { "-absent" } else { "" };
            command.args([
                "--form",
                "envoy-extension-policy",
                "--module",
                &format!("oci://{}{absent}", registry.image),
            ]);
            command.args(["--module-digest", &registry.digest]);
            store = Some(Store::Registry(registry));
        }
    }
    if !form.fetches() {
        command.arg("--module-dir").arg(&modules);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "render: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut module = PathBuf::new();
    if !form.fetches() {
        let directory = modules.display().to_string();
        let (_, rest) = text.split_once(&directory).context("no path of a module")?;
        let name = rest.trim_start_matches('/').split(['"', '}', '\n', ' ']).next().context("no name of a module")?;
        module = modules.join(name);
        if missing != Missing::Module {
            fs::copy(&file, &module)?;
        }
    }
    Ok((store, text, module))
}

/// A server of the module's file, and its URL.
fn web(file: &Path, folder: &Path) -> Result<(Process, String)> {
    fs::copy(file, folder.join("edge_idempotency.wasm"))?;
    let port = free()?;
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string(), "--directory"]).arg(folder);
    let mut server = Process::spawn("the web server", &mut command, &folder.join("web.log"))?;
    let url = format!("http://{}", loopback(port));
    runtime()?.block_on(server.ready(READY, async || {
        let reply = Request::new("HEAD", "/edge_idempotency.wasm").send(&url).await?;
        ensure!(reply.status == 200, "{}", reply.status);
        Ok(())
    }))?;
    Ok((server, format!("{url}/edge_idempotency.wasm")))
}

/// Runs a command to its end; what it wrote.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The configuration of the standalone server.
fn standalone(home: &Path, resources: &Path) -> String {
    let at = |name: &str| home.join(name).display().to_string();
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {{controllerName: gateway.envoyproxy.io/gatewayclass-controller}}
provider:
  type: Custom
  custom:
    resource: {{type: File, file: {{paths: [{:?}]}}}}
    infrastructure:
      type: Host
      host: {{configHome: {:?}, dataHome: {:?}, stateHome: {:?}, runtimeDir: {:?}}}
logging: {{level: {{default: info}}}}
extensionApis: {{enableBackend: true, enableEnvoyPatchPolicy: true}}
",
        resources.display().to_string(),
        at("config"),
        at("data"),
        at("state"),
        at("run"),
    )
}

/// What an operator has: the Gateway, and the EnvoyProxy with what the rendered file asks for in its comments.
fn resource_files(form: Form, module: &Path, home: &Path) -> Result<String> {
    let modules = match form {
        Form::DynamicModule => format!(
            "  dynamicModules:\n  - {{name: edge-idempotency, source: {{type: Local, local: {{path: {:?}}}}}, doNotClose: true}}\n",
            module.display().to_string()
        ),
        _ => String::new(),
    };
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: eg}}
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: {{group: gateway.envoyproxy.io, kind: EnvoyProxy, name: eg, namespace: default}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {{name: eg, namespace: default}}
spec:
  provider: {{type: Host, host: {{envoyVersion: {ENVOY:?}}}}}
{modules}---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: eg, namespace: default}}
spec:
  gatewayClassName: eg
  listeners:
  - {{name: http, protocol: HTTP, port: {PORT}}}
"
    );
    if form.fetches() {
        // Envoy shows Envoy Gateway a certificate when it fetches the module.
        let certs = home.join("config/certs/envoy");
        text.push_str("---\napiVersion: v1\nkind: Secret\nmetadata: {name: envoy, namespace: envoy-gateway-system}\n");
        text.push_str("type: kubernetes.io/tls\ndata:\n");
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let encoded = run(Command::new("base64").arg("-w0").arg(certs.join(name)))?;
            text.push_str(&format!("  {name}: {encoded}\n"));
            fs::copy(certs.join(name), Path::new(CERTS).join(name))
                .with_context(|| format!("{CERTS}: see crates/xtask/scripts/platforms.sh"))?;
        }
    }
    Ok(text)
}
