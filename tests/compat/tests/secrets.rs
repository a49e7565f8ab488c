//! Recognisable secrets go in wherever secrets go in; what is kept or said anywhere holds none of them.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use e2e::chain::Chain;
use e2e::config::{Change, ListenerSpec};
use e2e::deliveries::{self, now};
use e2e::gateway::{TestEnvironment, tools};
use e2e::http2;
use e2e::lookup_stores::{Hook, LookupStores, ROOT_KEY};
use e2e::raw::{Reply, Request, exchange};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::faults::Fault;
use harness::http;
use harness::openbao::MOUNT;
use harness::tokens;
use serde_json::{Value, json};
use tempfile::TempDir;

const LISTENER: &str = "gateway";
const REFUNDS: &str = "/api/v1/refunds";
const CARTS: &str = "/api/v1/carts/checkout";
const REQUIRED_B: &str = "/api/v1/hooks/stripe/wh_planted";

/// In the VM's environment.
const STRIPE: &str = "whsec_planted_stripe";
const GITHUB: &str = "planted_github";
/// Of keys this is in every one of them. Only where one is stored may it stand, in its namespace.
const KEY: &str = "plantedkey";

/// The caller's. It belongs to what the backend gets and its handlers say, and nowhere else.
const SUBJECT: &str = "planted-subject";

/// Stored, and looked up: in the secret store this is what a webhook is signed with.
const LOOKED_UP: &str = "whsec_planted_looked_up";

/// An API key that Unkey knows.
const PARTNER_KEY: &str = "sk_planted_partner_key";

/// What may stand nowhere; the signature of every token and delivery besides.
const PLANTED: [&str; 15] = [
    PARTNER_KEY,
    "sk_planted_unknown_key",
    STRIPE,
    GITHUB,
    LOOKED_UP,
    ROOT_KEY,
    "planted-authorization",
    "planted-cookie",
    "planted-api-key",
    "planted-proxy",
    "planted-signature",
    "planted-body-of-a-refused-request",
    "planted-query-token",
    "planted-request-id",
    // A key, as a path can spell it.
    "plantedke%79",
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![Test::new("nothing that is kept or said holds a secret", |setup: &SecretsSetup| setup.check())];
    Ok(vec![sharing(SecretsSetup::start, tests)])
}

struct SecretsSetup {
    chain: Chain,
    lookup_stores: LookupStores,
    hook: Hook,
    /// A token's claims, which are no secret.
    token: String,
    replies: Mutex<Vec<(String, Reply)>>,
    /// What may stand nowhere, found in what was sent.
    secrets: Mutex<Vec<String>>,
    _directory: TempDir,
}

impl SecretsSetup {
    fn start() -> Result<Self> {
        let environment = [("E2E_STRIPE", STRIPE), ("E2E_GITHUB", GITHUB)];
        let names = environment.iter().map(|(name, _)| (*name).to_owned()).collect();
        let listener =
            ListenerSpec { policy: policy().to_string(), changes: vec![Change::Environment(names), Change::Trailers] };
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let directory = tempfile::tempdir()?;
        let lookup_stores = LookupStores::start(directory.path())?;
        let hook = lookup_stores.hook("looked_up")?;
        ensure!(hook.secret == LOOKED_UP, "{}", hook.secret);
        let holder = json!({"externalId": "acme"});
        lookup_stores.unkey.says(PARTNER_KEY, json!({
            "valid": true, "code": "VALID", "keyId": "key_partner", "identity": holder, "meta": {"project_id": "shop"},
        }));
        let around = TestEnvironment {
            environment: environment.into(),
            trace: true,
            stores: Some(lookup_stores.stores()),
            ..TestEnvironment::default()
        };
        let chain = Chain::start(around, &[(LISTENER.to_owned(), listener)])?;
        let claims = json!({"tenant_id": "acme", "project_id": "shop", "sub": SUBJECT});
        let token = chain.gateway.token(&claims)?;
        let mut secrets = PLANTED.map(str::to_owned).to_vec();
        secrets.push(lookup_stores.token().clone());
        Ok(Self {
            chain,
            lookup_stores,
            hook,
            token,
            replies: Mutex::default(),
            secrets: Mutex::new(secrets),
            _directory: directory,
        })
    }

