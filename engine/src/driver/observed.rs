//! A request that is checked beside its way to the backend: it passes as it comes, and the claim is made at its end.

use super::{Driver, FilterAction, SharedLookups};
use crate::host::Host;

impl<H: Host> Driver<H> {
    /// Begins to observe a request for which `action` was decided; `ended`: nothing of it follows.
    pub(super) fn begin_observation(
        &mut self,
        host: &H,
        action: FilterAction,
        ended: bool,
        lookups: Option<&mut SharedLookups>,
    ) {
        // An edit may have failed after the decision. Then the backend does not get the request.
        self.observation = self.exchange.take_observation().filter(|_| action == FilterAction::Continue);
        if ended {
            self.end_observation(host, lookups);
        }
    }

    /// Reads a part of the body, of `size` bytes, that goes to the backend now.
    pub(super) fn observe_part(
        &mut self,
        host: &H,
        size: usize,
        end_of_stream: bool,
        mut lookups: Option<&mut SharedLookups>,
    ) {
        if size > 0
            && let Some(observation) = self.observation.take()
            // Without the body there is no fingerprint, and a request that is observed is not refused.
            && let Ok(part) = host.request_body(0, size)
            && part.len() == size
        {
            match observation.push(&part) {
                Ok(observation) => self.observation = Some(observation),
                Err(unobserved) => {
                    if let Some(lookups) = lookups.as_deref_mut() {
                        lookups.note_unobserved(unobserved);
                    }
                }
            }
        }
        if end_of_stream {
            self.end_observation(host, lookups);
        }
    }

    /// Makes the claim of a request that has ended.
    pub(super) fn end_observation(&mut self, host: &H, lookups: Option<&mut SharedLookups>) {
        if let (Some(observation), Some(lookups)) = (self.observation.take(), lookups) {
            lookups.observe(host, observation.finish());
        }
    }
}
