//! `render istio` and `render envoy-gateway`.

use super::super::{BAD_INPUT, FORWARD};
use super::{ModuleOptions, PolicyOption, ReadPolicy};
use crate::input::print;
use crate::render::envoy::{EnvoyPlan, NativeNeeds};
use crate::render::kubernetes::{EnvoyGatewayForm, IstioForm, ResourcePlan};
use crate::render::module::ModuleKind;
use crate::render::needs::GatewayNeeds;
use crate::render::upstream::NamedUpstream;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

/// A resource of Istio with the filter, for the proxies of a gateway.
///
/// It was never run in a cluster; tests check it against Istio's published API description. Comments say what this kind of resource
/// cannot set.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render istio --policy policy.json --module dist/edge_idempotency.wasm --module-dir /etc/istio/extensions \\
    --upstream restate=http://restate.default.svc.cluster.local:8080 | kubectl apply -f -
  edge-idempotency render istio --policy policy.json --form traffic-extension --module-url oci://registry/edge-idempotency:0.1.0"
)]
pub(super) struct IstioArguments {
    /// The kind of resource.
    #[arg(long, value_enum, default_value = "envoy-filter")]
    form: IstioForm,
    /// Labels of the gateway's pods. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE", default_value = "istio=ingressgateway", value_parser = label)]
    label: Vec<(String, String)>,
    #[command(flatten)]
    resource: ResourceArguments,
}

/// A resource of Envoy Gateway with the filter.
///
/// It was never run in a cluster; tests check it against Envoy Gateway's published API description. Comments say what this kind of
/// resource cannot set.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render envoy-gateway --policy policy.json --module dist/edge_idempotency.wasm --module-dir /etc/envoy \\
    --gateway eg --listener tcp-80 --routes http-80 --upstream restate=http://restate.default.svc.cluster.local:8080
  edge-idempotency render envoy-gateway --policy policy.json --form envoy-extension-policy --native --module dist/libedge_idempotency.so \\
    --module-dir /etc/envoy
  edge-idempotency render envoy-gateway --policy policy.json --form envoy-extension-policy --module-url oci://registry/edge-idempotency:0.1.0"
)]
pub(super) struct EnvoyGatewayArguments {
    /// The kind of resource.
    #[arg(long, value_enum, default_value = "envoy-patch-policy")]
    form: EnvoyGatewayForm,
    /// The Gateway's name.
    #[arg(long, value_name = "NAME", default_value = "eg")]
    gateway: String,
    /// Envoy Gateway's name for the listener, as its configuration dump shows it [default: tcp-80].
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Envoy Gateway's name for the listener's routes [default: http-80].
    #[arg(long, value_name = "NAME")]
    routes: Option<String>,
    #[command(flatten)]
    resource: ResourceArguments,
}

#[derive(Args)]
struct ResourceArguments {
    #[command(flatten)]
    policy: PolicyOption,
    #[command(flatten)]
    module: ModuleOptions,
    /// The filter as a native module (Envoy Gateway 1.8 and newer, with --form envoy-extension-policy; Istio has no resource for it).
    #[arg(long)]
    native: bool,
    /// Where the proxies get the module, for the kinds of resource that do not take a file.
    #[arg(long, value_name = "URL")]
    module_url: Option<String>,
    /// The namespace of the gateway.
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// A cluster: the one that requests go to, and each that the policy names. Can be repeated.
    #[arg(long = "upstream", value_name = "NAME=URL", value_parser = NamedUpstream::parse)]
    upstreams: Vec<NamedUpstream>,
    /// How long the backend may take for an answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// How often Envoy sends a request with a key again if the connection fails or is reset [default: 2].
    #[arg(long, value_name = "NUMBER")]
    retries: Option<u32>,
}

