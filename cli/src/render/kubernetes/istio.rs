//! Resources of Istio.

use super::super::json_text::compact_json;
use super::super::needs::{GatewayNeeds, JWT_FILTER};
use super::super::template::fill;
use super::{ResourcePlan, can_do_without_bodies, extend};
use serde_json::{Value, json};

const ISTIO_EXTENSION: &str = include_str!("../templates/istio-extension.yaml");
const ISTIO_PLUGIN: &str = include_str!("../templates/istio-plugin.yaml");
const ISTIO_FILTER: &str = include_str!("../templates/istio-filter.yaml");

/// The metadata in which Istio leaves the claims of a token.
const ISTIOS_CLAIMS: &str = "payload";

/// A resource of Istio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IstioForm {
    /// Patches Envoy's configuration: everything that the filter needs
    EnvoyFilter,
    /// Istio 1.30 and newer; cannot let the filter wait for bodies
    TrafficExtension,
    /// Before Istio 1.30; cannot let the filter wait for bodies
    WasmPlugin,
}

impl ResourcePlan {
    /// A resource of Istio.
    ///
    /// # Errors
    /// The form cannot carry the policy, or an option is missing; the sentence says what to write.
    pub(crate) fn istio(&self, needs: &GatewayNeeds, form: IstioForm) -> Result<String, String> {
        self.with_istios_claims(needs)?.istio_resource(needs, form)
    }

    /// The plan with a policy whose sources read the claims where Istio leaves them.
    fn with_istios_claims(&self, needs: &GatewayNeeds) -> Result<Self, String> {
        let mut plan = self.clone();
        match needs.tokens.as_slice() {
            [] => {}
            [name] if name == ISTIOS_CLAIMS => {}
            [_] => {
                read_claims(&mut plan.document, ISTIOS_CLAIMS);
                plan.envoy.policy = compact_json(&plan.document);
                plan.renamed_claims = true;
            }
            several => {
                return Err(format!(
                    "the policy tells tokens apart by the metadata {}, and a RequestAuthentication of Istio leaves the claims of every \
                     token under `{ISTIOS_CLAIMS}`: a caller with one token could call where the policy wants another. Write a policy whose \
                     sources read one token",
                    several.join(", ")
                ));
            }
        }
        Ok(plan)
    }

    fn istio_resource(&self, needs: &GatewayNeeds, form: IstioForm) -> Result<String, String> {
        let labels: serde_json::Map<String, Value> =
            self.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        if form == IstioForm::EnvoyFilter {
            return fill(ISTIO_FILTER, &self.patches(needs, json!({"labels": labels}))?);
        }
        let (kind, name) = match form {
            IstioForm::TrafficExtension => ("TrafficExtension", "traffic-extension"),
            _ => ("WasmPlugin", "wasm-plugin"),
        };
        can_do_without_bodies(needs, kind, "envoy-filter")?;
        let url = self.module_url("file:///etc/istio/extensions/edge_idempotency.wasm, oci://… or https://…")?;
        let plugin = json!({
            "url": url, "sha256": self.checksum(Some(url))?, "variables": needs.variables, "policy": compact_json(&self.document),
        });
        let mut values = self.envoy.values(needs)?;
        extend(
            &mut values,
            json!({
                "renamed_claims": self.renamed_claims, "tokens": needs.tokens, "generic": needs.has_generic(), "kind": kind, "form": name, "namespace": self.namespace, "labels": labels,
                "wasm_member": form == IstioForm::TrafficExtension, "plugin": fill(ISTIO_PLUGIN, &plugin)?.trim_end(),
            }),
        );
        fill(ISTIO_EXTENSION, &values)
    }
}

/// Lets the sources that read tokens read the member `name` of jwt_authn's metadata.
fn read_claims(document: &mut Value, name: &str) {
    match document {
        Value::Object(members) => {
            if let Some(Value::Array(metadata)) = members.get_mut("metadata")
                && metadata.first().is_some_and(|filter| filter == JWT_FILTER)
                && let Some(key) = metadata.get_mut(1)
            {
                *key = json!(name);
            }
            members.values_mut().for_each(|value| read_claims(value, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| read_claims(value, name)),
        _ => {}
    }
}
