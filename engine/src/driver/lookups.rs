//! The lookups of one configuration: the caches, and the calls that the host makes for them. A call belongs to the
//! configuration and not to a request, so its reply comes even if the request has ended.

use crate::call::{CallReply, CallsUnderWay};
use crate::host::{Host, LogLevel};
use crate::lookup::{CallId, LookupRequest, LookupResult, Lookups, StoreKind};
use crate::policy::Policy;

/// Caches and calls, shared by all requests of a configuration.
pub struct SharedLookups {
    lookups: Lookups,
    calls: CallsUnderWay<CallId>,
}

impl SharedLookups {
    /// The lookups of a policy; `None` if it names neither `unkey` nor `openbao`.
    pub fn of(policy: &Policy) -> Option<Self> {
        Lookups::of(policy).map(|lookups| Self { lookups, calls: CallsUnderWay::new() })
    }

    /// Looks something up for the request with the number `stream`; `None` if the request has to wait.
    pub(super) fn look_up<H: Host>(&mut self, host: &H, stream: u32, request: &LookupRequest) -> Option<LookupResult> {
        let result = self.lookups.look_up(stream, request, host.now_unix_ms());
        self.make_calls(host);
        // A call that could not be made has failed by now.
        result.or_else(|| self.lookups.result_for(stream))
    }

    /// Forgets the request with the number `stream`, which waits for a lookup.
    pub(super) fn cancel(&mut self, stream: u32, request: &LookupRequest) {
        self.lookups.cancel(stream, request);
    }

    /// Takes the reply to a call, or its failure. Then [`SharedLookups::next_result`] gives the requests that continue.
    pub fn on_call_reply<H: Host>(&mut self, host: &H, token: u32, reply: &CallReply<'_>) {
        let Some(id) = self.calls.end(token) else { return };
        self.lookups.replied(&id, reply, host.now_unix_ms());
        self.make_calls(host);
    }

    /// Has to be called every [`crate::lookup::TICK_MS`] milliseconds. Then [`SharedLookups::next_result`] gives the
    /// requests that continue.
    pub fn on_tick<H: Host>(&mut self, host: &H) {
        self.lookups.tick(host.now_unix_ms());
        self.make_calls(host);
        while let Some(health) = self.lookups.changed_health() {
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
        self.lookups.next_result()
    }

    /// Makes the calls that are due.
    fn make_calls<H: Host>(&mut self, host: &H) {
        while let Some(call) = self.lookups.next_call() {
            match host.call(&call) {
                Ok(token) => self.calls.begin(token, call.id),
                Err(_) => self.lookups.replied(&call.id, &CallReply::NONE, host.now_unix_ms()),
            }
        }
    }
}
