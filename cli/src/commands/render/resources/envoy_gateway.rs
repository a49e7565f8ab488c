//! `render envoy-gateway`.

use super::super::super::{BAD_INPUT, FORWARD};
use super::ResourceArguments;
use crate::input::print;
use crate::render::kubernetes::envoy_gateway::EnvoyGatewayForm;
use clap::Args;

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
  edge-idempotency render envoy-gateway --policy policy.json --form envoy-extension-policy \\
    --module oci://registry/edge-idempotency:0.1.0 --module-digest sha256:7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a"
)]
pub(in super::super) struct EnvoyGatewayArguments {
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

/// Runs `render envoy-gateway`; its exit status.
pub(in super::super) fn run(args: &EnvoyGatewayArguments) -> Result<u8, String> {
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
