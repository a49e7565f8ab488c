//! What a policy asks of the gateway in front of it, where the filters of Envoy count: who verifies which tokens, and which filter owns
//! which headers. The rest is the engine's.

use crate::render::pattern::PathPattern;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::defaults::{BUFFER_MARGIN, MAX_BODY_BYTES};
use edge_idempotency_engine::policy::needs::{BackendNeeds, PolicyNeeds, RouteNeeds, StoreNeeds, StoreUse};
use std::collections::BTreeSet;
use std::ops::Deref;

/// The filter that `render` makes for policies of `init --identity everybody`.
pub(crate) const EVERYBODY: &str = "everybody";
/// The filter that verifies tokens.
pub(crate) const JWT_FILTER: &str = "envoy.filters.http.jwt_authn";

/// What a policy asks of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct GatewayNeeds {
    policy: PolicyNeeds,
    /// Members of the metadata of jwt_authn that sources read
    pub(crate) tokens: Vec<String>,
    /// Headers in which jwt_authn passes on payloads that sources read
    pub(crate) payloads: Vec<String>,
    /// Filters that own headers which sources read, and these headers
    pub(crate) owners: Vec<(String, Vec<String>)>,
    /// Sources that read other metadata than that of jwt_authn
    pub(crate) other_metadata: BTreeSet<String>,
}

/// Where a provider of jwt_authn leaves what it has verified.
#[derive(Clone, Debug)]
pub(crate) struct TokenPlaces {
    /// The provider's name
    pub(crate) key: String,
    /// The name of the metadata with the claims
    pub(crate) metadata: Option<String>,
    /// The header with the payload
    pub(crate) header: Option<String>,
}

/// A credential that the gateway adds to the filter's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewayCredential {
    /// Its name
    pub(crate) name: &'static str,
    /// The header
    pub(crate) header: &'static str,
    /// What stands before it there
    pub(crate) prefix: &'static str,
}

impl Deref for GatewayNeeds {
    type Target = PolicyNeeds;

    fn deref(&self) -> &PolicyNeeds {
        &self.policy
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}

impl GatewayNeeds {
    /// What a policy asks.
    pub(crate) fn of(policy: &Policy) -> Self {
        let policy = policy.needs().clone();
        let (mut tokens, mut payloads, mut other_metadata) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut owners: Vec<(String, Vec<String>)> = Vec::new();
        for source in policy.all_sources() {
            match source.origin.metadata.split_first() {
                Some((filter, rest)) if filter == JWT_FILTER => {
                    add(&mut tokens, rest.first().cloned().unwrap_or_default());
                }
                Some((filter, _)) => _ = other_metadata.insert(filter.clone()),
                None => {}
            }
            let Some(owner) = &source.origin.owner else { continue };
            if let Some(header) = source.payload_header().filter(|_| owner == JWT_FILTER) {
                add(&mut payloads, header.to_owned());
            }
            if owners.iter().all(|(name, _)| name != owner) {
                owners.push((owner.clone(), Vec::new()));
            }
            let own = owners.iter_mut().filter(|(name, _)| name == owner);
            let headers = || source.places().into_iter().filter_map(|(_, place)| place?.header());
            own.for_each(|(_, known)| headers().for_each(|name| add(known, name.to_owned())));
        }
        Self { policy, tokens, payloads, owners, other_metadata }
    }

    /// What the gateway's jwt_authn has to leave, and where. One name of metadata and one header are those of the same token.
    pub(crate) fn token_places(&self) -> Vec<TokenPlaces> {
        let metadata = |key: &String| TokenPlaces { key: key.clone(), metadata: Some(key.clone()), header: None };
        let header = |key: &String| TokenPlaces { key: key.clone(), metadata: None, header: Some(key.clone()) };
        match (self.tokens.as_slice(), self.payloads.as_slice()) {
            ([key], [payload]) => vec![TokenPlaces { header: Some(payload.clone()), ..metadata(key) }],
            (tokens, payloads) => tokens.iter().map(metadata).chain(payloads.iter().map(header)).collect(),
        }
    }

