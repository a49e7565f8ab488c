//! `render krakend`.

use super::super::{BAD_INPUT, FORWARD};
use super::{PolicyOption, ReadPolicy};
use crate::output::print_document;
use crate::output::tell;
use crate::render::browsers;
use crate::render::krakend::KrakendPlan;
use crate::render::upstream::NamedUpstream;
use clap::Args;
use std::net::IpAddr;
use std::path::Path;

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
    /// A header that your backend reads, besides Content-Type and Accept: KrakenD lets only listed headers through. Can be repeated.
    #[arg(long = "header", value_name = "NAME", value_parser = header_name)]
    headers: Vec<String>,
    /// A provider whose webhooks are looked up, so that the policy does not name it: its handlers get the headers that they read, such
    /// as X-GitHub-Event. Can be repeated.
    #[arg(long = "webhook-provider", value_name = "PROVIDER")]
    webhook_providers: Vec<String>,
    /// An origin whose scripts may call the API from a browser, such as https://app.example.com. Can be repeated.
    #[arg(long = "cors-origin", value_name = "ORIGIN", value_parser = browsers::origin)]
    origins: Vec<String>,
    /// The network of a proxy before KrakenD, such as 10.0.0.0/8: what it says in X-Forwarded-For is believed. Can be repeated.
    #[arg(long = "trusted-proxy", value_name = "NETWORK", value_parser = network)]
    trusted_proxies: Vec<String>,
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
    let Some(ReadPolicy { document, needs, source, .. }) = args.policy.read()? else { return Ok(BAD_INPUT) };
    let unknown = args.without_token.iter().find(|name| needs.routes.iter().all(|route| route.endpoint != **name));
    if let Some(name) = unknown {
        return Err(format!("--without-token {name}: the policy has no endpoint of this name"));
    }
    let plan = KrakendPlan {
        name: args.name.clone(),
        source,
        document,
        module: args.module_path.clone(),
        policy_file: args.policy_path.clone(),
        plugins: (!args.custom_build).then(|| args.plugin_dir.clone()),
        port: args.port,
        origins: args.origins.clone(),
        trusted_proxies: args.trusted_proxies.clone(),
        metrics: args.metrics.clone(),
        upstreams: args.upstreams.clone(),
        issuers: args.issuers.clone(),
        key_sets: args.key_sets.clone(),
        audiences: args.audiences.clone(),
        algorithms: args.algorithms.clone(),
        without_token: args.without_token.clone(),
        headers: args.headers.clone(),
        webhook_providers: args.webhook_providers.clone(),
        timeout_s: args.timeout,
    };
    print_document(&plan.configuration(&needs)?)?;
    for endpoint in KrakendPlan::unserved(&needs) {
        tell!("note: {endpoint}: KrakenD answers HEAD and OPTIONS by itself (405)");
    }
    let keys = args.key_sets.iter().map(|text| text.split_once('=').map_or(text.as_str(), |(_, keys)| keys));
    for file in keys.filter(|keys| !keys.contains("://") && !Path::new(keys).exists()) {
        tell!(
            "note: {file} (--jwt-keys) is not here: KrakenD does not start if it does not find the file by this path"
        );
    }
    Ok(FORWARD)
}

/// A name for `input_headers`. Idempotency-Key and `*` would let raw keys and forged identities through.
fn header_name(text: &str) -> Result<String, String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text == "*" || text.eq_ignore_ascii_case("idempotency-key") {
        return Err("it would let raw keys through: the bridge writes Idempotency-Key by itself".to_owned());
    }
    if text.to_ascii_lowercase().starts_with("x-claim-") {
        return Err("KrakenD writes verified claims into headers of this name, and lists them by itself".to_owned());
    }
    if text.is_empty() || !text.bytes().all(token) {
        return Err("write the name of a header, such as Accept-Language".to_owned());
    }
    Ok(text.to_owned())
}

/// An address or a network. KrakenD overlooks a list that has anything else in it.
fn network(text: &str) -> Result<String, String> {
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    let longest = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => 0,
    };
    let fits = length.parse::<u8>().is_ok_and(|length| length <= longest);
    if longest > 0 && fits {
        Ok(text.to_owned())
    } else {
        Err("write an address or a network, such as 10.0.0.0/8".to_owned())
    }
}
