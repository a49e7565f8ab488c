//! What telemetry learns about a request beside the decision. No decision depends on it.

use super::Exchange;
use super::request::wider_scope;
use crate::headers::Headers;
use crate::identity::{self, Attributes, IdentitySource, Rules};
use crate::policy::{Policy, PolicyKind, Route};
use crate::problem::Problem;

/// The header with the number of attempts that a client has made. Of several lines the last one counts.
pub(super) const ATTEMPT: &[u8] = b"x-retry-attempt";
/// The number that stands for every greater number of attempts.
const MAX_ATTEMPT: u8 = 100;

/// Reads the value of [`ATTEMPT`]: digits, and nothing else.
pub(super) fn attempt(value: &[u8]) -> Option<u8> {
    let add = |number: u8, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit).min(MAX_ATTEMPT))
    };
    value.iter().try_fold(0, add).filter(|_| !value.is_empty())
}

impl Exchange {
    /// Reads the identity of a request that was refused, or would be without shadow mode, by the rules of its route.
    #[inline(never)]
    pub(super) fn identify(&mut self, policy: &Policy, headers: &Headers<'_>, attributes: &dyn Attributes) {
        let route = self.route(policy);
        // Who sends a webhook or a signed request is known when its signature is verified, and not before.
        let is_signed = |route: &Route| route.webhook.is_some() || policy.signer(route, headers).is_some();
        if self.problem().is_some_and(Problem::is_about_identity) || route.is_some_and(is_signed) {
            return;
        }
        let rules = policy.identity_of(route);
        // If the route needs no identity, its headers may be the client's own.
        let needs_identity =
            route.is_some_and(|route| matches!(route.policy, PolicyKind::RequiredA | PolicyKind::Accepted));
        if !needs_identity && rules.sources.iter().any(IdentitySource::has_header) {
            return;
        }
        let scope = route.and_then(|route| wider_scope(route.scope));
        let rules_of_scope = Rules { scope, types: &rules.types, reserved: policy.reserved_subjects() };
        let identity = identity::resolve(&rules.sources, &rules_of_scope, headers, attributes);
        self.facts.verified_identity = identity.ok().map(Box::new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_a_bounded_number() {
        let cases: [(&[u8], Option<u8>); 11] = [
            (b"0", Some(0)),
            (b"1", Some(1)),
            (b"007", Some(7)),
            (b"100", Some(100)),
            (b"101", Some(100)),
            (b"18446744073709551616", Some(100)),
            (b"", None),
            (b"-1", None),
            (b"+1", None),
            (b"1.5", None),
            (b"1, 2", None),
        ];
        for (value, expected) in cases {
            assert_eq!(attempt(value), expected, "{}", value.escape_ascii());
        }
    }
}
