//! A request that is checked beside its way to the backend: it passes as it comes, and the claim is made at its end.

use super::{FilterAction, Stream};
use crate::configuration::Configuration;
use crate::host::Host;

impl Stream {
    /// Begins to observe a request for which `action` was decided; `ended`: nothing of it follows.
    pub(super) fn begin_observation<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        action: FilterAction,
        ended: bool,
    ) {
        // An edit may have failed after the decision. Then the backend does not get the request.
        self.observation = self.exchange.take_observation().filter(|_| action == FilterAction::Continue);
        if ended {
            self.end_observation(host, configuration);
        }
    }

    /// Reads a part of the body, of `size` bytes, that goes to the backend now.
    pub(super) fn observe_part<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        size: usize,
        end_of_stream: bool,
    ) {
        if size > 0
            && let Some(observation) = self.observation.take()
            // Without the body there is no fingerprint, and a request that is observed is not refused.
            && let Ok(Some(pushed)) =
                host.with_request_body(0, size, |part| (part.len() == size).then(|| observation.push(part)))
        {
            match pushed {
                Ok(observation) => self.observation = Some(observation),
                Err(unobserved) => {
                    if let Some(mut dependencies) = configuration.dependencies() {
                        dependencies.note_unobserved(unobserved);
                    }
                }
            }
        }
        if end_of_stream {
            self.end_observation(host, configuration);
        }
    }

    /// Makes the claim of a request that has ended.
    pub(super) fn end_observation<H: Host>(&mut self, host: &H, configuration: &mut Configuration) {
        let Some(observation) = self.observation.take() else { return };
        let metrics = configuration.metrics().clone();
        let observed = observation.finish();
        self.exchange.note_observed(&observed.claim.fingerprint);
        if let Some(mut dependencies) = configuration.dependencies() {
            dependencies.observe(host, observed, &metrics);
        }
    }
}
