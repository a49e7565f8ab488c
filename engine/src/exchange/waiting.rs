//! A request that waits: which of its header lines are kept until it goes on, and whose memory they take
//! (docs/contract.md section 2, "Waiting"). The headers that the backend must not get are removed before the wait, so
//! they are not kept, however many a sender makes.

use super::request::is_stripped;
use super::{Effect, Exchange, HeaderMapKind, State};
use crate::headers::{Headers, IDEMPOTENCY_KEY, distinct};
use crate::policy::Policy;
use std::sync::Arc;

/// Who takes the memory that a waiting request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiter {
    /// Nobody has verified who sends it. The text is the webhook id, or the signed caller, that the request names; it is
    /// empty while nobody knows whether there is such a webhook.
    Unverified(Arc<str>),
    /// A verified caller of this tenant.
    Tenant(Arc<str>),
}

impl Exchange {
    /// Who takes the memory for the request, which waits.
    #[inline(never)]
    pub fn waiter(&self, policy: &Policy) -> Waiter {
        let identity = match &self.state {
            State::AwaitsSteps(pending) => pending.decision.identity.as_ref(),
            State::AwaitsInvocation(recovery) => Some(&recovery.identity),
            _ => None,
        };
        if let Some(identity) = identity {
            return Waiter::Tenant(identity.tenant.as_str().into());
        }
        Waiter::Unverified(match &self.state {
            State::AwaitsDelivery(delivery) => delivery.webhook_id.clone(),
            State::AwaitsSignedBody(caller) => {
                let name = policy.callers().get(*caller).map(|caller| caller.signature.name()).unwrap_or_default();
                // No webhook id has a colon.
                format!("caller:{name}").into()
            }
            _ => Arc::default(),
        })
    }

    /// The header lines that are read when the wait is over.
    #[inline(never)]
    pub fn kept_lines<'a>(&self, policy: &Policy, headers: &Headers<'a>) -> Headers<'a> {
        let caller = match &self.state {
            State::AwaitsSignedBody(id) => policy.callers().get(*id),
            _ => None,
        };
        let signature = match &self.state {
            State::AwaitsDelivery(delivery) if delivery.unverifiable.is_some() => return Headers::default(),
            State::AwaitsDelivery(delivery) => policy.provider(&delivery.provider),
            // It covers the headers with tenant and project, too.
            State::AwaitsSignedBody(_) => caller.map(|caller| &caller.signature),
            // A verified request's repeated lines become one.
            State::AwaitsSteps(_) => {
                self.facts.caller.and_then(|caller| policy.callers().get(caller)).map(|caller| &caller.signature)
            }
            // The path of the result takes the place of the request's own.
            _ => return Headers::default(),
        };
        // A fingerprint holds every line.
        let counts_types = caller.is_some() && self.route(policy).is_some_and(|route| route.collision.is_some());
        let mut kept: Vec<(&[u8], &[u8])> = Vec::new();
        for (name, value) in headers.iter() {
            let is_kept = match name {
                b":method" | b":path" => true,
                b":authority" | b":scheme" => signature.is_some(),
                b"content-type" if counts_types => true,
                _ => signature.is_some_and(|signature| signature.reads_line(name)) && adds(&kept, (name, value)),
            };
            if is_kept {
                kept.push((name, value));
            }
        }
        Headers::new(kept)
    }

    /// Removes the headers of a request that waits, which the backend must not get whatever the wait brings.
    #[inline(never)]
    pub(super) fn edit_before_wait<'a>(
        &self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let is_delivery = matches!(self.state, State::AwaitsDelivery(_));
        let (is_recovery, router) = match &self.state {
            State::AwaitsInvocation(recovery) => (true, recovery.router),
            _ => (false, None),
        };
        let steers = |name: &[u8]| router.is_some_and(|router| name.starts_with(router.prefix.as_bytes()));
        let signature = match &self.state {
            State::AwaitsDelivery(delivery) => policy.provider(&delivery.provider),
            _ => self.facts.caller.and_then(|caller| policy.callers().get(caller)).map(|caller| &caller.signature),
        };
        // Other spellings of what verification reads.
        let looks_signed = |name: &[u8]| {
            signature.is_some_and(|signature| signature.reads(name) && !signature.reads_line(name))
                && !policy.keeps_header(name)
        };
        let names = policy.request_names();
        let is_removed = |name: &&[u8]| match *name {
            // The key of a delivery, and of a request for a result, is not the client's.
            name if name == IDEMPOTENCY_KEY.as_bytes() => is_delivery || is_recovery,
            name => names.lets_pass(name) && is_stripped(policy, name) || looks_signed(name) || steers(name),
        };
        let removed = distinct(headers.iter().map(|(name, _)| name).filter(is_removed).collect());
        effects.extend(removed.into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Request, name }));
    }
}

/// Whether a line tells more than the lines that are kept of its name: a header counts as absent, as one value, or as
/// ambiguous, and a repeated line is ambiguous where a line must not be repeated.
fn adds(kept: &[(&[u8], &[u8])], (name, value): (&[u8], &[u8])) -> bool {
    let mut same = kept.iter().filter(|(other, _)| *other == name).map(|(_, value)| value.trim_ascii());
    match (same.next(), same.next()) {
        (Some(first), Some(second)) => first == second && first != value.trim_ascii() && same.next().is_none(),
        _ => true,
    }
}
