//! A response whose body is read as it passes, because the route names the member that reports work which was done before. The
//! client waits for nothing.

use super::Stream;
use crate::configuration::Configuration;
use crate::host::Host;
use crate::memory::{KeptBody, MemoryLimit};
use crate::metrics::count_handler_hit;

/// What has passed of all observed responses of a VM has at most 16 MiB. A backend that begins responses and does not end them
/// could otherwise use all of the VM's memory.
static KEPT: MemoryLimit = MemoryLimit::new(16 * 1024 * 1024);

/// What has passed of a response.
pub(super) struct ObservedAnswer {
    body: KeptBody,
    /// The longest body that is read, in bytes
    limit: usize,
}

impl ObservedAnswer {
    /// A response of which no body has passed. `limit`: the longest body that is read, in bytes.
    pub(super) fn new(limit: u64) -> Box<Self> {
        Box::new(Self { body: KeptBody::new(&KEPT), limit: usize::try_from(limit).unwrap_or(usize::MAX) })
    }

    /// Takes the next part of the body, of `size` bytes. `None` if the body is too long, if there is no memory for it, or if the
    /// gateway does not give it: then nothing more of the body is read.
    pub(super) fn push<H: Host>(mut self: Box<Self>, host: &H, size: usize) -> Option<Box<Self>> {
        if size == 0 {
            return Some(self);
        }
        let fits = self.body.bytes().len().checked_add(size).is_some_and(|length| length <= self.limit);
        let part = fits.then(|| host.response_body(size).ok()).flatten().filter(|part| part.len() == size)?;
        self.body.push(&part, self.limit).then_some(self)
    }
}

impl Stream {
    /// Reads a response that has passed.
    pub(super) fn end_observed_answer(&mut self, answer: &ObservedAnswer, configuration: &mut Configuration) {
        let Some(policy) = self.policy.as_deref() else { return };
        self.exchange.read_hit(policy, answer.body.bytes());
        configuration.metrics().with(|series| count_handler_hit(&self.exchange, policy, series));
    }
}
