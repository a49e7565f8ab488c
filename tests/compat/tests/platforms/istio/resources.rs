//! What is applied: the resources that `render kubernetes` prints, and around them those that an operator writes.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use harness::tokens::ISSUER;
use harness::tools::{Tools, built};
use serde_json::{Value, json};

use super::super::image::Registry;
use super::super::scenario::{Around, ClaimPlace, HOSTS, PAYLOAD};
use super::{Form, From};

/// Where the gateway listens.
pub(super) const GATEWAY_PORT: u16 = 10080;
const NAMESPACE: &str = "default";
const SELECTOR: &str = "ingressgateway";
/// The backend's name in the mesh.
const BACKEND: &str = "backend.example.com";

/// What is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Nothing,
    /// The module's file
    File,
    /// The resource with the filter
    Resource,
    /// The registry with the image
    Registry,
    /// The image of this digest: there is another one under its name
    Digest,
}

impl Lack {
    /// What can be missing.
    pub(super) const fn of(form: Form, from: From) -> &'static [Self] {
        match (from, form) {
            (From::File, _) => &[Self::File, Self::Resource],
            (From::Image, _) => &[Self::Registry, Self::Digest],
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "complete",
            Self::File => "the module's file is missing",
            Self::Resource => "the resource was not applied",
            Self::Registry => "the registry is down",
            Self::Digest => "the image is another one",
        }
    }
}

/// What `render kubernetes` prints, taken apart.
pub(super) struct Rendered {
    /// Resources of Istio
    pub(super) resources: String,
    /// The file of the ConfigMap, which Kubernetes mounts
    pub(super) bootstrap: String,
    /// The routes that its comments say the VirtualService has to have
    pub(super) routes: Vec<Value>,
}

impl Rendered {
    /// Runs the command.
    pub(super) fn of(around: &Around, form: Form, registry: Option<&Registry>, lack: Lack) -> Result<Self> {
        let folder = around.directory.path();
        let policy = folder.join("policy.json");
        // The name that other gateways have; `render kubernetes` writes Istio's.
        let mut document = around.policy("jwt");
        if form == Form::TrafficExtension
            && let Some(cluster) = document.pointer_mut("/backend/cluster")
        {
            // It cannot add a cluster: the filter's own calls go to the one that Istio makes of the ServiceEntry.
            *cluster = json!(format!("outbound|80||{BACKEND}"));
        }
        fs::write(&policy, document.to_string())?;
        let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
        command
            .args(["render", "kubernetes", "--form", form.name(), "--namespace", NAMESPACE, "--policy"])
            .arg(&policy)
            .arg("--module");
        match registry {
            Some(registry) => {
                let digest =
                    if lack == Lack::Digest { format!("sha256:{}", "0".repeat(64)) } else { registry.digest.clone() };
                command.arg(format!("oci://{}", registry.image)).arg(format!("--module-digest={digest}"));
            }
            None => {
                let filter = Tools::locate()?.filter;
                let modules = folder.join("modules");
                fs::create_dir_all(&modules)?;
                command.arg(filter.path()).arg("--module-dir").arg(&modules);
            }
        }
        if form == Form::EnvoyFilter {
            command.arg(format!("--upstream=backend=http://{}", around.backend));
        }
        let output = command.output().context("cannot run the command")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        fs::write(folder.join("printed.yaml"), &text)?;
        if registry.is_none() && lack != Lack::File {
            install(&text, &folder.join("modules"))?;
        }
        let (resources, maps): (Vec<&str>, Vec<&str>) =
            text.split("\n---\n").partition(|one| !one.contains("\nkind: ConfigMap\n"));
        let map: Value = serde_saphyr::from_str(maps.first().context("there is no ConfigMap")?)?;
        let bootstrap =
            map.pointer("/data/custom_bootstrap.json").and_then(Value::as_str).context("no bootstrap")?.to_owned();
        let all = resources.join("\n---\n");
        let resources = if lack == Lack::Resource { without_filter(&all) } else { all };
        Ok(Self { routes: routes(&text, form)?, resources, bootstrap })
    }
}

