//! Provider files (`policies/provider.schema.json`), as far as signing needs them. The engine checks a file
//! before it is read here.

use crate::lints::catalogue;
use edge_idempotency_engine::provider::Provider;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A provider file.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ProviderFile {
    pub(crate) schemes: Vec<SchemeFile>,
    #[serde(default)]
    pub(crate) identifiers: Vec<IdentifierFile>,
    /// Headers that handlers read
    #[serde(default)]
    handler_headers: Vec<String>,
}

/// A signature scheme.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SchemeFile {
    pub(crate) algorithm: String,
    #[serde(default)]
    pub(crate) secret: SecretFile,
    pub(crate) signature: SignatureFile,
    pub(crate) timestamp: Option<TimestampFile>,
    #[serde(default)]
    pub(crate) template: String,
    #[serde(default)]
    pub(crate) require_headers: BTreeMap<String, String>,
    pub(crate) body_hash: Option<String>,
    pub(crate) identifier: Option<IdentifierFile>,
}

/// The form of secrets.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct SecretFile {
    pub(crate) encoding: Option<String>,
    pub(crate) prefix: Option<String>,
    #[serde(default)]
    pub(crate) prefix_required: bool,
}

/// The place and the grammar of signatures.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SignatureFile {
    pub(crate) header: Option<String>,
    #[serde(default)]
    pub(crate) headers: Vec<String>,
    pub(crate) numbered_headers: Option<String>,
    pub(crate) json: Option<String>,
    #[serde(default)]
    pub(crate) prefix: String,
    pub(crate) pairs: Option<PairsFile>,
    pub(crate) versions: Option<VersionsFile>,
    pub(crate) encoding: Option<String>,
}

/// `key=value` items.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PairsFile {
    pub(crate) separator: String,
    pub(crate) key: String,
}

/// `version,signature` items.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct VersionsFile {
    pub(crate) version: String,
}

/// Where a timestamp is.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TimestampFile {
    pub(crate) header: Option<String>,
    pub(crate) pair: Option<String>,
    pub(crate) json: Option<String>,
    pub(crate) unit: String,
}

/// Where an identifier is.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct IdentifierFile {
    pub(crate) header: Option<String>,
    pub(crate) json: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) form: Vec<Vec<String>>,
}

/// A provider with its file.
pub(crate) struct KnownProvider {
    /// The file's name, which policies use
    pub(crate) name: String,
    pub(crate) file: ProviderFile,
    /// As the filter reads it
    pub(crate) engine: Provider,
}

impl KnownProvider {
    /// Reads a provider file.
    ///
    /// # Errors
    /// All errors of the file, with their places.
    pub(crate) fn read(name: &str, file: &[u8]) -> Result<Self, String> {
        let engine = Provider::read(name, file).map_err(|issues| {
            let list: Vec<String> = issues.iter().map(|issue| format!("\n  {issue}")).collect();
            format!("the provider file {name} has errors:{}", list.concat())
        })?;
        let file = serde_json::from_slice(file).map_err(|error| format!("the provider file {name}: {error}"))?;
        Ok(Self { name: name.to_owned(), file, engine })
    }

    /// A provider of the policy document (`webhooks.providers`), or of the catalogue.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn named(name: &str, document: Option<&Value>) -> Result<Self, String> {
        let own = document.and_then(|document| document.pointer("/webhooks/providers")?.get(name));
        if let Some(file) = own {
            return Self::read(name, file.to_string().as_bytes());
        }
        match catalogue::file(name) {
            Some(file) => Self::read(name, file.as_bytes()),
            None => {
                let near =
                    catalogue::files().map(|(other, _)| other).min_by_key(|other| strsim::levenshtein(other, name));
                Err(format!(
                    "there is no provider `{name}`; did you mean `{}`? docs/providers.md lists them",
                    near.unwrap_or_default()
                ))
            }
        }
    }

    #[cfg(test)]
    /// Every provider of the catalogue, by name. A test reports a file that cannot be read.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        catalogue::files().filter_map(|(name, file)| Self::read(name, file.as_bytes()).ok())
    }
}

impl ProviderFile {
    /// The headers that a handler gets besides the body: those with identifiers, and those with what handlers read.
    pub(crate) fn headers_for_handlers(&self) -> impl Iterator<Item = &str> {
        let of_schemes = self.schemes.iter().filter_map(|scheme| scheme.identifier.as_ref());
        let identifiers = self.identifiers.iter().chain(of_schemes).filter_map(|place| place.header.as_deref());
        identifiers.chain(self.handler_headers.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_catalogue_is_read() {
        let names: Vec<String> = KnownProvider::all().map(|provider| provider.name).collect();
        assert_eq!(names.len(), catalogue::files().count());
        let engine: Vec<&str> = edge_idempotency_engine::provider::Catalogue::compiled_in().names().collect();
        assert_eq!(names, engine);
        let error = KnownProvider::named("strip", None).err().unwrap();
        assert!(error.contains("did you mean `stripe`?"), "{error}");
    }
}
