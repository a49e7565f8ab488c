//! One store: what it has answered, how long that holds, and who waits for what it is being asked.
//!
//! Positive and negative answers are bounded apart, so that no number of made-up ids drops an answer that is in use.
//! Keys are kept in order: they come from outside, and the target has no randomness to seed a hash with.

use super::{CallId, LookupResult, StoreKind};
use crate::policy::document::{Secret, Service};
use std::sync::Arc;

/// The most positive answers that are held.
const MAX_POSITIVE: usize = 10_000;
/// The most negative answers that are held.
const MAX_NEGATIVE: usize = 4096;
/// The most keys that requests have calls under way for; what is held is fetched again all the same.
const MAX_ASKED: usize = 1024;
/// Of the negative answers that count among [`MAX_ASKED`], one no longer does after so many milliseconds. In the long run
/// made-up keys are asked for at this pace: 50 a second.
const MISS_MS: u64 = 20;
/// The most refreshes that one tick begins.
const MAX_REFRESHES: usize = 64;
/// For how long a store that has failed is not asked for the same key again while there is an answer to be had.
const RETRY_MS: u64 = 5000;
/// How often a key is fetched anew because a request says that what is held fails it.
const FORCED_REFRESH_MS: u64 = 30_000;
/// What is younger is not fetched anew.
const JUST_NOW_MS: u64 = 1000;
/// For how long an answer holds of which a part could not be had.
const PARTIAL_MS: u64 = 5000;
/// How much longer than its own time limit a call may take before it counts as lost.
const LOST_AFTER_MS: u64 = 5000;

/// What a reply comes to.
#[derive(Debug)]
pub(super) enum LookupOutcome {
    /// An answer; `partial` is why some of it could not be had
    Found { answer: LookupResult, partial: Option<&'static str> },
    /// There is none: held too, and drops what was held
    Negative(LookupResult),
    /// None that could be held; `down` if a store that is down says nothing else
    Failed { reason: &'static str, down: bool },
}

impl LookupOutcome {
    /// No answer at all.
    pub(super) const fn unreachable(kind: StoreKind) -> Self {
        let reason = match kind {
            StoreKind::Bindings => "registry_unreachable",
            StoreKind::Secrets => "secret_store_unreachable",
        };
        Self::Failed { reason, down: true }
    }
}

/// What comes of a question: an answer, or a wait; and a call, unless one is under way.
pub(super) struct CacheDecision {
    pub(super) answer: Option<LookupResult>,
    pub(super) call: bool,
}

/// What is known of a key, and whether it is being asked for.
struct KeyState {
    held: Option<CacheEntry>,
    pending: Option<PendingCall>,
}

/// An answer.
struct CacheEntry {
    answer: LookupResult,
    /// Whether it says that there is nothing
    negative: bool,
    fetched: u64,
    /// When it expires; a positive one may be used longer while the store is down
    expires_at: u64,
    /// Why the store, when last asked, said nothing or not all
    failed: Option<&'static str>,
    /// Whether a store that is down said nothing else
    down: bool,
    /// Not to be asked for again before
    retry: u64,
    /// When a request last had it fetched anew; 0 for never
    force_refresh: u64,
    /// When it was last used
    used: u64,
    /// Whether it was used since it was fetched
    in_use: bool,
}

/// A call under way.
struct PendingCall {
    number: u32,
    since: u64,
    /// Whether a request waits, or did; refreshes are not counted
    asked: bool,
    /// Who waits, and whether for something newer than what is held
    waiters: Vec<(u32, bool)>,
    /// The current secrets, while those of the version before them are fetched
    current: Vec<Secret>,
}

pub(super) struct LookupCache {
    cache_ms: u64,
    negative_ms: u64,
    stale_ms: u64,
    timeout_ms: u64,
    /// By key; sorted, for a tree's code is larger than moving some thousand items is slow
    entries: Vec<(Arc<str>, Box<KeyState>)>,
    held: usize,
    negative: usize,
    asked: usize,
    misses: Misses,
    /// Negative answers in the order in which they came; one that came at another time by now is another one
    oldest: Vec<(Arc<str>, u64)>,
    trouble: Option<&'static str>,
    reported: Option<&'static str>,
}

/// The calls of late that brought a negative answer. Each counts as if it were still under way for a while, so that whoever
/// makes keys up is slowed down, and a gateway that has just started and asks for keys that exist is not.
#[derive(Default)]
struct Misses {
    recent: u64,
    /// Since when fewer than one has been taken off, in milliseconds
    since: u64,
}

impl Misses {
    /// Takes off what the time that has passed frees.
    fn drain(&mut self, now: u64) -> usize {
        let freed = now.saturating_sub(self.since) / MISS_MS;
        self.recent = self.recent.saturating_sub(freed);
        // A clock that went back frees nothing for what is gone, and goes on from where it is.
        if self.recent == 0 || now < self.since {
            self.since = now;
        } else {
            self.since = self.since.saturating_add(freed * MISS_MS);
        }
        usize::try_from(self.recent).unwrap_or(usize::MAX)
    }

    fn add(&mut self, now: u64) {
        self.drain(now);
        self.recent += 1;
    }
}

/// Whether `now` is less than `length` after `since`; a clock that went back before it proves nothing.
const fn within(since: u64, length: u64, now: u64) -> bool {
    since <= now && now < since.saturating_add(length)
}

impl CacheEntry {
    const fn is_fresh(&self, now: u64) -> bool {
        self.fetched <= now && now < self.expires_at
    }

    const fn is_usable(&self, now: u64, stale_ms: u64) -> bool {
        let stale_ms = if self.negative { 0 } else { stale_ms };
        self.fetched <= now && now < self.expires_at.saturating_add(stale_ms)
    }

    /// Whether it is time to fetch it again.
    fn is_due(&self, now: u64, ahead_ms: u64) -> bool {
        !self.negative && now >= self.expires_at.saturating_sub(ahead_ms).max(self.retry)
    }

    /// Whether it is so new that fetching it anew brings nothing else, or has just been.
    const fn is_as_new_as_can_be(&self, now: u64) -> bool {
        within(self.fetched, JUST_NOW_MS, now)
            || (self.force_refresh > 0 && within(self.force_refresh, FORCED_REFRESH_MS, now))
    }
}

impl LookupCache {
    /// The store of a service; one that the policy does not name is never asked.
    pub(super) fn new(service: Option<&Service>) -> Self {
        Self {
            cache_ms: service.map_or(0, |service| service.cache_ms),
            negative_ms: service.map_or(0, |service| service.negative_ms),
            stale_ms: service.map_or(0, |service| service.stale_ms),
            timeout_ms: service.map_or(0, |service| u64::from(service.timeout_ms)),
            entries: Vec::new(),
            held: 0,
            negative: 0,
            asked: 0,
            misses: Misses::default(),
            oldest: Vec::new(),
            trouble: None,
            reported: None,
        }
    }

    /// How long before it expires an answer that is in use is fetched again.
    fn ahead_ms(&self) -> u64 {
        (self.cache_ms / 8).min(30_000)
    }

    /// Where a key is, or belongs.
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(known, _)| known.as_ref().cmp(key))
    }

