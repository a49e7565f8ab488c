//! KrakenD's `auth/validator`: who verifies which tokens, and the headers into which claims go.

use super::{KrakendPlan, OPERATIONS};
use crate::render::needs::GatewayNeeds;
use crate::render::tokens::at_most_one;
use edge_idempotency_engine::identity::IdentitySource;
use edge_idempotency_engine::policy::needs::RouteNeeds;
use serde_json::{Value, json};

impl KrakendPlan {
    /// The validator of a route; `None` where nobody is asked for a token.
    ///
    /// # Errors
    /// An option is missing, or KrakenD cannot propagate a claim; the sentence says what to write.
    pub(super) fn validator(&self, route: &RouteNeeds, needs: &GatewayNeeds) -> Result<Option<TokenValidator>, String> {
        if route.webhook || self.without_token.contains(&route.endpoint) {
            return Ok(None);
        }
        self.claims_validator(&route.endpoint, needs, route.sources.as_ref().unwrap_or(&needs.sources))
    }

    /// The validator for the claims that identity sources read; `None` if they read none.
    pub(super) fn claims_validator(
        &self,
        endpoint: &str,
        needs: &GatewayNeeds,
        sources: &[IdentitySource],
    ) -> Result<Option<TokenValidator>, String> {
        let claims = claims(sources);
        if claims.is_empty() {
            return Ok(None);
        }
        let one = |option: &str, values: &[String]| {
            at_most_one(option, self.option(values, endpoint, needs).map(str::to_owned).collect())
        };
        let (issuer, keys) = (one("--jwt-issuer", &self.issuers)?, one("--jwt-keys", &self.key_sets)?);
        let (Some(issuer), Some(keys)) = (issuer, keys) else {
            return Err(format!(
                "{endpoint} takes the caller's identity from a token, and KrakenD has to verify it: add \
                 --jwt-issuer https://login.example.com --jwt-keys https://login.example.com/.well-known/jwks.json"
            ));
        };
        let algorithm = one("--jwt-algorithm", &self.algorithms)?.unwrap_or_else(|| "RS256".to_owned());
        let mut headers: Vec<(String, String)> = Vec::new();
        for (what, path) in claims {
            let mut header = format!("X-Claim-{what}");
            while headers.iter().any(|(_, other)| *other == header) {
                header.push_str("-2");
            }
            headers.push((claim_name(path)?, header));
        }
        let mut validator = json!({"alg": algorithm});
        let more = if keys.contains("://") {
            let mut more = json!({"jwk_url": keys, "cache": true});
            if keys.starts_with("http://") {
                more = json!({"jwk_url": keys, "cache": true, "disable_jwk_security": true});
            }
            more
        } else {
            // `cache` with a file would keep KrakenD from starting.
            json!({"jwk_local_path": keys, "disable_jwk_security": true})
        };
        let audiences: Vec<&str> = self.option(&self.audiences, endpoint, needs).collect();
        if let (Some(members), Value::Object(more)) = (validator.as_object_mut(), more) {
            members.extend(more);
            members.insert("issuer".to_owned(), json!(issuer));
            if !audiences.is_empty() {
                members.insert("audience".to_owned(), json!(audiences));
            }
            members.insert("propagate_claims".to_owned(), json!(headers));
        }
        Ok(Some(TokenValidator { config: validator, headers: headers.into_iter().map(|(_, header)| header).collect() }))
    }

    /// Values of an option for an endpoint: those that name it, else those that name none.
    fn option<'o>(&self, values: &'o [String], endpoint: &str, needs: &GatewayNeeds) -> impl Iterator<Item = &'o str> {
        let named =
            move |text: &'o String| text.split_once('=').filter(|(name, _)| *name == endpoint).map(|(_, value)| value);
        let any_named = values.iter().any(|text| named(text).is_some());
        values.iter().filter_map(move |text| match named(text) {
            Some(value) => Some(value),
            None => (!any_named && !names_endpoint(text, needs)).then_some(text.as_str()),
        })
    }
}

/// Whether a value of an option is for one endpoint.
fn names_endpoint(text: &str, needs: &GatewayNeeds) -> bool {
    let name = text.split_once('=').map(|(name, _)| name);
    name == Some(OPERATIONS) || needs.routes.iter().any(|route| name == Some(&route.endpoint))
}

/// KrakenD's `auth/validator`, and the headers into which it puts claims.
pub(super) struct TokenValidator {
    pub(super) config: Value,
    pub(super) headers: Vec<String>,
}

impl TokenValidator {
    /// What a reader has to look at, in all validators of a file.
    pub(super) fn check(all: &[Self]) -> Option<String> {
        let audience = "CHECK: without `audience` a token that the issuer made for another API names a caller here (--jwt-audience).";
        let plain = "CHECK: the issuer's keys come over http, so whoever is on the way can replace them.";
        let lacks = all.iter().any(|one| one.config.get("audience").is_none());
        let http = |one: &Self| {
            one.config.pointer("/jwk_url").and_then(Value::as_str).is_some_and(|url| url.starts_with("http:"))
        };
        let told = [lacks.then_some(audience), all.iter().any(http).then_some(plain)];
        let told: Vec<&str> = told.into_iter().flatten().collect();
        (!told.is_empty()).then(|| told.join(" "))
    }
}

/// The claims that identity sources read: what each says, and its path.
fn claims(sources: &[IdentitySource]) -> Vec<(&'static str, &[String])> {
    let mut claims: Vec<(&str, &[String])> = Vec::new();
    for source in sources {
        for (what, path) in ["Tenant", "Project", "Subject"].into_iter().zip(source.claims()) {
            let Some(path) = path else { continue };
            if claims.iter().all(|(_, other)| *other != path) {
                claims.push((what, path));
            }
        }
    }
    claims
}

/// A claim as `propagate_claims` names it: KrakenD splits a name at its dots, except one that begins with `http`.
fn claim_name(path: &[String]) -> Result<String, String> {
    let url = |name: &str| name.starts_with("http");
    let fits = match path {
        [name] => url(name) || !name.contains('.'),
        several => several.iter().all(|name| !name.is_empty() && !name.contains('.')) && !url(&several.join(".")),
    };
    if fits {
        Ok(path.join("."))
    } else {
        Err(format!(
            "the claim {} cannot be propagated: KrakenD reads a dot in a name as a step into an object; choose another claim",
            path.join(".")
        ))
    }
}