    /// Sends a request, over both protocols, with everything that could leak.
    fn send(&self, what: &str, request: &Request, status: u16) -> Result<()> {
        let mut planted = request
            .clone()
            .header("Cookie", "session=planted-cookie")
            .header("X-Api-Key", "planted-api-key")
            .header("Proxy-Authorization", "Basic planted-proxy")
            .header("X-Request-Id", "planted-request-id");
        let named = |name: &str| request.headers.iter().any(|(line, _)| line.eq_ignore_ascii_case(name));
        if !named("authorization") {
            planted = planted.bearer(&self.token);
        }
        // Those of the policy's webhooks, also where they have no business.
        for name in ["Stripe-Signature", "X-Hub-Signature", "X-Hub-Signature-256"] {
            if !named(name) {
                planted = planted.header(name, "v1=planted-signature");
            }
        }
        let address = self.chain.gateway.address(LISTENER)?;
        for (protocol, reply) in [
            ("HTTP/1.1", exchange(address, &planted.method, &planted.http1())),
            ("HTTP/2", http2::exchange(address, &planted)),
        ] {
            let reply = reply.with_context(|| format!("{what}, {protocol}"))?;
            let body = String::from_utf8_lossy(&reply.body).into_owned();
            ensure!(reply.status == status, "{what}, {protocol}: status {} instead of {status}: {body}", reply.status);
            self.replies.lock().map_err(poisoned)?.push((format!("{what}, {protocol}"), reply));
        }
        for (name, value) in &planted.headers {
            let name = name.to_ascii_lowercase();
            if name == "authorization" || name.contains("signature") {
                // The last part is the signature: of a token, of a delivery.
                let value = String::from_utf8_lossy(value);
                let secret = value.rsplit(['.', '=', ' ']).find(|part| part.len() > 12);
                let secret = secret.with_context(|| format!("no secret in {name}: {value}"))?.to_owned();
                self.secrets.lock().map_err(poisoned)?.push(secret);
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.allowed()?;
        self.recovered()?;
        self.refused()?;
        self.failing()?;
        self.looked_up()?;
        self.by_api_key()?;
        let places = self.places()?;
        let secrets = self.secrets.lock().map_err(poisoned)?.clone();
        ensure!(secrets.len() > 20, "only {} secrets", secrets.len());
        for (place, text) in &places {
            for secret in &secrets {
                ensure!(!text.contains(secret.as_str()), "{place} holds `{secret}`: {}", around(text, secret));
            }
            raw_keys(place, text)?;
            let told = ["Restate's ", "what handlers saw", "the answer: "];
            let subject = text.contains(SUBJECT) && !told.iter().any(|known| place.starts_with(known));
            ensure!(!subject, "{place} holds the subject: {}", around(text, SUBJECT));
            // The policy names the webhooks that it binds itself.
            let names = ["/config_dump", "Restate's ", "what handlers saw"];
            for id in ["wh_planted", "wh_unknown", self.hook.id.as_str()] {
                // A warning about the policy names its member.
                let held = text.lines().any(|line| line.contains(id) && !line.contains("edge-idempotency: policy /"));
                let held = held && !names.iter().any(|known| place.starts_with(known));
                ensure!(!held, "{place} holds the id of a webhook: {}", around(text, id));
            }
        }
        // It tells what an operator needs even so.
        let access_log = self.chain.gateway.access_log()?;
        let lines = access_log.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned()));
        let lines: Vec<Value> = lines.collect::<Result<_>>()?;
        for (member, told) in [
            ("/details", "idempotency_key_invalid.length"),
            ("/details", "not_found"),
            ("/edge_idempotency/idempotency_outcome", "replayed"),
            ("/edge_idempotency/idempotency_outcome", "recovered"),
            ("/edge_idempotency/idempotency_reason", "signature_mismatch"),
            ("/edge_idempotency/idempotency_identity", "jwt.tenant: wrong_type"),
        ] {
            let is_told = |line: &Value| line.pointer(member).is_some_and(|value| value == told);
            ensure!(lines.iter().any(is_told), "no line of the access log has {member}: {told}\n{access_log}");
        }
        for line in lines.iter().filter(|line| line.pointer("/details").is_some_and(|value| value == "via_upstream")) {
            let id = line.pointer("/request_id").and_then(Value::as_str).unwrap_or_default();
            let is_uuid = id.len() == 36 && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
            ensure!(is_uuid, "no request id: {line}");
            ensure!(line.pointer("/edge_idempotency").is_some_and(Value::is_object), "no record: {line}");
        }
        let log = self.chain.gateway.log()?;
        for told in ["edge-idempotency: refused {", "edge-idempotency: request {"] {
            ensure!(log.contains(told), "Envoy's log has no line with `{told}`");
        }
        Ok(())
    }