    /// Filters that own headers which sources read, and those of the headers that no provider of tokens sets.
    pub(crate) fn owners_without_payloads(&self) -> Vec<(&str, Vec<&String>)> {
        let owners = self.owners.iter().map(|(owner, headers)| {
            let others = headers.iter().filter(|header| owner != JWT_FILTER || !self.payloads.contains(header));
            (owner.as_str(), others.collect::<Vec<_>>())
        });
        owners.filter(|(_, headers)| !headers.is_empty()).collect()
    }

    /// Headers that sources read and that nobody else sends: a gateway removes them from what clients send.
    pub(crate) fn removable_headers(&self) -> Vec<String> {
        let all = self.owners.iter().flat_map(|(_, headers)| headers);
        all.filter(|name| !self.signed_headers.contains(*name)).cloned().collect()
    }

    /// What a gateway cannot tell apart: `jwt_authn` reads every bearer token, and refuses those that are API keys.
    ///
    /// # Errors
    /// API keys and tokens come in one header; the sentence says what to write.
    pub(crate) fn check_api_keys(&self) -> Result<(), String> {
        if self.api_keys() == Some("authorization") && !self.token_places().is_empty() {
            return Err("jwt_authn reads tokens in `authorization`, and refuses API keys there: name another header for API keys, such \
                        as `x-api-key`"
                .to_owned());
        }
        Ok(())
    }

    /// Whether the filter marks requests.
    pub(crate) fn marks(&self) -> bool {
        self.backends.iter().any(|backend| backend.marked)
    }

    /// Whether a backend gets credentials of callers, and so perhaps needs tokens.
    pub(crate) fn passes_tokens(&self) -> bool {
        self.backends.iter().any(|backend| backend.abilities.gets_credentials)
    }

    /// The backends in words.
    pub(crate) fn described(&self) -> String {
        let titles: BTreeSet<&str> = self.backends.iter().map(|backend| backend.abilities.title).collect();
        titles.into_iter().collect::<Vec<_>>().join(" and ")
    }

    /// What the gateway does with paths that contain escaped slashes.
    pub(crate) fn escaped_slashes(&self) -> &'static str {
        if self.takes_escaped_slashes() { "KEEP_UNCHANGED" } else { "REJECT_REQUEST" }
    }

    /// Whether a route takes them.
    pub(crate) fn takes_escaped_slashes(&self) -> bool {
        self.routes.iter().any(|route| route.encoded_slash)
    }

    /// How much the gateway buffers, in bytes: for every body that the policy takes.
    pub(crate) fn longest(&self) -> u64 {
        let answers = self.answer_buffer().map(|(_, bytes)| bytes);
        self.buffer_for(self.routes.iter()).max(answers).unwrap_or(MAX_BODY_BYTES + BUFFER_MARGIN)
    }

    /// The credential that the gateway adds to calls to a cluster. Two registries can be one, behind one cluster.
    pub(crate) fn credential(&self, cluster: &str) -> Option<GatewayCredential> {
        self.stores.iter().filter(|store| store.cluster == cluster).find_map(added_credential)
    }
}

/// The credential of a store, if the document has none.
fn added_credential(store: &StoreNeeds) -> Option<GatewayCredential> {
    let (name, header, prefix) = match store.used_for {
        StoreUse::Bindings | StoreUse::ApiKeys => ("unkey-root-key", "Authorization", "Bearer "),
        StoreUse::Secrets => ("openbao-token", "X-Vault-Token", ""),
    };
    (!store.has_credential).then_some(GatewayCredential { name, header, prefix })
}

/// The upstream of a backend's requests, if the document names one: its cluster, unless that leads to the Restate of its guard.
pub(crate) fn upstream_of(backend: &BackendNeeds) -> Option<&str> {
    backend.cluster.as_deref().filter(|_| backend.abilities.is_called).or(backend.name.as_deref())
}

/// The pattern of a route's paths.
pub(crate) fn pattern_of(route: &RouteNeeds) -> PathPattern {
    PathPattern::new(&route.path)
}
