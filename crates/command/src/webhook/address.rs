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

/// A route of the policy that takes deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebhookRoute {
    endpoint: String,
    /// Its path, with the name of the provider
    path: String,
    /// The one id whose deliveries it takes
    pub(crate) id: Option<String>,
}

impl WebhookRoute {
    /// The route for a new webhook of a provider: `endpoint`, if it is given, else the only one that can take its deliveries.
    ///
    /// # Errors
    /// There is none, each names an id that has a binding already, or there are several.
    pub(crate) fn for_new(document: &Value, provider: &str, endpoint: Option<&str>) -> Result<Self, String> {
        let all = chosen(routes_of(document, provider), endpoint);
        let bound = document.pointer("/webhooks/static");
        let is_bound = |id: &String| bound.is_some_and(|bound| bound.get(id).is_some());
        let ids: Vec<String> = all.iter().filter_map(|route| route.id.clone()).collect();
        let free: Vec<_> = all.into_iter().filter(|route| !route.id.as_ref().is_some_and(is_bound)).collect();
        if free.is_empty() && !ids.is_empty() {
            return Err(format!(
                "the routes of the policy for {provider} name the id {}, which `webhooks.static` has already: change the binding \
                 there, or add a route with another id, or one with `{{webhook_id}}` in its path",
                ids.join(", ")
            ));
        }
        one_of(free, provider, endpoint)
    }

    /// The route that takes the deliveries of a provider for an id: `endpoint`, if it is given, else the only one.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub(crate) fn of(document: &Value, provider: &str, id: &str, endpoint: Option<&str>) -> Result<Self, String> {
        let mut all = chosen(routes_of(document, provider), endpoint);
        all.retain(|route| route.id.as_deref().is_none_or(|fixed| fixed == id));
        one_of(all, provider, endpoint)
    }

    /// The URL for an id. `base_url` takes precedence over the policy's `public_base_url`.
    ///
    /// # Errors
    /// No base URL is known.
    pub(crate) fn url(&self, document: &Value, id: &str, base_url: Option<&str>) -> Result<String, String> {
        let base = base_url.or_else(|| document.pointer("/webhooks/public_base_url").and_then(Value::as_str)).ok_or(
            "give --base-url, such as https://api.example.com, or set `webhooks.public_base_url` in the policy",
        )?;
        Ok(format!("{}{}", base.trim_end_matches('/'), self.path.replace(WEBHOOK_ID, id)))
    }
}

/// What stands for the id in a path.
const WEBHOOK_ID: &str = "{webhook_id}";

/// The routes that take deliveries of a provider, at paths that can be written down for it.
fn routes_of(document: &Value, provider: &str) -> Vec<WebhookRoute> {
    let routes = document.get("routes").and_then(Value::as_array).into_iter().flatten();
    let taking = routes.filter_map(|route| {
        let block = route.get("webhook")?;
        let fixed = |name: &str| block.get(name).and_then(Value::as_str);
        let path = route.get("path")?.as_str()?.replace("{provider}", provider);
        let is_known = !path.replace(WEBHOOK_ID, "").contains('{');
        (is_known && fixed("provider").is_none_or(|fixed| fixed == provider)).then(|| WebhookRoute {
            endpoint: route.get("endpoint").and_then(Value::as_str).unwrap_or_default().to_owned(),
            path,
            id: fixed("id").map(str::to_owned),
        })
    });
    taking.collect()
}

fn chosen(mut routes: Vec<WebhookRoute>, endpoint: Option<&str>) -> Vec<WebhookRoute> {
    routes.retain(|route| endpoint.is_none_or(|name| route.endpoint == name));
    routes
}

