//! Resources of Istio and Envoy Gateway for a policy. Nothing of this was run in a cluster: tests check it against the published
//! descriptions of these APIs, and the parts that are Envoy's own are those of `envoy.rs`.

use super::envoy::{EnvoyPlan, NativeNeeds};
use super::json_text::compact_json;
use super::needs::{GatewayNeeds, JWT_FILTER};
use super::template::fill;
use serde_json::{Value, json};

const ISTIO_EXTENSION: &str = include_str!("templates/istio-extension.yaml");
const ISTIO_PLUGIN: &str = include_str!("templates/istio-plugin.yaml");
const ISTIO_FILTER: &str = include_str!("templates/istio-filter.yaml");
const GATEWAY_EXTENSION: &str = include_str!("templates/gateway-extension.yaml");
const GATEWAY_NATIVE: &str = include_str!("templates/gateway-native.yaml");
const GATEWAY_PATCH: &str = include_str!("templates/gateway-patch.yaml");

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

/// A resource of Envoy Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EnvoyGatewayForm {
    /// Patches Envoy's configuration: everything that the filter needs
    EnvoyPatchPolicy,
    /// With --native everything that the filter needs; the WebAssembly module cannot wait for bodies there
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
    /// Envoy Gateway's name for the listener's routes
    pub(crate) routes: String,
    /// Where the proxies get the module
    pub(crate) module_url: Option<String>,
    /// Whether the sources of the policy read the claims elsewhere than in the given document
    pub(crate) renamed_claims: bool,
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
            return fill(GATEWAY_PATCH, &self.patches(needs, values)?);
        }
        can_do_without_bodies(needs, "EnvoyExtensionPolicy", "envoy-patch-policy")?;
        let url = self.module_url("oci://… or https://…")?;
        if !["oci://", "https://", "http://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(format!("--module-url {url}: Envoy Gateway takes oci://… and https://…"));
        }
        let mut all = self.envoy.values(needs)?;
        extend(
            &mut values,
            json!({
                "namespace": self.namespace, "url": url, "image": url.strip_prefix("oci://"), "sha256": self.checksum(Some(url))?, "tokens": needs.tokens,
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
        if form == EnvoyGatewayForm::EnvoyPatchPolicy {
            return Err("--native needs --form envoy-extension-policy: EnvoyPatchPolicy is for the WebAssembly module"
                .to_owned());
        }
        if let Some(namespace) = native.namespaces.first() {
            return Err(format!(
                "the policy's identity sources read metadata ({namespace}), which a native module is handed by a filter that Envoy Gateway \
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
        let clusters: Vec<Value> = match more.get("labels").is_some() {
            true => clusters.map(|(_, text)| json!(text)).collect(),
            false => clusters.map(|(name, text)| json!({"name": name, "text": text})).collect(),
        };
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
