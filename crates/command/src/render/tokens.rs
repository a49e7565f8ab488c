//! Who verifies the tokens that a policy reads, and which requests need none.

use super::needs::{GatewayNeeds, TokenPlaces, pattern_of};
use super::public_paths::PublicPath;
use super::upstream::NamedUpstream;
use edge_idempotency_engine::policy::needs::RouteNeeds;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// `[KEY=]VALUE`s of an option; KEY is the member of jwt_authn's metadata that the policy's source reads, or its header with the payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenOptions {
    /// `iss` of the tokens
    pub(crate) issuers: Vec<String>,
    /// Files or URLs of the issuers' keys
    pub(crate) key_sets: Vec<String>,
    /// `aud` of the tokens
    pub(crate) audiences: Vec<String>,
}

/// What jwt_authn verifies.
#[derive(Clone, Debug)]
pub(crate) struct TokenProvider {
    pub(crate) places: TokenPlaces,
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) keys: KeySet,
}

/// Where an issuer's keys are.
#[derive(Clone, Debug)]
pub(crate) enum KeySet {
    File(String),
    /// The URL, and the cluster for it
    Url(String, NamedUpstream),
}

impl TokenProvider {
    /// The providers that a policy needs.
    ///
    /// # Errors
    /// An option is missing, or names a key that the policy does not read; the sentence says what to write.
    pub(crate) fn all(needs: &GatewayNeeds, options: &TokenOptions) -> Result<Vec<Self>, String> {
        let places = needs.token_places();
        let only = places.len() == 1;
        let own = |list: &[String], key: &str| -> Vec<String> {
            let fits = |text: &String| match text.split_once('=') {
                Some((name, value)) if places.iter().any(|places| places.key == name) => {
                    (name == key).then(|| value.to_owned())
                }
                _ => only.then(|| text.clone()),
            };
            list.iter().filter_map(fits).collect()
        };
        let example = |key: &str| if only { String::new() } else { format!("{key}=") };
        let mut missing = Vec::new();
        let mut providers = Vec::new();
        for own_places in &places {
            let key = &own_places.key;
            let issuer = at_most_one("--jwt-issuer", own(&options.issuers, key))?;
            let keys = at_most_one("--jwt-keys", own(&options.key_sets, key))?;
            if issuer.is_none() {
                missing.push(format!("--jwt-issuer {}https://login.example.com", example(key)));
            }
            if keys.is_none() {
                missing.push(format!("--jwt-keys {}https://login.example.com/.well-known/jwks.json", example(key)));
            }
            if let (Some(issuer), Some(keys)) = (issuer, keys) {
                let keys = match keys.contains("://") {
                    true => KeySet::Url(keys.clone(), NamedUpstream::with_path(&format!("keys-{key}"), &keys)?.0),
                    false => KeySet::File(keys),
                };
                providers.push(Self {
                    places: own_places.clone(),
                    issuer,
                    audiences: own(&options.audiences, key),
                    keys,
                });
            }
        }
        if missing.is_empty() {
            return Ok(providers);
        }
        Err(format!(
            "the policy takes the caller's identity from tokens, and the gateway has to verify these: add {}",
            missing.join(" ")
        ))
    }
}

/// The value of an option that takes one for each place.
///
/// # Errors
/// There are several.
pub(crate) fn at_most_one(option: &str, values: Vec<String>) -> Result<Option<String>, String> {
    if values.len() > 1 {
        return Err(format!(
            "{option} takes one value for each place, and several are given for one: {}",
            values.join(", ")
        ));
    }
    Ok(values.into_iter().next())
}

impl TokenProvider {
    /// The file with the issuer's keys, if it is one.
    pub(crate) fn key_file(&self) -> Option<&str> {
        match &self.keys {
            KeySet::File(file) => Some(file),
            KeySet::Url(..) => None,
        }
    }
}

/// What a rule of jwt_authn asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// Nothing: senders of webhooks have no token
    Nothing,
    /// A token, if one is sent, has to be valid: signed callers have none
    Optional,
    /// A token
    Token,
}

