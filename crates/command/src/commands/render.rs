//! `render`: configurations of gateways that fit a policy.

mod krakend;
mod kubernetes;

use super::{BAD_INPUT, FORWARD};
use crate::input::read;
use crate::output::print_document;
use crate::output::tell;
use crate::profile::Profile;
use crate::render::browsers;
use crate::render::envoy::{DynamicModuleNeeds, EnvoyPlan};
use crate::render::ext_authz::{AuthorizationService, EXT_AUTHZ};
use crate::render::module::{ModuleFile, ModuleKind};
use crate::render::needs::{EVERYBODY, GatewayNeeds};
use crate::render::profile;
use crate::render::public_paths::{PublicPath, health_path};
use crate::render::tokens::{TokenOptions, TokenProvider};
use crate::render::upstream::NamedUpstream;
use clap::{Args, Subcommand};
use edge_idempotency_engine::{Policy, PolicyErrors};
use serde_json::Value;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Writes the configuration of a gateway that fits a policy document.
///
/// The result goes to standard output. Places that you have to look at say CHECK.
///
/// Examples:
///   edge-idempotency render envoy --policy policy.json --module dist/edge_idempotency.wasm \
///     --upstream backend=http://127.0.0.1:8080 > envoy.yaml
///   edge-idempotency render COMMAND --help
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(verbatim_doc_comment, arg_required_else_help = true)]
pub(crate) struct RenderArguments {
    #[command(subcommand)]
    gateway: Destination,
}

#[derive(Subcommand)]
enum Destination {
    Envoy(Box<EnvoyArguments>),
    Krakend(Box<krakend::KrakendArguments>),
    Kubernetes(Box<kubernetes::KubernetesArguments>),
    Profile(Box<ProfileArguments>),
}

/// A configuration of Envoy: the whole bootstrap, or the filter alone.
///
/// The bootstrap has the buffers and timeouts that the policy needs, closes the backend's own paths to clients, verifies tokens,
/// writes the access log with the filter's records, and sends requests with a key again if the backend cannot be reached.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render envoy --policy policy.json --module dist/edge_idempotency.wasm --upstream restate=http://restate:8080 \\
    --jwt-issuer https://login.example.com --jwt-keys https://login.example.com/.well-known/jwks.json >envoy.yaml
  edge-idempotency render envoy --policy policy.json --dynamic-module --module dist/libedge_idempotency.so --upstream restate=http://restate:8080
  edge-idempotency render envoy --policy policy.json --filter-only
  edge-idempotency render envoy --policy policy.json --ecds /etc/envoy/edge-idempotency.yaml --filter-only"
)]
struct EnvoyArguments {
    #[command(flatten)]
    policy: PolicyOption,
    #[command(flatten)]
    module: ModuleOptions,
    /// Lets Envoy run the filter as a dynamic module (Envoy 1.39 and 1.40; docs/gateways.md). --module names libedge_idempotency.so.
    #[arg(long)]
    dynamic_module: bool,
    /// Writes only the filter: an entry of http_filters, or with --ecds the file that Envoy reads.
    #[arg(long)]
    filter_only: bool,
    /// Lets Envoy read the filter's configuration from this file, so that it can be changed without a restart.
    #[arg(long, value_name = "PATH")]
    ecds: Option<PathBuf>,
    /// A cluster: the one that requests go to, and each that the policy names. Can be repeated.
    #[arg(long = "upstream", value_name = "NAME=URL", value_parser = NamedUpstream::parse)]
    upstreams: Vec<NamedUpstream>,
    #[command(flatten)]
    tokens: TokenArguments,
    /// A service that says who is calling, for identity sources with headers of envoy.filters.http.ext_authz. The scheme is grpc or
    /// grpcs for Envoy's own interface, http or https for a service that gets the request's head.
    #[arg(long, value_name = "URL", value_parser = AuthorizationService::parse)]
    ext_authz: Option<AuthorizationService>,
    /// A path of which nobody asks a token or another credential; with a slash at its end also everything below it. Can be repeated.
    #[arg(long = "public-path", value_name = "[METHOD ]PATH", value_parser = PublicPath::parse)]
    public: Vec<PublicPath>,
    /// An origin whose scripts may call the API from a browser, such as https://app.example.com. Can be repeated.
    #[arg(long = "cors-origin", value_name = "ORIGIN", value_parser = browsers::origin)]
    origins: Vec<String>,
    /// Writes refusals in the form of a protocol (acp, adcp, stripe, ucp, or the path of a file), and the key into answers where it asks
    /// for that.
    #[arg(long, value_name = "NAME|FILE", value_parser = Profile::find, conflicts_with = "filter_only")]
    profile: Option<Profile>,
    /// Where the gateway itself tells load balancers that it works [default: /healthz, unless the policy or --public-path has this
    /// path].
    #[arg(long = "health-path", value_name = "PATH", value_parser = PublicPath::parse)]
    health: Option<PublicPath>,
    /// Where clients connect.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:10000", value_parser = host_and_port)]
    listen: (String, u16),
    /// Where operators reach Envoy's admin interface.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9901", value_parser = host_and_port)]
    admin: (String, u16),
    /// The file for the access log; without it the log goes to standard output.
    #[arg(long, value_name = "PATH")]
    access_log: Option<PathBuf>,
    /// The directory in which Envoy finds the credentials that it adds to lookups.
    #[arg(long, value_name = "DIR", default_value = "/etc/envoy")]
    credentials: PathBuf,
    /// The certificate authorities that Envoy trusts, for https upstreams.
    #[arg(long, value_name = "PATH", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    ca_file: PathBuf,
    /// How long the backend may take for an answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// How often Envoy sends a request with a key again if the connection fails or is reset.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    retries: u32,
}

