//! reqwest with reqwest-retry: a request that has an `Idempotency-Key` is sent again until there is an answer.

use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response, header::HeaderMap};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware, Retryable, RetryableStrategy, default_on_request_failure};

/// A client. `timeout` is that of an attempt, `base` the first wait. Fails if reqwest cannot be set up.
pub fn client(timeout: Duration, base: Duration) -> reqwest::Result<ClientWithMiddleware> {
    let schedule = ExponentialBackoff::builder().retry_bounds(base, Duration::from_secs(30)).jitter(Jitter::Full);
    let retry = RetryTransientMiddleware::new_with_policy_and_strategy(schedule.build_with_max_retries(9), Answers);
    let attempt = reqwest::Client::builder().timeout(timeout).build()?;
    Ok(ClientBuilder::new(attempt).with(WithKey(retry)).with(WaitAsTold).build())
}

/// Which answers are sent for again.
struct Answers;

impl RetryableStrategy for Answers {
    fn handle(&self, result: &Result<Response>) -> Option<Retryable> {
        match result {
            Ok(answer) => is_again(answer).then_some(Retryable::Transient),
            Err(error) => default_on_request_failure(error),
        }
    }
}

fn has_key(request: &Request) -> bool {
    request.headers().contains_key("idempotency-key")
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn is_again(answer: &Response) -> bool {
    match (text(answer.headers(), "idempotency-retry"), answer.status().as_u16()) {
        (Some(advice), _) => advice == "same_key" || advice == "wait",
        (None, 409 | 425) => answer.headers().contains_key("retry-after"),
        (None, status) => matches!(status, 429 | 502 | 503 | 504),
    }
}

/// The retries, for requests with a key only.
struct WithKey<M>(M);

#[async_trait::async_trait]
impl<M: Middleware> Middleware for WithKey<M> {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        if has_key(&request) {
            self.0.handle(request, extensions, next).await
        } else {
            next.run(request, extensions).await
        }
    }
}

/// reqwest-retry does not read `Retry-After`: the answer is held back as long as the header says, in seconds.
struct WaitAsTold;

#[async_trait::async_trait]
impl Middleware for WaitAsTold {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let has_key = has_key(&request);
        let answer = next.run(request, extensions).await?;
        let told = text(answer.headers(), "retry-after").filter(|_| has_key && is_again(&answer));
        let seconds: u64 = told.and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(seconds.min(60))).await;
        Ok(answer)
    }
}
