//! What `render istio` and `render envoy-gateway` have in common.

pub(super) mod envoy_gateway;
pub(super) mod istio;

use super::{PolicyOption, ReadPolicy};
use crate::render::envoy::{DynamicModuleNeeds, EnvoyPlan};
use crate::render::kubernetes::ResourcePlan;
use crate::render::kubernetes::surroundings::Claims;
use crate::render::module::{ModuleFile, ModuleKind};
use crate::render::module_source::{self, ModuleSource};
use crate::render::needs::GatewayNeeds;
use crate::render::upstream::NamedUpstream;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Args)]
struct ResourceArguments {
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
}

impl ResourceArguments {
    /// The plan, and what the policy needs; `None` if the document is no policy. `idle` are options that may change nothing in the
    /// resource. `proxys_dir` is where proxies usually have files.
    ///
    /// # Errors
    /// A given option would change nothing in such a resource, or the module is not known.
    fn plan(
        &self,
        idle: [(bool, &'static str); 2],
        proxys_dir: &str,
    ) -> Result<Option<(ResourcePlan, GatewayNeeds)>, String> {
        let by_url = matches!(self.module, Some(ModuleSource::Url(_)));
        let module_dir = (by_url && self.module_dir.is_some(), "--module-dir");
        if let Some((_, name)) = idle.into_iter().chain([module_dir]).find(|(is_idle, _)| *is_idle) {
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
