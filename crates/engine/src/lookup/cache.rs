//! The cache of one store: its results, their lifetimes, the calls under way and the requests that wait for them.
//!
//! Positive and negative results have separate limits, so that unknown keys cannot evict a positive result. The cache is
//! a sorted list and not a hash map: clients choose the keys, and the wasm target has no random seed for a hash.

use super::pacing::{CallPart, Pacing, SenderNetwork};
use super::{CallId, LookupFailure, LookupOrigin, StoreAnswer, StoreKind, StoreValue};
use crate::codes::Reason;
use crate::policy::document::{Secret, Service};
use std::sync::Arc;

/// The maximum number of positive results.
const MAX_POSITIVE: usize = 10_000;
/// The maximum number of negative results.
const MAX_NEGATIVE: usize = 4096;
/// The maximum number of refreshes that one tick begins.
const MAX_REFRESHES: usize = 64;
/// After a failed call, the delay before the next call for the same key while the cache still has a result for it.
const RETRY_DELAY_MS: u64 = 5000;
/// The minimum time between two forced refreshes of one key.
const FORCED_REFRESH_INTERVAL_MS: u64 = 30_000;
/// A result that is younger than this is not refreshed by force.
const MIN_FORCED_REFRESH_AGE_MS: u64 = 1000;
/// The lifetime of a result that is incomplete because a second call failed.
const PARTIAL_MS: u64 = 5000;
/// A call counts as lost when its reply is later than its timeout by this much.
const LOST_AFTER_MS: u64 = 5000;

/// The outcome of a call, read from its reply.
#[derive(Debug)]
pub(super) enum LookupOutcome {
    /// A positive result; `partial` is the reason why a part of it is missing
    Found { value: StoreValue, partial: Option<Reason> },
    /// The store says that there is no usable value. This is cached, and replaces a positive result.
    Negative(LookupFailure),
    /// No result that could be cached; `down` means that the store is down, so that a stale result may be served
    Failed { reason: Reason, down: bool },
}

impl LookupOutcome {
    /// The outcome of a call without an HTTP response.
    pub(super) const fn unreachable(kind: StoreKind) -> Self {
        let reason = match kind {
            StoreKind::Bindings | StoreKind::ApiKeys => Reason::RegistryUnreachable,
            StoreKind::Secrets => Reason::SecretStoreUnreachable,
        };
        Self::Failed { reason, down: true }
    }
}

/// The cache's decision about a lookup.
pub(super) enum CacheDecision {
    /// The answer; with `refresh` a call is begun that no request waits for
    Answer { answer: StoreAnswer<StoreValue>, refresh: bool },
    /// The request waits, for a call that is to be begun or for the one under way
    Wait(Option<RequestedCall>),
}

/// A call that a request waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedCall {
    part: CallPart,
    /// Who asked for a key that the cache does not know; `None` if it knows the key, or the gateway does not know the sender
    sender: Option<SenderNetwork>,
}

/// The cached result of a key and the call under way for it.
struct KeyState {
    cached: Option<CacheEntry>,
    pending: Option<PendingCall>,
}

/// A cached result. All times are Unix time in milliseconds.
struct CacheEntry {
    result: Result<StoreValue, LookupFailure>,
    /// Whether the result came as [`LookupOutcome::Negative`]
    negative: bool,
    fetched_at: u64,
    /// A positive result may be served for `stale_ms` longer while the store is down
    expires_at: u64,
    /// The reason why the last call failed, or gave a part of the result only
    failed: Option<Reason>,
    /// Whether that call failed because the store is down
    down: bool,
    /// No call is made for the key before this time
    retry_at: u64,
    /// The time of the last forced refresh; 0 for never
    forced_refresh_at: u64,
    last_used: u64,
    /// Whether a request has read it since it was stored
    in_use: bool,
}

/// A call under way.
struct PendingCall {
    number: u32,
    started_at: u64,
    /// `None` for a refresh
    requested: Option<RequestedCall>,
    /// The streams of the waiting requests, and whether each of them forced a refresh
    waiters: Vec<(u32, bool)>,
    /// The secrets of the current version, during the call for the previous version
    current: Vec<Secret>,
}

