//! The backend's request for a stored result, for requests by key and by operation id.

use super::path::Wait;
use crate::exchange::{Decision, EditedLines, Effect, Exchange, HeaderMapKind};
use crate::headers::RouterHints;
use crate::policy::Policy;
use std::borrow::Cow;

/// A stored result at the backend.
pub(crate) struct StoredResult {
    /// Its path
    pub(crate) path: String,
    /// The headers that control the gateway's router
    pub(crate) router: Option<&'static RouterHints>,
}

impl StoredResult {
    /// Turns a request into the backend's request for it.
    pub(crate) fn send<'a>(
        self,
        exchange: &mut Exchange,
        policy: &'a Policy,
        edited: &EditedLines<'a>,
        decision: Decision,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let waits = decision.stored_result() == Some(Wait::Attach);
        let forward = &policy.identity_of(exchange.route(policy)).forward;
        decision.edit_headers(edited, forward, Some(&exchange.backend(policy).mark), Vec::new(), effects);
        exchange.forwarded(decision);
        let mut set = |name: &'static str, value: Cow<'a, [u8]>| {
            effects.push(Effect::Set { map: HeaderMapKind::Request, name, value });
        };
        set(":path", Cow::Owned(self.path.into_bytes()));
        if let Some(router) = self.router.filter(|_| waits) {
            set(router.timeout_ms, Cow::Owned(policy.recovery_wait_ms.to_string().into_bytes()));
            // Restate's attach returns 404 for an unknown key, and also for work under way that ends with a 404 of the
            // handler. Only the reply to a repeated request tells them apart: the handler's 404 then has an expiry header.
            router.retry_not_found.iter().for_each(|(name, value)| set(name, Cow::Borrowed(value.as_bytes())));
        }
    }
}
