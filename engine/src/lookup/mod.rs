//! Looking up whose webhook a delivery is for, and with which secrets it is signed (docs/contract.md section 5).
//!
//! [`Lookups`] is a state machine. Its events are: a request looks something up, a reply comes or a call fails, time
//! passes, a request ends. Its outputs are calls to make and results for the requests that wait. It has no clock, no I/O
//! and no host. Times are Unix time in milliseconds and need not be monotonic: a result from the future is not served.
//!
//! | module | subject |
//! |---|---|
//! | `cache` | the cache of one store: results, calls under way, waiting requests |
//! | `pacing` | how many calls unknown keys cause |
//! | `unkey` | bindings: `keys.verifyKey` |
//! | `openbao` | secrets: the KV engine, version 2 |
//! | `invocation` | the id of a Restate invocation, for recovery; not a part of [`Lookups`], since nothing of it is cached |
//! | `in_flight` | whether the first request with a key is still in flight; not a part of [`Lookups`] either |
//! | `fake` | stores that a document describes, for `explain` and tests |

mod cache;
mod fake;
pub(crate) mod in_flight;
pub(crate) mod invocation;
mod openbao;
mod pacing;
mod unkey;

pub use crate::collision::Claim;
pub use fake::FakeStores;
pub use in_flight::InFlightQuestion;
pub use pacing::SenderNetwork;

use crate::call::{Call, CallReply};
use crate::policy::Policy;
use crate::policy::document::{Binding, OpenBao, Secret, Unkey};
use cache::{CacheDecision, LookupCache, RequestedCall};
use std::sync::Arc;

/// How often [`Lookups::tick`] wants to be called, in milliseconds.
pub const TICK_MS: u32 = 1000;

/// The two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Bindings, by webhook id
    Bindings,
    /// Secrets, by `{tenant}:{project}:{provider}`
    Secrets,
}

impl StoreKind {
    /// The store as metrics write it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bindings => "unkey",
            Self::Secrets => "openbao",
        }
    }
}

/// A lookup that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupRequest {
    /// The store
    pub kind: StoreKind,
    /// A webhook id, or `{tenant}:{project}:{provider}`
    pub key: Arc<str>,
    /// The cached result did not fit the request: a new call is made, unless the last one is recent
    pub force_refresh: bool,
}

/// The lookup that a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingLookup<'r> {
    /// A binding or secrets
    Store(&'r LookupRequest),
    /// The id of an invocation; the body of the call
    Invocation(&'r str),
    /// The first fingerprint under the key of a claim
    Claim(&'r Claim),
    /// Whether the first request with a key is in flight
    InFlight(&'r InFlightQuestion),
}

/// The result of a lookup. The reasons are log values.
#[derive(Debug, Clone)]
pub enum LookupResult {
    /// The webhook's binding; it lists no secrets
    Binding(Arc<Binding>),
    /// Secrets, in the order in which they are tried
    Secrets(Arc<Vec<Secret>>),
    /// The invocation's id, `inv_[A-Za-z0-9]+`
    Invocation(Box<str>),
    /// The fingerprint of the first claim under the key
    FirstClaim(Box<str>),
    /// Whether the first request with a key is in flight
    InFlight(bool),
    /// The store has no valid binding for the webhook id; the reason
    Unknown(&'static str),
    /// The value could not be fetched, or is malformed; the reason
    Unavailable(&'static str),
}

impl PendingLookup<'_> {
    /// The store as metrics write it.
    pub(crate) const fn store_name(self) -> &'static str {
        match self {
            Self::Store(request) => request.kind.name(),
            Self::Invocation(_) | Self::InFlight(_) => invocation::STORE,
            Self::Claim(_) => crate::collision::STORE,
        }
    }
}

/// Where the result of a lookup came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupOrigin {
    /// The cache, before the result expired
    Cache,
    /// The cache, after the result expired, because the store is down
    Stale,
    /// A call that the request waited for
    Call,
}

/// The answer to a lookup.
#[derive(Debug, Clone)]
pub struct LookupAnswer {
    /// The result
    pub result: LookupResult,
    /// Where the result came from
    pub origin: LookupOrigin,
}

impl LookupAnswer {
    /// The answer to a lookup whose call was not made, or whose reply was lost.
    pub(crate) fn lost() -> Self {
        LookupResult::Unavailable("lookup_lost").into()
    }

    /// The answer as metrics write it: `hit`, `stale`, `miss`, `not_found`, or the reason of a failure.
    pub const fn name(&self) -> &'static str {
        match (&self.result, self.origin) {
            (LookupResult::Unavailable(reason), _) => reason,
            (LookupResult::Unknown(_), _) => "not_found",
            (_, LookupOrigin::Cache) => "hit",
            (_, LookupOrigin::Stale) => "stale",
            (_, LookupOrigin::Call) => "miss",
        }
    }
}

impl From<LookupResult> for LookupAnswer {
    fn from(result: LookupResult) -> Self {
        Self { result, origin: LookupOrigin::Call }
    }
}

/// Identifies a call until [`Lookups::replied`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallId {
    kind: StoreKind,
    key: Arc<str>,
    number: u32,
    /// The call is for the previous version of the secrets
    previous: bool,
}

