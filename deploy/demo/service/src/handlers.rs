//! The handlers: ordinary Restate code. None of them knows about tenants' idempotency keys, and none has to.

use std::sync::Arc;
use std::time::Duration;

use restate_sdk::context::HeaderMap;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ledger::{HandlerRun, Ledger};

/// The identity headers that the gateway sets (`identity.forward` in the policy).
pub(crate) const TENANT: &str = "x-tenant-id";
pub(crate) const PROJECT: &str = "x-project-id";
const SUBJECT: &str = "x-subject";

/// What a handler saw of the gateway's work; every answer carries it.
#[derive(Serialize)]
pub(crate) struct Seen {
    tenant: Option<String>,
    project: Option<String>,
    subject: Option<String>,
}

/// Notes the call and picks out what the answer echoes.
pub(crate) fn observe(
    ledger: &Ledger,
    handler: &'static str,
    object_key: Option<&str>,
    invocation_id: &str,
    headers: &HeaderMap,
) -> Seen {
    let header = |name| headers.get(name).cloned();
    ledger.record_call(HandlerRun {
        handler,
        object_key: object_key.map(str::to_owned),
        invocation_id: invocation_id.to_owned(),
        headers: headers.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
    });
    Seen { tenant: header(TENANT), project: header(PROJECT), subject: header(SUBJECT) }
}

/// Retention of results as the policy document's classes name it, and an end to retries: an invocation that cannot succeed
/// is killed, so that its caller gets an answer instead of waiting for an operator.
pub(crate) fn options(retention: Duration) -> ServiceOptions {
    ServiceOptions::new()
        .idempotency_retention(retention)
        .journal_retention(retention)
        .retry_policy_initial_interval(Duration::from_millis(50))
        .retry_policy_exponentiation_factor(2.0)
        .retry_policy_max_attempts(3)
        .retry_policy_kill_on_max_attempts()
}

/// `Conversations`: an ordinary service behind a `REQUIRED_A` route.
pub(crate) struct Conversations(pub(crate) Arc<Ledger>);

