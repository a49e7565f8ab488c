//! Detects a gateway that does not pass on the body that a paused message waits for, and ends such a wait.
//!
//! Envoy does so if the plugin's configuration lacks `allow_on_headers_stop_iteration`: it keeps the body back until the
//! filter lets the headers pass, and the filter lets them pass when it has the body. As soon as one body has arrived
//! during a wait, the gateway is known to be configured well, and nothing here is needed any more.

use super::response::{ResponseBody, body_of};
use super::{Driver, edit};
use crate::host::Host;
use crate::policy::Policy;
use crate::problem::Problem;

/// How often [`Driver::on_tick`] has to be called, in milliseconds.
pub const STALL_TICK_MS: u32 = 1000;

/// A wait of this many ticks lasts for at least five seconds, because the first tick can come at once.
const TICKS: u8 = 6;

/// How long a message has waited for its body.
#[derive(Default)]
pub(super) struct BodyWait {
    /// The number of ticks since the wait began
    ticks: u8,
    /// Whether a part of the body, or its end, has arrived during the wait
    arrived: bool,
}

impl BodyWait {
    /// Notes that a part of the body, or its end, has arrived.
    pub(super) const fn arrived(&mut self) {
        self.arrived = true;
    }
}

impl<H: Host> Driver<H> {
    /// Whether a part of a body, or its end, has arrived while the message waited for it.
    pub const fn awaited_body_arrived(&self) -> bool {
        self.body_wait.arrived
    }

    /// Counts a tick. `true` if a message has waited for its body for five seconds and no part of it has arrived; then
    /// [`Driver::end_stalled_wait`] has to follow.
    pub fn on_tick(&mut self) -> bool {
        let request_waits = self.pending.as_ref().is_some_and(|pending| !pending.has_body && !pending.awaits_call());
        let waits = request_waits || matches!(self.response, ResponseBody::Awaited { .. });
        self.body_wait.ticks = if waits { self.body_wait.ticks.saturating_add(1) } else { 0 };
        waits && !self.body_wait.arrived && self.body_wait.ticks >= TICKS
    }

    /// Ends a wait for a body that the gateway keeps back, in a callback that belongs to another context. `false` if the
    /// gateway has not received any of the body either; then the wait goes on.
    ///
    /// A request is refused with 503 `policy_invalid`. A response passes as one whose body cannot be read: none of
    /// its body has come, so nothing goes on in the middle of it.
    pub fn end_stalled_wait(&mut self, host: &H) -> bool {
        if let Some(pending) = &self.pending {
            // A client that sends its body slowly is no sign of a wrong configuration.
            if host.received_bytes().is_none_or(|bytes| bytes <= pending.head as u64) {
                return false;
            }
            self.reply(host, &Problem::policy_invalid());
            return true;
        }
        let Some(policy) = self.policy.clone() else { return false };
        self.pass_unread(host, &policy);
        true
    }

    /// Lets a response pass whose body does not arrive. The body is replaced when it comes.
    fn pass_unread(&mut self, host: &H, policy: &Policy) {
        let mut effects = Vec::new();
        self.exchange.response_body_kept_back(policy, &mut effects);
        let _ = edit(host, &effects);
        self.response = body_of(effects).map_or(ResponseBody::Streamed, ResponseBody::Replaced);
        // If the response has ended meanwhile, there is nothing to resume.
        let _ = host.resume_response();
    }
}