    fn entry(&mut self, key: &str) -> Option<&mut KeyState> {
        let place = self.place(key).ok()?;
        self.entries.get_mut(place).map(|(_, entry)| entry.as_mut())
    }

    /// The entry of a key, with what is held or under way in it.
    fn put(&mut self, key: &Arc<str>, held: Option<CacheEntry>, pending: Option<PendingCall>) {
        if let Some(entry) = self.entry(key) {
            entry.held = held.or_else(|| entry.held.take());
            entry.pending = pending.or_else(|| entry.pending.take());
        } else if let Err(place) = self.place(key) {
            self.entries.insert(place, (Arc::clone(key), Box::new(KeyState { held, pending })));
        }
    }

    fn pending(&mut self, key: &str) -> Option<&mut PendingCall> {
        self.entry(key)?.pending.as_mut()
    }

    pub(super) fn decide(&mut self, key: &str, force_refresh: bool, now: u64) -> CacheDecision {
        let (ahead_ms, stale_ms) = (self.ahead_ms(), self.stale_ms);
        let exhausted = if self.asked >= MAX_ASKED {
            Some("lookups_exhausted")
        } else {
            (self.asked + self.misses.drain(now) >= MAX_ASKED).then_some("lookups_paced")
        };
        let (mut under_way, mut known) = (false, false);
        if let Some(entry) = self.entry(key) {
            under_way = entry.pending.is_some();
            if let Some(held) = &mut entry.held {
                held.used = now;
                held.in_use = true;
                known = !held.negative;
                let awaits_retry = held.failed.is_some() && now < held.retry;
                let fresh = held.is_fresh(now);
                let serves = if force_refresh {
                    !under_way && (awaits_retry || held.is_as_new_as_can_be(now))
                } else {
                    fresh || (awaits_retry && held.down && held.is_usable(now, stale_ms))
                };
                if serves {
                    let answer = match held.failed {
                        // What could not be had may be what the asker lacks.
                        Some(reason) if force_refresh => LookupResult::Unavailable(reason),
                        _ => held.answer.clone(),
                    };
                    let call = !force_refresh && fresh && !under_way && held.is_due(now, ahead_ms);
                    return CacheDecision { answer: Some(answer), call };
                }
                if force_refresh {
                    held.force_refresh = now;
                }
            }
        }
        if let Some(reason) = exhausted.filter(|_| !under_way && !known) {
            return CacheDecision { answer: Some(LookupResult::Unavailable(reason)), call: false };
        }
        CacheDecision { answer: None, call: !under_way }
    }

