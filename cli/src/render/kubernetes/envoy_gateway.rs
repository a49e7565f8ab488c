//! Resources of Envoy Gateway.

use super::super::envoy::NativeNeeds;
use super::super::json_text::compact_json;
use super::super::needs::GatewayNeeds;
use super::super::template::fill;
use super::{ResourcePlan, can_do_without_bodies, extend};
use serde_json::{Value, json};

const GATEWAY_EXTENSION: &str = include_str!("../templates/gateway-extension.yaml");
const GATEWAY_NATIVE: &str = include_str!("../templates/gateway-native.yaml");
const GATEWAY_PATCH: &str = include_str!("../templates/gateway-patch.yaml");

/// A resource of Envoy Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EnvoyGatewayForm {
    /// Patches Envoy's configuration: everything that the filter needs
    EnvoyPatchPolicy,
    /// With --native everything that the filter needs; the WebAssembly module cannot wait for bodies there
    EnvoyExtensionPolicy,
}

impl ResourcePlan {
    /// A resource of Envoy Gateway.
    ///
    /// # Errors
    /// As [`ResourcePlan::istio`].
    pub(crate) fn envoy_gateway(&self, needs: &GatewayNeeds, form: EnvoyGatewayForm) -> Result<String, String> {
        let mut values = json!({"gateway": self.gateway, "listener": self.listener, "routes": self.routes});
        if let Some(native) = &self.envoy.native {
            return self.native_extension(needs, native, form);
        }
        if form == EnvoyGatewayForm::EnvoyPatchPolicy {
            let idle = self.envoy.idle_s(needs);
            let members = [
                ("normalize_path", json!(true)),
                ("merge_slashes", json!(true)),
                ("path_with_escaped_slashes_action", json!(needs.escaped_slashes())),
                ("strip_any_host_port", json!(true)),
                ("strip_trailing_host_dot", json!(true)),
                ("stream_idle_timeout", json!(format!("{idle}s"))),
                // Envoy Gateway limits the streams of a connection by itself, in a message that a patch would replace.
                ("max_request_headers_kb", json!(16)),
                ("early_header_mutation_extensions", early_mutation(&needs.removable_headers())),
            ];
            let members = members.map(|(name, value)| json!({"path": format!("/{name}"), "value": value}));
            extend(&mut values, json!({"members": members}));
            self.proxys_file()?;
            return fill(GATEWAY_PATCH, &self.patches(needs, values)?);
        }
        can_do_without_bodies(needs, "EnvoyExtensionPolicy", "envoy-patch-policy")?;
        let module = &self.envoy.module;
        if !module.is_fetched() {
            return Err(
                "Envoy Gateway fetches the module: add --module oci://… or https://…, and --module-digest".to_owned()
            );
        }
        let url = &module.path;
        let mut all = self.envoy.values(needs)?;
        extend(
            &mut values,
            json!({
                "namespace": self.namespace, "url": url, "image": url.strip_prefix("oci://"), "sha256": module.sha256, "tokens": needs.tokens,
                "policy": compact_json(&self.document),
            }),
        );
        extend(&mut all, values);
        fill(GATEWAY_EXTENSION, &all)
    }

    /// The filter as a native module. Envoy Gateway has no resource for the filter that hands metadata over.
    fn native_extension(
        &self,
        needs: &GatewayNeeds,
        native: &NativeNeeds,
        form: EnvoyGatewayForm,
    ) -> Result<String, String> {
        self.proxys_file()?;
        if form == EnvoyGatewayForm::EnvoyPatchPolicy {
            return Err("--native needs --form envoy-extension-policy: EnvoyPatchPolicy is for the WebAssembly module"
                .to_owned());
        }
        if let Some(operator) = native.operators.first() {
            return Err(format!(
                "the policy's identity sources read metadata ({operator}), which a native module is handed by a filter that Envoy Gateway \
                 cannot add: let them read headers (`headers_owned_by`), which claimToHeaders of a SecurityPolicy sets (docs/native.md)"
            ));
        }
        let mut values = self.envoy.values(needs)?;
        let owners = needs.owners.iter().map(|(name, headers)| json!({"name": name, "headers": headers}));
        extend(
            &mut values,
            json!({
                "gateway": self.gateway, "namespace": self.namespace, "owners": owners.collect::<Vec<_>>(),
                "policy": compact_json(&self.document),
            }),
        );
        fill(GATEWAY_NATIVE, &values)
    }
}

/// The part of the connection manager that removes the mark, and these headers, from what clients send.
fn early_mutation(headers: &[String]) -> Value {
    let mutations: Vec<Value> = std::iter::once("x-edge-idempotency")
        .chain(headers.iter().map(String::as_str))
        .map(|name| json!({"remove": name}))
        .collect();
    json!([{
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": mutations,
        },
    }])
}
