//! Ends the wait of a message whose body the gateway keeps back (`configuration/body_watch.rs`).

use super::response::{ResponseBody, body_of};
use super::{Stream, edit};
use crate::configuration::Configuration;
use crate::events::{AwaitedBody, UnreadBody};
use crate::host::Host;
use crate::policy::Policy;
use crate::problem::Problem;

impl Stream {
    /// Ends a wait for a body that the gateway keeps back. A message that waits no longer is left alone.
    ///
    /// A request is refused with 503 `policy_invalid`, unless the gateway has not received any of its body either: a client
    /// that sends its body slowly is no sign of a wrong configuration. A response passes as one whose body cannot be read:
    /// none of its body has come, so nothing goes on in the middle of it.
    pub(super) fn stalled_wait<H: Host>(&mut self, host: &H, configuration: &mut Configuration) {
        match &self.pending {
            Some(pending) if pending.message.has_body || pending.awaits_call() => return,
            Some(pending) if host.received_bytes().is_none_or(|bytes| bytes <= pending.message.head as u64) => {
                return configuration.body_watch().goes_on(self.id);
            }
            Some(_) => {
                self.reply(host, &Problem::policy_invalid());
            }
            None => {
                let ResponseBody::Awaited { awaited, .. } = self.response else { return };
                let Some(policy) = self.policy.clone() else { return };
                self.pass_unread(host, &policy, awaited);
            }
        }
        configuration.body_watch().report(host);
    }

    /// Lets a response pass whose body does not arrive. The body is replaced when it comes.
    fn pass_unread<H: Host>(&mut self, host: &H, policy: &Policy, awaited: AwaitedBody) {
        let mut effects = Vec::new();
        self.exchange.response_body_unread(awaited, UnreadBody::IsKeptBack, policy, &mut effects);
        let _ = edit(host, &effects);
        self.response = body_of(effects).map_or(ResponseBody::Streamed, ResponseBody::Replaced);
        // If the response has ended meanwhile, there is nothing to resume.
        let _ = host.resume_response();
    }
}
