//! `Purchases`: a handler that waits for a third party, as docs/restate.md has it.

use std::sync::Arc;
use std::time::Duration;

use restate_sdk::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::handlers::{PROJECT, TENANT, observe};
use crate::ledger::Ledger;
use crate::promises::promise;

const DAY_S: u64 = 24 * 60 * 60;

/// `Purchases`: the payment provider says later, by a webhook, what came of a charge.
pub(crate) struct Purchases(pub(crate) Arc<Ledger>);

#[derive(Deserialize)]
struct Purchase {
    /// What the payment provider calls the charge.
    charge: String,
    /// How long to wait for its webhook.
    ttl_s: Option<u64>,
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Purchases {
    #[handler]
    async fn create(&self, ctx: Context<'_>, Json(purchase): Json<Purchase>) -> HandlerResult<Json<Value>> {
        let seen = observe(&self.0, "Purchases/create", None, ctx.invocation_id(), ctx.headers());
        let Purchase { charge, ttl_s } = purchase;
        let id = charge.clone();
        ctx.run(|| async move { Ok(self.0.record_effect(&id)) }).name("charge the card").await?;
        let scope = |name| ctx.headers().get(name).cloned().unwrap_or_default();
        let key = format!("{}:{}:stripe:{charge}", scope(TENANT), scope(PROJECT));
        let ttl = Duration::from_secs(ttl_s.unwrap_or(DAY_S));
        let Json(event) = promise::<Json<Value>>(&ctx, key, ttl).await?.await?;
        Ok(Json(json!({"charge": charge, "event": event, "seen": seen})))
    }
}