pub(super) struct LookupCache {
    cache_ms: u64,
    negative_ms: u64,
    stale_ms: u64,
    timeout_ms: u64,
    /// Whether a result is refreshed without a request: the key is all that its call needs.
    refreshes: bool,
    /// Sorted by key. A `BTreeMap` would add more code to the module than the slower insertion costs.
    entries: Vec<(Arc<str>, Box<KeyState>)>,
    positive_count: usize,
    negative_count: usize,
    pacing: Pacing,
    /// The keys of negative results, oldest first, each with the time of its result. A pair whose time differs from that
    /// of the cached result is outdated.
    negatives: Vec<(Arc<str>, u64)>,
    trouble: Option<Reason>,
    reported: Option<Reason>,
}

/// Whether `now` is in `since..since + length`; false if the clock went back to before `since`.
const fn within(since: u64, length: u64, now: u64) -> bool {
    since <= now && now < since.saturating_add(length)
}

impl CacheEntry {
    /// Whether the value is dropped, and only the key is known.
    const fn is_expired(&self) -> bool {
        self.expires_at == 0
    }

    /// The result, with the rest of a wait.
    fn result_at(&self, now: u64) -> Result<StoreValue, LookupFailure> {
        match &self.result {
            Err(LookupFailure::RateLimited { seconds }) => {
                let passed = u32::try_from(now.saturating_sub(self.fetched_at) / 1000).unwrap_or(u32::MAX);
                Err(LookupFailure::RateLimited { seconds: seconds.saturating_sub(passed).max(1) })
            }
            result => result.clone(),
        }
    }

    const fn is_fresh(&self, now: u64) -> bool {
        self.fetched_at <= now && now < self.expires_at
    }

    const fn is_usable(&self, now: u64, stale_ms: u64) -> bool {
        let stale_ms = if self.negative { 0 } else { stale_ms };
        self.fetched_at <= now && now < self.expires_at.saturating_add(stale_ms)
    }

    /// Whether it is time for a refresh, `ahead_ms` before the result expires.
    fn is_due(&self, now: u64, ahead_ms: u64) -> bool {
        !self.negative && now >= self.expires_at.saturating_sub(ahead_ms).max(self.retry_at)
    }

    /// Whether a forced refresh is pointless: the result is new, or the last forced refresh is recent.
    const fn is_too_new_to_force(&self, now: u64) -> bool {
        within(self.fetched_at, MIN_FORCED_REFRESH_AGE_MS, now)
            || (self.forced_refresh_at > 0 && within(self.forced_refresh_at, FORCED_REFRESH_INTERVAL_MS, now))
    }
}

impl LookupCache {
    /// The cache for a service; `None` for a service that the policy does not name, which is never called. `refreshes`: results
    /// that are in use are refreshed before they expire, also if no request comes at that time.
    pub(super) fn new(service: Option<&Service>, refreshes: bool) -> Self {
        Self {
            refreshes,
            cache_ms: service.map_or(0, |service| service.cache_ms),
            negative_ms: service.map_or(0, |service| service.negative_ms),
            stale_ms: service.map_or(0, |service| service.stale_ms),
            timeout_ms: service.map_or(0, |service| u64::from(service.timeout_ms)),
            entries: Vec::new(),
            positive_count: 0,
            negative_count: 0,
            pacing: Pacing::default(),
            negatives: Vec::new(),
            trouble: None,
            reported: None,
        }
    }

    /// How long before its end a result that is in use is refreshed.
    fn ahead_ms(&self) -> u64 {
        (self.cache_ms / 8).min(30_000)
    }

