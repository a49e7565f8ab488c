//! `render istio`.

use super::super::super::{BAD_INPUT, FORWARD};
use super::ResourceArguments;
use crate::input::print;
use crate::render::kubernetes::istio::IstioForm;
use clap::Args;

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
pub(in super::super) struct IstioArguments {
    /// The kind of resource.
    #[arg(long, value_enum, default_value = "envoy-filter")]
    form: IstioForm,
    /// Labels of the gateway's pods. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE", default_value = "istio=ingressgateway", value_parser = label)]
    label: Vec<(String, String)>,
    #[command(flatten)]
    resource: ResourceArguments,
}

/// Runs `render istio`; its exit status.
pub(in super::super) fn run(args: &IstioArguments) -> Result<u8, String> {
    if args.resource.native {
        return Err(
            "--native: Istio has no resource for native modules; leave it out, or take `render envoy --native`"
                .to_owned(),
        );
    }
    let patches = args.form == IstioForm::EnvoyFilter;
    let idle = [
        (!patches && !args.resource.upstreams.is_empty(), "--upstream"),
        (!patches && args.resource.retries.is_some(), "--retries"),
    ];
    let Some((mut plan, needs)) = args.resource.plan(patches, idle, "/etc/istio/extensions")? else {
        return Ok(BAD_INPUT);
    };
    plan.labels.clone_from(&args.label);
    print(plan.istio(&needs, args.form)?.trim_end())?;
    Ok(FORWARD)
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as istio=ingressgateway")?;
    Ok((name.to_owned(), value.to_owned()))
}
