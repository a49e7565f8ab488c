//! The lookups of one configuration: its caches, and the calls that the host makes for them. They belong to the
//! configuration and not to a request, so a reply comes whoever has left meanwhile.

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
    /// The lookups of a policy; none if it names no store.
    pub fn of(policy: &Policy) -> Option<Self> {
        Lookups::of(policy).map(|lookups| Self { lookups, calls: CallsUnderWay::new() })
    }

    /// The request known by `stream` looks something up; `None` if it has to wait.
    pub(super) fn look_up<H: Host>(&mut self, host: &H, stream: u32, request: &LookupRequest) -> Option<LookupResult> {
        let result = self.lookups.look_up(stream, request, host.now_unix_ms());
        self.make_calls(host);
        // A call that could not be made has failed by now.
        result.or_else(|| self.lookups.result_for(stream))
    }

    /// The request known by `stream` waits no longer.
    pub(super) fn cancel(&mut self, stream: u32, request: &LookupRequest) {
        self.lookups.cancel(stream, request);
    }

    /// A call has ended, with a reply or with nothing at all. [`SharedLookups::next_result`] tells who goes on.
    pub fn on_call_reply<H: Host>(&mut self, host: &H, token: u32, reply: &CallReply<'_>) {
        let Some(id) = self.calls.end(token) else { return };
        self.lookups.replied(&id, reply, host.now_unix_ms());
        self.make_calls(host);
    }

    /// Time has passed. To be called every [`crate::lookup::TICK_MS`] milliseconds; [`SharedLookups::next_result`] tells
    /// who goes on.
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

    /// A request that waited, and its result.
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
