//! Charges a card, and waits until the payment provider's webhook says what came of it.

use std::time::Duration;

use restate_sdk::prelude::*;
use serde_json::{Value, json};

use crate::promises::promise;

mod promises;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The payment provider, as far as this example needs it: a real one is called here, and answers with the id of the charge.
async fn charge(order: &str) -> HandlerResult<String> {
    Ok(format!("ch_{order}"))
}

/// Whose charge it is: the gateway sets these headers from the caller's token.
fn scope(ctx: &Context<'_>) -> Result<String, TerminalError> {
    let header = |name| ctx.headers().get(name).ok_or_else(|| TerminalError::new_with_code(400, format!("no {name}")));
    Ok(format!("{}:{}", header("x-tenant-id")?, header("x-project-id")?))
}

struct Orders;

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Orders {
    /// Waits for the one event that there will be.
    #[handler]
    async fn pay(&self, ctx: Context<'_>, order: String) -> HandlerResult<Json<Value>> {
        let charge = ctx.run(|| charge(&order)).name("charge the card").await?;
        let key = format!("{}:stripe:{charge}", scope(&ctx)?);
        let Json(event) = promise::<Json<Value>>(&ctx, key, DAY).await?.await?;
        Ok(Json(json!({"order": order, "charge": charge, "event": event.get("type")})))
    }

    /// Waits for one of two events, where the key holds the event's type.
    #[handler]
    async fn settle(&self, ctx: Context<'_>, order: String) -> HandlerResult<Json<Value>> {
        let charge = ctx.run(|| charge(&order)).name("charge the card").await?;
        let scope = scope(&ctx)?;
        let succeeded = promise::<Json<Value>>(&ctx, format!("{scope}:stripe:charge.succeeded:{charge}"), DAY).await?;
        let failed = promise::<Json<Value>>(&ctx, format!("{scope}:stripe:charge.failed:{charge}"), DAY).await?;
        let paid = restate_sdk::select! {
            event = succeeded => { event?; true },
            event = failed => { event?; false },
        };
        Ok(Json(json!({"order": order, "paid": paid})))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::var("PORT").unwrap_or_else(|_| "9080".to_owned());
    let endpoint = Endpoint::builder().bind(Orders).build();
    HttpServer::new(endpoint).listen_and_serve(format!("127.0.0.1:{port}").parse()?).await;
    Ok(())
}