/// Copies the module to where the resource names it.
fn install(rendered: &str, modules: &std::path::Path) -> Result<()> {
    let (_, rest) = rendered.split_once(&format!("{}/", modules.display())).context("the module's path")?;
    let name: String = rest.chars().take_while(|char| *char != '"').collect();
    fs::copy(Tools::locate()?.filter.path(), modules.join(name))?;
    Ok(())
}

/// All resources but the one with the filter.
pub(super) fn without_filter(resources: &str) -> String {
    let is_filter = |one: &&str| one.contains("\nkind: EnvoyFilter\n") || one.contains("\nkind: TrafficExtension\n");
    resources.split("\n---\n").filter(|one| !is_filter(one)).collect::<Vec<_>>().join("\n---\n")
}

/// The routes in the comments.
fn routes(rendered: &str, form: Form) -> Result<Vec<Value>> {
    if form == Form::EnvoyFilter {
        ensure!(
            rendered.contains("http: [{route: [{destination: {host: closed.invalid}}]}]"),
            "no comment about routes"
        );
        return Ok(vec![json!({"route": [{"destination": {"host": "closed.invalid"}}]})]);
    }
    let lines = rendered.lines().skip_while(|line| *line != "#   http:");
    let block: Vec<&str> =
        lines.take_while(|line| line.starts_with("#   ")).filter_map(|line| line.strip_prefix("#   ")).collect();
    let text = block.join("\n").replace("HOST", BACKEND).replace("PORT", "80");
    let read: Value = serde_saphyr::from_str(&text).with_context(|| format!("the comment about routes: {text}"))?;
    read.get("http").and_then(Value::as_array).cloned().context("no routes")
}

/// What an operator writes: the gateway, its routes, the backend, who may call.
pub(super) fn of_operator(around: &Around, _form: Form, rendered: &Rendered) -> String {
    let (host, port) = (around.backend.ip().to_string(), around.backend.port());
    let selector = json!({"matchLabels": {"istio": SELECTOR}});
    let resource = |api: &str, kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
            .to_string()
    };
    let cors = json!({
        "allowOrigins": [{"exact": "https://app.example.com"}], "allowMethods": ["GET", "POST"],
        "allowHeaders": ["authorization", "content-type", "idempotency-key"], "exposeHeaders": ["idempotency-status"],
    });
    let routes: Vec<Value> = rendered
        .routes
        .iter()
        .cloned()
        .map(|mut route| {
            if let Some(members) = route.as_object_mut() {
                members.insert("corsPolicy".to_owned(), cors.clone());
            }
            route
        })
        .collect();
    let mut rule = json!({"issuer": ISSUER, "jwks": around.signer.jwks(), "forwardOriginalToken": true});
    if let (ClaimPlace::Payload, Some(members)) = (around.claims(), rule.as_object_mut()) {
        members.insert("outputPayloadToHeader".to_owned(), json!(PAYLOAD));
    }
    [
        resource("networking.istio.io/v1", "Gateway", "gateway", json!({
            "selector": {"istio": SELECTOR},
            "servers": [{"port": {"number": GATEWAY_PORT, "name": "http", "protocol": "HTTP"}, "hosts": HOSTS}],
        })),
        resource("networking.istio.io/v1", "VirtualService", "api", json!({"hosts": HOSTS, "gateways": ["gateway"], "http": routes})),
        resource("networking.istio.io/v1", "ServiceEntry", "backend", json!({
            "hosts": [BACKEND], "location": "MESH_EXTERNAL", "resolution": "STATIC",
            "ports": [{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": port}], "endpoints": [{"address": host}],
        })),
        resource("security.istio.io/v1", "RequestAuthentication", "tokens", json!({
            "selector": selector,
            "jwtRules": [rule],
        })),
        resource("security.istio.io/v1", "AuthorizationPolicy", "callers", json!({
            "selector": selector, "action": "ALLOW",
            "rules": [
                {"from": [{"source": {"requestPrincipals": ["*"]}}]},
                {"to": [{"operation": {"methods": ["POST"], "paths": ["/hooks/*"]}}, {"operation": {"methods": ["OPTIONS"]}}]},
            ],
        })),
    ]
    .join("\n---\n")
}
