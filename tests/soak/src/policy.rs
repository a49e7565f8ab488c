//! The policy document of the soak, and who calls.

use harness::tokens;
use serde_json::{Value, json};

/// A route that takes orders with a key, and is answered by the handler.
pub const PAYMENTS: &str = "/api/v1/payments";
/// The same; a retry is refused while the first attempt is under way.
pub const CHARGES: &str = "/api/v1/charges";
/// A route that only accepts orders (`one_way`).
pub const SCHEDULED: &str = "/api/v1/scheduled-payments";
/// A route that only accepts orders, whose handler then waits for a webhook.
pub const PURCHASES: &str = "/api/v1/purchases";
/// Where operations are asked for by their id.
pub const OPERATIONS: &str = "/api/v1/operations";
/// The variable with the secret that tags operation ids.
pub const OPERATIONS_SECRET: &str = "OPERATIONS_SECRET";
/// As long as the guard keeps fingerprints: the results' 24 hours, and more than two hours.
pub const GUARD_RETENTION: &str = "48h";
/// How long a recovery waits for a result.
const RECOVERY_WAIT_MS: u64 = 4_000;

/// The route of a deposit on an account, a virtual object.
pub fn deposits(account: usize) -> String {
    format!("/api/v1/accounts/{account}/deposits")
}

/// Who calls: a user of a project of a tenant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SoakCaller {
    /// The tenant.
    pub tenant: &'static str,
    /// The project.
    pub project: &'static str,
    /// The user.
    pub user: &'static str,
}

impl SoakCaller {
    /// The key of one of the caller's accounts, a virtual object.
    pub fn account(&self, account: usize) -> String {
        format!("{}:{}:{account}", self.tenant, self.project)
    }

    /// As the handlers see the caller: `{tenant}/{project}/{subject}`.
    pub fn seen(&self) -> String {
        format!("{}/{}/user:{}", self.tenant, self.project, self.user)
    }
}

/// Callers that differ in one part only are among them.
pub const CALLERS: [SoakCaller; 8] = [
    SoakCaller { tenant: "acme", project: "shop", user: "alice" },
    SoakCaller { tenant: "acme", project: "shop", user: "bob" },
    SoakCaller { tenant: "acme", project: "lab", user: "alice" },
    SoakCaller { tenant: "acme", project: "lab", user: "bob" },
    SoakCaller { tenant: "globex", project: "shop", user: "alice" },
    SoakCaller { tenant: "globex", project: "shop", user: "bob" },
    SoakCaller { tenant: "globex", project: "lab", user: "alice" },
    SoakCaller { tenant: "globex", project: "lab", user: "bob" },
];

/// A webhook whose secret is in the secret store.
#[derive(Clone, Copy, Debug)]
pub struct SoakWebhook {
    /// The last segment of its path.
    pub id: &'static str,
    /// Whose it is.
    pub tenant: &'static str,
    /// Likewise.
    pub project: &'static str,
}

/// The webhooks, all of them Stripe's.
pub const HOOKS: [SoakWebhook; 2] = [
    SoakWebhook { id: "wh_01JACME", tenant: "acme", project: "shop" },
    SoakWebhook { id: "wh_01JGLOBEX", tenant: "globex", project: "shop" },
];

impl SoakWebhook {
    /// Where its deliveries go.
    pub fn path(&self) -> String {
        format!("/webhooks/stripe/{}", self.id)
    }

    /// Where deliveries about purchases go.
    pub fn purchases_path(&self) -> String {
        format!("{}/purchases", self.path())
    }

    /// Where its secret is in the secret store's mount.
    pub fn secret_path(&self) -> String {
        format!("{}:{}:stripe", self.tenant, self.project)
    }

    /// As the handlers see it.
    pub fn seen(&self) -> String {
        format!("{}/{}/service:webhook-ingest", self.tenant, self.project)
    }
}

