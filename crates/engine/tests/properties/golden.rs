//! I3: the same caller retrying the same key gets the same namespaced key, in every release.

use direct::attributes::JsonAttributes;
use direct::requests::{self, Request};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::identity::{Identity, Project, Subject, Tenant};
use edge_idempotency_engine::key;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

const GOLDEN: &str = include_str!("../golden/namespaced_keys.json");

/// Of the file, so that nobody makes it fit by writing it anew.
const DIGEST: &str = "2f7bfa6cad24da4d69121167e4e6486b12a1acc25ca6f0a3e937574c3bcc1277";

const BREAKING: &str = "tests/golden/namespaced_keys.json and the code disagree. Backends have stored results under these \
     keys for days: with another form a retry across the upgrade runs its effect twice, and one caller could meet what \
     was another's. Changing a row is a breaking change. Rows may be added; then the digest changes too";

struct GoldenKey {
    identity: Identity,
    id: Vec<u8>,
    json: Json,
}

fn rows() -> Vec<GoldenKey> {
    let rows: Vec<Json> = serde_json::from_str(GOLDEN).unwrap();
    let read = |json: Json| {
        let id = match &json["id"] {
            Json::String(text) => text.clone().into_bytes(),
            bytes => {
                use base64::Engine as _;
                base64::engine::general_purpose::STANDARD.decode(bytes["base64"].as_str().unwrap()).unwrap()
            }
        };
        let identity = Identity {
            tenant: Tenant::parse(text(&json["tenant"]).as_bytes()).expect(BREAKING),
            project: match json["scope"].as_str() {
                Some("tenant") => Project::Tenant,
                Some("platform") => Project::Platform,
                _ => Project::parse(text(&json["project"]).as_bytes()).expect(BREAKING),
            },
            subject: match text(&json["type"]) {
                "_none" => Subject::none(),
                kind => Subject::new(kind, &id).expect(BREAKING),
            },
        };
        GoldenKey { identity, id, json }
    };
    rows.into_iter().map(read).collect()
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap()
}

#[test]
fn the_golden_keys_are_what_they_were() {
    let digest: String = Sha256::digest(GOLDEN).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, DIGEST, "{BREAKING}");
    let rows = rows();
    assert!(rows.len() >= 350, "{}", rows.len());
    let keys: std::collections::BTreeSet<&str> = rows.iter().map(|row| text(&row.json["key"])).collect();
    assert_eq!(keys.len(), rows.len(), "I2: two rows, one key");
    for GoldenKey { identity, json, .. } in &rows {
        let (raw, key) = (text(&json["raw"]), text(&json["key"]));
        assert_eq!(key::encode(identity, raw).as_deref(), Ok(key), "{BREAKING}");
        let decoded = key::decode(key).expect(BREAKING);
        assert_eq!((&decoded.identity, decoded.raw), (identity, raw), "{BREAKING}");
    }
}

/// The whole way, for keys that a client can send: from a token and a header, bare and quoted, to the same key.
#[test]
fn requests_get_the_golden_keys() {
    let routes = ["project", "tenant", "platform"]
        .map(|scope| json!({"endpoint": scope, "path": format!("/{scope}"), "policy": "REQUIRED_A", "scope": scope}));
    let shared = ["project", "tenant", "platform"].map(|scope| {
        let path = format!("/{scope}/shared");
        json!({"endpoint": format!("{scope}.shared"), "path": path, "policy": "REQUIRED_A", "scope": scope, "subject": "none"})
    });
    let routes: Vec<Json> = routes.into_iter().chain(shared).collect();
    let sources = ["user", "service", "tenant_member", "client", "platform_member"].map(|kind| {
        json!({"name": kind, "metadata": ["jwt", kind], "tenant": "t", "project": "p", "subject": {"field": "s", "type": kind}})
    });
    let document = json!({
        "version": 1, "backend": {"kind": "restate"}, "identity": {"sources": sources}, "routes": routes,
        "key": {"charset": "visible"},
    });
    let policy = Policy::from_json(document.to_string().as_bytes()).unwrap();
    let mut requests = 0;
    for GoldenKey { id, json, .. } in rows() {
        let raw = text(&json["raw"]);
        // Tokens are text, and clients' keys do not begin so.
        let Ok(id) = String::from_utf8(id) else { continue };
        if raw.starts_with("t-") {
            continue;
        }
        // No caller has the subject of webhooks.
        if (text(&json["type"]), id.as_str()) == ("service", "webhook-ingest") {
            continue;
        }
        // Where callers share keys, any caller has them.
        let is_shared = json["type"] == "_none";
        let (kind, id) = if is_shared { ("user", "anyone".to_owned()) } else { (text(&json["type"]), id) };
        let shared = if is_shared { "/shared" } else { "" };
        let claims = json!({"t": json["tenant"], "p": json["project"], "s": id});
        let string = format!("\"{}\"", raw.replace('\\', "\\\\").replace('"', "\\\""));
        let bare = if raw.starts_with('"') { string.clone() } else { raw.to_owned() };
        for value in [bare, format!(" {string};v=1"), string] {
            let path = format!("/{}{shared}", json["scope"].as_str().unwrap_or("project"));
            let headers =
                [(":path", path.as_str()), (":method", "POST"), (":authority", "a"), ("idempotency-key", &value)];
            let request = Request {
                headers: headers.map(|(name, value)| (name.into(), value.into())).to_vec(),
                attributes: JsonAttributes { metadata: json!({"jwt": {kind: claims}}), endpoint: None },
                ..Request::default()
            };
            let (exchange, _) = requests::run(&policy, &request, &request.attributes);
            assert_eq!(exchange.key(), json["key"].as_str(), "{BREAKING}: {json} {:?}", exchange.refusal());
            requests += 1;
        }
    }
    assert!(requests > 900, "{requests}");
}
