//! The clients in Rust. They run in this process.

use std::time::Duration;

use anyhow::Result;
use e2e::runner::runtime;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;

use super::programs::{RecipeCall, Told};

const BASE: Duration = Duration::from_millis(10);

/// Sends the requests, all at the same time.
pub(crate) fn run(is_configured: bool, calls: &[RecipeCall]) -> Result<Told> {
    let started = calls.iter().map(|call| {
        let timeout = Duration::from_millis(call.situation.timeout());
        let client = if is_configured { retries_example::client(timeout, BASE)? } else { plain(timeout)? };
        let call = call.clone();
        Ok((format!("{:?}", call.situation), runtime()?.spawn(async move { send(&client, call).await })))
    });
    let started = started.collect::<Result<Vec<_>>>()?;
    started.into_iter().map(|(name, task)| Ok((name, runtime()?.block_on(task)?))).collect()
}

/// The retries as reqwest-retry brings them.
fn plain(timeout: Duration) -> Result<ClientWithMiddleware> {
    let attempt = reqwest::Client::builder().timeout(timeout).build()?;
    let schedule = ExponentialBackoff::builder().retry_bounds(BASE, BASE).build_with_max_retries(3);
    Ok(ClientBuilder::new(attempt).with(RetryTransientMiddleware::new_with_policy(schedule)).build())
}

async fn send(client: &ClientWithMiddleware, call: RecipeCall) -> String {
    let RecipeCall { url, token, key, body, .. } = call;
    let request = client.post(url).header("authorization", format!("Bearer {token}"));
    let request = if key.is_empty() { request } else { request.header("idempotency-key", key) };
    let answer = match request.header("content-type", "application/json").body(body).send().await {
        Ok(answer) => answer,
        Err(error) => return error.to_string(),
    };
    let status = answer.status();
    answer.bytes().await.map_or_else(|error| error.without_url().to_string(), |_| status.as_u16().to_string())
}
