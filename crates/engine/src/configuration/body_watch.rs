//! Notices a gateway that does not pass on the bodies that paused messages wait for.
//!
//! Envoy does so if the plugin's configuration lacks `allow_on_headers_stop_iteration`: it keeps the body back until the
//! filter lets the headers pass, and the filter lets them pass when it has the body. As soon as one body has arrived
//! during a wait, the gateway is known to be configured well, and nothing here is needed any more.

use crate::host::{Gateway, LogLevel};
use crate::telemetry::PREFIX;

/// A wait of this many ticks lasts for at least five seconds, because the first tick can come at once.
const TICKS: u8 = 6;

/// The streams whose message waits for its body, until one body has arrived.
#[derive(Debug, Default)]
pub(crate) struct BodyWatch {
    delivery: BodyDelivery,
    /// The streams, and the ticks since their waits began. A stream that waits no longer may be among them.
    waiting: Vec<(u32, u8)>,
    /// Those whose time is over
    stalled: Vec<u32>,
}

/// Whether the gateway passes on bodies that a paused message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum BodyDelivery {
    /// No body has arrived during a wait so far
    #[default]
    Unknown,
    /// A body has not arrived, and the log says so
    Reported,
    /// A body has arrived
    Proven,
}

impl BodyWatch {
    /// The watch of a gateway that always passes bodies on: it notices nothing.
    pub(super) fn off() -> Self {
        Self { delivery: BodyDelivery::Proven, ..Self::default() }
    }

    /// Notes that a stream begins to wait for a body.
    pub(crate) fn begin(&mut self, stream: u32) {
        if self.delivery != BodyDelivery::Proven {
            self.waiting.push((stream, 0));
        }
    }

    /// Notes that a part of a body, or its end, has arrived during a wait.
    #[inline]
    pub(crate) fn arrived(&mut self) {
        if self.delivery != BodyDelivery::Proven {
            *self = Self { delivery: BodyDelivery::Proven, ..Self::default() };
        }
    }

    /// Notes that the wait of a stream goes on: the client has sent no body yet. The next tick names the stream again.
    pub(crate) fn goes_on(&mut self, stream: u32) {
        self.waiting.push((stream, TICKS));
    }

    /// Forgets a stream that has ended.
    pub(super) fn forget(&mut self, stream: u32) {
        self.waiting.retain(|(waiting, _)| *waiting != stream);
        self.stalled.retain(|stalled| *stalled != stream);
    }

    /// Takes a tick.
    pub(super) fn on_tick(&mut self) {
        let Self { waiting, stalled, .. } = self;
        waiting.retain_mut(|(stream, ticks)| {
            *ticks += 1;
            let waits = *ticks < TICKS;
            if !waits {
                stalled.push(*stream);
            }
            waits
        });
    }

    /// The next stream that has waited for five seconds.
    pub(super) fn next_stalled(&mut self) -> Option<u32> {
        self.stalled.pop()
    }

    /// Logs, once, that the gateway keeps a body back.
    pub(crate) fn report<G: Gateway>(&mut self, gateway: &G) {
        if self.delivery != BodyDelivery::Reported {
            self.delivery = BodyDelivery::Reported;
            gateway.log(LogLevel::Critical, &format!("{PREFIX} {}", gateway.advice().kept_back_body));
        }
    }
}
