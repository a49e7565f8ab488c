//! `render envoy-gateway`.

use super::super::super::{BAD_INPUT, FORWARD};
use super::super::TokenArguments;
use super::ResourceArguments;
use crate::output::print_document;
use crate::output::tell;
use crate::render::kubernetes::envoy_gateway::EnvoyGatewayForm;
use crate::render::kubernetes::surroundings::Claims;
use crate::render::needs::JWT_FILTER;
use crate::render::tokens::TokenProvider;
use clap::Args;

/// Resources of Envoy Gateway: the filter, and the route, the policies for tokens, clients and connections that it needs around it.
///
/// The route leads to a backend only what the filter has marked, if the policy has everything marked (`mark_all`, or a target on
/// every route): where the filter is missing, all requests are answered 503.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render envoy-gateway --policy policy.json --module dist/edge_idempotency.wasm --module-dir /etc/envoy \\
    --gateway eg --listener http --hostname api.example.com --upstream restate=http://restate.default.svc.cluster.local:8080 \\
    --jwt-issuer https://login.example.com --jwt-keys https://login.example.com/.well-known/jwks.json
  edge-idempotency render envoy-gateway --policy policy.json --form envoy-extension-policy --dynamic-module --module dist/libedge_idempotency.so \\
    --module-dir /etc/envoy --upstream api=http://api:8080
  edge-idempotency render envoy-gateway --policy policy.json --form envoy-extension-policy --upstream api=http://api:8080 \\
    --module oci://registry/edge-idempotency:0.1.0 --module-digest sha256:7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a"
)]
pub(in super::super) struct EnvoyGatewayArguments {
    /// The kind of resource with the filter.
    #[arg(long, value_enum, default_value = "envoy-patch-policy")]
    form: EnvoyGatewayForm,
    /// The Gateway's name.
    #[arg(long, value_name = "NAME", default_value = "eg")]
    gateway: String,
    /// The listener that --form envoy-patch-policy patches: its name in the Gateway's spec.listeners, or if it has a slash or XDSNameSchemeV2
    /// is enabled the whole name in Envoy's configuration, which `egctl config envoy-proxy listener` prints [default: http].
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// A host of the route; without one it takes all hosts of the Gateway's listeners. Can be repeated.
    #[arg(long = "hostname", value_name = "NAME")]
    hostnames: Vec<String>,
    #[command(flatten)]
    tokens: TokenArguments,
    /// The claim that Envoy Gateway writes into a header from which the policy takes identities. Can be repeated.
    #[arg(long = "jwt-claim", value_name = "HEADER=CLAIM", value_parser = claim)]
    claims: Vec<(String, String)>,
    #[command(flatten)]
    resource: ResourceArguments,
}

/// Runs `render envoy-gateway`; its exit status.
pub(in super::super) fn run(args: &EnvoyGatewayArguments) -> Result<u8, String> {
    let patches = args.form == EnvoyGatewayForm::EnvoyPatchPolicy;
    let idle = [(args.resource.retries.is_some(), "--retries"), (!patches && args.listener.is_some(), "--listener")];
    let Some((mut plan, needs)) = args.resource.plan(idle, "/etc/envoy")? else { return Ok(BAD_INPUT) };
    plan.gateway.clone_from(&args.gateway);
    plan.hostnames.clone_from(&args.hostnames);
    let listener = args.listener.as_deref().unwrap_or("http");
    // Envoy Gateway's names without XDSNameSchemeV2.
    plan.listener = match listener.contains('/') || listener.starts_with("tcp-") {
        true => listener.to_owned(),
        false => format!("{}/{}/{listener}", args.resource.namespace, args.gateway),
    };
    let options = args.tokens.options();
    if !options.issuers.is_empty() || !options.key_sets.is_empty() {
        let mut verified = needs.clone();
        // Identities from headers come from tokens all the same; the provider's name is not read.
        if verified.tokens.is_empty() && verified.owners.iter().any(|(owner, _)| owner == JWT_FILTER) {
            verified.tokens.push("jwt".to_owned());
        }
        if verified.tokens.is_empty() {
            return Err(format!(
                "--jwt-issuer and --jwt-keys would change nothing here: the policy reads no tokens, and no headers of {JWT_FILTER}"
            ));
        }
        plan.envoy.providers = TokenProvider::all(&verified, &options)?;
    }
    plan.claims = Claims(args.claims.clone());
    print_document(plan.envoy_gateway(&needs, args.form)?.trim_end())?;
    if !needs.closed {
        tell!(
            "note: the filter does not mark every request, so what it does not mark reaches the backend also where the filter is missing; \
             with \"mark_all\": true in the policy it does not"
        );
    }
    Ok(FORWARD)
}

fn claim(text: &str) -> Result<(String, String), String> {
    let (header, claim) = text.split_once('=').ok_or("write HEADER=CLAIM, such as x-tenant=tenant_id")?;
    Ok((header.to_owned(), claim.to_owned()))
}
