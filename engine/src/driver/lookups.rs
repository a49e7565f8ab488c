//! The lookups of one configuration: the caches, and the calls that the host makes for them. A call belongs to the
//! configuration and not to a request, so its reply comes even if the request has ended.

use crate::call::{CallReply, CallsUnderWay};
use crate::host::{Host, LogLevel};
use crate::lookup::{CallId, LookupAnswer, LookupRequest, Lookups, PendingLookup, StoreKind, invocation};
use crate::metrics::{Histogram, SeriesTable};
use crate::policy::Policy;
use crate::policy::document::InvocationStore;

/// Caches and calls, shared by all requests of a configuration.
pub struct SharedLookups {
    /// The stores of bindings and secrets
    stores: Option<Lookups>,
    /// Where the ids of invocations are looked up
    invocations: Option<InvocationStore>,
    calls: CallsUnderWay<SharedCall>,
    /// Answers to lookups of invocations, for the requests that wait
    answers: Vec<(u32, LookupAnswer)>,
}

/// A call under way.
struct SharedCall {
    id: SharedCallId,
    /// The store, as metrics write it
    store: &'static str,
    /// Unix time in milliseconds
    started_at: u64,
}

/// What a call is for.
enum SharedCallId {
    Store(CallId),
    /// For the request with this number
    Invocation(u32),
}

impl SharedLookups {
    /// The lookups of a policy; `None` if no request needs one.
    pub fn of(policy: &Policy) -> Option<Self> {
        let (stores, invocations) = (Lookups::of(policy), policy.invocations().cloned());
        if stores.is_none() && invocations.is_none() {
            return None;
        }
        Some(Self { stores, invocations, calls: CallsUnderWay::new(), answers: Vec::new() })
    }

    /// Looks something up for the request with the number `stream`; `None` if the request has to wait.
    pub(super) fn look_up<H: Host>(
        &mut self,
        host: &H,
        stream: u32,
        lookup: PendingLookup<'_>,
    ) -> Option<LookupAnswer> {
        match lookup {
            PendingLookup::Store(request) => self.look_up_in_store(host, stream, request),
            PendingLookup::Invocation(body) => {
                let call = self.invocations.as_ref().map(|store| invocation::call(store, body, ()));
                match call.map(|call| host.call(&call)) {
                    Some(Ok(token)) => {
                        let (id, started_at) = (SharedCallId::Invocation(stream), host.now_unix_ms());
                        self.calls.begin(token, SharedCall { id, store: lookup.store_name(), started_at });
                        None
                    }
                    _ => Some(invocation::read(&CallReply::NONE).into()),
                }
            }
        }
    }

    fn look_up_in_store<H: Host>(&mut self, host: &H, stream: u32, request: &LookupRequest) -> Option<LookupAnswer> {
        let Some(stores) = &mut self.stores else { return Some(LookupAnswer::lost()) };
        let answer = stores.look_up(stream, request, host.now_unix_ms());
        self.make_calls(host);
        // A call that could not be made has failed by now.
        answer.or_else(|| self.stores.as_mut()?.answer_for(stream))
    }

    /// Forgets the request with the number `stream`, which waits for a lookup.
    pub(super) fn cancel(&mut self, stream: u32, lookup: PendingLookup<'_>) {
        self.answers.retain(|(waiter, _)| *waiter != stream);
        if let (PendingLookup::Store(request), Some(stores)) = (lookup, &mut self.stores) {
            stores.cancel(stream, request);
        }
    }

    /// Takes the reply to a call, or its failure, and records the call's time in `series`. Then
    /// [`SharedLookups::next_answer`] gives the requests that continue.
    pub fn on_call_reply<H: Host>(&mut self, host: &H, token: u32, reply: &CallReply<'_>, series: &mut SeriesTable) {
        let Some(SharedCall { id, store, started_at }) = self.calls.end(token) else { return };
        let now = host.now_unix_ms();
        series.record(host, Histogram::LookupTime, store, now.saturating_sub(started_at));
        match (id, &mut self.stores) {
            (SharedCallId::Invocation(stream), _) => self.answers.push((stream, invocation::read(reply).into())),
            (SharedCallId::Store(id), Some(stores)) => {
                stores.replied(&id, reply, now);
                self.make_calls(host);
            }
            (SharedCallId::Store(_), None) => {}
        }
    }

    /// Has to be called every [`crate::lookup::TICK_MS`] milliseconds. Then [`SharedLookups::next_answer`] gives the
    /// requests that continue.
    pub fn on_tick<H: Host>(&mut self, host: &H) {
        let Some(stores) = &mut self.stores else { return };
        stores.tick(host.now_unix_ms());
        self.make_calls(host);
        while let Some(health) = self.stores.as_mut().and_then(Lookups::changed_health) {
            let store = match health.kind {
                StoreKind::Bindings => "the registry",
                StoreKind::Secrets => "the secret store",
            };
            match health.trouble {
                Some(why) => {
                    host.log(LogLevel::Warn, &format!("edge-idempotency: {store} gives no answers: {why}"));
                }
                None => host.log(LogLevel::Info, &format!("edge-idempotency: {store} answers again")),
            }
        }
    }

    /// The next request that has waited, and the answer to its lookup.
    pub fn next_answer(&mut self) -> Option<(u32, LookupAnswer)> {
        self.answers.pop().or_else(|| self.stores.as_mut()?.next_answer())
    }

    /// Makes the calls that are due.
    fn make_calls<H: Host>(&mut self, host: &H) {
        let Some(stores) = &mut self.stores else { return };
        while let Some(call) = stores.next_call() {
            match host.call(&call) {
                Ok(token) => {
                    let (store, started_at) = (call.id.store_name(), host.now_unix_ms());
                    self.calls.begin(token, SharedCall { id: SharedCallId::Store(call.id), store, started_at });
                }
                Err(_) => stores.replied(&call.id, &CallReply::NONE, host.now_unix_ms()),
            }
        }
    }
}
