//! Resources of Istio and Envoy Gateway for a policy. Nothing of this was run in a cluster: tests check it against the published
//! descriptions of these APIs, and the parts that are Envoy's own are those of `envoy.rs`.

pub(crate) mod envoy_gateway;
pub(crate) mod istio;
pub(crate) mod surroundings;

use super::envoy::EnvoyPlan;
use super::needs::GatewayNeeds;
use serde_json::{Value, json};

/// What resources have beside the parts of Envoy.
#[derive(Clone, Debug)]
pub(crate) struct ResourcePlan {
    pub(crate) envoy: EnvoyPlan,
    pub(crate) document: Value,
    pub(crate) namespace: String,
    /// Labels of Istio's gateway
    pub(crate) labels: Vec<(String, String)>,
    /// The Gateway's name
    pub(crate) gateway: String,
    /// Envoy Gateway's name for the listener
    pub(crate) listener: String,
    /// The hosts of Envoy Gateway's routes; without one all of the listener
    pub(crate) hostnames: Vec<String>,
    /// Which headers Envoy Gateway makes of a token's claims
    pub(crate) claims: surroundings::Claims,
    /// Where the proxies get the module
    pub(crate) module_url: Option<String>,
    /// Whether the sources of the policy read the claims elsewhere than in the given document
    pub(crate) renamed_claims: bool,
}

impl ResourcePlan {
    /// The checksum of what proxies load: of the image where `url` names one, else of the module.
    fn checksum(&self, url: Option<&str>) -> Result<String, String> {
        let image = url.filter(|url| url.starts_with("oci:"));
        let Some(image) = image else {
            return self.envoy.module.sha256.clone().ok_or_else(|| {
                "say which module it is: add --module dist/edge_idempotency.wasm, so that the resource has its SHA-256".to_owned()
            });
        };
        let digest = image.rsplit_once("@sha256:").map(|(_, digest)| digest);
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        digest.filter(|digest| digest.len() == 64 && digest.bytes().all(hex)).map(str::to_owned).ok_or_else(|| {
            format!(
                "--module-url {image}: the image of a tag can be replaced; write its digest, oci://REGISTRY/IMAGE@sha256:DIGEST (64 \
                 digits)"
            )
        })
    }

    /// What the forms that patch Envoy's configuration have in common.
    fn patches(&self, needs: &GatewayNeeds, more: Value) -> Result<Value, String> {
        self.checksum(None)?;
        let backends = needs.clusters_of(&self.envoy.upstreams)?;
        let mut values = self.envoy.values(needs)?;
        let clusters = self.envoy.clusters(needs, &backends)?.into_iter();
        let clusters: Vec<Value> = clusters.map(|(_, text)| json!(text)).collect();
        extend(
            &mut values,
            json!({
                "namespace": self.namespace,
                "tokens": needs.tokens,
                "generic": needs.has_generic(),
                "renamed_claims": self.renamed_claims,
                "clusters": clusters,
                "removed": needs.removable_headers(),
                "marked": self.envoy.marked(needs, &backends)?,
                "waits": self.envoy.waits(needs, &backends)?,
                "stats_config": EnvoyPlan::stats_config(),
            }),
        );
        extend(&mut values, more);
        Ok(values)
    }

    fn module_url(&self, example: &str) -> Result<&str, String> {
        self.module_url
            .as_deref()
            .ok_or_else(|| format!("say where the proxies get the module: add --module-url, such as {example}"))
    }
}

/// Without `allow_on_headers_stop_iteration` a body that the filter waits for never comes (docs/contract.md, section 6).
fn can_do_without_bodies(needs: &GatewayNeeds, kind: &str, other: &str) -> Result<(), String> {
    if needs.waits.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{kind} cannot set allow_on_headers_stop_iteration, and these endpoints wait for bodies: {}; take --form {other}",
        needs.waits.join(", ")
    ))
}

fn extend(values: &mut Value, more: Value) {
    if let (Value::Object(values), Value::Object(more)) = (values, more) {
        values.extend(more);
    }
}