impl CallId {
    /// The store as metrics write it.
    pub(crate) const fn store_name(&self) -> &'static str {
        self.kind.name()
    }
}

/// The health of a store, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreHealth {
    /// Which store
    pub kind: StoreKind,
    /// The reason why the last call failed; `None` if it succeeded
    pub trouble: Option<&'static str>,
}

/// The stores of one policy and VM.
pub struct Lookups {
    unkey: Option<Unkey>,
    openbao: Option<OpenBao>,
    bindings: LookupCache,
    secrets: LookupCache,
    last_call: u32,
    calls: Vec<Call<CallId>>,
    answers: Vec<(u32, LookupAnswer)>,
}

impl Lookups {
    /// The lookups of a policy; `None` if it names neither `unkey` nor `openbao`.
    pub fn of(policy: &Policy) -> Option<Self> {
        let (unkey, openbao) = (policy.unkey().cloned(), policy.openbao().cloned());
        if unkey.is_none() && openbao.is_none() {
            return None;
        }
        Some(Self {
            bindings: LookupCache::new(unkey.as_ref().map(|unkey| &unkey.service)),
            secrets: LookupCache::new(openbao.as_ref().map(|openbao| &openbao.service)),
            unkey,
            openbao,
            last_call: 0,
            calls: Vec::new(),
            answers: Vec::new(),
        })
    }

    /// Looks something up for the request with the number `stream`; `sender` tells who sent it, if the gateway knows. `None`: the
    /// request has to wait until [`Lookups::next_answer`] gives its answer. A request waits for one lookup at a time.
    pub fn look_up(
        &mut self,
        stream: u32,
        request: &LookupRequest,
        sender: &dyn Fn() -> Option<SenderNetwork>,
        now: u64,
    ) -> Option<LookupAnswer> {
        match self.store(request.kind).decide(&request.key, request.force_refresh, sender, now) {
            CacheDecision::Answer { answer, refresh } => {
                if refresh {
                    self.call(request.kind, &request.key, now, None);
                }
                Some(answer)
            }
            CacheDecision::Wait(call) => {
                if call.is_some() {
                    self.call(request.kind, &request.key, now, call);
                }
                self.store(request.kind).add_waiter(&request.key, stream, request.force_refresh);
                None
            }
        }
    }

    /// The next call to make.
    pub fn next_call(&mut self) -> Option<Call<CallId>> {
        self.calls.pop()
    }

    /// The next request that has waited, and its answer.
    pub fn next_answer(&mut self) -> Option<(u32, LookupAnswer)> {
        self.answers.pop()
    }

    /// The answer for one request, if there is one already.
    pub fn answer_for(&mut self, stream: u32) -> Option<LookupAnswer> {
        let index = self.answers.iter().position(|(waiter, _)| *waiter == stream)?;
        Some(self.answers.swap_remove(index).1)
    }

