//! A payment in Case C, with a third party: the handler deduplicates by what it knows (an order is captured once), and the payment
//! provider gets a token that is made of the handler's own key. So every attempt at an order sends the same token, whoever repeats
//! it (the client, the gateway, Restate), and the provider charges once.

use std::sync::Arc;

use anyhow::ensure;
use harness::http::Request;
use restate_sdk::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::handlers::observe;
use crate::ledger::Ledger;

/// The state with the charge of an order.
const CHARGE: &str = "charge";

/// The stand-in's path for charges.
pub(crate) const CHARGES: &str = "/charges";
/// The header that has the stand-in lose its first answers under a token, after it has charged.
pub(crate) const LOSE_ANSWERS: &str = "x-lose-answers";

/// `Charges`: the key is `{tenant}:{project}:{order}`.
pub(crate) struct Charges {
    pub(crate) ledger: Arc<Ledger>,
    /// Where the payment provider is
    pub(crate) provider: String,
}

/// What a client asks for.
#[derive(Deserialize)]
struct Capture {
    /// In cents
    amount: u64,
    /// How many answers of the payment provider get lost.
    #[serde(default)]
    lost_answers: u32,
}

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl Charges {
    #[handler]
    async fn capture(&self, ctx: ObjectContext<'_>, Json(capture): Json<Capture>) -> HandlerResult<Json<Value>> {
        let order = ctx.key().to_owned();
        observe(&self.ledger, "Charges/capture", Some(&order), ctx.invocation_id(), ctx.headers());
        if let Some(Json(charge)) = ctx.get::<Json<Value>>(CHARGE).await? {
            return Ok(Json(json!({"charge": charge, "duplicate": true})));
        }
        // The same text for every attempt at this order, and another one for every other order, project or tenant.
        let token = format!("capture:{order}");
        let request = Request::post(CHARGES)
            .header("Idempotency-Key", &token)
            .header(LOSE_ANSWERS, capture.lost_answers.to_string())
            .json(&json!({"order": order, "amount": capture.amount}));
        let provider = &self.provider;
        let Json(charge) = ctx
            .run(|| async move { Ok(Json(charge(provider, &request).await.map_err(std::io::Error::other)?)) })
            .name("charge at the payment provider")
            .await?;
        ctx.set(CHARGE, Json(charge.clone()));
        Ok(Json(json!({"charge": charge, "duplicate": false})))
    }
}

/// Asks the payment provider for a charge. Without an answer nobody knows whether there is one, so the call is made again.
async fn charge(provider: &str, request: &Request) -> anyhow::Result<Value> {
    let reply = request.send(provider).await?;
    ensure!(reply.status == 200, "the payment provider answers {}", reply.status);
    Ok(reply.json())
}
