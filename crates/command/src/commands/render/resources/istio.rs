//! `render istio`.

use super::super::super::{BAD_INPUT, FORWARD};
use super::ResourceArguments;
use crate::output::print_document;
use crate::render::kubernetes::istio::IstioForm;
use clap::Args;

/// Resources of Istio with the filter, for the proxies of a gateway.
///
/// With it come a resource that refuses clients' own marks and one for the names of metrics. Comments say what this kind of resource cannot
/// set, and what the VirtualService has to be so that nothing reaches the backend without the filter.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render istio --policy policy.json --module dist/edge_idempotency.wasm --module-dir /etc/istio/extensions \\
    --upstream restate=http://restate.default.svc.cluster.local:8080 | kubectl apply -f -
  edge-idempotency render istio --policy policy.json --module oci://registry/edge-idempotency:0.1.0 \\
    --module-digest sha256:7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a --upstream restate=http://restate.default.svc.cluster.local:8080"
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
    if args.resource.dynamic_module {
        return Err(
            "--dynamic-module: Istio has no resource for dynamic modules; leave it out, or take `render envoy --dynamic-module`"
                .to_owned(),
        );
    }
    let patches = args.form == IstioForm::EnvoyFilter;
    let idle = [
        (!patches && !args.resource.upstreams.is_empty(), "--upstream"),
        (!patches && args.resource.retries.is_some(), "--retries"),
    ];
    let Some((mut plan, needs)) = args.resource.plan(idle, "/etc/istio/extensions")? else {
        return Ok(BAD_INPUT);
    };
    plan.labels.clone_from(&args.label);
    print_document(plan.istio(&needs, args.form)?.trim_end())?;
    Ok(FORWARD)
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as istio=ingressgateway")?;
    Ok((name.to_owned(), value.to_owned()))
}