    /// Begins a call. `asked`: a request waits for it.
    pub(super) fn begin(&mut self, id: &CallId, now: u64, asked: bool) {
        let pending = PendingCall { number: id.number, since: now, asked, waiters: Vec::new(), current: Vec::new() };
        self.put(&id.key, None, Some(pending));
        self.asked += usize::from(asked);
    }

    /// A further call for the same key.
    pub(super) fn replace_call(&mut self, id: &CallId, current: Vec<Secret>, now: u64) {
        if let Some(pending) = self.pending(&id.key) {
            pending.number = id.number;
            pending.since = now;
            pending.current = current;
        }
    }

    /// Whether a call is still under way, and how a reply of now comes: with what it is to be added to, or (`None`) too late.
    pub(super) fn reply_of(&mut self, key: &str, number: u32, now: u64) -> Option<Option<Vec<Secret>>> {
        let limit = self.lost_after_ms();
        let pending = self.pending(key).filter(|pending| pending.number == number)?;
        Some((now.abs_diff(pending.since) < limit).then(|| std::mem::take(&mut pending.current)))
    }

    /// When a call counts as lost.
    const fn lost_after_ms(&self) -> u64 {
        self.timeout_ms.saturating_add(LOST_AFTER_MS)
    }

    pub(super) fn wait(&mut self, key: &str, stream: u32, force_refresh: bool) {
        if let Some(pending) = self.pending(key) {
            pending.waiters.push((stream, force_refresh));
        }
    }

    pub(super) fn forget(&mut self, key: &str, stream: u32) {
        if let Some(pending) = self.pending(key) {
            pending.waiters.retain(|(waiter, _)| *waiter != stream);
        }
    }

    /// Ends a call with what came of it; everybody who waited, and the answer.
    pub(super) fn settle(&mut self, key: &Arc<str>, verdict: LookupOutcome, now: u64) -> Vec<(u32, LookupResult)> {
        let Some(pending) = self.entry(key).and_then(|entry| entry.pending.take()) else { return Vec::new() };
        self.asked = self.asked.saturating_sub(usize::from(pending.asked));
        self.trouble = None;
        let (answer, newer) = match verdict {
            LookupOutcome::Found { answer, partial } => {
                let life_ms = if partial.is_none() { self.cache_ms } else { self.cache_ms.min(PARTIAL_MS) };
                self.hold(key, &answer, life_ms, false, partial, now);
                (answer.clone(), answer)
            }
            LookupOutcome::Negative(answer) => {
                self.misses.add(now);
                self.hold(key, &answer, self.negative_ms, true, None, now);
                (answer.clone(), answer)
            }
            LookupOutcome::Failed { reason, down } => {
                self.trouble = Some(reason);
                (self.fail(key, reason, down, now), LookupResult::Unavailable(reason))
            }
        };
        let of =
            |(stream, force_refresh): (u32, bool)| (stream, if force_refresh { newer.clone() } else { answer.clone() });
        pending.waiters.into_iter().map(of).collect()
    }

    /// Holds an answer in place of what was held for its key, or if that is too much of another's.
    fn hold(
        &mut self,
        key: &Arc<str>,
        answer: &LookupResult,
        life_ms: u64,
        negative: bool,
        failed: Option<&'static str>,
        now: u64,
    ) {
        let before = self.take(key);
        let full = if negative { self.negative >= MAX_NEGATIVE } else { self.held >= MAX_POSITIVE };
        if full {
            self.drop_one(negative);
        }
        let held = CacheEntry {
            answer: answer.clone(),
            negative,
            fetched: now,
            expires_at: now.saturating_add(life_ms),
            failed,
            down: false,
            // Nothing is asked for again in the first half of its life.
            retry: now.saturating_add(life_ms / 2),
            force_refresh: before.map_or(0, |before| before.force_refresh),
            used: now,
            in_use: false,
        };
        self.put(key, Some(held), None);
        if negative {
            if self.oldest.len() >= 2 * MAX_NEGATIVE {
                self.forget_replaced();
            }
            self.oldest.push((Arc::clone(key), now));
        }
        *self.count(negative) += 1;
    }

