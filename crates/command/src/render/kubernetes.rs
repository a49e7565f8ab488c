//! Resources of Istio and Envoy Gateway for a policy. Nothing of this was run in a cluster: tests check it against the published
//! descriptions of these APIs, and the parts that are Envoy's own are those of `envoy.rs`.

pub(crate) mod envoy_gateway;
pub(crate) mod istio;
pub(crate) mod surroundings;

use super::envoy::EnvoyPlan;
use super::needs::GatewayNeeds;
use serde_json::{Value, json};

/// A kind of resource that has the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ResourceForm {
    /// Istio: patches Envoy's configuration: everything that the filter needs
    EnvoyFilter,
    /// Istio 1.30 and newer; cannot let the filter wait for bodies
    TrafficExtension,
    /// Envoy Gateway: patches Envoy's configuration: everything that the filter needs
    EnvoyPatchPolicy,
    /// Envoy Gateway: with --dynamic-module everything that the filter needs; the WebAssembly module cannot wait for bodies there
    EnvoyExtensionPolicy,
}

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
    /// Whether the sources of the policy read the claims elsewhere than in the given document
    pub(crate) renamed_claims: bool,
}

impl ResourcePlan {
    /// What the forms that patch Envoy's configuration have in common.
    fn patches(&self, needs: &GatewayNeeds, more: Value) -> Result<Value, String> {
        let backends = if needs.marks() || !needs.clusters().is_empty() {
            needs.clusters_of(&self.envoy.upstreams)?
        } else if self.envoy.upstreams.is_empty() {
            Vec::new()
        } else {
            return Err("--upstream would change nothing here: the policy marks no requests, so the gateway's own routes lead them to the \
                        backend; leave it out, or write \"mark_all\": true into the policy"
                .to_owned());
        };
        let mut values = self.envoy.values(needs)?;
        // Requests without a mark go where the gateway's own routes lead.
        let unmarked = needs.backends.iter().zip(&backends).filter(|(backend, _)| !backend.marked);
        let unmarked: Vec<&str> = unmarked.map(|(_, own)| own.requests.as_str()).collect();
        let is_used = |(name, _): &(String, String)| {
            !unmarked.contains(&name.as_str()) || needs.clusters().contains_key(name.as_str())
        };
        let clusters = self.envoy.clusters(needs, &backends)?.into_iter().filter(is_used);
        let clusters: Vec<Value> = clusters.map(|(_, text)| json!(text)).collect();
        extend(
            &mut values,
            json!({
                "namespace": self.namespace,
                "tokens": needs.tokens,
                "payloads": needs.payloads,
                "passes_tokens": needs.passes_tokens(),
                "clusters": clusters,
                "removed": needs.removable_headers(),
                "marked": self.envoy.marked(needs, &backends)?,
                "waits": self.envoy.waits(needs, &backends)?,
            }),
        );
        extend(&mut values, more);
        Ok(values)
    }

    /// # Errors
    /// The module is no file of the proxies.
    fn proxys_file(&self) -> Result<(), String> {
        let module = &self.envoy.module;
        match module.is_fetched() {
            true => Err(format!("--module {}: this kind of resource names a file of the proxy", module.path)),
            false => Ok(()),
        }
    }
}

/// Without `allow_on_headers_stop_iteration` a body that the filter waits for never comes (docs/contract.md, section 6).
fn can_do_without_bodies(needs: &GatewayNeeds, kind: &str, other: &str) -> Result<(), String> {
    let waiting = needs.routes.iter().filter(|route| route.waits_for_body());
    let waiting: Vec<&str> = waiting.map(|route| route.endpoint.as_str()).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{kind} cannot set allow_on_headers_stop_iteration, and these endpoints wait for bodies: {}; take --form {other}",
        waiting.join(", ")
    ))
}

fn extend(values: &mut Value, more: Value) {
    if let (Value::Object(values), Value::Object(more)) = (values, more) {
        values.extend(more);
    }
}
