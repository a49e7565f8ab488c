//! What the registry (Unkey) and the secret store (OpenBao, Vault) have to hold for a new webhook (docs/webhooks.md), as
//! requests that a person can send, or that `--apply` sends.

use crate::explain::terminal_text::printable;
use crate::http::NoReply;
use crate::http::{HttpClient, HttpReply};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// A new webhook.
#[derive(Debug)]
pub(crate) struct NewWebhook {
    pub(crate) tenant: String,
    pub(crate) project: String,
    pub(crate) provider: String,
    /// `key_scope` and `bind_body`, if the provider's defaults do not do
    pub(crate) more: Map<String, Value>,
}

/// A webhook id with 128 random bits: `wh_` and 22 characters of `[A-Za-z0-9_-]`.
///
/// # Errors
/// The operating system has no random source.
pub(crate) fn new_id() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("the operating system gives no random bytes: {error}"))?;
    Ok(format!("wh_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

impl NewWebhook {
    /// The body of Unkey's `keys.createKey`. Unkey makes the id, from as many random bits.
    pub(crate) fn unkey_key(&self, api_id: &str) -> Value {
        let mut meta = json!({"kind": "webhook", "project_id": self.project, "provider": self.provider});
        if let Some(meta) = meta.as_object_mut() {
            meta.extend(self.more.clone());
        }
        json!({"apiId": api_id, "prefix": "wh", "byteLength": 16, "externalId": self.tenant, "meta": meta})
    }

    /// The binding in `webhooks.static` of a policy document.
    pub(crate) fn binding(&self, variable: &str) -> Value {
        let mut binding = json!({"tenant": self.tenant, "project": self.project, "provider": self.provider});
        if let Some(binding) = binding.as_object_mut() {
            binding.insert("secrets".to_owned(), json!([{"env": variable}]));
            binding.extend(self.more.clone());
        }
        binding
    }

    /// A variable for the owner's secret, which no other owner has: `WEBHOOK_SECRET_ACME_SHOP_STRIPE`. Names that a variable cannot
    /// have as they are get a digest of the owner at the end, because `a-b` and `a.b` would have the same variable.
    pub(crate) fn variable(&self) -> String {
        let is_exact = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let parts = [&self.tenant, &self.project, &self.provider];
        let words =
            parts.map(|part| part.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_").to_ascii_uppercase());
        let name = format!("WEBHOOK_SECRET_{}", words.join("_"));
        if is_exact(&self.tenant) && is_exact(&self.project) {
            return name;
        }
        let digest: [u8; 32] = Sha256::digest(self.owner()).into();
        let start = base16ct::upper::encode_string(digest.get(..4).unwrap_or_default());
        format!("{name}_{start}")
    }

    /// The owner of the secret: the form in which the store has it by default.
    pub(crate) fn owner(&self) -> String {
        format!("{}:{}:{}", self.tenant, self.project, self.provider)
    }
}

/// Where the policy has the secrets (`webhooks.openbao`).
#[derive(Debug)]
pub(crate) struct SecretPlace {
    pub(crate) mount: String,
    /// In the mount
    pub(crate) path: String,
}

impl SecretPlace {
    /// The place of a webhook's secret; `None` if the policy has no secret store.
    pub(crate) fn of(document: &Value, webhook: &NewWebhook) -> Option<Self> {
        let openbao = document.pointer("/webhooks/openbao")?;
        let text = |name: &str| openbao.get(name).and_then(Value::as_str);
        let path = text("path").unwrap_or("{tenant}:{project}:{provider}");
        let values =
            [("{tenant}", &webhook.tenant), ("{project}", &webhook.project), ("{provider}", &webhook.provider)];
        Some(Self {
            mount: text("mount").unwrap_or("secret").to_owned(),
            path: values.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value)),
        })
    }

    /// Writes a secret. Without `replace` it writes only where there is none yet: all webhooks of an owner share the secret. With
    /// `replace` it writes over the version that it has read, if that is one secret.
    ///
    /// # Errors
    /// The store cannot be reached or refuses, what is stored is more than one secret, or somebody else writes at the same time.
    /// The secret is not repeated.
    pub(crate) fn write(&self, client: &HttpClient, url: &str, secret: &str, replace: bool) -> Result<(), String> {
        let base = format!("{}/v1/{}", url.trim_end_matches('/'), self.mount);
        let version = if replace { self.version_to_replace(client, &base)? } else { 0 };
        let url = format!("{base}/data/{}", self.path);
        let body = json!({"data": {"secret": secret}, "options": {"cas": version}});
        let reply = self.call(client, "POST", &url, Some(body.to_string().as_bytes()))?;
        let told = told(&reply);
        match reply.status {
            200 | 204 => Ok(()),
            400 if told.contains("check-and-set") && replace => {
                Err(format!("somebody wrote the secret at {} while this command ran: run it again", self.path))
            }
            400 if told.contains("check-and-set") => Err(format!(
                "there is already a secret at {}, which every webhook of this owner shares: leave --secret out to use \
                 it, or add --replace-secret to write a new version",
                self.path
            )),
            403 => {
                Err(format!("the secret store refuses the token for {url} (403): it needs `create` and `update` there"))
            }
            404 => Err(format!(
                "the secret store has no mount `{}` (404): bao secrets enable -path={} -version=2 kv",
                self.mount, self.mount
            )),
            status => Err(format!("the secret store answers {status} to POST {url}: {told}")),
        }
    }

    /// The number of the newest version, also of a deleted one; 0 if there is none. Only the names of its members are read
    /// (`subkeys` of KV version 2), and no secret.
    ///
    /// # Errors
    /// As [`SecretPlace::write`].
    fn version_to_replace(&self, client: &HttpClient, base: &str) -> Result<u64, String> {
        let url = format!("{base}/subkeys/{}", self.path);
        let reply = self.call(client, "GET", &url, None)?;
        let stored: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let version = stored.pointer("/data/metadata/version").and_then(Value::as_u64);
        match (reply.status, version) {
            (200, Some(version)) => {
                let members = stored.pointer("/data/subkeys").and_then(Value::as_object);
                let others = members.into_iter().flatten().any(|(name, _)| name != "secret");
                if !others {
                    return Ok(version);
                }
                Err(format!(
                    "what is stored at {} is not one secret alone (`secret`), and --replace-secret would write one over it, so that \
                     deliveries signed with the others would be refused: write it with `bao kv put` (docs/webhooks.md, OpenBao)",
                    self.path
                ))
            }
            // A deleted version keeps its number. If there is no mount, the write says so.
            (404, version) => Ok(version.unwrap_or_default()),
            (403, _) => Err(format!(
                "the secret store refuses the token for {url} (403): --replace-secret needs `read` there, to see the names of the \
                 members that it replaces"
            )),
            (status, _) => Err(format!("the secret store answers {status} to GET {url}: {}", told(&reply))),
        }
    }

    fn call(&self, client: &HttpClient, method: &str, url: &str, body: Option<&[u8]>) -> Result<HttpReply, String> {
        client
            .send(method, url, &[("content-type", "application/json")], body)
            .map_err(|error| format!("the secret store: {error}"))
    }
}

/// Creates the key in Unkey; its text, which is the webhook id.
///
/// # Errors
/// Unkey cannot be reached, refuses, or answers in another form.
pub(crate) fn create_key(client: &HttpClient, url: &str, body: &Value) -> Result<String, String> {
    const MAY_EXIST: &str =
        "The key may exist all the same: look at the newest keys of the API before you run the command again";
    let url = format!("{}/v2/keys.createKey", url.trim_end_matches('/'));
    let reply = client
        .send("POST", &url, &[("content-type", "application/json")], Some(body.to_string().as_bytes()))
        .map_err(|error| match &error {
        NoReply::Timeout(_) => format!("the registry: {error}. {MAY_EXIST}"),
        NoReply::Unusable(_) | NoReply::Unreachable(_) => format!("the registry: {error}"),
    })?;
    if reply.status != 200 {
        let advice = match reply.status {
            401 | 403 => ": the root key needs api.*.create_key",
            404 => ": is the API of --unkey-api there?",
            _ => "",
        };
        let may_exist = if reply.status >= 500 { format!(". {MAY_EXIST}") } else { String::new() };
        let told = told(&reply);
        return Err(format!("the registry answers {} to POST {url}{advice}: {told}{may_exist}", reply.status));
    }
    let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let key = answer.pointer("/data/key").and_then(Value::as_str).ok_or_else(|| {
        format!("the registry answers POST {url} without `data.key`: is this the URL of Unkey's API? {MAY_EXIST}")
    })?;
    if is_webhook_id(key) {
        return Ok(key.to_owned());
    }
    Err(format!(
        "the registry made a key that is no webhook id: an id is [A-Za-z0-9_-]{{8,64}}, and this one has {} characters. Delete the \
         newest key of the API, and look whether --unkey is Unkey's API",
        key.chars().count()
    ))
}

/// Whether a text can be a webhook id (docs/contract.md section 4).
fn is_webhook_id(text: &str) -> bool {
    (8..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// What a reply says about an error, shortened.
fn told(reply: &HttpReply) -> String {
    let json: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let text = json.pointer("/error/detail").or_else(|| json.pointer("/errors/0")).and_then(Value::as_str);
    let short = |text: &str| printable(&text.chars().take(300).collect::<String>()).into_owned();
    text.map_or_else(|| "the answer has no reason".to_owned(), short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_128_random_bits_and_the_form_that_the_filter_takes() {
        let ids: std::collections::BTreeSet<String> = (0..100).map(|_| new_id().unwrap()).collect();
        assert_eq!(ids.len(), 100);
        for id in ids {
            let random = id.strip_prefix("wh_").unwrap();
            assert_eq!(URL_SAFE_NO_PAD.decode(random).unwrap().len(), 16, "{id}");
        }
    }

    #[test]
    fn records_are_those_of_the_page() {
        let more = json!({"bind_body": true}).as_object().unwrap().clone();
        let webhook = NewWebhook { tenant: "acme".into(), project: "shop".into(), provider: "stripe".into(), more };
        assert_eq!(
            webhook.unkey_key("api_1"),
            json!({"apiId": "api_1", "prefix": "wh", "byteLength": 16, "externalId": "acme",
                   "meta": {"kind": "webhook", "project_id": "shop", "provider": "stripe", "bind_body": true}})
        );
        assert_eq!(webhook.binding("S")["secrets"], json!([{"env": "S"}]));
        assert_eq!(webhook.variable(), "WEBHOOK_SECRET_ACME_SHOP_STRIPE");
        let document = json!({"webhooks": {"openbao": {"cluster": "c", "mount": "webhooks"}}});
        let place = SecretPlace::of(&document, &webhook).unwrap();
        assert_eq!((place.mount.as_str(), place.path.as_str()), ("webhooks", "acme:shop:stripe"));
        let other = json!({"webhooks": {"openbao": {"cluster": "c", "path": "h/{provider}/{tenant}/{project}"}}});
        assert_eq!(SecretPlace::of(&other, &webhook).unwrap().path, "h/stripe/acme/shop");
        assert!(SecretPlace::of(&json!({}), &webhook).is_none());
    }

    #[test]
    fn each_owner_has_a_variable_of_its_own() {
        let owners = [
            ("acme", "shop", "stripe"),
            ("acme", "shop", "github"),
            ("other", "shop", "stripe"),
            ("acme-shop", "x", "stripe"),
            ("acme_shop", "x", "stripe"),
            ("Acme-shop", "x", "stripe"),
            ("acme", "shop-x", "stripe"),
            ("acme", "shop.x", "stripe"),
            ("acme", "shop~x", "stripe"),
            ("acme", "shop", "x_stripe"),
            ("1acme", "-", "stripe"),
        ];
        let names = owners.map(|(tenant, project, provider)| {
            let webhook = NewWebhook {
                tenant: tenant.to_owned(),
                project: project.to_owned(),
                provider: provider.to_owned(),
                more: Map::new(),
            };
            webhook.variable()
        });
        for name in &names {
            assert!(
                name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'),
                "{name}"
            );
        }
        assert_eq!(std::collections::BTreeSet::from(names.clone()).len(), owners.len(), "{names:?}");
    }
}