/// A set-up that is wrong on purpose, so that the check has something to find.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Sabotage {
    /// Keys are removed before the backend sees them.
    Keys,
    /// Keys reach the backend as callers wrote them, so that callers with the same key share a result; and nobody compares bodies.
    Namespace,
    /// Nobody compares the bodies of requests with one key.
    Guard,
}

/// The document.
pub fn document(sabotage: Option<Sabotage>) -> Value {
    let keyed = if sabotage == Some(Sabotage::Keys) { "HANDLER_INTERNAL_C" } else { "REQUIRED_A" };
    let compares = !matches!(sabotage, Some(Sabotage::Guard | Sabotage::Keys | Sabotage::Namespace));
    let route = |endpoint: &str, path: &str, target: &str| {
        let mut route = json!({"endpoint": endpoint, "path": path, "policy": keyed, "target": target});
        if compares && let Some(members) = route.as_object_mut() {
            members.insert("collision".to_owned(), json!("enforce"));
        }
        route
    };
    let one_way = |endpoint: &str, path: &str, target: &str| {
        let mut route = route(endpoint, path, target);
        if let Some(members) = route.as_object_mut() {
            members.insert("one_way".to_owned(), json!(true));
        }
        route
    };
    let mut charges = route("payments.charge", CHARGES, "Payments/charge");
    if compares && let Some(members) = charges.as_object_mut() {
        members.insert("in_flight".to_owned(), json!("conflict"));
    }
    let deposit = "Account/{tenant}:{project}:{account_id}/deposit";
    let mut document = json!({
        "version": 1,
        // In shadow mode keys stay raw, while handlers are still told who calls.
        "mode": if sabotage == Some(Sabotage::Namespace) { "shadow" } else { "enforce" },
        "docs_url": "https://developers.example.com/idempotency",
        "identity": {
            "sources": [tokens::source()],
            "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"},
        },
        "backend": {
            "kind": "restate",
            "rewrite_path": true,
            "cluster": "backend",
            "operation_id": "x-restate-id",
            "hide_headers": ["x-restate-*", "access-control-*"],
            "guard": {"service": "IdempotencyGuard", "retention": GUARD_RETENTION},
            "operations": {
                "path": format!("{OPERATIONS}/{{operation_id}}"),
                "secret": {"env": OPERATIONS_SECRET},
            },
        },
        "recovery_wait_ms": RECOVERY_WAIT_MS,
        "routes": [
            route("payments.create", PAYMENTS, "Payments/create"),
            route("accounts.deposit", "/api/v1/accounts/{account_id}/deposits", deposit),
            charges,
            one_way("payments.schedule", SCHEDULED, "Payments/schedule"),
            one_way("payments.purchase", PURCHASES, "Payments/purchase"),
            {
                "endpoint": "webhooks.purchases",
                "path": "/webhooks/stripe/{webhook_id}/purchases",
                "policy": "REQUIRED_B",
                "target": "Promises/{tenant}:{project}:stripe:{body:/data/object/nonce}/resolve",
                "webhook": {"provider": "stripe"},
            },
            {
                "endpoint": "webhooks.ingest",
                "path": "/webhooks/{provider}/{webhook_id}",
                "policy": "REQUIRED_B",
                "target": "Webhooks/ingest",
                "webhook": {},
            },
        ],
        "webhooks": {
            "public_base_url": "https://api.example.com",
            // Short, so that a store that is down is noticed.
            "openbao": {"cluster": "openbao", "mount": "webhooks", "path": "{tenant}:{project}:{provider}",
                "timeout_ms": 1000, "cache_ttl_s": 2},
            "static": {},
        },
    });
    let bindings = HOOKS.map(|hook| {
        (hook.id.to_owned(), json!({"tenant": hook.tenant, "project": hook.project, "provider": "stripe"}))
    });
    if let Some(place) = document.pointer_mut("/webhooks/static") {
        *place = Value::Object(bindings.into_iter().collect());
    }
    document
}