/// What Envoy does for the clients of a protocol: refusals in the protocol's form, and the key that answers repeat.
///
/// This is for a configuration of your own: `render envoy --profile` writes the same into the bootstrap. `check --profile` compares a
/// policy with the protocol.
///
/// Examples:
///   edge-idempotency render profile acp
///   edge-idempotency render profile ./own.json
///
/// Exit status: 0 if it was written, 2 if there is no such profile, or nothing to write for it.
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct ProfileArguments {
    /// acp, adcp, ietf, stripe, ucp, or the path of a file like those in policies/profiles/.
    #[arg(value_name = "NAME|FILE", value_parser = Profile::find)]
    profile: Profile,
}

#[derive(Args)]
struct PolicyOption {
    /// The policy document; - reads standard input.
    #[arg(long, value_name = "FILE|-")]
    policy: PathBuf,
}

#[derive(Args)]
struct ModuleOptions {
    /// The filter's module. The configuration names the file beside it that has the same content and the beginning of its SHA-256
    /// in its name, if there is one (`make wasm` and `make dynamic-module` leave one).
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// The directory in which the gateway has the module, if it is not that of --module.
    #[arg(long, value_name = "DIR")]
    module_dir: Option<PathBuf>,
}

#[derive(Args)]
struct TokenArguments {
    /// `iss` of the callers' tokens. If the policy reads several tokens, KEY says which: the second name of the source's
    /// `metadata`, or its `payload_header`.
    #[arg(long = "jwt-issuer", value_name = "[KEY=]ISSUER")]
    issuers: Vec<String>,
    /// The issuer's keys: a JWKS file at the gateway, or a URL.
    #[arg(long = "jwt-keys", value_name = "[KEY=]FILE|URL")]
    key_sets: Vec<String>,
    /// `aud` of the tokens: the name of your API. Can be repeated.
    #[arg(long = "jwt-audience", value_name = "[KEY=]AUDIENCE")]
    audiences: Vec<String>,
}

impl TokenArguments {
    fn is_empty(&self) -> bool {
        [&self.issuers, &self.key_sets, &self.audiences].into_iter().all(Vec::is_empty)
    }

    fn options(&self) -> TokenOptions {
        TokenOptions {
            issuers: self.issuers.clone(),
            key_sets: self.key_sets.clone(),
            audiences: self.audiences.clone(),
        }
    }
}

/// A policy that the filter would start with.
struct ReadPolicy {
    text: String,
    document: Value,
    policy: Policy,
    needs: GatewayNeeds,
    /// What comments call it
    source: String,
}