/// The rules of jwt_authn in their order: the first that fits counts. Everything asks for a token, except public paths, webhooks and the
/// routes of signed callers. A route that the filter asks before one of these, and that fits some of the same paths, stands before it.
pub(crate) fn rules(needs: &GatewayNeeds, providers: &[TokenProvider], public: &[PublicPath]) -> Vec<Value> {
    let exempt: Vec<&RouteNeeds> = needs.routes.iter().filter(|route| route.webhook || route.signed).collect();
    let crosses = |route: &RouteNeeds, other: &RouteNeeds| {
        !std::ptr::eq(route, other) && pattern_of(route).overlaps(&pattern_of(other))
    };
    let mut routes: Vec<&RouteNeeds> = needs
        .routes
        .iter()
        .filter(|route| route.webhook || route.signed || exempt.iter().any(|other| crosses(route, other)))
        .collect();
    routes.sort_by_key(|route| Reverse((!route.hosts.is_empty(), pattern_of(route).rank())));
    // Where other callers' keys come by other ways, a request without a token can be one of theirs.
    let only_tokens =
        needs.owners_without_payloads().is_empty() && needs.other_metadata.is_empty() && needs.api_keys().is_none();
    let usual = if only_tokens { Asks::Token } else { Asks::Optional };
    let mut rules: Vec<Value> = public.iter().map(|path| json!({"match": path.matches()})).collect();
    for route in routes {
        let asks = match (route.webhook, route.signed) {
            (true, _) => Asks::Nothing,
            (_, true) => Asks::Optional,
            _ => usual,
        };
        let plain = needs.routes.iter().any(|other| crosses(route, other));
        let pattern = pattern_of(route).regex(plain, route.webhook);
        rules.push(rule(&pattern, &route.methods, &route.hosts, requirement(asks, providers)));
        if route.signed && route.recovery {
            let pattern = format!("{}/by-idempotency-key/[^/]+(/output)?/?", pattern.trim_end_matches("/?"));
            rules.push(rule(&pattern, &["GET".to_owned()], &route.hosts, requirement(Asks::Optional, providers)));
        }
    }
    let mut everything = json!({"match": {"prefix": "/"}});
    add_requirement(&mut everything, requirement(usual, providers));
    rules.push(everything);
    rules
}

fn rule(pattern: &str, methods: &[String], hosts: &[String], requirement: Option<Value>) -> Value {
    let mut methods = methods.to_vec();
    if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
        methods.push("HEAD".to_owned());
    }
    let header = |name: &str, regex: &str| json!({"name": name, "string_match": {"safe_regex": {"regex": regex}}});
    let mut headers = vec![header(":method", &methods.join("|"))];
    if !hosts.is_empty() {
        let hosts: Vec<_> = hosts.iter().map(|host| super::pattern::literal(host)).collect();
        headers.push(header(":authority", &hosts.join("|")));
    }
    let mut rule = json!({"match": {"safe_regex": {"regex": pattern}, "headers": headers}});
    add_requirement(&mut rule, requirement);
    rule
}

fn add_requirement(rule: &mut Value, requirement: Option<Value>) {
    if let (Some(rule), Some(requirement)) = (rule.as_object_mut(), requirement) {
        rule.insert("requires".to_owned(), requirement);
    }
}

fn requirement(asks: Asks, providers: &[TokenProvider]) -> Option<Value> {
    let mut names: Vec<Value> =
        providers.iter().map(|provider| json!({"provider_name": provider.places.key})).collect();
    match (asks, names.len()) {
        (Asks::Nothing, _) => None,
        (Asks::Token, 1) => names.pop(),
        (Asks::Token, _) => Some(json!({"requires_any": {"requirements": names}})),
        (Asks::Optional, _) => {
            names.push(json!({"allow_missing": {}}));
            Some(json!({"requires_any": {"requirements": names}}))
        }
    }
}
