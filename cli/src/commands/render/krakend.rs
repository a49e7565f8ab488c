//! `render krakend`.

use super::super::{BAD_INPUT, FORWARD};
use super::{PolicyOption, ReadPolicy};
use crate::input::print;
use crate::render::krakend::KrakendPlan;
use crate::render::upstream::NamedUpstream;
use clap::Args;

/// A whole krakend.json for KrakenD with the bridge.
///
/// It has an endpoint for each method and path of the policy, for each way to ask for a stored result, and for operations. KrakenD
/// verifies the tokens and hands the claims that the policy reads to the bridge. The bridge checks the file when KrakenD starts.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render krakend --policy policy.json --upstream restate=http://restate:8080 \\
    --jwt-issuer https://login.example.com --jwt-keys https://login.example.com/.well-known/jwks.json >krakend.json
  edge-idempotency render krakend --policy policy.json --custom-build --upstream api=http://127.0.0.1:9000 \\
    --jwt-issuer https://login.example.com --jwt-keys /etc/krakend/jwks.json --jwt-algorithm ES256"
)]
pub(super) struct KrakendArguments {
    #[command(flatten)]
    policy: PolicyOption,
    /// The bridge is built into KrakenD; without this it is a plugin.
    #[arg(long)]
    custom_build: bool,
    /// The service's name.
    #[arg(long, value_name = "NAME", default_value = "edge-idempotency")]
    name: String,
    /// Where KrakenD finds the module.
    #[arg(long, value_name = "PATH", default_value = "/etc/krakend/edge_idempotency.wasm")]
    module_path: String,
    /// Where KrakenD finds the policy document.
    #[arg(long, value_name = "PATH", default_value = "/etc/krakend/policy.json")]
    policy_path: String,
    /// Where KrakenD finds plugins.
    #[arg(long, value_name = "DIR", default_value = "/opt/krakend/plugins/", conflicts_with = "custom_build")]
    plugin_dir: String,
    /// An upstream: the one that requests go to, and each that the policy names. Can be repeated.
    #[arg(long = "upstream", value_name = "NAME=URL", value_parser = NamedUpstream::parse)]
    upstreams: Vec<NamedUpstream>,
    /// `iss` of the callers' tokens. ENDPOINT is one of the policy, for one whose callers have other tokens.
    #[arg(long = "jwt-issuer", value_name = "[ENDPOINT=]ISSUER")]
    issuers: Vec<String>,
    /// The issuer's keys: a JWKS file, or a URL.
    #[arg(long = "jwt-keys", value_name = "[ENDPOINT=]FILE|URL")]
    key_sets: Vec<String>,
    /// `aud` of the tokens: the name of your API. Can be repeated.
    #[arg(long = "jwt-audience", value_name = "[ENDPOINT=]AUDIENCE")]
    audiences: Vec<String>,
    /// The algorithm of the tokens' signatures; RS256 if it is not given.
    #[arg(long = "jwt-algorithm", value_name = "[ENDPOINT=]ALGORITHM")]
    algorithms: Vec<String>,
    /// An endpoint that only signed callers use: KrakenD asks for no token there. Can be repeated.
    #[arg(long, value_name = "ENDPOINT")]
    without_token: Vec<String>,
    /// The port on which KrakenD listens.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
    /// Where Prometheus finds the filter's metrics.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9464")]
    metrics: String,
    /// How long the backend may take for an answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Runs `render krakend`; its exit status.
pub(super) fn run(args: &KrakendArguments) -> Result<u8, String> {
    let Some(ReadPolicy { document, needs, .. }) = args.policy.read()? else { return Ok(BAD_INPUT) };
    let unknown = args.without_token.iter().find(|name| needs.routes.iter().all(|route| route.endpoint != **name));
    if let Some(name) = unknown {
        return Err(format!("--without-token {name}: the policy has no endpoint of this name"));
    }
    let plan = KrakendPlan {
        name: args.name.clone(),
        document,
        module: args.module_path.clone(),
        policy_file: args.policy_path.clone(),
        plugins: (!args.custom_build).then(|| args.plugin_dir.clone()),
        port: args.port,
        metrics: args.metrics.clone(),
        upstreams: args.upstreams.clone(),
        issuers: args.issuers.clone(),
        key_sets: args.key_sets.clone(),
        audiences: args.audiences.clone(),
        algorithms: args.algorithms.clone(),
        without_token: args.without_token.clone(),
        timeout_s: args.timeout,
    };
    print(&plan.configuration(&needs)?)?;
    Ok(FORWARD)
}