impl PolicyOption {
    /// `None` if the document is no policy; then its errors have been printed.
    fn read(&self) -> Result<Option<ReadPolicy>, String> {
        let bytes = read(&self.policy)?;
        let policy = match Policy::from_json(&bytes) {
            Ok(policy) => policy,
            Err(errors) => {
                tell!("{}: {}", self.policy.display(), errors.headline());
                let PolicyErrors(list) = &errors;
                list.iter().for_each(|error| tell!("  {error}"));
                return Ok(None);
            }
        };
        policy.warnings().iter().for_each(|warning| tell!("warning: {warning}"));
        let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", self.policy.display());
        let text = String::from_utf8(bytes).map_err(|error| unreadable(&error))?;
        let document: Value = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        let name = self.policy.file_name().map(|name| name.to_string_lossy().into_owned());
        let source = name.filter(|name| name != "-").unwrap_or_else(|| "standard input".to_owned());
        Ok(Some(ReadPolicy { needs: GatewayNeeds::of(&policy), document, policy, source, text }))
    }
}

impl ModuleOptions {
    fn find(&self, kind: ModuleKind) -> Result<ModuleFile, String> {
        let directory = self.module_dir.as_deref();
        match &self.module {
            Some(file) => ModuleFile::read(file, directory, kind),
            None => Ok(ModuleFile::elsewhere(directory, kind)),
        }
    }
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &RenderArguments) -> Result<u8, String> {
    match &args.gateway {
        Destination::Envoy(args) => envoy(args),
        Destination::Krakend(args) => krakend::run(args),
        Destination::Kubernetes(args) => kubernetes::run(args),
        Destination::Profile(args) => {
            print_document(profile::alone(&args.profile)?.trim_end())?;
            Ok(FORWARD)
        }
    }
}

fn envoy(args: &EnvoyArguments) -> Result<u8, String> {
    let Some(ReadPolicy { text, needs, source, policy, .. }) = args.policy.read()? else { return Ok(BAD_INPUT) };
    args.public.iter().try_for_each(|path| path.check(&needs))?;
    let providers = if args.filter_only { Vec::new() } else { TokenProvider::all(&needs, &args.tokens.options())? };
    let plan = EnvoyPlan {
        source,
        policy: text,
        module: args.module.find(if args.dynamic_module { ModuleKind::DynamicModule } else { ModuleKind::Wasm })?,
        dynamic_module: args.dynamic_module.then(|| DynamicModuleNeeds::of(&policy)).transpose()?,
        upstreams: args.upstreams.clone(),
        providers,
        ext_authz: args.ext_authz.clone(),
        public: args.public.clone(),
        health: health_path(args.health.as_ref(), &needs, &args.public)?,
        cors: browsers::cors(&needs, &args.origins),
        profile: args.profile.as_ref().map_or(Ok(Value::Null), profile::parts)?,
        listen: args.listen.clone(),
        admin: args.admin.clone(),
        access_log: args.access_log.clone(),
        credentials: args.credentials.clone(),
        ca_file: args.ca_file.clone(),
        timeout_s: args.timeout,
        retries: args.retries,
        ecds: args.ecds.clone(),
    };
    if args.filter_only {
        print_document(plan.filter_only(&needs)?.trim_end())?;
        return Ok(FORWARD);
    }
    print_document(plan.bootstrap(&needs)?.trim_end())?;
    let is_here = |owner: &str| owner == EVERYBODY || plan.ext_authz.is_some() && owner == EXT_AUTHZ;
    for (owner, _) in needs.owners_without_payloads().into_iter().filter(|(owner, _)| !is_here(owner)) {
        let option = if owner == EXT_AUTHZ { "give --ext-authz, or " } else { "" };
        tell!(
            "note: {option}add {owner} where the configuration says CHECK: the policy takes identities from its headers"
        );
    }
    for file in plan.providers.iter().filter_map(TokenProvider::key_file).filter(|file| !Path::new(file).exists()) {
        tell!("note: {file} (--jwt-keys) is not here: Envoy does not start if it does not find the file by this path");
    }
    if !is_loopback(&args.admin.0) {
        tell!(
            "note: whoever reaches --admin {} can stop the gateway and read its configuration: make sure that only \
             operators can reach it",
            args.admin.0
        );
    }
    for owner in needs.other_metadata.iter().filter(|owner| !is_here(owner)) {
        tell!("note: add {owner} where the configuration says CHECK: the policy takes identities from its metadata");
    }
    Ok(FORWARD)
}

/// Whether only programs on the same machine reach an address.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let upstream = NamedUpstream::parse(&format!("listen=http://{text}")).ok();
    upstream
        .zip(port)
        .map(|(upstream, port)| (upstream.host, port))
        .ok_or_else(|| "write HOST:PORT, such as 0.0.0.0:8080 or [::]:8080 for every address of the machine".to_owned())
}