    const fn count(&mut self, negative: bool) -> &mut usize {
        if negative { &mut self.negative } else { &mut self.held }
    }

    /// Drops what is held for a key.
    fn take(&mut self, key: &str) -> Option<CacheEntry> {
        let place = self.place(key).ok()?;
        let (_, entry) = self.entries.get_mut(place)?;
        let held = entry.held.take();
        if entry.pending.is_none() {
            self.entries.remove(place);
        }
        if let Some(held) = &held {
            let count = self.count(held.negative);
            *count = count.saturating_sub(1);
        }
        held
    }

    /// Makes room: the oldest negative answer goes, or the positive one that was not used for the longest time.
    fn drop_one(&mut self, negative: bool) {
        while negative && !self.oldest.is_empty() {
            let (key, fetched) = self.oldest.remove(0);
            if self.is_negative_since(&key, fetched) {
                self.take(&key);
                return;
            }
        }
        let positive = |entry: &KeyState| entry.held.as_ref().filter(|held| !held.negative).map(|held| held.used);
        let used = self.entries.iter().filter_map(|(key, entry)| Some((positive(entry)?, key)));
        if let Some(key) = used.min().filter(|_| !negative).map(|(_, key)| Arc::clone(key)) {
            self.take(&key);
        }
    }

    fn is_negative_since(&mut self, key: &str, fetched: u64) -> bool {
        let held = self.entry(key).and_then(|entry| entry.held.as_ref());
        held.is_some_and(|held| held.negative && held.fetched == fetched)
    }

    /// What there is to say although the store has failed.
    fn fail(&mut self, key: &str, reason: &'static str, down: bool, now: u64) -> LookupResult {
        let stale_ms = self.stale_ms;
        if let Some(held) = self.entry(key).and_then(|entry| entry.held.as_mut()) {
            held.retry = now.saturating_add(RETRY_MS);
            held.failed = Some(reason);
            held.down = down;
            if held.is_fresh(now) || (down && held.is_usable(now, stale_ms)) {
                return held.answer.clone();
            }
        }
        self.take(key);
        LookupResult::Unavailable(reason)
    }

    /// Drops what has expired. What is used and about to expire, and (`true`) the calls that no reply comes of any more.
    pub(super) fn tick(&mut self, now: u64) -> Vec<(Arc<str>, bool)> {
        let (ahead_ms, stale_ms) = (self.ahead_ms(), self.stale_ms);
        let limit = self.lost_after_ms();
        let (mut expired, mut due, mut refreshes) = (Vec::new(), Vec::new(), 0);
        for (key, entry) in &self.entries {
            let lost = entry.pending.as_ref().is_some_and(|pending| now.abs_diff(pending.since) >= limit);
            let held = entry.held.as_ref();
            if held.is_some_and(|held| !held.is_usable(now, stale_ms)) {
                expired.push(Arc::clone(key));
            } else if entry.pending.is_none()
                && refreshes < MAX_REFRESHES
                && held.is_some_and(|held| held.in_use && held.is_due(now, ahead_ms))
            {
                refreshes += 1;
                due.push((Arc::clone(key), false));
            }
            if lost {
                due.push((Arc::clone(key), true));
            }
        }
        for key in expired {
            self.take(&key);
        }
        self.forget_replaced();
        due
    }

    /// Leaves those in the order of negative answers that are still held.
    fn forget_replaced(&mut self) {
        let mut oldest = std::mem::take(&mut self.oldest);
        oldest.retain(|(key, fetched)| self.is_negative_since(key, *fetched));
        self.oldest = oldest;
    }

    /// Why it gives no answers, or that it gives some again, if that has changed since this was last asked.
    pub(super) fn changed_health(&mut self) -> Option<Option<&'static str>> {
        let changed = self.trouble != self.reported;
        self.reported = self.trouble;
        changed.then_some(self.trouble)
    }

    pub(super) fn sizes(&self) -> [usize; 3] {
        let calls = self.entries.iter().filter(|(_, entry)| entry.pending.is_some()).count();
        [self.held, self.negative, calls]
    }
}
