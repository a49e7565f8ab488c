//! A stand-in for Unkey, the registry that knows whose a webhook id is. Unkey itself is a hosted service; this follows what
//! its OpenAPI description (`go/apps/api/openapi` of github.com/unkeyed/unkey) says of `POST /v2/keys.verifyKey` and
//! `POST /v2/keys.createKey`, and no more: the requests' members, a verdict that comes with 200 whatever it is, and errors as
//! problem objects.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};

use crate::faults::FaultyServer;
use crate::http::{Reply, Request};

/// The path of the filter's lookups.
pub const PATH: &str = "/v2/keys.verifyKey";
/// The path that makes keys, for `edge-idempotency webhook new`.
pub const CREATE_PATH: &str = "/v2/keys.createKey";

/// Whose a webhook is, as it stands in the key's identity and metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// `identity.externalId`.
    pub tenant: String,
    /// `meta.project_id`.
    pub project: String,
    /// `meta.provider`.
    pub provider: String,
}

impl Binding {
    /// A binding of these.
    pub fn new(tenant: &str, project: &str, provider: &str) -> Self {
        Self { tenant: tenant.to_owned(), project: project.to_owned(), provider: provider.to_owned() }
    }
}

#[derive(Default)]
struct Registry {
    /// `data` of the answer, by key.
    keys: Mutex<BTreeMap<String, Value>>,
    requests: AtomicU64,
}

/// A running stand-in.
#[derive(Debug)]
pub struct Unkey {
    server: FaultyServer,
    registry: Arc<Registry>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Unkey {
    /// Listens on `address`, whose port may be 0, and believes requests with `root_key`.
    pub async fn start(address: SocketAddr, root_key: &str) -> Result<Self> {
        let registry = Arc::new(Registry::default());
        let bearer = format!("Bearer {root_key}").into_bytes();
        let shared = Arc::clone(&registry);
        let server = FaultyServer::start(address, asked_for, move |request| {
            let reply = shared.answer(&request, &bearer);
            async move { Ok(reply) }
        })
        .await?;
        Ok(Self { server, registry })
    }

    /// The server: counts by webhook id, and faults.
    pub const fn server(&self) -> &FaultyServer {
        &self.server
    }

    /// A key that is a webhook id.
    pub fn bind(&self, webhook_id: &str, binding: &Binding) {
        self.says(
            webhook_id,
            json!({
                "valid": true,
                "code": "VALID",
                "keyId": format!("key_{webhook_id}"),
                "name": "a webhook",
                "enabled": true,
                "meta": {"kind": "webhook", "project_id": binding.project, "provider": binding.provider},
                "identity": {"id": format!("id_{}", binding.tenant), "externalId": binding.tenant},
            }),
        );
    }

    /// Any verdict: `data` of the answer for this key.
    pub fn says(&self, key: &str, data: Value) {
        self.registry.keys().insert(key.to_owned(), data);
    }

    /// The key is gone: `NOT_FOUND`.
    pub fn unbind(&self, webhook_id: &str) {
        self.registry.keys().remove(webhook_id);
    }
}

/// The key that a request asks for, else its path.
fn asked_for(request: &Request) -> String {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    body.get("key").and_then(Value::as_str).unwrap_or(&request.path).to_owned()
}

impl Registry {
    fn keys(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Value>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &Request, bearer: &[u8]) -> Reply {
        let meta = json!({"requestId": format!("req_{}", self.requests.fetch_add(1, Ordering::Relaxed))});
        let authorization = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let verdict = match authorization {
            _ if ![PATH, CREATE_PATH].contains(&request.path.as_str()) || request.method != "POST" => {
                Err((404, "Not Found", "application/not_found", "There is no such path."))
            }
            None => {
                Err((400, "Bad Request", "authentication/malformed", "Authorization header is missing or malformed."))
            }
            Some((_, value)) if value != bearer => {
                Err((401, "Unauthorized", "authentication/key_not_found", "The provided root key is invalid."))
            }
            Some(_) => {
                let answer =
                    if request.path == PATH { self.verdict(&request.body) } else { self.create(&request.body) };
                answer.map_err(|detail| (400, "Bad Request", "application/invalid_input", detail))
            }
        };
        let (status, body) = match verdict {
            Ok(data) => (200, json!({"meta": meta, "data": data})),
            Err((status, title, kind, detail)) => {
                let kind = format!("https://unkey.com/docs/errors/unkey/{kind}");
                let error = json!({"title": title, "detail": detail, "status": status, "type": kind});
                (status, json!({"meta": meta, "error": error}))
            }
        };
        let headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
        Reply { status, headers, body: body.to_string().into_bytes() }
    }

