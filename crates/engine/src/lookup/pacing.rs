//! How many calls for keys that nobody has seen a store gets. Clients make keys up, and a call for such a key is a call for nothing.
//! Most of the calls go to whoever comes first; a reserve is left for senders that have not asked for unknown keys lately. So one sender that
//! makes keys up cannot use up the calls for the others.

use crate::codes::Reason;
use crate::policy::authority::ipv6;
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// The maximum number of calls under way that a request waits for, of each part. Refreshes are not limited by it.
const MAX_CALLS: usize = 1024;
/// A negative result counts towards [`MAX_CALLS`] for a while: every `MISS_MS` milliseconds one of them stops counting. So unknown
/// keys cause at most 50 calls a second of each part in the long run.
const MISS_MS: u64 = 20;
/// How many calls for unknown keys a sender may cause in a row, and still use the reserve.
const SENDER_BURST: u64 = 32;
/// Every so many milliseconds one of a sender's calls stops counting.
const SENDER_MISS_MS: u64 = 1000;
/// The maximum number of senders that are remembered.
const MAX_SENDERS: usize = 256;

/// The network of a sender, as a hash: an IPv4 address, or the first 64 bits of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderNetwork(u64);

impl SenderNetwork {
    /// Reads an address with its port, as gateways write them (`203.0.113.7:4711`, `[2001:db8::1]:4711`); `None` for another text.
    /// Of an IPv6 address the first 64 bits count. If they are zero all of it counts, since an IPv4 address can stand at its end.
    pub fn parse(address: &[u8]) -> Option<Self> {
        let (host, _) = std::str::from_utf8(address).ok()?.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
        let groups = host.strip_prefix('[').and_then(|host| ipv6(host.strip_suffix(']')?));
        let network = groups.as_deref().and_then(|groups| groups.get(..4)).filter(|network| network != &[0; 4]);
        let mut hasher = FixedState::default().build_hasher();
        match network {
            Some(network) => network.iter().for_each(|group| hasher.write_u32(*group)),
            None => hasher.write(host.as_bytes()),
        }
        Some(Self(hasher.finish()))
    }
}

/// The part of the calls that a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPart {
    /// Whoever comes first
    Shared,
    /// Senders that have not asked for unknown keys lately
    Reserved,
}

/// The calls of one store that requests wait for.
#[derive(Default)]
pub(super) struct Pacing {
    shared: PartOfCalls,
    reserved: PartOfCalls,
    /// Senders of calls for unknown keys, each with the time at which none of its calls counts any more, Unix time in milliseconds
    senders: Vec<(SenderNetwork, u64)>,
}

#[derive(Default)]
struct PartOfCalls {
    under_way: usize,
    misses: Misses,
}

/// The recent calls with a negative result. Each of them counts as a call under way for a while. This slows down clients
/// that invent keys, and does not slow down a gateway that has just started and looks up existing keys.
#[derive(Default)]
struct Misses {
    recent: u64,
    /// The time up to which misses have been subtracted, Unix time in milliseconds
    drained_to: u64,
}

impl Misses {
    /// Subtracts one miss for each [`MISS_MS`] that has passed. Gives the misses that still count.
    fn drain(&mut self, now: u64) -> usize {
        let freed = now.saturating_sub(self.drained_to) / MISS_MS;
        self.recent = self.recent.saturating_sub(freed);
        // If the clock went back, nothing is subtracted, and time counts from the new reading.
        if self.recent == 0 || now < self.drained_to {
            self.drained_to = now;
        } else {
            self.drained_to = self.drained_to.saturating_add(freed * MISS_MS);
        }
        usize::try_from(self.recent).unwrap_or(usize::MAX)
    }

    fn add(&mut self, now: u64) {
        self.drain(now);
        self.recent += 1;
    }
}

impl PartOfCalls {
    /// The reason why no call may be added.
    fn limit(&mut self, now: u64) -> Option<Reason> {
        if self.under_way >= MAX_CALLS {
            return Some(Reason::LookupsExhausted);
        }
        (self.under_way + self.misses.drain(now) >= MAX_CALLS).then_some(Reason::LookupsPaced)
    }
}

