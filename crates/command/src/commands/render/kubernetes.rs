//! `render kubernetes`: resources of Istio and Envoy Gateway.

use super::{BAD_INPUT, FORWARD, PolicyOption, ReadPolicy, TokenArguments};
use crate::output::print_document;
use crate::output::tell;
use crate::render::envoy::{DynamicModuleNeeds, EnvoyPlan};
use crate::render::kubernetes::surroundings::Claims;
use crate::render::kubernetes::{ResourceForm, ResourcePlan};
use crate::render::module::{ModuleFile, ModuleKind};
use crate::render::module_source::{self, ModuleSource};
use crate::render::needs::{GatewayNeeds, JWT_FILTER};
use crate::render::tokens::TokenProvider;
use crate::render::upstream::NamedUpstream;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Resources of Istio or Envoy Gateway with the filter, and what it needs around it.
///
/// For Istio, with the filter come a resource that refuses clients' own marks and one for the names of metrics. Comments say what this
/// kind of resource cannot set, and what the VirtualService has to be so that nothing reaches the backend without the filter.
///
/// For Envoy Gateway, with the filter come the route and the policies for tokens, clients and connections. The route leads to a backend
/// only what the filter has marked, if the policy has everything marked (`mark_all`, or a target on every route): where the filter is
/// missing, all requests are answered 503.
///
/// Exit status: 0 if the configuration was written, 2 if the policy is not valid or an option is missing.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  edge-idempotency render kubernetes --form envoy-filter --policy policy.json --module dist/edge_idempotency.wasm --module-dir /etc/istio/extensions \\
    --upstream restate=http://restate.default.svc.cluster.local:8080 | kubectl apply -f -
  edge-idempotency render kubernetes --form traffic-extension --policy policy.json --module oci://registry/edge-idempotency:0.1.0 \\
    --module-digest sha256:7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a --upstream restate=http://restate.default.svc.cluster.local:8080
  edge-idempotency render kubernetes --form envoy-patch-policy --policy policy.json --module dist/edge_idempotency.wasm --module-dir /etc/envoy \\
    --gateway eg --listener http --hostname api.example.com --upstream restate=http://restate.default.svc.cluster.local:8080 \\
    --jwt-issuer https://login.example.com --jwt-keys https://login.example.com/.well-known/jwks.json
  edge-idempotency render kubernetes --form envoy-extension-policy --policy policy.json --dynamic-module --module dist/libedge_idempotency.so \\
    --module-dir /etc/envoy --upstream api=http://api:8080
  edge-idempotency render kubernetes --form envoy-extension-policy --policy policy.json --upstream api=http://api:8080 \\
    --module oci://registry/edge-idempotency:0.1.0 --module-digest sha256:7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a"
)]
pub(super) struct KubernetesArguments {
    /// The kind of resource with the filter, which says the gateway.
    #[arg(long, value_enum)]
    form: ResourceForm,
    #[command(flatten)]
    policy: PolicyOption,
    /// The filter's module: a file that is here and at the proxies, or where the proxies get it (oci://REGISTRY/IMAGE:TAG, https://…,
    /// for Istio also file:///…).
    #[arg(long, value_name = "FILE|URL", value_parser = ModuleSource::parse)]
    module: Option<ModuleSource>,
    /// The digest of a module that is named by its URL: that of an image, else the SHA-256 of the module.
    #[arg(long, value_name = "sha256:DIGEST", value_parser = module_source::digest)]
    module_digest: Option<String>,
    /// The directory in which the proxies have the file of --module [default: /etc/istio/extensions for Istio, /etc/envoy for Envoy Gateway].
    #[arg(long, value_name = "DIR")]
    module_dir: Option<PathBuf>,
    /// The filter as a dynamic module (Envoy Gateway 1.8 and newer, with --form envoy-extension-policy; Istio has no resource for it).
    #[arg(long)]
    dynamic_module: bool,
    /// The namespace of the gateway.
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// A cluster: the one that requests go to, and each that the policy names. Can be repeated.
    #[arg(long = "upstream", value_name = "NAME=URL", value_parser = NamedUpstream::parse)]
    upstreams: Vec<NamedUpstream>,
    /// How long the backend may take for an answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// For Istio, how often Envoy sends a request with a key again if the connection fails or is reset [default: 2].
    #[arg(long, value_name = "NUMBER")]
    retries: Option<u32>,
    /// Labels of the pods of Istio's gateway [default: istio=ingressgateway]. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// The Gateway's name [default: eg].
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
    /// The listener that --form envoy-patch-policy patches: its name in the Gateway's spec.listeners, or if it has a slash or XDSNameSchemeV2
    /// is enabled the whole name in Envoy's configuration, which `egctl config envoy-proxy listener` prints [default: http].
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// A host of the route of Envoy Gateway; without one it takes all hosts of the Gateway's listeners. Can be repeated.
    #[arg(long = "hostname", value_name = "NAME")]
    hostnames: Vec<String>,
    #[command(flatten)]
    tokens: TokenArguments,
    /// The claim that Envoy Gateway writes into a header from which the policy takes identities. Can be repeated.
    #[arg(long = "jwt-claim", value_name = "HEADER=CLAIM", value_parser = claim)]
    claims: Vec<(String, String)>,
}

