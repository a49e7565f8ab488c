//! Resources of Envoy Gateway.

use super::super::envoy::DynamicModuleNeeds;
use super::super::json_text::compact_json;
use super::super::needs::{GatewayNeeds, JWT_FILTER};
use super::super::template::fill;
use super::{ResourceForm, ResourcePlan, can_do_without_bodies, extend};
use serde_json::{Value, json};

const GATEWAY_EXTENSION: &str = include_str!("../templates/gateway-extension.yaml");
const GATEWAY_DYNAMIC_MODULE: &str = include_str!("../templates/gateway-dynamic-module.yaml");
const GATEWAY_CLUSTERS: &str = include_str!("../templates/gateway-clusters.yaml");
const GATEWAY_PATCH: &str = include_str!("../templates/gateway-patch.yaml");

impl ResourcePlan {
    /// Resources of Envoy Gateway: the filter, and what it needs around it.
    ///
    /// # Errors
    /// As [`ResourcePlan::istio`].
    pub(crate) fn envoy_gateway(&self, needs: &GatewayNeeds, form: ResourceForm) -> Result<String, String> {
        if let Some(header) = needs.payloads.first() {
            return Err(format!(
                "the policy takes identities from the payload of a token in {header}, and a SecurityPolicy of Envoy Gateway cannot have it \
                 passed on: let the source read `metadata` with the WebAssembly module, or headers that --jwt-claim fills with claims \
                 (docs/identity.md, \"Headers\")"
            ));
        }
        let filter = match &self.envoy.dynamic_module {
            Some(dynamic_module) => self.dynamic_module_extension(needs, dynamic_module, form)?,
            None if form == ResourceForm::EnvoyPatchPolicy => self.filter_patch(needs)?,
            None => self.wasm_extension(needs)?,
        };
        let clusters = self.called_clusters(needs)?;
        let clusters = if clusters.is_empty() || form == ResourceForm::EnvoyPatchPolicy {
            String::new()
        } else {
            fill(
                GATEWAY_CLUSTERS,
                &json!({"namespace": self.namespace, "gateway": self.gateway, "clusters": clusters}),
            )?
        };
        // The filter is the last: what refuses unmarked requests is there before it.
        Ok(format!("{}{clusters}{filter}", self.surroundings(needs)?))
    }

    /// What the templates of Envoy Gateway have in common.
    fn gateway_values(&self, needs: &GatewayNeeds, more: Value) -> Result<Value, String> {
        let mut values = self.envoy.values(needs)?;
        extend(
            &mut values,
            json!({
                "namespace": self.namespace, "gateway": self.gateway, "listener": self.listener, "tokens": needs.tokens,
                "providers": !self.envoy.providers.is_empty(), "closed": needs.closed, "policy": compact_json(&self.document),
            }),
        );
        extend(&mut values, more);
        Ok(values)
    }

    /// The clusters that the policy names, for calls of the filter itself.
    fn called_clusters(&self, needs: &GatewayNeeds) -> Result<Vec<Value>, String> {
        let (called, backends) = (needs.clusters(), needs.clusters_of(&self.envoy.upstreams)?);
        let all = self.envoy.clusters(needs, &backends)?.into_iter();
        Ok(all
            .filter(|(name, _)| called.contains_key(name.as_str()))
            .map(|(name, text)| json!({"name": name, "text": text}))
            .collect())
    }

    fn filter_patch(&self, needs: &GatewayNeeds) -> Result<String, String> {
        self.proxys_file()?;
        let members = [
            ("strip_any_host_port", json!(true), "The gateway, the filter and the backend have to read the same host."),
            ("max_request_headers_kb", json!(16), "What one connection can have the gateway hold (docs/security.md)."),
        ];
        let members = members
            .map(|(name, value, comment)| json!({"path": format!("/{name}"), "value": value, "comment": comment}));
        let more = json!({"members": members, "clusters": self.called_clusters(needs)?});
        fill(GATEWAY_PATCH, &self.gateway_values(needs, more)?)
    }

    fn wasm_extension(&self, needs: &GatewayNeeds) -> Result<String, String> {
        can_do_without_bodies(needs, "EnvoyExtensionPolicy", "envoy-patch-policy")?;
        let module = &self.envoy.module;
        if !module.is_fetched() {
            return Err(
                "Envoy Gateway fetches the module: add --module oci://… or https://…, and --module-digest".to_owned()
            );
        }
        let url = &module.path;
        let more = json!({"url": url, "image": url.strip_prefix("oci://"), "sha256": module.sha256});
        fill(GATEWAY_EXTENSION, &self.gateway_values(needs, more)?)
    }

    /// The filter as a dynamic module. Envoy Gateway has no resource for the filter that hands metadata over.
    fn dynamic_module_extension(
        &self,
        needs: &GatewayNeeds,
        dynamic_module: &DynamicModuleNeeds,
        form: ResourceForm,
    ) -> Result<String, String> {
        self.proxys_file()?;
        if form == ResourceForm::EnvoyPatchPolicy {
            return Err(
                "--dynamic-module needs --form envoy-extension-policy: EnvoyPatchPolicy is for the WebAssembly module"
                    .to_owned(),
            );
        }
        if let Some(namespace) = dynamic_module.namespaces.first() {
            return Err(format!(
                "the policy's identity sources read metadata ({namespace}), which a dynamic module is handed by a filter that Envoy Gateway \
                 cannot add: let them read headers (`headers_owned_by`), which claimToHeaders of a SecurityPolicy sets (docs/gateways.md)"
            ));
        }
        let owners = needs.owners.iter().map(|(name, headers)| {
            let present = name == JWT_FILTER && !self.envoy.providers.is_empty();
            json!({"name": name, "headers": headers, "present": present})
        });
        let more = json!({"owners": owners.collect::<Vec<_>>()});
        fill(GATEWAY_DYNAMIC_MODULE, &self.gateway_values(needs, more)?)
    }
}