    /// Callers with API keys, known and not, also while nobody can say whose they are.
    fn by_api_key(&self) -> Result<()> {
        let refund = |key: &str, order: &str| {
            let body = json!({"order_id": order, "amount": 1}).to_string();
            let request = Request::post(REFUNDS).body(body).header("idempotency-key", format!("{KEY}-partner"));
            // What is no bearer token is left alone by the gateway.
            request.header("authorization", "Basic planted-authorization").header("X-Partner-Key", key)
        };
        self.send("an API key", &refund(PARTNER_KEY, "order-partner"), 200)?;
        self.send("an unknown API key", &refund("sk_planted_unknown_key", "order-partner"), 401)?;
        self.send("two API keys", &refund(PARTNER_KEY, "order-partner").header("x-partner-key", PARTNER_KEY), 401)?;
        self.send(
            "an API key in another spelling",
            &refund(PARTNER_KEY, "order-partner").header("x_partner_key", PARTNER_KEY),
            200,
        )?;
        self.lookup_stores.unkey.server().fail(Fault::Status(500));
        let failed =
            self.send("an API key while Unkey fails", &refund("sk_planted_unknown_key2", "order-partner"), 503);
        self.lookup_stores.unkey.server().recover();
        failed
    }

    fn allowed(&self) -> Result<()> {
        let order = json!({"order_id": "order-1", "amount": 1}).to_string();
        let refund = Request::post(REFUNDS).body(order.clone());
        self.send("allowed", &refund.clone().header("idempotency-key", format!("{KEY}-1")), 200)?;
        self.send("replayed", &refund.header("Idempotency-Key", format!("\"{KEY}-1\"")), 200)?;
        let device = Request::post("/api/v1/devices").body(json!({"device_token": "d"}).to_string());
        let device = device.header("idempotency-key", format!("{KEY}-2")).header("Idempotency_Key", format!("{KEY}-3"));
        self.send("Case C", &device.trailer("idempotency-key", format!("{KEY}-4")), 200)?;
        let event = json!({"id": "evt_1", "order_id": "order-2", "amount": 1}).to_string();
        let stripe = deliveries::stripe(REQUIRED_B, &[STRIPE], now(), event.clone());
        self.send("Stripe", &stripe.header("idempotency-key", format!("{KEY}-5")), 200)?;
        let github = deliveries::github("/api/v1/hooks/github/wh_planted2", GITHUB, "g-1", event);
        self.send("GitHub", &github, 200)
    }

