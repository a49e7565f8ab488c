//! What the requests of one configuration need from outside: the caches of the stores, and the calls that the host makes. A
//! call belongs to the configuration and not to a request, so its reply comes even if the request has ended.

use crate::call::{Call, CallReply, CallsUnderWay};
use crate::collision::{self, ObservedClaim, Unobserved};
use crate::host::{Gateway, Host, LogLevel};
use crate::lookup::{CallId, LookupAnswer, LookupRequest, Lookups, SenderNetwork, StoreKind};
use crate::metrics::{Histogram, HistogramSeries, Metrics, NONE, SeriesTable};
use crate::policy::Policy;
use crate::questions::{PendingLookup, UncachedLookup, invocation, output};
use crate::telemetry::PREFIX;

/// Caches and calls, shared by all requests of a configuration.
pub(crate) struct Dependencies {
    /// The stores of bindings, secrets and API keys
    stores: Option<Lookups>,
    /// As in [`Policy::max_series`]
    max_series: usize,
    calls: CallsUnderWay<SharedCall>,
    /// Answers to lookups of invocations and to claims, for the requests that wait
    answers: Vec<(u32, LookupAnswer)>,
    /// Requests without a claim, which wait to be counted
    unclaimed: Vec<Unclaimed>,
    /// Times of calls whose series are of another worker than the one that took the reply
    times: Vec<(HistogramSeries, u64)>,
}

/// An observed request for which no claim was made.
enum Unclaimed {
    /// Its body could not be read to its end.
    Unobserved(Unobserved),
    /// The gateway did not make the call.
    Failed(Box<ObservedClaim>),
}

/// A call under way.
struct SharedCall {
    id: SharedCallId,
    /// The histogram of its time
    series: Option<HistogramSeries>,
    /// Unix time in milliseconds
    started_at: u64,
}

/// What a call is for.
enum SharedCallId {
    Store(CallId),
    /// A lookup without a cache, for the request with this number
    Uncached(u32, UncachedLookup),
    /// A claim that no request waits for
    Observed(Box<ObservedClaim>),
    /// A lookup without a cache, whose request has ended
    Abandoned,
}

impl Dependencies {
    /// The dependencies of a policy; `None` if no request needs a call.
    pub(super) fn of(policy: &Policy) -> Option<Self> {
        let stores = Lookups::of(policy);
        if stores.is_none() && !policy.asks_backends() {
            return None;
        }
        let (max_series, calls) = (policy.max_series, CallsUnderWay::new());
        Some(Self { stores, max_series, calls, answers: Vec::new(), unclaimed: Vec::new(), times: Vec::new() })
    }

