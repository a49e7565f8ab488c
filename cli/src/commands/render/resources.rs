//! What `render istio` and `render envoy-gateway` have in common.

pub(super) mod envoy_gateway;
pub(super) mod istio;

use super::{ModuleOptions, PolicyOption, ReadPolicy};
use crate::render::envoy::{EnvoyPlan, NativeNeeds};
use crate::render::kubernetes::ResourcePlan;
use crate::render::kubernetes::surroundings::Claims;
use crate::render::module::ModuleKind;
use crate::render::needs::GatewayNeeds;
use crate::render::upstream::NamedUpstream;
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;

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
    /// For Istio, how often Envoy sends a request with a key again if the connection fails or is reset [default: 2].
    #[arg(long, value_name = "NUMBER")]
    retries: Option<u32>,
}

impl ResourceArguments {
    /// The plan, and what the policy needs; `None` if the document is no policy. `patches`: whether the resource patches Envoy's
    /// configuration; else it names the module by a URL. `idle` are further options that may change nothing. `proxys_dir` is where
    /// proxies usually have files.
    ///
    /// # Errors
    /// A given option would change nothing in such a resource.
    fn plan(
        &self,
        patches: bool,
        idle: [(bool, &'static str); 2],
        proxys_dir: &str,
    ) -> Result<Option<(ResourcePlan, GatewayNeeds)>, String> {
        let unused = patches && self.module_url.is_some();
        let idle = idle.into_iter().chain([(unused, "--module-url")]);
        let module_dir = (!patches && !self.native && self.module.module_dir.is_some(), "--module-dir");
        let module_url = (self.native && self.module_url.is_some(), "--module-url");
        if let Some((_, name)) = idle.chain([module_dir, module_url]).find(|(is_idle, _)| *is_idle) {
            let has =
                if name == "--module-url" { "names a file of the proxy (--module-dir)" } else { "has no place for it" };
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
            hostnames: Vec::new(),
            claims: Claims::default(),
            module_url: self.module_url.clone(),
            renamed_claims: false,
        };
        Ok(Some((plan, needs)))
    }
}