    /// Makes a key: `{"keyId", "key"}`. The real one takes `byteLength` random bytes for it.
    fn create(&self, body: &[u8]) -> std::result::Result<Value, &'static str> {
        const MEMBERS: [&str; 13] = [
            "apiId",
            "prefix",
            "name",
            "byteLength",
            "externalId",
            "meta",
            "roles",
            "permissions",
            "expires",
            "credits",
            "ratelimits",
            "enabled",
            "recoverable",
        ];
        let body: Value = serde_json::from_slice(body).map_err(|_| "The body is no JSON.")?;
        let members = body.as_object().ok_or("The body is no object.")?;
        if members.keys().any(|name| !MEMBERS.contains(&name.as_str())) {
            return Err("The body has a member that is not described.");
        }
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        text("apiId").filter(|id| id.len() >= 3).ok_or("`apiId` is a string of at least 3 characters.")?;
        let length = members.get("byteLength").map_or(Some(16), Value::as_u64);
        length.filter(|length| (16..=255).contains(length)).ok_or("`byteLength` is an integer from 16 to 255.")?;
        let number = self.requests.load(Ordering::Relaxed);
        let key = format!("{}{number:022}", text("prefix").map(|prefix| format!("{prefix}_")).unwrap_or_default());
        let verdict = json!({
            "valid": true,
            "code": "VALID",
            "keyId": format!("key_{number}"),
            "enabled": true,
            "meta": members.get("meta"),
            "identity": {"id": format!("id_{number}"), "externalId": text("externalId")},
        });
        self.keys().insert(key.clone(), verdict);
        Ok(json!({"keyId": format!("key_{number}"), "key": key}))
    }

    /// `additionalProperties` is false in the description: a member that is not in it is an error.
    fn verdict(&self, body: &[u8]) -> std::result::Result<Value, &'static str> {
        const MEMBERS: [&str; 6] = ["key", "tags", "permissions", "credits", "ratelimits", "migrationId"];
        let body: Value = serde_json::from_slice(body).map_err(|_| "The body is no JSON.")?;
        let members = body.as_object().ok_or("The body is no object.")?;
        if members.keys().any(|name| !MEMBERS.contains(&name.as_str())) {
            return Err("The body has a member that is not described.");
        }
        let key = members.get("key").and_then(Value::as_str).filter(|key| (1..=512).contains(&key.len()));
        let key = key.ok_or("`key` is a string of 1 to 512 characters.")?;
        let cost = members.get("credits").map(|credits| credits.get("cost").and_then(Value::as_u64));
        if cost.is_some_and(|cost| cost.is_none()) {
            return Err("`credits` has a `cost`, an integer that is not negative.");
        }
        let asked =
            members.get("permissions").map(|asked| asked.as_str().filter(|asked| (1..=1000).contains(&asked.len())));
        if asked.is_some_and(|asked| asked.is_none()) {
            return Err("`permissions` is a string of 1 to 1000 characters.");
        }
        let unknown = || json!({"valid": false, "code": "NOT_FOUND"});
        let mut data = self.keys().get(key).cloned().unwrap_or_else(unknown);
        // Of Unkey's queries only names that are joined by AND are understood here.
        let granted = data.get("permissions").and_then(Value::as_array).cloned().unwrap_or_default();
        let has = |name: &str| granted.iter().any(|granted| granted == name);
        let lacks = asked.flatten().is_some_and(|asked| !asked.split(" AND ").all(has));
        if lacks
            && data.get("code").is_some_and(|code| code == "VALID")
            && let Some(data) = data.as_object_mut()
        {
            data.extend([("valid".to_owned(), json!(false)), ("code".to_owned(), json!("INSUFFICIENT_PERMISSIONS"))]);
        }
        Ok(data)
    }
}
