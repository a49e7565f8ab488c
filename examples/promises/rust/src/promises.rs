//! Waits for what a third party sends under `key`, which is `{tenant}:{project}:{what is waited for}`.

use std::time::Duration;

use restate_sdk::context::{DurableFuture, RequestTarget};
use restate_sdk::prelude::*;
use restate_sdk::serde::Deserialize;
use serde_json::{Value, json};

/// From now on `key` leads here, for as long as `ttl` says. What comes is in the future, which can stand in a `select!`.
pub(crate) async fn promise<'ctx, T: Deserialize + 'static>(
    ctx: &Context<'ctx>,
    key: String,
    ttl: Duration,
) -> Result<impl DurableFuture<Output = Result<T, TerminalError>>, TerminalError> {
    let (awakeable, outcome) = ctx.awakeable();
    let registration = Json(json!({"awakeable": awakeable, "ttl_s": ttl.as_secs()}));
    let _: Json<Value> = ctx.request(RequestTarget::object("Promises", key, "await"), registration).call().await?;
    Ok(outcome)
}
