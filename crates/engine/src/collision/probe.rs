//! Whether the guard does what the filter expects of it: two claims under one key that nobody else has, with two fingerprints.
//! The first reply has to be the first fingerprint, and so has the second.

use super::claim::{Claim, ClaimVerdict, call, read};
use super::fingerprint::VERSION;
use crate::call::{Call, CallReply};
use crate::policy::Policy;
use std::sync::Arc;

/// Two claims at one guard.
#[derive(Debug)]
pub struct GuardProbe([Claim; 2]);

/// What the guard made of two claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardVerdict {
    /// It keeps the first fingerprint of a key, as the filter expects.
    Keeps,
    /// It gives no fingerprint; the reason that the filter would count.
    Unusable(&'static str),
    /// It gives a fingerprint that it did not get under this key.
    Invents,
    /// It gives each claim its own fingerprint: no collision would be found.
    Forgets,
}

impl GuardProbe {
    /// The claims for each backend that has a guard. `key` is the key at the guard; nobody may have used it.
    pub fn all(policy: &Policy, key: &str) -> Vec<Self> {
        let guards = policy.backends().filter_map(|backend| backend.guard.as_ref());
        let probe = |guard| {
            Self(["first", "second"].map(|digest| Claim {
                guard: Arc::clone(guard),
                key: key.to_owned(),
                fingerprint: format!("{VERSION}r.{digest}"),
            }))
        };
        guards.map(probe).collect()
    }

    /// The calls, in their order.
    pub fn calls(&self) -> [Call; 2] {
        self.0.each_ref().map(call)
    }

    /// What the replies to [`GuardProbe::calls`] mean.
    pub fn verdict(&self, replies: [CallReply<'_>; 2]) -> GuardVerdict {
        let [first, second] = &self.0;
        let [to_first, to_second] = replies.map(|reply| read(&reply));
        match (first.verdict(&to_first), second.verdict(&to_second)) {
            (ClaimVerdict::Unknown(reason), _) | (_, ClaimVerdict::Unknown(reason)) => {
                GuardVerdict::Unusable(reason.name())
            }
            (ClaimVerdict::Mismatch, _) => GuardVerdict::Invents,
            (ClaimVerdict::Match, ClaimVerdict::Match) => GuardVerdict::Forgets,
            (ClaimVerdict::Match, ClaimVerdict::Mismatch) if to_first == to_second => GuardVerdict::Keeps,
            (ClaimVerdict::Match, ClaimVerdict::Mismatch) => GuardVerdict::Invents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &[u8] = br#"{"version": 1, "backend": {"kind": "restate", "cluster": "restate", "rewrite_path": true, "guard": {}},
        "identity": {"sources": [{"name": "a", "headers_owned_by": "b", "tenant": "t", "project": "p", "subject": {"field": "s"}}]},
        "routes": [{"endpoint": "a", "path": "/a", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce"}]}"#;

    fn reply(status: u16, body: &[u8]) -> CallReply<'_> {
        CallReply { status: Some(status), body: Some(body) }
    }

    #[test]
    fn a_guard_has_to_keep_the_first_fingerprint() {
        let policy = Policy::from_json(POLICY).unwrap();
        let probe = GuardProbe::all(&policy, "key").pop().unwrap();
        let [first, second] = probe.calls().map(|call| call.body);
        let verdict = |one: &[u8], two: &[u8]| probe.verdict([reply(200, one), reply(200, two)]);
        assert_eq!(verdict(&first, &first), GuardVerdict::Keeps);
        assert_eq!(verdict(&first, &second), GuardVerdict::Forgets);
        assert_eq!(verdict(&second, &second), GuardVerdict::Invents);
        let other = format!("\"{VERSION}r.other\"");
        assert_eq!(verdict(&first, other.as_bytes()), GuardVerdict::Invents);
        for malformed in [&b"{\"ok\":true}"[..], b"", b"null", b"[\"x\"]"] {
            assert_eq!(verdict(malformed, malformed), GuardVerdict::Unusable("guard_malformed"));
        }
        assert_eq!(verdict(b"\"ok\"", b"\"ok\""), GuardVerdict::Unusable("guard_incomparable"));
        let down = [CallReply::NONE, reply(200, &first)];
        assert_eq!(probe.verdict(down), GuardVerdict::Unusable("guard_failed"));
        let missing = reply(404, b"{}");
        assert_eq!(probe.verdict([missing, missing]), GuardVerdict::Unusable("guard_malformed"));
    }

    #[test]
    fn a_policy_without_a_guard_has_nothing_to_ask() {
        let policy = Policy::from_json(br#"{"version": 1, "backend": {"kind": "generic"}, "routes": []}"#).unwrap();
        assert!(GuardProbe::all(&policy, "key").is_empty());
    }
}