#[derive(Deserialize)]
struct Message {
    conversation_id: String,
    text: String,
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Conversations {
    #[handler(name = "sendMessage")]
    async fn send_message(&self, ctx: Context<'_>, Json(message): Json<Message>) -> HandlerResult<Json<Value>> {
        let seen = observe(&self.0, "Conversations/sendMessage", None, ctx.invocation_id(), ctx.headers());
        let id = message.conversation_id.clone();
        let number = ctx.run(|| async move { Ok(self.0.record_effect(&id)) }).name("deliver message").await?;
        Ok(Json(json!({
            "message_id": format!("msg_{number}"),
            "conversation_id": message.conversation_id,
            "characters": message.text.chars().count(),
            "seen": seen,
        })))
    }
}

/// `Refunds`: money leaves the house, once per order and key.
pub(crate) struct Refunds(pub(crate) Arc<Ledger>);

#[derive(Deserialize)]
struct Refund {
    order_id: String,
    amount: u64,
    /// How long the payment provider takes, so that duplicates meet the first request in flight.
    #[serde(default)]
    provider_ms: u64,
    /// What the payment provider answers.
    #[serde(default)]
    provider: Provider,
}

/// What a careless library says of a failure.
const TELLTALE: &str = "cannot read /srv/payments/key.pem, src/provider/client.rs:42:7";

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Provider {
    #[default]
    Accepts,
    /// A final no: stored, and replayed to retries.
    Declines,
    /// A final no to the first attempt of an order, because there is no money; a later attempt is accepted.
    Overdrawn,
    /// A final no that looks like an unknown address.
    Missing,
    /// Fails every time, until Restate gives up.
    Down,
    /// The same, with an error that tells too much.
    Crashes,
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Refunds {
    #[handler]
    async fn create(&self, ctx: Context<'_>, Json(refund): Json<Refund>) -> HandlerResult<Json<Value>> {
        let seen = observe(&self.0, "Refunds/create", None, ctx.invocation_id(), ctx.headers());
        let Refund { order_id, amount, provider_ms, provider } = refund;
        let order = order_id.clone();
        let number = ctx
            .run(|| async move {
                tokio::time::sleep(Duration::from_millis(provider_ms)).await;
                match provider {
                    Provider::Accepts => Ok(self.0.record_effect(&order)),
                    Provider::Declines => Err(TerminalError::new_with_code(422, "the card was declined").into()),
                    Provider::Overdrawn if self.0.is_first_attempt(&order) => {
                        Err(TerminalError::new_with_code(402, "the account is overdrawn").into())
                    }
                    Provider::Overdrawn => Ok(self.0.record_effect(&order)),
                    Provider::Missing => Err(TerminalError::new_with_code(404, "not found").into()),
                    Provider::Crashes => Err(std::io::Error::other(TELLTALE).into()),
                    Provider::Down => Err(std::io::Error::other("the payment provider is down").into()),
                }
            })
            .name("refund at the payment provider")
            .await?;
        Ok(Json(json!({
            "refund_id": format!("re_{number}"),
            "order_id": order_id,
            "amount": amount,
            "seen": seen,
        })))
    }
}

/// `Cart`: a virtual object, one at a time per key. The gateway puts tenant and project into the key.
pub(crate) struct Cart(pub(crate) Arc<Ledger>);

#[derive(Deserialize)]
struct Checkout {
    total: u64,
}

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl Cart {
    #[handler]
    async fn checkout(&self, ctx: ObjectContext<'_>, Json(checkout): Json<Checkout>) -> HandlerResult<Json<Value>> {
        let cart = ctx.key().to_owned();
        let seen = observe(&self.0, "Cart/checkout", Some(&cart), ctx.invocation_id(), ctx.headers());
        let orders = ctx.get::<u64>("orders").await?.unwrap_or(0) + 1;
        ctx.set("orders", orders);
        let id = cart.clone();
        ctx.run(|| async move { Ok(self.0.record_effect(&id)) }).name("place order").await?;
        Ok(Json(json!({"cart": cart, "order": orders, "total": checkout.total, "seen": seen})))
    }
}

/// `Inbox`: a virtual object that gets what third parties send about one thing. The gateway takes the thing's name from the
/// delivery.
pub(crate) struct Inbox(pub(crate) Arc<Ledger>);

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl Inbox {
    #[handler]
    async fn receive(&self, ctx: ObjectContext<'_>, body: Vec<u8>) -> HandlerResult<Json<Value>> {
        let key = ctx.key().to_owned();
        let seen = observe(&self.0, "Inbox/receive", Some(&key), ctx.invocation_id(), ctx.headers());
        let messages = ctx.get::<u64>("messages").await?.unwrap_or(0) + 1;
        ctx.set("messages", messages);
        Ok(Json(json!({"inbox": key, "messages": messages, "bytes": body.len(), "seen": seen})))
    }
}

/// `Notifications`: Case C. The data itself is unique, so the handler needs no key to do the work once.
pub(crate) struct Notifications(pub(crate) Arc<Ledger>);

#[derive(Deserialize)]
struct Device {
    device_token: String,
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Notifications {
    #[handler]
    async fn register(&self, ctx: Context<'_>, Json(device): Json<Device>) -> HandlerResult<Json<Value>> {
        let seen = observe(&self.0, "Notifications/register", None, ctx.invocation_id(), ctx.headers());
        let unique = format!(
            "{}/{}/{}",
            seen.tenant.as_deref().unwrap_or_default(),
            seen.project.as_deref().unwrap_or_default(),
            device.device_token
        );
        let Json((number, duplicate)) =
            ctx.run(|| async move { Ok(Json(self.0.register(&unique))) }).name("insert device").await?;
        Ok(Json(json!({"registration": number, "duplicate": duplicate, "seen": seen})))
    }
}

/// `Projects`: reads only, so a key makes no sense here.
pub(crate) struct Projects(pub(crate) Arc<Ledger>);

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Projects {
    #[handler]
    async fn list(&self, ctx: Context<'_>) -> HandlerResult<Json<Value>> {
        let seen = observe(&self.0, "Projects/list", None, ctx.invocation_id(), ctx.headers());
        Ok(Json(json!({"projects": ["billing", "health-prod"], "seen": seen})))
    }
}

/// `Reports`: what the scheduler runs. A dispatch that is sent twice gets here once, so nothing is remembered here.
pub(crate) struct Reports(pub(crate) Arc<Ledger>);

#[derive(Deserialize)]
struct Report {
    report: String,
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Reports {
    #[handler]
    async fn run(&self, ctx: Context<'_>, Json(report): Json<Report>) -> HandlerResult<Json<Value>> {
        let seen = observe(&self.0, "Reports/run", None, ctx.invocation_id(), ctx.headers());
        let id = report.report.clone();
        let number = ctx.run(|| async move { Ok(self.0.record_effect(&id)) }).name("send the report").await?;
        Ok(Json(json!({"run": number, "report": report.report, "seen": seen})))
    }
}

/// `Webhooks`: what third parties send. Their identifiers are keys by the time it gets here, so it just does the work.
pub(crate) struct Webhooks(pub(crate) Arc<Ledger>);

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Webhooks {
    #[handler]
    async fn ingest(&self, ctx: Context<'_>, body: Vec<u8>) -> HandlerResult<Json<Value>> {
        let seen = observe(&self.0, "Webhooks/ingest", None, ctx.invocation_id(), ctx.headers());
        let Some(subject) = subject(&body) else {
            return Err(TerminalError::new_with_code(422, "the delivery is about nothing that is known here").into());
        };
        let id = subject.clone();
        let number = ctx.run(|| async move { Ok(self.0.record_effect(&id)) }).name("act on the event").await?;
        Ok(Json(json!({"processed": number, "subject": subject, "seen": seen})))
    }
}

/// What a delivery is about: Stripe's object, the commit that GitHub got, Twilio's message.
fn subject(body: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Value>(body) {
        Ok(event) => {
            let found = ["/data/object/id", "/after"].iter().find_map(|place| event.pointer(place)?.as_str());
            found.map(str::to_owned)
        }
        Err(_) => {
            let mut fields = std::str::from_utf8(body).ok()?.split('&');
            fields.find_map(|field| field.strip_prefix("MessageSid=")).map(str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::subject;

    #[test]
    fn deliveries_say_what_they_are_about() {
        let about = |body: &str| subject(body.as_bytes());
        assert_eq!(about(r#"{"id":"evt_1","data":{"object":{"id":"ch_1"}}}"#).as_deref(), Some("ch_1"));
        assert_eq!(about(r#"{"ref":"refs/heads/main","after":"c0ffee"}"#).as_deref(), Some("c0ffee"));
        assert_eq!(about("MessageStatus=sent&MessageSid=SM1").as_deref(), Some("SM1"));
        assert_eq!(about(r#"{"id":"evt_1"}"#), None);
        assert_eq!(about("To=1"), None);
    }
}
