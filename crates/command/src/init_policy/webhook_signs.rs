//! By what an operation of a description looks like one that takes deliveries of webhooks.

use crate::lints::catalogue;
use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::operations::ApiOperation;
use crate::openapi::references::References;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Segments of paths behind which the name of a provider stands.
const SEGMENTS: [&str; 4] = ["webhooks", "webhook", "hooks", "callbacks"];
/// Signature headers of the catalogue that other requests have, too.
const COMMON: [&str; 2] = ["authorization", "x-signature"];

/// The providers of the catalogue, and the headers that only their deliveries have.
pub(super) struct WebhookSigns {
    /// The headers in lower case, each with a provider if there is only one
    headers: BTreeMap<String, Option<&'static str>>,
    providers: Vec<&'static str>,
}

/// Why an operation looks like a webhook.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WebhookSign {
    /// The provider, if it is known
    pub(super) provider: Option<String>,
    /// What shows it
    pub(super) why: String,
}

/// What is read of a provider file.
#[derive(Deserialize)]
struct SignedProvider {
    schemes: Vec<SignedScheme>,
}

/// A signature scheme.
#[derive(Deserialize)]
struct SignedScheme {
    signature: SignatureHeader,
}

/// Where the signature stands.
#[derive(Deserialize)]
struct SignatureHeader {
    #[serde(default)]
    header: Option<String>,
}

impl WebhookSigns {
    /// The signs of all providers of the catalogue.
    pub(super) fn of_catalogue() -> Self {
        let mut headers: BTreeMap<String, Option<&'static str>> = BTreeMap::new();
        for (name, text) in catalogue::files() {
            let Ok(provider) = serde_json::from_str::<SignedProvider>(text) else { continue };
            for header in provider.schemes.into_iter().filter_map(|scheme| scheme.signature.header) {
                let header = header.to_ascii_lowercase();
                if !COMMON.contains(&header.as_str()) {
                    let known = headers.entry(header).or_insert(Some(name));
                    *known = known.filter(|known| *known == name);
                }
            }
        }
        Self { headers, providers: catalogue::files().map(|(name, _)| name).collect() }
    }

    /// Why an operation looks like a webhook; `None` if it does not.
    pub(super) fn of_operation<'t>(
        &self,
        operation: &ApiOperation<'t>,
        path: &str,
        references: &References<'t>,
    ) -> Option<WebhookSign> {
        if operation.method != "POST" {
            return None;
        }
        let lists =
            [operation.node, operation.item].into_iter().filter_map(|owner| references.get(owner, "parameters"));
        for item in lists.flat_map(SpannedNode::items) {
            let Ok(parameter) = references.resolve(item) else { continue };
            let name = references.text(parameter.node, "name").unwrap_or_default();
            let is_header = references.text(parameter.node, "in") == Some("header");
            if let Some(provider) = self.headers.get(&name.to_ascii_lowercase()).filter(|_| is_header) {
                let why = format!("the header parameter {name} is a signature");
                return Some(WebhookSign { provider: provider.map(str::to_owned), why });
            }
        }
        let mut segments = path.split('/');
        segments.by_ref().find(|segment| SEGMENTS.contains(segment))?;
        let named = segments.next()?.replace('-', "_");
        let provider = self.providers.iter().find(|provider| **provider == named)?;
        let why = format!("the path names the provider `{provider}`");
        Some(WebhookSign { provider: Some((*provider).to_owned()), why })
    }
}