impl ResourceArguments {
    /// The plan, and what the policy needs; `None` if the document is no policy. `patches`: whether the resource patches Envoy's
    /// configuration; else it names the module by a URL, and has neither clusters nor routes. `proxys_dir` is where proxies usually
    /// have files.
    ///
    /// # Errors
    /// A given option would change nothing in such a resource.
    fn plan(&self, patches: bool, proxys_dir: &str) -> Result<Option<(ResourcePlan, GatewayNeeds)>, String> {
        let idle = if patches {
            [(self.module_url.is_some(), "--module-url"), (false, "")]
        } else {
            [(!self.upstreams.is_empty(), "--upstream"), (self.retries.is_some(), "--retries")]
        };
        let module_dir = (!patches && !self.native && self.module.module_dir.is_some(), "--module-dir");
        let module_url = (self.native && self.module_url.is_some(), "--module-url");
        if let Some((_, name)) = idle.iter().chain([&module_dir, &module_url]).find(|(is_idle, _)| *is_idle) {
            let has =
                if patches || self.native { "names a file of the proxy (--module-dir)" } else { "has no place for it" };
            return Err(format!(
                "{name} would change nothing here: this kind of resource {has}; leave it out, or choose another --form"
            ));
        }
        let Some(ReadPolicy { text, document, needs, source, policy }) = self.policy.read()? else {
            return Ok(None);
        };
        let envoy = EnvoyPlan {
            source,
            policy: text,
            module: self.module.find_in(proxys_dir, if self.native { ModuleKind::Native } else { ModuleKind::Wasm })?,
            native: self.native.then(|| NativeNeeds::of(&policy)).transpose()?,
            upstreams: self.upstreams.clone(),
            providers: Vec::new(),
            ext_authz: None,
            public: Vec::new(),
            health: None,
            cors: Value::Null,
            listen: (String::new(), 0),
            admin: (String::new(), 0),
            access_log: None,
            credentials: PathBuf::from("/etc/envoy"),
            ca_file: PathBuf::from("/etc/ssl/certs/ca-certificates.crt"),
            timeout_s: self.timeout,
            retries: self.retries.unwrap_or(2),
            ecds: None,
        };
        let plan = ResourcePlan {
            envoy,
            document,
            namespace: self.namespace.clone(),
            labels: Vec::new(),
            gateway: String::new(),
            listener: String::new(),
            routes: String::new(),
            module_url: self.module_url.clone(),
            renamed_claims: false,
        };
        Ok(Some((plan, needs)))
    }
}

/// Runs `render istio`; its exit status.
pub(super) fn istio(args: &IstioArguments) -> Result<u8, String> {
    if args.resource.native {
        return Err(
            "--native: Istio has no resource for native modules; leave it out, or take `render envoy --native`"
                .to_owned(),
        );
    }
    let patches = args.form == IstioForm::EnvoyFilter;
    let Some((mut plan, needs)) = args.resource.plan(patches, "/etc/istio/extensions")? else { return Ok(BAD_INPUT) };
    plan.labels.clone_from(&args.label);
    print(plan.istio(&needs, args.form)?.trim_end())?;
    Ok(FORWARD)
}

/// Runs `render envoy-gateway`; its exit status.
pub(super) fn envoy_gateway(args: &EnvoyGatewayArguments) -> Result<u8, String> {
    let patches = args.form == EnvoyGatewayForm::EnvoyPatchPolicy;
    for (name, given) in [("--listener", &args.listener), ("--routes", &args.routes)] {
        if !patches && given.is_some() {
            return Err(format!(
                "{name} would change nothing here: this kind of resource has no place for it; leave it out, or choose another --form"
            ));
        }
    }
    let Some((mut plan, needs)) = args.resource.plan(patches, "/etc/envoy")? else { return Ok(BAD_INPUT) };
    plan.gateway.clone_from(&args.gateway);
    plan.listener = args.listener.clone().unwrap_or_else(|| "tcp-80".to_owned());
    plan.routes = args.routes.clone().unwrap_or_else(|| "http-80".to_owned());
    print(plan.envoy_gateway(&needs, args.form)?.trim_end())?;
    Ok(FORWARD)
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as istio=ingressgateway")?;
    Ok((name.to_owned(), value.to_owned()))
}
