//! Looking up whose webhook a delivery is for, and with which secrets it is signed (docs/contract.md section 5).
//!
//! [`Lookups`] is a state machine: what happens goes in (a request asks, a reply comes or does not, time passes, a request
//! leaves), what is to be done comes out (calls to make, results for requests that waited). It has no clock, no I/O and no
//! host. Time is Unix time in milliseconds, and need not be monotonic: what was fetched in the future is not trusted.
//!
//! | module | subject |
//! |---|---|
//! | `cache` | one store's results, how long they hold, who waits for them |
//! | `unkey` | bindings: `keys.verifyKey` |
//! | `openbao` | secrets: the KV engine, version 2 |
//! | `fake` | stores that a document describes, for `explain` and tests |

mod cache;
mod fake;
mod openbao;
mod unkey;

pub use fake::FakeStores;

use crate::call::{Call, CallReply};
use crate::policy::Policy;
use crate::policy::document::{Binding, OpenBao, Secret, Unkey};
use cache::{CacheDecision, LookupCache};
use std::sync::Arc;

/// How often [`Lookups::tick`] wants to be called, in milliseconds.
pub const TICK_MS: u32 = 1000;

/// Which of the two stores something is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Bindings, by webhook id
    Bindings,
    /// Secrets, by `{tenant}:{project}:{provider}`
    Secrets,
}

/// A question of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupRequest {
    /// To which store
    pub kind: StoreKind,
    /// For what
    pub key: Arc<str>,
    /// What is held has failed the asker: fetch it anew, unless that was done a moment ago
    pub force_refresh: bool,
}

/// What a request gets to know.
#[derive(Debug, Clone)]
pub enum LookupResult {
    /// The webhook's binding; it lists no secrets
    Binding(Arc<Binding>),
    /// Secrets, in the order in which they are tried
    Secrets(Arc<Vec<Secret>>),
    /// The store says that there is none, and why
    Unknown(&'static str),
    /// It cannot be had or used, and why
    Unavailable(&'static str),
}

/// Identifies a call until its reply or its failure has been told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallId {
    kind: StoreKind,
    key: Arc<str>,
    number: u32,
    /// It is for the version before the current one.
    previous: bool,
}

/// What a store's health came to, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreHealth {
    /// Which store
    pub kind: StoreKind,
    /// Why it gives no results; none if it does again
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
    results: Vec<(u32, LookupResult)>,
}

impl Lookups {
    /// The stores that a policy names; none if it names none.
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
            results: Vec::new(),
        })
    }

    /// A request, known by `stream`, asks. Without an answer it has to wait: [`Lookups::next_result`] tells. It waits for
    /// one thing at a time.
    pub fn look_up(&mut self, stream: u32, request: &LookupRequest, now: u64) -> Option<LookupResult> {
        let CacheDecision { answer, call } = self.store(request.kind).decide(&request.key, request.force_refresh, now);
        let asked = answer.is_none();
        if call {
            self.call(request.kind, &request.key, now, asked);
        }
        if asked {
            self.store(request.kind).wait(&request.key, stream, request.force_refresh);
        }
        answer
    }

    /// A call to make.
    pub fn next_call(&mut self) -> Option<Call<CallId>> {
        self.calls.pop()
    }

    /// A request that waited, and its answer.
    pub fn next_result(&mut self) -> Option<(u32, LookupResult)> {
        self.results.pop()
    }

    /// The answer for one request, if it is there already.
    pub fn result_for(&mut self, stream: u32) -> Option<LookupResult> {
        let place = self.results.iter().position(|(waiter, _)| *waiter == stream)?;
        Some(self.results.swap_remove(place).1)
    }

    /// A call has been answered, or ([`CallReply::status`]) has not and never will be.
    pub fn replied(&mut self, id: &CallId, reply: &CallReply<'_>, now: u64) {
        let CallId { kind, key, number, previous } = id;
        let Some(in_time) = self.store(*kind).reply_of(key, *number, now) else { return };
        let verdict = match (in_time, kind, previous) {
            (None, ..) => cache::LookupOutcome::unreachable(*kind),
            (_, StoreKind::Bindings, _) => unkey::read(reply),
            (Some(current), StoreKind::Secrets, true) => openbao::with_previous(current, reply),
            (_, StoreKind::Secrets, false) => {
                let grace = self.openbao.as_ref().map_or(0, |openbao| openbao.grace_ms);
                match openbao::read(reply, now, grace) {
                    openbao::Read::Outcome(verdict) => verdict,
                    // A version that is new brings the one before it along.
                    openbao::Read::AlsoVersion(version, current) => {
                        let id = self.call_id(StoreKind::Secrets, key, true);
                        self.secrets.replace_call(&id, current, now);
                        return self.calls.extend(self.openbao.as_ref().map(|bao| openbao::call(bao, id, version)));
                    }
                }
            }
        };
        self.settle(*kind, key, verdict, now);
    }

    /// Time has passed: what is used and about to expire is fetched, what has expired is dropped.
    pub fn tick(&mut self, now: u64) {
        for kind in [StoreKind::Bindings, StoreKind::Secrets] {
            for (key, is_lost) in self.store(kind).tick(now) {
                if is_lost {
                    self.settle(kind, &key, cache::LookupOutcome::unreachable(kind), now);
                } else {
                    self.call(kind, &key, now, false);
                }
            }
        }
    }

    /// A request that waits for this is gone, or waits no longer. It is still fetched: others may want it.
    pub fn cancel(&mut self, stream: u32, request: &LookupRequest) {
        self.store(request.kind).forget(&request.key, stream);
        self.results.retain(|(waiter, _)| *waiter != stream);
    }

    /// A store whose health has changed since this was last asked.
    pub fn changed_health(&mut self) -> Option<StoreHealth> {
        let change =
            |kind, store: &mut LookupCache| store.changed_health().map(|trouble| StoreHealth { kind, trouble });
        change(StoreKind::Bindings, &mut self.bindings).or_else(|| change(StoreKind::Secrets, &mut self.secrets))
    }

    /// How many positive results are held, how many negative ones, and how many calls are under way.
    pub fn sizes(&self) -> [usize; 3] {
        let (bindings, secrets) = (self.bindings.sizes(), self.secrets.sizes());
        std::array::from_fn(|place| bindings.get(place).unwrap_or(&0) + secrets.get(place).unwrap_or(&0))
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

    /// Begins a call, of which there is one for each key. `asked`: a request waits for it.
    fn call(&mut self, kind: StoreKind, key: &Arc<str>, now: u64, asked: bool) {
        let id = self.call_id(kind, key, false);
        self.store(kind).begin(&id, now, asked);
        // Nobody asks for what the policy does not name; if it were so, the call would be lost after a while.
        self.calls.extend(match kind {
            StoreKind::Bindings => self.unkey.as_ref().map(|unkey| unkey::call(unkey, id)),
            StoreKind::Secrets => self.openbao.as_ref().map(|openbao| openbao::call(openbao, id, 0)),
        });
    }

    /// Keeps a verdict and results everybody who waits for it.
    fn settle(&mut self, kind: StoreKind, key: &Arc<str>, verdict: cache::LookupOutcome, now: u64) {
        let results = self.store(kind).settle(key, verdict, now);
        self.results.extend(results);
    }
}
