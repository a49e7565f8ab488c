//! What stores answer to the calls that the engine makes, at once.

use edge_idempotency_engine::lookup::{LookupAnswer, Lookups};
use edge_idempotency_engine::questions::{PendingLookup, UncachedLookup};
use edge_idempotency_engine::{Call, CallReply};
use serde_json::Value;
use simulated_stores::{SimulatedStores, StoreReply, StoreRequest};

/// What the stores reply to a call of the engine.
pub fn reply_to(stores: &SimulatedStores, call: &Call) -> StoreReply {
    let (method, path) = (call.line(":method").as_bytes(), call.line(":path").as_bytes());
    stores.reply_to(&StoreRequest { method, path, body: &call.body })
}

/// The answer to the lookup that a request waits for, with an immediate reply to every call. `lookups` are those of the policy.
/// `None` if they have no store for it.
pub fn answer(
    stores: &SimulatedStores,
    lookups: Option<&mut Lookups>,
    lookup: PendingLookup<'_>,
    now: u64,
) -> Option<LookupAnswer> {
    /// The number of the only request.
    const STREAM: u32 = 0;
    let (uncached, path, body) = match lookup {
        PendingLookup::Store(request) => {
            let lookups = lookups?;
            let answer = lookups.look_up(STREAM, request, &|| None, now);
            while let Some((id, call)) = lookups.next_call() {
                let StoreReply { status, body } = reply_to(stores, &call);
                lookups.replied(&id, &CallReply { status, body: Some(&body) }, now);
            }
            return answer.or_else(|| lookups.answer_for(STREAM));
        }
        PendingLookup::Invocation(question) => (UncachedLookup::Invocation, "/restate/lookup", question.body.clone()),
        PendingLookup::Output(_) => (UncachedLookup::Output, "/restate/output", String::new()),
        PendingLookup::Claim(claim) => {
            let path = "/restate/call/IdempotencyGuard/claim";
            (UncachedLookup::Claim, path, Value::from(claim.fingerprint.as_str()).to_string())
        }
    };
    let request = StoreRequest { method: b"POST", path: path.as_bytes(), body: body.as_bytes() };
    let StoreReply { status, body } = stores.reply_to(&request);
    Some(uncached.read_reply(&CallReply { status, body: Some(&body) }))
}
