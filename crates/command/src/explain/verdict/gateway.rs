//! A request in a gateway in memory, which answers the filter's calls from the stores of the request document.

use crate::explain::request::Request;
use edge_idempotency_engine::memory_gateway::{HeaderEdit, MemoryGateway};
use edge_idempotency_engine::{Configuration, Policy, Stream};
use simulated_stores::{StoreReply, StoreRequest};
use std::sync::Arc;

/// The number of the only stream.
const STREAM: u32 = 0;

/// Lets a request pass the engine until it is decided. Gives the stream, which has a trace, and the edits of the request's headers in
/// their order; none if the request was refused.
pub(super) fn run(policy: &Arc<Policy>, request: &Request) -> (Stream, Vec<HeaderEdit>) {
    let secret_path = |owner: &str| policy.secret_path(owner).unwrap_or_else(|| owner.to_owned());
    let stores = request.stores.clone().with_secrets_at(secret_path);
    let mut gateway = MemoryGateway {
        attributes: Some(request),
        now_unix_ms: request.now_unix_ms,
        advice: Some(&edge_idempotency_envoy::ADVICE),
        ..MemoryGateway::default()
    };
    gateway.request.headers = request.lines();
    gateway.request.body.replace(request.body.clone());

    let mut configuration = Configuration::of(Arc::clone(policy));
    let mut stream = Stream::traced(STREAM, &configuration);
    let answer_calls = |configuration: &mut Configuration, stream: &mut Stream| {
        gateway.answer_calls(configuration, stream, |call| {
            let (method, path) = (call.line(":method").as_bytes(), call.line(":path").as_bytes());
            let StoreReply { status, body } = stores.reply_to(&StoreRequest { method, path, body: &call.body });
            (status, body)
        });
    };
    let body = request.body.len();
    // What an action says, the exchange says as well.
    stream.on_request_headers(&gateway, &mut configuration, body == 0);
    answer_calls(&mut configuration, &mut stream);
    if body > 0 && !gateway.has_replied() {
        stream.on_request_body(&gateway, &mut configuration, body, true);
        answer_calls(&mut configuration, &mut stream);
    }
    let edits = if gateway.has_replied() { Vec::new() } else { gateway.edits.take() };
    (stream, edits)
}
