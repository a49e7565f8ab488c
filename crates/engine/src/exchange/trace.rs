//! What an exchange looks at and what it finds, in its order, for `explain`. Gateways do not ask for a trace.

use super::Exchange;
use crate::identity::Identity;
use crate::key::KeySyntax;
use crate::policy::route_table::RouteId;
use crate::problem::Problem;

/// A step of the decision about a request (docs/contract.md section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceStep {
    /// Path and host are read; the backend's own paths are closed.
    Path,
    /// The route, the recovery or the operation is found.
    Route,
    /// The policy of the route is applied.
    Policy,
    /// The signature of a delivery or of a signed caller is verified.
    Signature,
    /// The key is read or made.
    Key,
    /// The caller's identity is read.
    Identity,
    /// Restate or the guard is asked before the request goes on.
    Stores,
    /// The body is waited for, or read for the target.
    Body,
}

/// What was found.
#[derive(Debug, Clone)]
pub enum TraceEvent {
    /// A step begins. What follows was found in it. A step can begin again.
    Step(TraceStep),
    /// The path in its normal form, without the query
    NormalPath(String),
    /// The path is closed to clients.
    Closed,
    /// The path asks for a stored result of this route.
    Recovery(RouteId),
    /// The path asks for an operation.
    Operation,
    /// This route counts.
    Route(RouteId),
    /// The policy that is applied, by its name
    Policy(&'static str),
    /// The signature fits.
    Verified,
    /// The request has no key.
    NoKey,
    /// The request has a key, and the handler deduplicates: it is removed unread.
    KeyUnread,
    /// The request has a key where none is allowed.
    KeyProhibited,
    /// The request has a key of this form, valid or not.
    KeySent(KeySyntax),
    /// The key as the client chose it, which is valid
    KeyRead(String),
    /// The key in the caller's namespace
    KeyNamespaced(String),
    /// The values of the body that the target is made of, each behind its JSON pointer or the name of its field
    Members(Vec<(String, Vec<u8>)>),
    /// The delivery is acknowledged without a call, with this sentence. It ends here.
    Acknowledged(String),
    /// The caller's identity
    Identity(Box<Identity>),
    /// A store, the guard or Restate was asked. The texts are those of metrics.
    Lookup {
        /// Who was asked
        store: &'static str,
        /// What came of it
        result: &'static str,
    },
    /// The request is refused in this step. It ends here.
    Refused(Box<Problem>),
    /// Enforcing would refuse the request in this step. In shadow mode it goes on.
    WouldBeRefused(Box<Problem>),
}

/// The events of one request, in their order.
#[derive(Debug, Default)]
pub struct Trace(Vec<TraceEvent>);

impl Trace {
    /// The events.
    pub fn events(&self) -> &[TraceEvent] {
        &self.0
    }
}

impl Exchange {
    /// Begins a trace, which has every later event.
    #[cfg(feature = "trace")]
    pub(crate) fn begin_trace(&mut self) {
        self.trace = Some(Box::default());
    }

    /// The trace, if there is one.
    #[cfg(feature = "trace")]
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_deref()
    }

    /// Notes an event if there is a trace.
    #[cfg_attr(not(feature = "trace"), allow(clippy::unused_self, unused_variables, reason = "there are no traces"))]
    pub(crate) fn note(&mut self, event: impl FnOnce() -> TraceEvent) {
        #[cfg(feature = "trace")]
        if let Some(trace) = &mut self.trace {
            trace.0.push(event());
        }
    }

    /// Notes who was asked and what came of it, for telemetry too.
    pub(crate) fn note_lookup(&mut self, store: &'static str, result: &'static str) {
        self.note(|| TraceEvent::Lookup { store, result });
        self.facts.lookups.push((store, result));
    }

    /// Begins the step of the policy that was found.
    pub(crate) fn note_policy(&mut self) {
        self.begin(TraceStep::Policy);
        if let Some(name) = self.policy_name {
            self.note(|| TraceEvent::Policy(name));
        }
    }

    /// Notes that a step begins.
    pub(crate) fn begin(&mut self, step: TraceStep) {
        self.note(|| TraceEvent::Step(step));
    }
}