    /// Stored results, which are asked for with the key in the path, in every spelling of it, and in vain.
    fn recovered(&self) -> Result<()> {
        let cart = Request::post(CARTS).body(json!({"total": 7}).to_string());
        self.send("a cart of the subject's", &cart.header("idempotency-key", format!("{KEY}-1")), 200)?;
        for (path, status) in [
            ("/api/v1/refunds/by-idempotency-key/plantedkey-1", 200),
            ("/api/v1/refunds/by-idempotency-key/plantedkey-1/output", 200),
            ("/api/v1/carts/checkout/by-idempotency-key/plantedkey-1", 200),
            ("/api/v1/carts/checkout/by-idempotency-key/plantedkey-1/output", 200),
            ("/api/v1/carts/checkout/by-idempotency-key/plantedkey-1/output?api_key=planted-query-token", 200),
            ("/api/v1/refunds/by%2Didempotency-key/plantedkey-1", 200),
            ("/api/v1/refunds/%62y-idempotency%2dkey/plantedke%79-1/%6futput", 200),
            ("/api/v1/carts//checkout/./by-idempotency-key/plantedke%79-1/", 200),
            ("/api/v1/x/../refunds/by-idempotency-key/plantedkey-1/output/?plantedkey-1", 200),
            ("/api/v1/refunds/by-idempotency-key/plantedkey-of-nobody", 404),
            ("/api/v1/refunds/by-idempotency-key/plantedkey-of-nobody/output", 404),
            ("/api/v1/refunds/by-idempotency-key/t-plantedkey-1", 400),
            ("/api/v1/refunds/by-idempotency-key/plantedkey%201", 400),
            ("/api/v1/refunds/by-idempotency-key/plantedkey%2F1", 400),
            ("/api/v1/refunds/by-idempotency-key/plantedkey%001", 400),
            ("/api/v1/refunds/By-Idempotency-Key/plantedkey-1", 404),
            ("/api/v1/nothing/by-idempotency-key/plantedkey-1", 404),
            ("/Refunds/create/plantedkey-1", 404),
        ] {
            self.send(path, &Request::new("GET", path), status)?;
            // Without a token that is believed.
            let asked = Request::new("GET", path).header("authorization", "Bearer x.y.planted-authorization");
            // Envoy itself refuses an escaped NUL and an escaped slash, before any filter.
            let unbelieved =
                if path.starts_with("/api/") && !path.contains("%00") && !path.contains("%2F") { 401 } else { status };
            self.send(path, &asked, unbelieved)?;
        }
        let path = "/api/v1/refunds/by-idempotency-key/plantedkey-1";
        self.send("another method", &Request::new("DELETE", path), 405)?;
        self.send("a path with a query", &Request::post("/api/v1/refunds?api_key=planted-query-token"), 400)
    }

    fn refused(&self) -> Result<()> {
        let body = "{\"a\": \"planted-body-of-a-refused-request\"}";
        let refund = Request::post(REFUNDS).body(body);
        let key = |request: &Request, key: &str| request.clone().header("idempotency-key", key);
        self.send("no key", &refund, 400)?;
        for invalid in ["plantedkey a", "t-plantedkey", "\"plantedkey", "plantedkey,plantedkey", "plantedkey\u{fc}"] {
            self.send("an invalid key", &key(&refund, invalid), 400)?;
        }
        self.send("a long key", &key(&refund, &KEY.repeat(30)), 400)?;
        self.send("two keys", &key(&key(&refund, "plantedkey-6"), "plantedkey-7"), 400)?;
        let listed = Request::new("GET", "/api/v1/projects");
        self.send("a prohibited key", &key(&listed, "plantedkey-8"), 400)?;
        self.send("no path", &key(&Request::post("/api/v1/nothing").body(body), "plantedkey-9"), 404)?;
        self.send("another method", &key(&Request::new("DELETE", REFUNDS), "plantedkey-10"), 405)?;
        let unbelieved = refund.clone().header("authorization", "Bearer x.y.planted-authorization");
        self.send("no token", &key(&unbelieved, "plantedkey-11"), 401)?;
        for (claim, value, status) in
            [("tenant_id", json!(7), 403), ("project_id", json!("_a"), 403), ("sub", json!(""), 401)]
        {
            let mut claims = json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1"});
            *claims.get_mut(claim).context("a claim")? = value;
            let request = refund.clone().bearer(&self.chain.gateway.token(&claims)?);
            self.send("no identity", &key(&request, "plantedkey-12"), status)?;
        }
        let stripe = |secret: &str, time: u64, body: &str| deliveries::stripe(REQUIRED_B, &[secret], time, body);
        self.send("another secret", &stripe("whsec_other", now(), body), 401)?;
        self.send("an old delivery", &stripe(STRIPE, now() - 1000, body), 401)?;
        self.send("no identifier", &stripe(STRIPE, now(), body), 400)?;
        self.send("compressed", &stripe(STRIPE, now(), body).header("content-encoding", "gzip"), 415)?;
        self.send("too long", &stripe(STRIPE, now(), &body.repeat(100)), 413)?;
        let tampered = stripe(STRIPE, now(), body).body("{\"id\": \"planted-body-of-a-refused-request\"}");
        self.send("tampered with", &tampered, 401)?;
        let unknown = deliveries::stripe("/api/v1/hooks/stripe/wh_unknown", &[STRIPE], now(), body);
        self.send("an unknown webhook", &unknown, 404)
    }