    /// Takes the reply to a call. A call that failed has a reply without [`CallReply::status`].
    pub fn replied(&mut self, id: &CallId, reply: &CallReply<'_>, now: u64) {
        let CallId { kind, key, number, previous } = id;
        let Some(in_time) = self.store(*kind).match_reply(key, *number, now) else { return };
        let outcome = match (in_time, kind, previous) {
            (None, ..) => cache::LookupOutcome::unreachable(*kind),
            (_, StoreKind::Bindings, _) => unkey::read(reply),
            (Some(current), StoreKind::Secrets, true) => openbao::with_previous(current, reply),
            (_, StoreKind::Secrets, false) => {
                let grace = self.openbao.as_ref().map_or(0, |openbao| openbao.grace_ms);
                match openbao::read(reply, now, grace) {
                    openbao::Read::Outcome(outcome) => outcome,
                    // During the rotation grace the previous version is valid too.
                    openbao::Read::AlsoVersion(version, current) => {
                        let id = self.call_id(StoreKind::Secrets, key, true);
                        self.secrets.replace_call(&id, current, now);
                        return self.calls.extend(self.openbao.as_ref().map(|bao| openbao::call(bao, id, version)));
                    }
                }
            }
        };
        self.complete(*kind, key, outcome, now);
    }

    /// Removes expired results, begins refreshes and gives up lost calls.
    pub fn tick(&mut self, now: u64) {
        for kind in [StoreKind::Bindings, StoreKind::Secrets] {
            for (key, is_lost) in self.store(kind).tick(now) {
                if is_lost {
                    self.complete(kind, &key, cache::LookupOutcome::unreachable(kind), now);
                } else {
                    self.call(kind, &key, now, None);
                }
            }
        }
    }

    /// Forgets a request that waits for a lookup. The call goes on, since other requests may wait for it.
    pub fn cancel(&mut self, stream: u32, request: &LookupRequest) {
        self.store(request.kind).remove_waiter(&request.key, stream);
        self.answers.retain(|(waiter, _)| *waiter != stream);
    }

    /// A store whose health has changed since the last call of this.
    pub fn changed_health(&mut self) -> Option<StoreHealth> {
        let change =
            |kind, store: &mut LookupCache| store.changed_health().map(|trouble| StoreHealth { kind, trouble });
        change(StoreKind::Bindings, &mut self.bindings).or_else(|| change(StoreKind::Secrets, &mut self.secrets))
    }

    /// The numbers of cached positive results, of cached negative results and of calls under way, of both stores.
    pub fn sizes(&self) -> [usize; 3] {
        let (bindings, secrets) = (self.bindings.sizes(), self.secrets.sizes());
        std::array::from_fn(|index| bindings.get(index).unwrap_or(&0) + secrets.get(index).unwrap_or(&0))
    }

    const fn store(&mut self, kind: StoreKind) -> &mut LookupCache {
        match kind {
            StoreKind::Bindings => &mut self.bindings,
            StoreKind::Secrets => &mut self.secrets,
        }
    }

    fn call_id(&mut self, kind: StoreKind, key: &Arc<str>, previous: bool) -> CallId {
        self.last_call = self.last_call.wrapping_add(1);
        CallId { kind, key: Arc::clone(key), number: self.last_call, previous }
    }

    /// Begins a call; there is at most one for each key. `requested`: a request waits for it.
    fn call(&mut self, kind: StoreKind, key: &Arc<str>, now: u64, requested: Option<RequestedCall>) {
        let id = self.call_id(kind, key, false);
        self.store(kind).begin(&id, now, requested);
        // A request only needs stores that the policy names. If not, no call is made, and the lookup fails as a lost call.
        self.calls.extend(match kind {
            StoreKind::Bindings => self.unkey.as_ref().map(|unkey| unkey::call(unkey, id)),
            StoreKind::Secrets => self.openbao.as_ref().map(|openbao| openbao::call(openbao, id, 0)),
        });
    }

    /// Ends a call and queues the answers of the requests that wait for it.
    fn complete(&mut self, kind: StoreKind, key: &Arc<str>, outcome: cache::LookupOutcome, now: u64) {
        let answers = self.store(kind).complete(key, outcome, now);
        self.answers.extend(answers);
    }
}