    /// The index of a key, or (`Err`) the index at which to insert it.
    fn position(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(known, _)| known.as_ref().cmp(key))
    }

    fn entry(&mut self, key: &str) -> Option<&mut KeyState> {
        let index = self.position(key).ok()?;
        self.entries.get_mut(index).map(|(_, entry)| entry.as_mut())
    }

    /// Sets the cached result or the call under way of a key; `None` leaves it as it is.
    fn insert(&mut self, key: &Arc<str>, cached: Option<CacheEntry>, pending: Option<PendingCall>) {
        if let Some(entry) = self.entry(key) {
            entry.cached = cached.or_else(|| entry.cached.take());
            entry.pending = pending.or_else(|| entry.pending.take());
        } else if let Err(index) = self.position(key) {
            self.entries.insert(index, (Arc::clone(key), Box::new(KeyState { cached, pending })));
        }
    }

    fn pending(&mut self, key: &str) -> Option<&mut PendingCall> {
        self.entry(key)?.pending.as_mut()
    }

    /// Decides whether a request is served from the cache. `force_refresh`: the cached result did not fit the request, and
    /// the request needs a new one. `sender` tells who asks.
    pub(super) fn decide(
        &mut self,
        key: &str,
        force_refresh: bool,
        sender: &dyn Fn() -> Option<SenderNetwork>,
        now: u64,
    ) -> CacheDecision {
        let (ahead_ms, stale_ms) = (self.ahead_ms(), self.stale_ms);
        let (mut under_way, mut known) = (false, false);
        if let Some(entry) = self.entry(key) {
            under_way = entry.pending.is_some();
            if let Some(cached) = &mut entry.cached {
                cached.last_used = now;
                cached.in_use = true;
                known = !cached.negative;
                let before_retry = cached.failed.is_some() && now < cached.retry_at;
                let fresh = cached.is_fresh(now);
                let use_cached = if force_refresh {
                    !under_way && (before_retry || cached.is_too_new_to_force(now))
                } else {
                    fresh || (before_retry && cached.down && cached.is_usable(now, stale_ms))
                };
                if use_cached {
                    let result = match cached.failed {
                        // The missing part may be the one that the request needs.
                        Some(reason) if force_refresh => Err(LookupFailure::Unavailable(reason)),
                        _ => cached.result_at(now),
                    };
                    let refresh = !force_refresh && fresh && !under_way && cached.is_due(now, ahead_ms);
                    let origin = if fresh { LookupOrigin::Cache } else { LookupOrigin::Stale };
                    return CacheDecision::Answer { answer: StoreAnswer { result, origin }, refresh };
                }
                if force_refresh {
                    cached.forced_refresh_at = now;
                }
            }
        }
        if under_way {
            return CacheDecision::Wait(None);
        }
        if known {
            return CacheDecision::Wait(Some(RequestedCall { part: CallPart::Shared, sender: None }));
        }
        let sender = sender();
        match self.pacing.part(sender, now) {
            Ok(part) => CacheDecision::Wait(Some(RequestedCall { part, sender })),
            Err(reason) => CacheDecision::Answer { answer: StoreAnswer::unavailable(reason), refresh: false },
        }
    }

    /// Records that a second call, for the previous version of the secrets, takes the place of the first.
    pub(super) fn replace_call(&mut self, id: &CallId, current: Vec<Secret>, now: u64) {
        if let Some(pending) = self.pending(&id.key) {
            pending.number = id.number;
            pending.started_at = now;
            pending.current = current;
        }
    }

    /// Matches a reply with the call under way. `None`: unknown call. `Some(None)`: the reply is too late.
    /// `Some(Some(secrets))`: in time; the reply is merged with these secrets, which are empty after a first call.
    pub(super) fn match_reply(&mut self, key: &str, number: u32, now: u64) -> Option<Option<Vec<Secret>>> {
        let limit = self.lost_after_ms();
        let pending = self.pending(key).filter(|pending| pending.number == number)?;
        Some((now.abs_diff(pending.started_at) < limit).then(|| std::mem::take(&mut pending.current)))
    }

    /// The age at which a call counts as lost, in milliseconds.
    const fn lost_after_ms(&self) -> u64 {
        self.timeout_ms.saturating_add(LOST_AFTER_MS)
    }

    /// Ends the call of a key. Gives the streams that waited for it, each with its answer.
    pub(super) fn complete(
        &mut self,
        key: &Arc<str>,
        outcome: LookupOutcome,
        now: u64,
    ) -> Vec<(u32, StoreAnswer<StoreValue>)> {
        let Some(pending) = self.entry(key).and_then(|entry| entry.pending.take()) else { return Vec::new() };
        // A store that says what a key may not do knows the key.
        let is_miss =
            matches!(outcome, LookupOutcome::Negative(LookupFailure::Unknown(_) | LookupFailure::Unavailable(_)));
        match pending.requested {
            Some(call) => self.pacing.end(call.part, call.sender, is_miss, now),
            None if is_miss => self.pacing.add_miss(now),
            None => {}
        }
        self.trouble = None;
        let (answer, forced_answer) = match outcome {
            LookupOutcome::Found { value, partial } => {
                let ttl_ms = if partial.is_none() { self.cache_ms } else { self.cache_ms.min(PARTIAL_MS) };
                let answer = StoreAnswer::fetched(Ok(value));
                self.store(key, answer.result.clone(), ttl_ms, partial, now);
                (answer.clone(), answer)
            }
            LookupOutcome::Negative(failure) => {
                let answer = StoreAnswer::fetched(Err(failure));
                let until_reset_ms = match failure {
                    LookupFailure::RateLimited { seconds } => u64::from(seconds) * 1000,
                    _ => u64::MAX,
                };
                self.store(key, answer.result.clone(), self.negative_ms.min(until_reset_ms), None, now);
                (answer.clone(), answer)
            }
            LookupOutcome::Failed { reason, down } => {
                self.trouble = Some(reason);
                (self.record_failure(key, reason, down, now), StoreAnswer::unavailable(reason))
            }
        };
        let of = |(stream, forced): (u32, bool)| (stream, if forced { forced_answer.clone() } else { answer.clone() });
        pending.waiters.into_iter().map(of).collect()
    }

    /// Stores a result for a key. If the cache is full it evicts another one first.
    fn store(
        &mut self,
        key: &Arc<str>,
        result: Result<StoreValue, LookupFailure>,
        ttl_ms: u64,
        failed: Option<Reason>,
        now: u64,
    ) {
        let negative = result.is_err();
        let before = self.remove(key);
        let full = if negative { self.negative_count >= MAX_NEGATIVE } else { self.positive_count >= MAX_POSITIVE };
        if full {
            self.evict_one(negative);
        }
        let cached = CacheEntry {
            result,
            negative,
            fetched_at: now,
            expires_at: now.saturating_add(ttl_ms),
            failed,
            down: false,
            // A refresh in the first half of the lifetime would be too early.
            retry_at: now.saturating_add(ttl_ms / 2),
            forced_refresh_at: before.map_or(0, |before| before.forced_refresh_at),
            last_used: now,
            in_use: false,
        };
        self.insert(key, Some(cached), None);
        if negative {
            if self.negatives.len() >= 2 * MAX_NEGATIVE {
                self.prune_negatives();
            }
            self.negatives.push((Arc::clone(key), now));
        }
        *self.count(negative) += 1;
    }

    const fn count(&mut self, negative: bool) -> &mut usize {
        if negative { &mut self.negative_count } else { &mut self.positive_count }
    }

    /// Removes the cached result of a key.
    fn remove(&mut self, key: &str) -> Option<CacheEntry> {
        let index = self.position(key).ok()?;
        let (_, entry) = self.entries.get_mut(index)?;
        let cached = entry.cached.take();
        if entry.pending.is_none() {
            self.entries.remove(index);
        }
        if let Some(cached) = &cached {
            let count = self.count(cached.negative);
            *count = count.saturating_sub(1);
        }
        cached
    }

    /// Evicts the oldest negative result, or the least recently read positive one.
    fn evict_one(&mut self, negative: bool) {
        while negative && !self.negatives.is_empty() {
            let (key, fetched_at) = self.negatives.remove(0);
            if self.is_negative_since(&key, fetched_at) {
                self.remove(&key);
                return;
            }
        }
        let positive =
            |entry: &KeyState| entry.cached.as_ref().filter(|cached| !cached.negative).map(|cached| cached.last_used);
        let positives = self.entries.iter().filter_map(|(key, entry)| Some((positive(entry)?, key)));
        if let Some(key) = positives.min().filter(|_| !negative).map(|(_, key)| Arc::clone(key)) {
            self.remove(&key);
        }
    }

    fn is_negative_since(&mut self, key: &str, fetched_at: u64) -> bool {
        let cached = self.entry(key).and_then(|entry| entry.cached.as_ref());
        cached.is_some_and(|cached| cached.negative && cached.fetched_at == fetched_at)
    }

    /// Records a failed call. Gives the cached result if it may still be served, or else the failure.
    fn record_failure(&mut self, key: &str, reason: Reason, down: bool, now: u64) -> StoreAnswer<StoreValue> {
        let stale_ms = self.stale_ms;
        if let Some(cached) = self.entry(key).and_then(|entry| entry.cached.as_mut()) {
            cached.retry_at = now.saturating_add(RETRY_DELAY_MS);
            cached.failed = Some(reason);
            cached.down = down;
            let fresh = cached.is_fresh(now);
            if fresh || (down && cached.is_usable(now, stale_ms)) {
                let origin = if fresh { LookupOrigin::Cache } else { LookupOrigin::Stale };
                return StoreAnswer { result: cached.result.clone(), origin };
            }
        }
        self.expire(key);
        StoreAnswer::unavailable(reason)
    }

    /// Drops the value of a key. A key that had one is still known: its next lookup is not one for an unknown key.
    fn expire(&mut self, key: &str) {
        match self.entry(key).and_then(|entry| entry.cached.as_mut()) {
            Some(cached) if !cached.negative => {
                cached.result = Err(LookupFailure::Unavailable(super::LOST));
                cached.expires_at = 0;
                cached.failed = None;
                cached.in_use = false;
            }
            _ => drop(self.remove(key)),
        }
    }

    /// Removes outdated pairs from the list of negative results.
    fn prune_negatives(&mut self) {
        let mut negatives = std::mem::take(&mut self.negatives);
        negatives.retain(|(key, fetched_at)| self.is_negative_since(key, *fetched_at));
        self.negatives = negatives;
    }

    /// The store's health if it has changed since the last call of this: `Some(Some(reason))` for a store that has begun to
    /// fail, `Some(None)` for one that works again.
    pub(super) fn changed_health(&mut self) -> Option<Option<Reason>> {
        let changed = self.trouble != self.reported;
        self.reported = self.trouble;
        changed.then_some(self.trouble)
    }

    /// The numbers of positive results, of negative results and of calls under way.
    pub(super) fn sizes(&self) -> [usize; 3] {
        let calls = self.entries.iter().filter(|(_, entry)| entry.pending.is_some()).count();
        let expired = |entry: &KeyState| entry.cached.as_ref().is_some_and(CacheEntry::is_expired);
        let expired = self.entries.iter().filter(|(_, entry)| expired(entry)).count();
        [self.positive_count.saturating_sub(expired), self.negative_count, calls]
    }

    /// Records a new call. `requested`: a request waits for it.
    pub(super) fn begin(&mut self, id: &CallId, now: u64, requested: Option<RequestedCall>) {
        let pending =
            PendingCall { number: id.number, started_at: now, requested, waiters: Vec::new(), current: Vec::new() };
        self.insert(&id.key, None, Some(pending));
        if let Some(call) = requested {
            self.pacing.begin(call.part, call.sender, now);
        }
    }

    /// Adds a request that waits for the call of a key.
    pub(super) fn add_waiter(&mut self, key: &str, stream: u32, force_refresh: bool) {
        if let Some(pending) = self.pending(key) {
            pending.waiters.push((stream, force_refresh));
        }
    }

    /// Forgets a request that waits.
    pub(super) fn remove_waiter(&mut self, key: &str, stream: u32) {
        if let Some(pending) = self.pending(key) {
            pending.waiters.retain(|(waiter, _)| *waiter != stream);
        }
    }

    /// Removes expired results. Gives the keys to refresh, and the keys whose call is lost (`true`).
    pub(super) fn tick(&mut self, now: u64) -> Vec<(Arc<str>, bool)> {
        let (ahead_ms, stale_ms) = (self.ahead_ms(), self.stale_ms);
        let limit = self.lost_after_ms();
        let (mut expired, mut due, mut refreshes) = (Vec::new(), Vec::new(), 0);
        for (key, entry) in &self.entries {
            let lost = entry.pending.as_ref().is_some_and(|pending| now.abs_diff(pending.started_at) >= limit);
            let cached = entry.cached.as_ref().filter(|cached| !cached.is_expired());
            if cached.is_some_and(|cached| !cached.is_usable(now, stale_ms)) {
                expired.push(Arc::clone(key));
            } else if self.refreshes
                && entry.pending.is_none()
                && refreshes < MAX_REFRESHES
                && cached.is_some_and(|cached| cached.in_use && cached.is_due(now, ahead_ms))
            {
                refreshes += 1;
                due.push((Arc::clone(key), false));
            }
            if lost {
                due.push((Arc::clone(key), true));
            }
        }
        for key in expired {
            self.expire(&key);
        }
        self.prune_negatives();
        due
    }
}