    /// Requests that the filter takes and the backend does not.
    fn failing(&self) -> Result<()> {
        let garbage = Request::post(REFUNDS).body("not what the handler takes");
        self.send("a handler's 400", &garbage.header("idempotency-key", format!("{KEY}-13")), 400)?;
        let declined = json!({"order_id": "order-3", "amount": 1, "provider": "declines"}).to_string();
        let declined = Request::post(REFUNDS).body(declined).header("idempotency-key", format!("{KEY}-14"));
        self.send("a handler's 422", &declined, 422)?;
        let nobody = Request::post("/api/v1/nobody").header("idempotency-key", format!("{KEY}-15"));
        self.send("no such service", &nobody, 503)
    }

    /// Deliveries whose owner and secret come from the stores, which then fail.
    fn looked_up(&self) -> Result<()> {
        let event = json!({"id": "evt_2", "order_id": "order-4", "amount": 1}).to_string();
        let path = format!("/api/v1/hooks/stripe/{}", self.hook.id);
        let delivery = |secret: &str, body: &str| deliveries::stripe(&path, &[secret], now(), body);
        self.send("looked up", &delivery(LOOKED_UP, &event), 200)?;
        self.send("looked up, another secret", &delivery("whsec_other", &event), 401)?;
        ensure!(self.lookup_stores.lookups(&self.hook).1 > 0, "it was not looked up");
        for (name, server) in
            [("registry", self.lookup_stores.unkey.server()), ("store", &self.lookup_stores.openbao_proxy)]
        {
            for fault in [Fault::Status(500), Fault::HalfJson, Fault::Closed] {
                let hook = self.lookup_stores.hook(&format!("{name}_{}", server.total()))?;
                self.secrets.lock().map_err(poisoned)?.push(hook.secret.clone());
                server.fail(fault);
                let path = format!("/api/v1/hooks/stripe/{}", hook.id);
                self.send(name, &deliveries::stripe(&path, &[&hook.secret], now(), event.clone()), 503)?;
                server.recover();
            }
        }
        Ok(())
    }

    /// Everything that is kept or said, by where it is.
    fn places(&self) -> Result<Vec<(String, String)>> {
        let gateway = &self.chain.gateway;
        let mut places = Vec::new();
        for path in ["/config_dump?include_eds", "/stats", "/stats/prometheus", "/clusters", "/server_info", "/certs"] {
            let text = gateway.admin(path)?;
            ensure!(!path.starts_with("/config_dump") || text.contains("E2E_STRIPE"), "an empty config dump");
            places.push((path.to_owned(), text));
        }
        let replies = self.replies.lock().map_err(poisoned)?;
        let lines = u64::try_from(replies.len())?;
        gateway.until("the access log is written", |gateway| {
            Ok(u64::try_from(gateway.access_log()?.lines().count())? == lines)
        })?;
        places.push(("the access log".to_owned(), gateway.access_log()?));
        let log = gateway.log()?;
        let component = tools()?.filter.component();
        let is_traced = ["trace", "debug"].iter().any(|level| log.contains(&format!("[{level}][{component}]")));
        ensure!(is_traced, "nothing was traced");
        places.push(("Envoy's log".to_owned(), log));
        // Restate writes the path of a request that failed into its log, so that is one of the places that keep keys.
        for (name, file) in [("Restate's log", "restate.log"), ("the service's log", "service.log")] {
            places.push((name.to_owned(), read(&self.chain.directory.path().join(file))?));
        }
        let tables = "select table_name from information_schema.tables where table_schema = 'public'";
        let tables = runtime()?.block_on(self.chain.restate.query(tables))?;
        for table in tables.iter().filter_map(|row| row.get("table_name")?.as_str()) {
            let rows = runtime()?.block_on(self.chain.restate.query(&format!("select * from {table}")))?;
            let text: Vec<String> = rows.iter().map(readable).collect();
            // What was forwarded is there to be found.
            ensure!(
                table != "sys_journal" || text.iter().any(|row| row.contains("x-tenant-id")),
                "no headers: {text:?}"
            );
            ensure!(table != "sys_invocation" || text.iter().any(|row| row.contains(KEY)), "no keys: {text:?}");
            places.push((format!("Restate's {table}"), text.join("\n")));
        }
        let journal = places.iter().any(|(place, _)| place == "Restate's sys_journal");
        ensure!(journal, "no journal among {tables:?}");
        let calls = runtime()?.block_on(http::Request::get("/calls?after=0").send(&self.chain.service.ledger_url()))?;
        places.push(("what handlers saw".to_owned(), calls.text()));
        for (what, reply) in replies.iter() {
            // Authentication repeats the URL to whoever has sent it (`Bearer realm="…"`), and to nobody else.
            let lines = reply.headers.iter().filter(|(name, _)| name != "www-authenticate").cloned();
            let mut text = e2e::wire::shown_lines(&lines.collect::<Vec<_>>());
            text.push_str(&String::from_utf8_lossy(&reply.body));
            places.push((format!("the answer: {what}"), text));
        }
        Ok(places)
    }
}