impl KubernetesArguments {
    /// The plan, and what the policy needs; `None` if the document is no policy. `idle` are options that may change nothing in the
    /// resource. `proxys_dir` is where proxies usually have files.
    ///
    /// # Errors
    /// A given option would change nothing in such a resource, or the module is not known.
    fn plan(
        &self,
        idle: &[(bool, &'static str)],
        proxys_dir: &str,
    ) -> Result<Option<(ResourcePlan, GatewayNeeds)>, String> {
        let by_url = matches!(self.module, Some(ModuleSource::Url(_)));
        let module_dir = (by_url && self.module_dir.is_some(), "--module-dir");
        if let Some((_, name)) = idle.iter().copied().chain([module_dir]).find(|(is_idle, _)| *is_idle) {
            let why = match name {
                "--module-dir" => "--module says where the proxies get the module",
                _ => "this kind of resource has no place for it",
            };
            return Err(format!("{name} would change nothing here: {why}; leave it out, or choose another --form"));
        }
        let module = self.module(Path::new(proxys_dir))?;
        let Some(ReadPolicy { text, document, needs, source, policy }) = self.policy.read()? else {
            return Ok(None);
        };
        let envoy = EnvoyPlan {
            source,
            policy: text,
            module,
            dynamic_module: self.dynamic_module.then(|| DynamicModuleNeeds::of(&policy)).transpose()?,
            upstreams: self.upstreams.clone(),
            providers: Vec::new(),
            ext_authz: None,
            public: Vec::new(),
            health: None,
            cors: Value::Null,
            profile: Value::Null,
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
            hostnames: Vec::new(),
            claims: Claims::default(),
            renamed_claims: false,
        };
        Ok(Some((plan, needs)))
    }

    fn module(&self, proxys_dir: &Path) -> Result<ModuleFile, String> {
        let kind = if self.dynamic_module { ModuleKind::DynamicModule } else { ModuleKind::Wasm };
        let directory = self.module_dir.as_deref().unwrap_or(proxys_dir);
        match &self.module {
            Some(module) => module.find(self.module_digest.as_deref(), directory, kind),
            None if self.module_digest.is_some() => {
                Err("--module-digest is the digest of --module URL: add it".to_owned())
            }
            // Nothing of a dynamic module's content stands in the resource.
            None if self.dynamic_module => Ok(ModuleFile::elsewhere(Some(directory), kind)),
            None => Err(
                "say which module it is: add --module dist/edge_idempotency.wasm, or --module URL with --module-digest"
                    .to_owned(),
            ),
        }
    }
}

/// Runs the command; its exit status.
pub(super) fn run(args: &KubernetesArguments) -> Result<u8, String> {
    match args.form {
        ResourceForm::EnvoyFilter | ResourceForm::TrafficExtension => istio(args),
        ResourceForm::EnvoyPatchPolicy | ResourceForm::EnvoyExtensionPolicy => envoy_gateway(args),
    }
}

fn istio(args: &KubernetesArguments) -> Result<u8, String> {
    if args.dynamic_module {
        return Err(
            "--dynamic-module: Istio has no resource for dynamic modules; leave it out, or take `render envoy --dynamic-module`"
                .to_owned(),
        );
    }
    let patches = args.form == ResourceForm::EnvoyFilter;
    let idle = [
        (args.gateway.is_some(), "--gateway"),
        (args.listener.is_some(), "--listener"),
        (!args.hostnames.is_empty(), "--hostname"),
        (!args.tokens.is_empty(), "--jwt-issuer, --jwt-keys or --jwt-audience"),
        (!args.claims.is_empty(), "--jwt-claim"),
        (!patches && !args.upstreams.is_empty(), "--upstream"),
        (!patches && args.retries.is_some(), "--retries"),
    ];
    let Some((mut plan, needs)) = args.plan(&idle, "/etc/istio/extensions")? else {
        return Ok(BAD_INPUT);
    };
    plan.labels.clone_from(&args.label);
    if plan.labels.is_empty() {
        plan.labels.push(("istio".to_owned(), "ingressgateway".to_owned()));
    }
    print_document(plan.istio(&needs, args.form)?.trim_end())?;
    Ok(FORWARD)
}

fn envoy_gateway(args: &KubernetesArguments) -> Result<u8, String> {
    let patches = args.form == ResourceForm::EnvoyPatchPolicy;
    let idle = [
        (!args.label.is_empty(), "--label"),
        (args.retries.is_some(), "--retries"),
        (!patches && args.listener.is_some(), "--listener"),
    ];
    let Some((mut plan, needs)) = args.plan(&idle, "/etc/envoy")? else { return Ok(BAD_INPUT) };
    let gateway = args.gateway.as_deref().unwrap_or("eg");
    plan.gateway = gateway.to_owned();
    plan.hostnames.clone_from(&args.hostnames);
    let listener = args.listener.as_deref().unwrap_or("http");
    // Envoy Gateway's names without XDSNameSchemeV2.
    plan.listener = match listener.contains('/') || listener.starts_with("tcp-") {
        true => listener.to_owned(),
        false => format!("{}/{}/{listener}", args.namespace, gateway),
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

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as istio=ingressgateway")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn claim(text: &str) -> Result<(String, String), String> {
    let (header, claim) = text.split_once('=').ok_or("write HEADER=CLAIM, such as x-tenant=tenant_id")?;
    Ok((header.to_owned(), claim.to_owned()))
}
