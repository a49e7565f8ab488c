//! Resources of Istio.

use super::super::envoy::EnvoyPlan;
use super::super::json_text::compact_json;
use super::super::needs::{GatewayNeeds, JWT_FILTER};
use super::super::template::fill;
use super::{ResourceForm, ResourcePlan, can_do_without_bodies, extend};
use serde_json::{Value, json};

const ISTIO_EXTENSION: &str = include_str!("../templates/istio-extension.yaml");
const ISTIO_FILTER: &str = include_str!("../templates/istio-filter.yaml");
const ISTIO_CLOSED: &str = include_str!("../templates/istio-closed.yaml");
const ISTIO_AROUND: &str = include_str!("../templates/istio-around.yaml");

/// The metadata in which Istio leaves the claims of a token.
const ISTIOS_CLAIMS: &str = "payload";

impl ResourcePlan {
    /// A resource of Istio.
    ///
    /// # Errors
    /// The form cannot carry the policy, or an option is missing; the sentence says what to write.
    pub(crate) fn istio(&self, needs: &GatewayNeeds, form: ResourceForm) -> Result<String, String> {
        self.with_istios_claims(needs)?.istio_resource(needs, form)
    }

    /// The plan with a policy whose sources read the claims where Istio leaves them.
    fn with_istios_claims(&self, needs: &GatewayNeeds) -> Result<Self, String> {
        let mut plan = self.clone();
        match needs.tokens.as_slice() {
            [] => {}
            [name] if name == ISTIOS_CLAIMS => {}
            [_] => {
                if let Some(document) = with_istios_claims(&plan.document, needs) {
                    plan.document = document;
                    plan.envoy.policy = compact_json(&plan.document);
                    plan.renamed_claims = true;
                }
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

    fn istio_resource(&self, needs: &GatewayNeeds, form: ResourceForm) -> Result<String, String> {
        let labels: serde_json::Map<String, Value> =
            self.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let marks: Vec<&str> = needs.backends.iter().filter(|own| own.marked).map(|own| own.mark()).collect();
        let common = json!({
            "labels": labels, "namespace": self.namespace, "tokens": needs.tokens, "payloads": needs.payloads, "passes_tokens": needs.passes_tokens(), "mark_values": marks,
            "renamed_claims": self.renamed_claims, "closed": needs.closed, "is_filter": form == ResourceForm::EnvoyFilter,
            "timeout_s": self.envoy.timeout_s, "stats_config": EnvoyPlan::stats_config(),
        });
        let part = |template| fill(template, &common).map(|text| text.trim_end().to_owned());
        let (closed, around) = (part(ISTIO_CLOSED)?, part(ISTIO_AROUND)?);
        let more = |mut common: Value| {
            extend(&mut common, json!({"comment": closed, "around": around}));
            common
        };
        if form == ResourceForm::EnvoyFilter {
            return fill(ISTIO_FILTER, &self.patches(needs, more(common))?);
        }
        can_do_without_bodies(needs, "TrafficExtension", "envoy-filter")?;
        if let Some(header) = needs.removable_headers().first() {
            return Err(format!(
                "the policy takes identities from the header {header}, and a TrafficExtension cannot remove a client's own header of this \
                 name: a client could be whom it names. Let the policy's sources read metadata, or add --form envoy-filter"
            ));
        }
        let module = &self.envoy.module;
        let url = if module.is_fetched() { module.path.clone() } else { format!("file://{}", module.path) };
        let mut values = self.envoy.values(needs)?;
        let own = json!({"url": url, "sha256": module.sha256, "document": compact_json(&self.document)});
        extend(&mut values, own);
        extend(&mut values, more(common));
        fill(ISTIO_EXTENSION, &values)
    }
}

/// A policy's document as Istio needs it: the sources read the claims where Istio leaves them. `None` if no source reads a token, or
/// the policy tells several apart.
pub(crate) fn with_istios_claims(document: &Value, needs: &GatewayNeeds) -> Option<Value> {
    let [_] = needs.tokens.as_slice() else { return None };
    let mut document = document.clone();
    read_claims(&mut document, ISTIOS_CLAIMS);
    Some(document)
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
