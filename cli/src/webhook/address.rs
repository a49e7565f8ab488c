//! The URL of a webhook and what the policy document says about it. The document has been compiled, so its members have their
//! types.

use super::secret::SecretSource;
use serde_json::Value;

/// What the policy's `webhooks.static` says about an id.
#[derive(Debug)]
pub(crate) struct StaticBinding {
    pub(crate) provider: String,
    /// The variable with its first secret
    pub(crate) secret: Option<SecretSource>,
}

/// The id that a new webhook of a provider has by the policy: that of a route for it alone, if no other route takes its deliveries.
/// `None` where the id is to be made.
///
/// # Errors
/// Every route for it alone has a binding already.
pub(crate) fn fixed_id(document: &Value, provider: &str) -> Result<Option<String>, String> {
    let routes = document.get("routes").and_then(Value::as_array).into_iter().flatten();
    let blocks = routes.filter_map(|route| route.get("webhook"));
    let taking = blocks.filter(|block| block.get("provider").is_none_or(|fixed| fixed == provider));
    let ids: Vec<Option<&str>> = taking.map(|block| block.get("id").and_then(Value::as_str)).collect();
    // Without any route the URL is an error, which says what to write.
    if ids.is_empty() || ids.contains(&None) {
        return Ok(None);
    }
    let ids: Vec<&str> = ids.into_iter().flatten().collect();
    let is_bound = |id: &&&str| document.pointer("/webhooks/static").and_then(|all| all.get(**id)).is_some();
    match ids.iter().find(|id| !is_bound(id)) {
        Some(id) => Ok(Some((*id).to_owned())),
        None => Err(format!(
            "the routes of the policy for {provider} name the id {}, which `webhooks.static` has already: change the binding there, \
             or add a route with another id, or one with `{{webhook_id}}` in its path",
            ids.join(", ")
        )),
    }
}

/// The URL at which the policy takes the deliveries of a provider for an id. `base_url` takes precedence over the policy's
/// `public_base_url`.
///
/// # Errors
/// The policy has no such route, or no base URL is known.
pub(crate) fn url_of(document: &Value, provider: &str, id: &str, base_url: Option<&str>) -> Result<String, String> {
    let routes = document.get("routes").and_then(Value::as_array).into_iter().flatten();
    let path = routes
        .filter_map(|route| {
            let block = route.get("webhook")?;
            let fixed = |name: &str| block.get(name).and_then(Value::as_str);
            let is_for = |name: &str, value: &str| fixed(name).is_none_or(|fixed| fixed == value);
            (is_for("provider", provider) && is_for("id", id)).then(|| route.get("path")?.as_str())?
        })
        .map(|path| path.replace("{provider}", provider).replace("{webhook_id}", id))
        .find(|path| !path.contains('{'))
        .ok_or_else(|| {
            format!(
                "no route of the policy takes deliveries of {provider}: it needs one such as {{\"endpoint\": \"webhooks.ingest\", \
                 \"path\": \"/webhooks/{{provider}}/{{webhook_id}}\", \"policy\": \"REQUIRED_B\", \"webhook\": {{}}}}"
            )
        })?;
    let base = base_url.or_else(|| document.pointer("/webhooks/public_base_url").and_then(Value::as_str));
    let base = base
        .ok_or("give --base-url, such as https://api.example.com, or set `webhooks.public_base_url` in the policy")?;
    Ok(format!("{}{path}", base.trim_end_matches('/')))
}

/// The binding of an id that the document lists.
pub(crate) fn binding_of(document: &Value, id: &str) -> Option<StaticBinding> {
    let binding = document.pointer("/webhooks/static")?.get(id)?;
    let secret = binding.pointer("/secrets/0/env").and_then(Value::as_str);
    Some(StaticBinding {
        provider: binding.get("provider")?.as_str()?.to_owned(),
        secret: secret.map(|name| SecretSource::Variable(name.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_route_for_one_webhook_names_its_id() {
        let document = |routes: Value| json!({"routes": routes, "webhooks": {"static": {"wh_01JBOUND": {}}}});
        let fixed = |id: &str| json!({"path": "/h", "webhook": {"provider": "github", "id": id}});
        let of = |routes: Value, provider: &str| fixed_id(&document(routes), provider);
        assert_eq!(of(json!([fixed("wh_01JNEW")]), "github").unwrap().as_deref(), Some("wh_01JNEW"));
        assert_eq!(
            of(json!([fixed("wh_01JBOUND"), fixed("wh_01JNEW")]), "github").unwrap().as_deref(),
            Some("wh_01JNEW")
        );
        assert!(of(json!([fixed("wh_01JBOUND")]), "github").unwrap_err().contains("wh_01JBOUND"));
        assert_eq!(of(json!([fixed("wh_01JNEW")]), "stripe").unwrap(), None);
        let open = json!({"path": "/h/{provider}/{webhook_id}", "webhook": {}});
        assert_eq!(of(json!([fixed("wh_01JBOUND"), open]), "github").unwrap(), None);
        let of_provider = json!([{"path": "/h/{provider}", "webhook": {"id": "wh_01JNEW"}}]);
        assert_eq!(of(of_provider, "github").unwrap().as_deref(), Some("wh_01JNEW"));
    }

    #[test]
    fn the_url_is_that_of_the_policy_s_route() {
        let document = json!({
            "webhooks": {"public_base_url": "https://api.example.com", "static": {
                "wh_01JSTRIPE": {"tenant": "a", "project": "p", "provider": "stripe", "secrets": [{"env": "S"}]}}},
            "routes": [
                {"path": "/legacy", "webhook": {"provider": "gitlab", "id": "wh_01JGITLAB"}},
                {"path": "/orders", "policy": "REQUIRED_A"},
                {"path": "/hooks/{provider}/{webhook_id}", "webhook": {}}
            ]
        });
        let url = |provider, id, base| url_of(&document, provider, id, base);
        assert_eq!(url("stripe", "wh_1", None).unwrap(), "https://api.example.com/hooks/stripe/wh_1");
        assert_eq!(url("stripe", "wh_1", Some("http://b:1/")).unwrap(), "http://b:1/hooks/stripe/wh_1");
        assert_eq!(url("gitlab", "wh_01JGITLAB", None).unwrap(), "https://api.example.com/legacy");
        assert!(url_of(&json!({"routes": []}), "stripe", "wh_1", None).unwrap_err().contains("no route"));
        let no_base = json!({"routes": document["routes"]});
        assert!(url_of(&no_base, "stripe", "wh_1", None).unwrap_err().contains("--base-url"));
        let binding = binding_of(&document, "wh_01JSTRIPE").unwrap();
        assert_eq!(
            (binding.provider.as_str(), binding.secret),
            ("stripe", Some(SecretSource::Variable("S".to_owned())))
        );
        assert!(binding_of(&document, "wh_other").is_none());
    }
}
