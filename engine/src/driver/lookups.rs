//! The lookups of one configuration: the caches, and the calls that the host makes for them. A call belongs to the
//! configuration and not to a request, so its reply comes even if the request has ended.

use crate::call::{CallReply, CallsUnderWay};
use crate::host::{Host, LogLevel};
use crate::lookup::{CallId, LookupRequest, LookupResult, Lookups, PendingLookup, StoreKind, invocation};
use crate::policy::Policy;
use crate::policy::document::InvocationStore;

/// Caches and calls, shared by all requests of a configuration.
pub struct SharedLookups {
    /// The stores of bindings and secrets
    stores: Option<Lookups>,
    /// Where the ids of invocations are looked up
    invocations: Option<InvocationStore>,
    calls: CallsUnderWay<SharedCallId>,
    /// Results of lookups of invocations, for the requests that wait
    results: Vec<(u32, LookupResult)>,
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
        Some(Self { stores, invocations, calls: CallsUnderWay::new(), results: Vec::new() })
    }

    /// Looks something up for the request with the number `stream`; `None` if the request has to wait.
    pub(super) fn look_up<H: Host>(
        &mut self,
        host: &H,
        stream: u32,
        lookup: PendingLookup<'_>,
    ) -> Option<LookupResult> {
        match lookup {
            PendingLookup::Store(request) => self.look_up_in_store(host, stream, request),
            PendingLookup::Invocation(body) => {
                let call = self.invocations.as_ref().map(|store| invocation::call(store, body, ()));
                match call.map(|call| host.call(&call)) {
                    Some(Ok(token)) => {
                        self.calls.begin(token, SharedCallId::Invocation(stream));
                        None
                    }
                    _ => Some(invocation::read(&CallReply::NONE)),
                }
            }
        }
    }

    fn look_up_in_store<H: Host>(&mut self, host: &H, stream: u32, request: &LookupRequest) -> Option<LookupResult> {
        let Some(stores) = &mut self.stores else { return Some(LookupResult::Unavailable("lookup_lost")) };
        let result = stores.look_up(stream, request, host.now_unix_ms());
        self.make_calls(host);
        // A call that could not be made has failed by now.
        result.or_else(|| self.stores.as_mut()?.result_for(stream))
    }

    /// Forgets the request with the number `stream`, which waits for a lookup.
    pub(super) fn cancel(&mut self, stream: u32, lookup: PendingLookup<'_>) {
        self.results.retain(|(waiter, _)| *waiter != stream);
        if let (PendingLookup::Store(request), Some(stores)) = (lookup, &mut self.stores) {
            stores.cancel(stream, request);
        }
    }

    /// Takes the reply to a call, or its failure. Then [`SharedLookups::next_result`] gives the requests that continue.
    pub fn on_call_reply<H: Host>(&mut self, host: &H, token: u32, reply: &CallReply<'_>) {
        match (self.calls.end(token), &mut self.stores) {
            (Some(SharedCallId::Invocation(stream)), _) => self.results.push((stream, invocation::read(reply))),
            (Some(SharedCallId::Store(id)), Some(stores)) => {
                stores.replied(&id, reply, host.now_unix_ms());
                self.make_calls(host);
            }
            _ => {}
        }
    }

    /// Has to be called every [`crate::lookup::TICK_MS`] milliseconds. Then [`SharedLookups::next_result`] gives the
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

    /// The next request that has waited, and its result.
    pub fn next_result(&mut self) -> Option<(u32, LookupResult)> {
        self.results.pop().or_else(|| self.stores.as_mut()?.next_result())
    }

    /// Makes the calls that are due.
    fn make_calls<H: Host>(&mut self, host: &H) {
        let Some(stores) = &mut self.stores else { return };
        while let Some(call) = stores.next_call() {
            match host.call(&call) {
                Ok(token) => self.calls.begin(token, SharedCallId::Store(call.id)),
                Err(_) => stores.replied(&call.id, &CallReply::NONE, host.now_unix_ms()),
            }
        }
    }
}