/// Raw keys stand in what the backend keeps only, each in its namespace.
fn raw_keys(place: &str, text: &str) -> Result<()> {
    const NAMESPACED: [&str; 2] = ["t-acme:shop:user:planted-subject:", "t-acme:shop:client:key_partner:"];
    let stored = place.starts_with("Restate's ");
    for (at, _) in text.match_indices(KEY) {
        let before = text.get(..at).unwrap_or_default();
        let is_namespaced = NAMESPACED.iter().any(|namespace| before.ends_with(namespace));
        ensure!(stored && is_namespaced, "{place} holds a key: {}", around(text, KEY));
    }
    Ok(())
}

/// A row as text, with what is in it as bytes.
fn readable(row: &Value) -> String {
    let mut text = row.to_string();
    let cells = row.as_object().into_iter().flatten().filter_map(|(_, cell)| cell.as_str());
    for cell in cells.filter(|cell| cell.len() % 2 == 0 && cell.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let bytes: Vec<u8> =
            (0..cell.len()).step_by(2).filter_map(|at| u8::from_str_radix(cell.get(at..at + 2)?, 16).ok()).collect();
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    text
}

fn around(text: &str, secret: &str) -> String {
    let at = text.find(secret).unwrap_or_default();
    let start = text.get(..at).and_then(|before| before.char_indices().rev().nth(200)).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default().chars().take(400).collect()
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn poisoned<T>(_: std::sync::PoisonError<T>) -> anyhow::Error {
    anyhow::anyhow!("another test panicked")
}

fn policy() -> Value {
    let binding = |provider: &str, variable: &str| json!({"tenant": "acme", "project": "shop", "provider": provider, "secrets": [{"env": variable}]});
    json!({
        "version": 1,
        "identity": {
            "sources": [tokens::source(), {
                "name": "partner", "unkey": {"header": "x-partner-key", "prefix": "sk_", "cluster": "unkey"},
                "tenant": "/identity/externalId", "project": "/meta/project_id", "subject": {"field": "/keyId", "type": "client"},
            }],
            "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"},
        },
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
        "routes": [
            {"endpoint": "refunds", "path": REFUNDS, "policy": "REQUIRED_A", "target": "Refunds/create"},
            {"endpoint": "carts", "path": CARTS, "policy": "REQUIRED_A",
                "target": "Cart/{tenant}:{project}:{subject}/checkout"},
            {"endpoint": "nobody", "path": "/api/v1/nobody", "policy": "REQUIRED_A", "target": "Nobody/there"},
            {"endpoint": "devices", "path": "/api/v1/devices", "policy": "HANDLER_INTERNAL_C",
                "target": "Notifications/register"},
            {"endpoint": "projects", "path": "/api/v1/projects", "methods": ["GET"], "policy": "PROHIBITED",
                "scope": "tenant", "target": "Projects/list"},
            {"endpoint": "hooks", "path": "/api/v1/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B",
                "target": "Refunds/create", "max_body_bytes": 2000, "webhook": {}},
        ],
        "webhooks": {"unkey": {"cluster": "unkey", "timeout_ms": 20_000},
            "openbao": {"cluster": "openbao", "timeout_ms": 20_000, "mount": MOUNT},
            "static": {"wh_planted": binding("stripe", "E2E_STRIPE"), "wh_planted2": binding("github", "E2E_GITHUB")},
        },
    })
}
