//! A request waits for the answer whether the first one with its key is in flight, and is refused then.

use crate::backend::restate::Progress;
use crate::exchange::{Awaits, Check, Decision, Effect, Exchange, PauseEvent, RoutedRequest, TraceStep};
use crate::lookup::LookupAnswer;
use crate::policy::{Policy, Route};
use crate::problem::Problem;
use crate::questions::{self, OutputQuestion, PendingLookup};

/// A request that goes on if no other one with its key is in flight.
pub(crate) struct InFlightCheck(OutputQuestion);

impl InFlightCheck {
    /// The check of a request; `None` if its route does not refuse duplicates, and in shadow mode, where the backend does not have the
    /// namespaced key.
    pub(crate) fn of(
        policy: &Policy,
        route: &Route,
        decision: &Decision,
        request: &RoutedRequest<'_, '_>,
    ) -> Option<Self> {
        let Decision::Keyed(key) = decision else { return None };
        let target = route.in_flight.as_ref()?;
        let store = policy.backend_of(Some(route)).invocations.as_ref()?;
        OutputQuestion::of_key(store, target, &request.matched.decoded(), &key.caller, &key.text).map(Self)
    }
}

impl Check for InFlightCheck {
    fn awaits(&self, limit: u64) -> Awaits {
        Awaits::Call { limit }
    }

    fn lookup(&self) -> Option<PendingLookup<'_>> {
        Some(PendingLookup::Output(&self.0))
    }

    /// The request may go on when no other one with its key is in flight, or nobody knows.
    fn take(
        self: Box<Self>,
        exchange: &mut Exchange,
        event: PauseEvent<'_>,
        _: &mut Vec<Effect<'_>>,
    ) -> Result<Option<Box<dyn Check>>, Problem> {
        let progress = match event {
            PauseEvent::Answer(LookupAnswer::Output(progress)) => progress,
            PauseEvent::Answer(_) => return Err(Problem::internal_error()),
            // The body comes during the call.
            PauseEvent::Body { .. } | PauseEvent::End(_) => return Ok(Some(self)),
        };
        exchange.begin(TraceStep::Stores);
        exchange.note_lookup(questions::STORE, questions::call_name(&progress));
        match progress {
            Ok(Progress::Processing) => Err(Problem::key_in_flight()),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}