impl Pacing {
    /// The part that a call for an unknown key would belong to.
    ///
    /// # Errors
    /// The reason why there may be none.
    pub(super) fn part(&mut self, sender: Option<SenderNetwork>, now: u64) -> Result<CallPart, Reason> {
        match self.shared.limit(now) {
            None => Ok(CallPart::Shared),
            Some(_) if self.may_use_reserve(sender, now) && self.reserved.limit(now).is_none() => {
                Ok(CallPart::Reserved)
            }
            Some(reason) => Err(reason),
        }
    }

    /// Counts a call that a request waits for. The sender counts if the key is unknown.
    pub(super) fn begin(&mut self, part: CallPart, sender: Option<SenderNetwork>, now: u64) {
        self.of(part).under_way += 1;
        let Some(sender) = sender else { return };
        self.senders.retain(|(_, until)| *until > now);
        if let Some((_, until)) = self.senders.iter_mut().find(|(known, _)| *known == sender) {
            *until = until.saturating_add(SENDER_MISS_MS);
            return;
        }
        if self.senders.len() >= MAX_SENDERS {
            let least = self.senders.iter().enumerate().min_by_key(|(_, (_, until))| *until).map(|(index, _)| index);
            least.map(|index| self.senders.swap_remove(index));
        }
        self.senders.push((sender, now.saturating_add(SENDER_MISS_MS)));
    }

    /// Counts the end of such a call. A call for a key that exists, or that failed, does not count for its sender any more.
    pub(super) fn end(&mut self, part: CallPart, sender: Option<SenderNetwork>, is_miss: bool, now: u64) {
        let calls = self.of(part);
        calls.under_way = calls.under_way.saturating_sub(1);
        if is_miss {
            calls.misses.add(now);
        } else if let Some((_, until)) = self.senders.iter_mut().find(|(known, _)| Some(*known) == sender) {
            *until = until.saturating_sub(SENDER_MISS_MS);
        }
    }

    /// Counts a negative result that no request waited for.
    pub(super) fn add_miss(&mut self, now: u64) {
        self.shared.misses.add(now);
    }

    /// A sender whose network the gateway does not tell has no part in the reserve.
    fn may_use_reserve(&self, sender: Option<SenderNetwork>, now: u64) -> bool {
        let Some(sender) = sender else { return false };
        let until = self.senders.iter().find(|(known, _)| *known == sender).map_or(now, |(_, until)| *until);
        until.saturating_sub(now) < SENDER_BURST * SENDER_MISS_MS
    }

    const fn of(&mut self, part: CallPart) -> &mut PartOfCalls {
        match part {
            CallPart::Shared => &mut self.shared,
            CallPart::Reserved => &mut self.reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let network = |text: &str| SenderNetwork::parse(text.as_bytes());
        assert!(network("203.0.113.7:1").is_some());
        assert_eq!(network("203.0.113.7:1"), network("203.0.113.7:2"));
        assert_ne!(network("203.0.113.7:1"), network("203.0.113.8:1"));
        assert_eq!(network("[2001:db8:1:2::1]:1"), network("[2001:db8:1:2:3:4:5:6]:9"));
        assert_ne!(network("[2001:db8:1:2::1]:1"), network("[2001:db8:1:3::1]:1"));
        assert_eq!(network("[2001:db8::1]:1"), network("[2001:db8::2]:1"));
        assert_ne!(network("[2001:db8::1]:1"), network("[2001:db9::1]:1"));
        // Where the zeros are left out says nothing about the network.
        assert_eq!(network("[2001:db8:1::5]:1"), network("[2001:db8:1:0:1:2:3:4]:1"));
        assert_ne!(network("[2001::a:b:c:d:e]:1"), network("[2001::b:b:c:d:e]:1"));
        assert_ne!(network("[::ffff:203.0.113.7]:1"), network("[::ffff:203.0.113.8]:1"));
        for bad in ["", "203.0.113.7", "/run/socket", ":1"] {
            assert_eq!(network(bad), None, "{bad}");
        }
    }
}
