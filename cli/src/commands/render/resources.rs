//! `render istio` and `render envoy-gateway`.

use super::super::{BAD_INPUT, FORWARD};
use super::{ModuleOptions, PolicyOption, ReadPolicy};
use crate::input::print;
use crate::render::envoy::EnvoyPlan;
use crate::render::kubernetes::{EnvoyGatewayForm, IstioForm, ResourcePlan};
use crate::render::needs::GatewayNeeds;
use crate::render::upstream::NamedUpstream;
use clap::Args;
use std::path::PathBuf;

/// A resource of Istio with the filter, for the proxies of a gateway.
///
/// It was not run in a cluster: it is checked against Istio's published API description. Comments say what a form cannot set.
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
/// It was not run in a cluster: it is checked against Envoy Gateway's published API description. Comments say what a form cannot set.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render envoy-gateway --policy policy.json --module dist/edge_idempotency.wasm --module-dir /etc/envoy \\
    --gateway eg --listener tcp-80 --routes http-80 --upstream restate=http://restate.default.svc.cluster.local:8080
  edge-idempotency render envoy-gateway --policy policy.json --form envoy-extension-policy --module-url oci://registry/edge-idempotency:0.1.0"
)]
pub(super) struct EnvoyGatewayArguments {
    /// The kind of resource.
    #[arg(long, value_enum, default_value = "envoy-patch-policy")]
    form: EnvoyGatewayForm,
    /// The Gateway's name.
    #[arg(long, value_name = "NAME", default_value = "eg")]
    gateway: String,
    /// Envoy Gateway's name for the listener, as its configuration dump shows it.
    #[arg(long, value_name = "NAME", default_value = "tcp-80")]
    listener: String,
    /// Envoy Gateway's name for the listener's routes.
    #[arg(long, value_name = "NAME", default_value = "http-80")]
    routes: String,
    #[command(flatten)]
    resource: ResourceArguments,
}

#[derive(Args)]
struct ResourceArguments {
    #[command(flatten)]
    policy: PolicyOption,
    #[command(flatten)]
    module: ModuleOptions,
    /// Where the proxies get the module, for the forms that do not take a file.
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
    /// How often Envoy sends a request with a key again if the connection fails or is reset.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    retries: u32,
}

impl ResourceArguments {
    /// The plan, and what the policy needs; `None` if the document is no policy.
    fn plan(&self) -> Result<Option<(ResourcePlan, GatewayNeeds)>, String> {
        let Some(ReadPolicy { text, document, needs, source }) = self.policy.read()? else { return Ok(None) };
        let envoy = EnvoyPlan {
            source,
            policy: text,
            module: self.module.find()?,
            upstreams: self.upstreams.clone(),
            providers: Vec::new(),
            listen: (String::new(), 0),
            admin: (String::new(), 0),
            access_log: None,
            credentials: PathBuf::from("/etc/envoy"),
            ca_file: PathBuf::from("/etc/ssl/certs/ca-certificates.crt"),
            timeout_s: self.timeout,
            retries: self.retries,
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
        };
        Ok(Some((plan, needs)))
    }
}

/// Runs `render istio`; its exit status.
pub(super) fn istio(args: &IstioArguments) -> Result<u8, String> {
    let Some((mut plan, needs)) = args.resource.plan()? else { return Ok(BAD_INPUT) };
    plan.labels.clone_from(&args.label);
    print(plan.istio(&needs, args.form)?.trim_end())?;
    Ok(FORWARD)
}

/// Runs `render envoy-gateway`; its exit status.
pub(super) fn envoy_gateway(args: &EnvoyGatewayArguments) -> Result<u8, String> {
    let Some((mut plan, needs)) = args.resource.plan()? else { return Ok(BAD_INPUT) };
    plan.gateway.clone_from(&args.gateway);
    plan.listener.clone_from(&args.listener);
    plan.routes.clone_from(&args.routes);
    print(plan.envoy_gateway(&needs, args.form)?.trim_end())?;
    Ok(FORWARD)
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as istio=ingressgateway")?;
    Ok((name.to_owned(), value.to_owned()))
}