/// The only one, or the first of those with one path: the gateway takes a delivery at a path in one way.
fn one_of(routes: Vec<WebhookRoute>, provider: &str, endpoint: Option<&str>) -> Result<WebhookRoute, String> {
    let lines: Vec<String> = routes.iter().map(|route| format!("\n  {}  {}", route.endpoint, route.path)).collect();
    let mut routes = routes.into_iter();
    let Some(first) = routes.next() else {
        let what = endpoint.map_or_else(|| "no route".to_owned(), |name| format!("no route `{name}`"));
        return Err(format!(
            "{what} of the policy takes deliveries of {provider}: it needs one such as {{\"endpoint\": \"webhooks.ingest\", \
             \"path\": \"/webhooks/{{provider}}/{{webhook_id}}\", \"policy\": \"REQUIRED_B\", \"webhook\": {{}}}}"
        ));
    };
    if routes.all(|route| route.path == first.path) {
        return Ok(first);
    }
    Err(format!(
        "several routes of the policy take deliveries of {provider}: name one with --endpoint{}",
        lines.concat()
    ))
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
        let of = |routes: Value, provider: &str, endpoint: Option<&str>| {
            let document = json!({"routes": routes, "webhooks": {"static": {"wh_01JBOUND": {}}}});
            WebhookRoute::for_new(&document, provider, endpoint).map(|route| route.id)
        };
        let fixed =
            |id: &str| json!({"endpoint": id, "path": format!("/{id}"), "webhook": {"provider": "github", "id": id}});
        let new = Some("wh_01JNEW".to_owned());
        assert_eq!(of(json!([fixed("wh_01JNEW")]), "github", None).unwrap(), new);
        assert_eq!(of(json!([fixed("wh_01JBOUND"), fixed("wh_01JNEW")]), "github", None).unwrap(), new);
        assert!(of(json!([fixed("wh_01JBOUND")]), "github", None).unwrap_err().contains("wh_01JBOUND"));
        assert!(of(json!([fixed("wh_01JNEW")]), "stripe", None).unwrap_err().contains("no route"));
        let open = json!({"endpoint": "open", "path": "/h/{provider}/{webhook_id}", "webhook": {}});
        assert_eq!(of(json!([fixed("wh_01JBOUND"), open]), "github", None).unwrap(), None);
        // Two that could take it.
        let both = json!([fixed("wh_01JNEW"), open]);
        let error = of(both.clone(), "github", None).unwrap_err();
        assert!(error.ends_with("--endpoint\n  wh_01JNEW  /wh_01JNEW\n  open  /h/github/{webhook_id}"), "{error}");
        assert_eq!(of(both.clone(), "github", Some("open")).unwrap(), None);
        assert_eq!(of(both.clone(), "github", Some("wh_01JNEW")).unwrap(), new);
        assert_eq!(of(both.clone(), "stripe", None).unwrap(), None);
        assert!(of(both, "stripe", Some("wh_01JNEW")).unwrap_err().contains("no route `wh_01JNEW`"));
        let of_provider = json!([{"path": "/h/{provider}", "webhook": {"id": "wh_01JNEW"}}]);
        assert_eq!(of(of_provider, "github", None).unwrap(), new);
    }

    #[test]
    fn the_url_is_that_of_the_policy_s_route() {
        let document = json!({
            "webhooks": {"public_base_url": "https://api.example.com", "static": {
                "wh_01JSTRIPE": {"tenant": "a", "project": "p", "provider": "stripe", "secrets": [{"env": "S"}]}}},
            "routes": [
                {"endpoint": "legacy", "path": "/legacy", "webhook": {"provider": "gitlab", "id": "wh_01JGITLAB"}},
                {"path": "/orders", "policy": "REQUIRED_A"},
                {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "webhook": {}},
                // The gateway prefers this one, at the same path.
                {"endpoint": "box", "path": "/hooks/box/{webhook_id}", "webhook": {"provider": "box"}}
            ]
        });
        let url = |provider: &str, id: &str, endpoint: Option<&str>, base: Option<&str>| {
            WebhookRoute::of(&document, provider, id, endpoint).and_then(|route| route.url(&document, id, base))
        };
        assert_eq!(url("stripe", "wh_1", None, None).unwrap(), "https://api.example.com/hooks/stripe/wh_1");
        assert_eq!(url("stripe", "wh_1", None, Some("http://b:1/")).unwrap(), "http://b:1/hooks/stripe/wh_1");
        assert_eq!(url("box", "wh_1", None, None).unwrap(), "https://api.example.com/hooks/box/wh_1");
        assert_eq!(url("gitlab", "wh_01JGITLAB", Some("legacy"), None).unwrap(), "https://api.example.com/legacy");
        let error = url("gitlab", "wh_01JGITLAB", None, None).unwrap_err();
        assert!(error.contains("--endpoint\n  legacy  /legacy\n  hooks  /hooks/gitlab/{webhook_id}"), "{error}");
        assert_eq!(url("gitlab", "wh_other", None, None).unwrap(), "https://api.example.com/hooks/gitlab/wh_other");
        assert!(WebhookRoute::of(&json!({"routes": []}), "stripe", "wh_1", None).unwrap_err().contains("no route"));
        let no_base = json!({"routes": document["routes"]});
        let route = WebhookRoute::of(&no_base, "stripe", "wh_1", None).unwrap();
        assert!(route.url(&no_base, "wh_1", None).unwrap_err().contains("--base-url"));
        let binding = binding_of(&document, "wh_01JSTRIPE").unwrap();
        assert_eq!(
            (binding.provider.as_str(), binding.secret),
            ("stripe", Some(SecretSource::Variable("S".to_owned())))
        );
        assert!(binding_of(&document, "wh_other").is_none());
    }
}
