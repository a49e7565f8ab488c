//! The services behind the gateway. They are deterministic, and every effect is a journaled change of a virtual object's state, so
//! that Restate itself makes it exactly once for each invocation. The ledger at the end is this state.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use edge_idempotency_services::promises::{Limits, bind as bind_promises};
use restate_sdk::context::HeaderMap;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::promises::promise;

/// The state of `EffectObject` and `Account` objects that has their effects.
pub const ENTRIES: &str = "entries";
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an invocation may stand still, for example on a paused instance, before it is begun anew.
const STALLED: Duration = Duration::from_secs(5);

/// How long a handler waits for a webhook: longer than any run.
const WAITS: Duration = RETENTION;

/// What a client sends.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SoakOrder {
    /// Names the one effect that this request asks for.
    pub nonce: String,
    /// How long the handler waits before it answers, in milliseconds: a retry may then find the first attempt under way.
    #[serde(default)]
    pub work_ms: u64,
}

/// What a handler answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Answer {
    /// The order's nonce.
    pub nonce: String,
    /// `{tenant}/{project}/{subject}`, as the gateway told the handler.
    pub caller: String,
    /// The invocation that had the effect.
    pub invocation: String,
    /// The key of the virtual object whose account it is; an empty text for what is no account.
    pub account: String,
    /// The webhook's event that the handler waited for; an empty text if it waited for none.
    #[serde(default)]
    pub event: String,
}

/// An effect.
pub type Entry = Answer;

/// Who the gateway says is calling.
fn caller(headers: &HeaderMap) -> String {
    let part = |name| headers.get(name).map_or("", String::as_str);
    format!("{}/{}/{}", part("x-tenant-id"), part("x-project-id"), part("x-subject"))
}

/// Has the effect of an order, in the `EffectObject` object that its nonce names.
async fn effect(ctx: &Context<'_>, nonce: &str, work_ms: u64) -> HandlerResult<Json<Answer>> {
    let answer = Answer {
        nonce: nonce.to_owned(),
        caller: caller(ctx.headers()),
        invocation: ctx.invocation_id().to_owned(),
        account: String::new(),
        event: String::new(),
    };
    ctx.object_client::<EffectObjectClient>(nonce).record(Json(answer.clone())).call().await?;
    if work_ms > 0 {
        ctx.sleep(Duration::from_millis(work_ms)).await?;
    }
    Ok(Json(answer))
}

/// A virtual object for each nonce: the list of its effects, which should have one entry.
struct EffectObject;

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl EffectObject {
    #[handler]
    async fn record(&self, ctx: ObjectContext<'_>, Json(entry): Json<Entry>) -> HandlerResult<()> {
        add(&ctx, entry).await
    }
}

async fn add(ctx: &ObjectContext<'_>, entry: Entry) -> HandlerResult<()> {
    let mut entries = ctx.get::<Json<Vec<Entry>>>(ENTRIES).await?.map_or_else(Vec::new, Json::into_inner);
    entries.push(entry);
    ctx.set(ENTRIES, Json(entries));
    Ok(())
}

/// A service whose calls take a key.
struct Payments;

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Payments {
    #[handler]
    async fn create(&self, ctx: Context<'_>, Json(order): Json<SoakOrder>) -> HandlerResult<Json<Answer>> {
        effect(&ctx, &order.nonce, order.work_ms).await
    }

    /// As `create`; the gateway refuses a retry while the first attempt is under way (`in_flight: conflict`).
    #[handler]
    async fn charge(&self, ctx: Context<'_>, Json(order): Json<SoakOrder>) -> HandlerResult<Json<Answer>> {
        effect(&ctx, &order.nonce, order.work_ms).await
    }

    /// As `create`; the gateway only hands it over (`one_way`).
    #[handler]
    async fn schedule(&self, ctx: Context<'_>, Json(order): Json<SoakOrder>) -> HandlerResult<Json<Answer>> {
        effect(&ctx, &order.nonce, order.work_ms).await
    }

    /// As `schedule`; after its effect it waits for a webhook about the order, and answers whose order that was about.
    #[handler]
    async fn purchase(&self, ctx: Context<'_>, Json(order): Json<SoakOrder>) -> HandlerResult<Json<Answer>> {
        let Json(answer) = effect(&ctx, &order.nonce, order.work_ms).await?;
        let part = |name| ctx.headers().get(name).cloned().unwrap_or_default();
        let key = format!("{}:{}:stripe:{}", part("x-tenant-id"), part("x-project-id"), order.nonce);
        let Json(event) = promise::<Json<SoakEvent>>(&ctx, key, WAITS).await?.await?;
        Ok(Json(Answer { nonce: event.data.object.nonce, event: event.id, ..answer }))
    }
}

/// A virtual object whose own state has the effects.
struct Account;

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl Account {
    #[handler]
    async fn deposit(&self, ctx: ObjectContext<'_>, Json(order): Json<SoakOrder>) -> HandlerResult<Json<Answer>> {
        let answer = Answer {
            nonce: order.nonce,
            caller: caller(ctx.headers()),
            invocation: ctx.invocation_id().to_owned(),
            account: ctx.key().to_owned(),
            event: String::new(),
        };
        add(&ctx, answer.clone()).await?;
        Ok(Json(answer))
    }
}

/// Deliveries of webhooks.
struct Webhooks;

/// An event, as Stripe sends it.
#[derive(Deserialize)]
struct SoakEvent {
    id: String,
    data: SoakEventData,
}

#[derive(Deserialize)]
struct SoakEventData {
    object: SoakOrder,
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Webhooks {
    #[handler]
    async fn ingest(&self, ctx: Context<'_>, Json(event): Json<SoakEvent>) -> HandlerResult<Json<Answer>> {
        effect(&ctx, &event.data.object.nonce, event.data.object.work_ms).await
    }
}

fn options() -> ServiceOptions {
    ServiceOptions::new()
        .idempotency_retention(RETENTION)
        .journal_retention(Duration::ZERO)
        .inactivity_timeout(STALLED)
        .abort_timeout(STALLED)
        .retry_policy_initial_interval(Duration::from_millis(50))
        .retry_policy_exponentiation_factor(2.0)
        .retry_policy_max_interval(Duration::from_secs(1))
        .retry_policy_max_attempts(10_000_000)
        .retry_policy_pause_on_max_attempts()
}

/// Serves all of them on `address` until the process ends.
pub async fn serve(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let endpoint = Endpoint::builder()
        .bind(EffectObject.into_service_definition().options(options()))
        .bind(Payments.into_service_definition().options(options()))
        .bind(Account.into_service_definition().options(options()))
        .bind(Webhooks.into_service_definition().options(options()));
    let endpoint = bind_promises(endpoint, Limits::default()).build();
    println!("ready on {}", listener.local_addr()?);
    HttpServer::new(endpoint).serve_with_cancel(listener, std::future::pending::<()>()).await;
    Ok(())
}