    /// Looks something up for the request with the number `stream`; `None` if the request has to wait. `series` gives the
    /// histogram of the time of a call to the store with this name.
    pub(crate) fn look_up<H: Host>(
        &mut self,
        host: &H,
        stream: u32,
        lookup: PendingLookup<'_>,
        series: &mut dyn FnMut(&'static str) -> Option<HistogramSeries>,
    ) -> Option<LookupAnswer> {
        let (call, uncached) = match lookup {
            PendingLookup::Store(request) => return self.look_up_in_store(host, stream, request, series),
            PendingLookup::Invocation(question) => (invocation::call(question), UncachedLookup::Invocation),
            PendingLookup::Output(question) => (output::call(question), UncachedLookup::Output),
            PendingLookup::Claim(claim) => (collision::call(claim), UncachedLookup::Claim),
        };
        match self.begin(host, call, SharedCallId::Uncached(stream, uncached), series(lookup.store_name())) {
            Ok(()) => None,
            Err(_) => Some(uncached.read_reply(&CallReply::NONE)),
        }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The call was not made: what it was for.
    fn begin<G: Gateway>(
        &mut self,
        gateway: &G,
        call: Call,
        id: SharedCallId,
        series: Option<HistogramSeries>,
    ) -> Result<(), SharedCallId> {
        match gateway.call(&call) {
            Ok(token) => {
                self.calls.begin(token, SharedCall { id, series, started_at: gateway.now_unix_ms() });
                Ok(())
            }
            Err(_) => Err(id),
        }
    }

    /// Makes the claim of an observed request. Its verdict is counted when the reply comes.
    pub(crate) fn observe<G: Gateway>(&mut self, gateway: &G, observed: ObservedClaim, metrics: &Metrics) {
        let call = collision::call(&observed.claim);
        let series = metrics.with(|series| observed.call_time(series, self.max_series));
        let id = SharedCallId::Observed(Box::new(observed));
        if let Err(SharedCallId::Observed(observed)) = self.begin(gateway, call, id, series) {
            self.unclaimed.push(Unclaimed::Failed(observed));
        }
    }

    /// Notes an observed request for which no claim is made.
    pub(crate) fn note_unobserved(&mut self, unobserved: Unobserved) {
        self.unclaimed.push(Unclaimed::Unobserved(unobserved));
    }

    fn look_up_in_store<H: Host>(
        &mut self,
        host: &H,
        stream: u32,
        request: &LookupRequest,
        series: &mut dyn FnMut(&'static str) -> Option<HistogramSeries>,
    ) -> Option<LookupAnswer> {
        let Some(stores) = &mut self.stores else { return Some(request.lost()) };
        let sender = || SenderNetwork::parse(&host.sender_address()?);
        let answer = stores.look_up(stream, request, &sender, host.now_unix_ms());
        self.make_calls(host, series);
        // A call that could not be made has failed by now.
        answer.or_else(|| self.stores.as_mut()?.answer_for(stream))
    }

    /// Forgets the request with the number `stream`, which waits for a lookup.
    pub(crate) fn cancel(&mut self, stream: u32, lookup: PendingLookup<'_>) {
        self.answers.retain(|(waiter, _)| *waiter != stream);
        for call in self.calls.iter_mut() {
            if matches!(call.id, SharedCallId::Uncached(waiter, _) if waiter == stream) {
                call.id = SharedCallId::Abandoned;
            }
        }
        if let (PendingLookup::Store(request), Some(stores)) = (lookup, &mut self.stores) {
            stores.cancel(stream, request);
        }
    }

    /// Takes the reply to a call, or its failure, and records the call's time. Then
    /// [`Dependencies::next_answer`] gives the requests that continue.
    pub(super) fn on_call_reply<G: Gateway>(
        &mut self,
        gateway: &G,
        token: u32,
        reply: &CallReply<'_>,
        series: &mut SeriesTable,
    ) {
        let Some(SharedCall { id, series: time, started_at }) = self.calls.end(token) else { return };
        let now = gateway.now_unix_ms();
        if let Some(time) = time {
            let milliseconds = now.saturating_sub(started_at);
            if !series.record(gateway, time, milliseconds) {
                self.times.push((time, milliseconds));
            }
        }
        match (id, &mut self.stores) {
            (SharedCallId::Uncached(stream, lookup), _) => self.answers.push((stream, lookup.read_reply(reply))),
            (SharedCallId::Observed(observed), _) => {
                observed.count(observed.claim.verdict(&collision::read(reply)), series, self.max_series);
            }
            (SharedCallId::Store(id), Some(stores)) => {
                stores.replied(&id, reply, now);
                self.make_own_calls(gateway, series);
            }
            (SharedCallId::Store(_), None) | (SharedCallId::Abandoned, _) => {}
        }
    }

    /// Records the times that are for `series`, after another worker has taken the replies.
    pub(super) fn record_times<G: Gateway>(&mut self, gateway: &G, series: &mut SeriesTable) {
        self.times.retain(|(time, milliseconds)| !series.record(gateway, *time, *milliseconds));
    }

    /// Takes a tick, before [`SeriesTable::flush`]. Then [`Dependencies::next_answer`] gives the requests that continue.
    pub(super) fn on_tick<G: Gateway>(&mut self, gateway: &G, series: &mut SeriesTable) {
        for unclaimed in self.unclaimed.drain(..) {
            match unclaimed {
                Unclaimed::Unobserved(request) => request.count(series, self.max_series),
                Unclaimed::Failed(observed) => {
                    let verdict = observed.claim.verdict(&collision::read(&CallReply::NONE));
                    observed.count(verdict, series, self.max_series);
                }
            }
        }
        let Some(stores) = &mut self.stores else { return };
        stores.tick(gateway.now_unix_ms());
        self.make_own_calls(gateway, series);
        while let Some(health) = self.stores.as_mut().and_then(Lookups::changed_health) {
            let store = match health.kind {
                StoreKind::Bindings => "the registry",
                StoreKind::Secrets => "the secret store",
                StoreKind::ApiKeys => "the registry of API keys",
            };
            match health.trouble {
                Some(why) => {
                    gateway.log(LogLevel::Warn, &format!("{PREFIX} {store} gives no answers: {}", why.name()));
                }
                None => gateway.log(LogLevel::Info, &format!("{PREFIX} {store} answers again")),
            }
        }
    }

    /// The next request that has waited, and the answer to its lookup.
    pub(super) fn next_answer(&mut self) -> Option<(u32, LookupAnswer)> {
        self.answers.pop().or_else(|| self.stores.as_mut()?.next_answer())
    }

    /// Makes the calls that are due, which no request has asked for just now.
    fn make_own_calls<G: Gateway>(&mut self, gateway: &G, series: &mut SeriesTable) {
        let max_series = self.max_series;
        self.make_calls(gateway, &mut |store| {
            let about = series.subject(None, None, Some(NONE));
            series.histogram(&about, Histogram::LookupTime, store, max_series)
        });
    }

    /// Makes the calls that are due.
    fn make_calls<G: Gateway>(&mut self, gateway: &G, series: &mut dyn FnMut(&'static str) -> Option<HistogramSeries>) {
        let Some(stores) = &mut self.stores else { return };
        while let Some((id, call)) = stores.next_call() {
            match gateway.call(&call) {
                Ok(token) => {
                    let (series, started_at) = (series(id.store_name()), gateway.now_unix_ms());
                    self.calls.begin(token, SharedCall { id: SharedCallId::Store(id), series, started_at });
                }
                Err(_) => stores.replied(&id, &CallReply::NONE, gateway.now_unix_ms()),
            }
        }
    }
}
