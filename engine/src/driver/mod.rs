//! Drives one exchange over a [`Host`]: fetches what an event needs, hands it to the [`Exchange`], carries out the effects,
//! and holds a request back until its body and its calls are there.
//!
//! | module | subject |
//! |---|---|
//! | `response` | the way of the response |
//! | `lookups` | caches and calls that all requests of a configuration share |
//! | `held` | the header lines of requests that wait, bounded in bytes |

mod held;
mod lookups;
mod response;

pub use lookups::SharedLookups;

use crate::exchange::{Effect, Exchange, HeaderMapKind, RequestFlow};
use crate::host::{HeaderLines as _, Host, HostError, LocalReply};
use crate::lookup::LookupResult;
use crate::policy::Policy;
use crate::problem::Problem;
use held::HeldLines;
use response::ResponseBody;
use std::sync::Arc;

/// What a callback tells the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterAction {
    /// On to the next filter
    Continue,
    /// Not yet, or not at all
    Pause,
}

/// One request and its response in a gateway.
pub struct Driver<H: Host> {
    /// The request's number, by which shared lookups know it
    stream: u32,
    policy: Option<Arc<Policy>>,
    exchange: Exchange,
    /// Whether the response is the filter's own; it passes the response callbacks too.
    replied: bool,
    pending: Option<PendingRequest<H>>,
    response: ResponseBody,
}

/// A request that goes on only with its whole body, and with the result of what it looks up.
struct PendingRequest<H: Host> {
    /// The headers. However the wait ends, this is dropped, and makes room for others.
    lines: HeldLines<H::Lines>,
    /// The longest body that may come, in bytes.
    limit: usize,
    /// Whether all of the body is buffered.
    has_body: bool,
    /// Whether a call is under way.
    awaits_call: bool,
}

impl<H: Host> Driver<H> {
    /// A request of which nothing has come. `stream` is a number that no other request of the configuration has.
    pub fn new(stream: u32, policy: Option<Arc<Policy>>) -> Self {
        let (exchange, response) = (Exchange::new(), ResponseBody::default());
        Self { stream, policy, exchange, replied: false, pending: None, response }
    }

    /// What is known of the exchange so far.
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The request's headers have come; `end_of_stream` says that nothing follows.
    pub fn on_request_headers(
        &mut self,
        host: &H,
        end_of_stream: bool,
        lookups: Option<&mut SharedLookups>,
    ) -> FilterAction {
        let Some(policy) = self.policy.clone() else { return self.reply(host, &Problem::policy_invalid()) };
        let lines = host.header_lines(HeaderMapKind::Request);
        let Some(headers) = lines.headers() else { return self.reply(host, &Problem::policy_invalid()) };
        let mut effects = Vec::new();
        let flow = self.exchange.request_headers(&policy, &headers, host, &mut effects);
        match flow {
            RequestFlow::AwaitBody { limit } | RequestFlow::AwaitCall { limit } => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                drop(effects);
                drop(headers);
                let Some(lines) = HeldLines::keep(lines) else {
                    let mut effects = Vec::new();
                    self.exchange.no_room_to_wait(&mut effects);
                    return self.apply(host, &effects);
                };
                self.pending = Some(PendingRequest { lines, limit, has_body: end_of_stream, awaits_call: false });
                self.drive(host, &policy, flow, lookups)
            }
            RequestFlow::Continue | RequestFlow::Replied => self.apply(host, &effects),
        }
    }

    /// More of the request's body has come; `size` bytes are buffered by now.
    pub fn on_request_body(
        &mut self,
        host: &H,
        size: usize,
        end_of_stream: bool,
        lookups: Option<&mut SharedLookups>,
    ) -> FilterAction {
        match &self.pending {
            None if self.replied => FilterAction::Pause,
            None => FilterAction::Continue,
            Some(pending) if size > pending.limit => self.refuse_body(host, lookups),
            Some(_) if end_of_stream => self.complete_body(host, lookups),
            Some(_) => FilterAction::Pause,
        }
    }

    /// The request's trailers have come.
    pub fn on_request_trailers(&mut self, host: &H, lookups: Option<&mut SharedLookups>) -> FilterAction {
        let Some(policy) = self.policy.clone() else { return self.reply(host, &Problem::policy_invalid()) };
        if self.replied {
            return FilterAction::Continue;
        }
        let lines = host.header_lines(HeaderMapKind::RequestTrailers);
        let Some(trailers) = lines.headers() else { return self.reply(host, &Problem::policy_invalid()) };
        let mut effects = Vec::new();
        self.exchange.request_trailers(&policy, &trailers, &mut effects);
        match self.apply(host, &effects) {
            // Where trailers follow, the body's own end was not told.
            FilterAction::Continue if self.pending.is_some() => self.complete_body(host, lookups),
            action => action,
        }
    }

    /// The result of a lookup has come, in a callback that is not the request's own.
    pub fn on_lookup_result(&mut self, host: &H, result: LookupResult, lookups: &mut SharedLookups) {
        let (Some(policy), Some(pending)) = (self.policy.clone(), &mut self.pending) else { return };
        pending.awaits_call = false;
        let flow = self.take_result(host, &policy, result);
        if self.drive(host, &policy, flow, Some(lookups)) == FilterAction::Continue {
            // A host that has no such request any more has nothing to let go.
            let _ = host.resume_request();
        }
    }

    /// The request waits for no lookup any more.
    pub fn cancel_lookup(&self, lookups: &mut SharedLookups) {
        let awaits_call = self.pending.as_ref().is_some_and(|pending| pending.awaits_call);
        if let Some(request) = self.exchange.pending_lookup().filter(|_| awaits_call) {
            lookups.cancel(self.stream, request);
        }
    }

    /// Goes on as far as body and calls let it.
    fn drive(
        &mut self,
        host: &H,
        policy: &Policy,
        mut flow: RequestFlow,
        mut lookups: Option<&mut SharedLookups>,
    ) -> FilterAction {
        loop {
            let has_body = self.pending.as_ref().is_some_and(|pending| pending.has_body);
            flow = match flow {
                RequestFlow::AwaitCall { .. } => {
                    let lookups = lookups.as_deref_mut();
                    let Some((lookups, request)) = lookups.zip(self.exchange.pending_lookup()) else {
                        return self.reply(host, &Problem::policy_invalid());
                    };
                    let result = lookups.look_up(host, self.stream, request);
                    if let Some(pending) = &mut self.pending {
                        pending.awaits_call = result.is_none();
                    }
                    let Some(result) = result else { return FilterAction::Pause };
                    self.take_result(host, policy, result)
                }
                RequestFlow::AwaitBody { .. } if has_body => match self.evaluate_body(host, policy) {
                    Ok(flow) => flow,
                    Err(action) => return action,
                },
                RequestFlow::AwaitBody { .. } | RequestFlow::Replied => return FilterAction::Pause,
                RequestFlow::Continue => return FilterAction::Continue,
            };
        }
    }

    /// Hands the result of a lookup to the exchange.
    fn take_result(&mut self, host: &H, policy: &Policy, result: LookupResult) -> RequestFlow {
        let mut effects = Vec::new();
        let flow = self.exchange.on_lookup_result(policy, result, &mut effects);
        if flow == RequestFlow::Replied {
            self.pending = None;
            self.apply(host, &effects);
        }
        flow
    }

    /// All of the body is buffered: what becomes of the request, unless there is something left to look up.
    fn evaluate_body(&mut self, host: &H, policy: &Policy) -> Result<RequestFlow, FilterAction> {
        let Some(pending) = self.pending.take() else { return Err(FilterAction::Continue) };
        let Some(headers) = pending.lines.headers() else {
            return Err(self.reply(host, &Problem::policy_invalid()));
        };
        // One byte more than may come tells a body that is too long.
        let Ok(body) = host.request_body(pending.limit.saturating_add(1)) else {
            return Err(self.reply(host, &Problem::dependency_unavailable()));
        };
        let mut effects = Vec::new();
        let flow = if body.len() > pending.limit {
            self.exchange.body_too_large(pending.limit as u64, &mut effects)
        } else {
            self.exchange.request_body(policy, &headers, &body, host.now_unix_ms(), &mut effects)
        };
        if matches!(flow, RequestFlow::AwaitCall { .. }) {
            drop(effects);
            drop(headers);
            self.pending = Some(pending);
            return Ok(flow);
        }
        Err(self.apply(host, &effects))
    }

    /// All of the body has come.
    fn complete_body(&mut self, host: &H, lookups: Option<&mut SharedLookups>) -> FilterAction {
        let (Some(policy), Some(pending)) = (self.policy.clone(), &mut self.pending) else {
            return FilterAction::Continue;
        };
        pending.has_body = true;
        if pending.awaits_call {
            return FilterAction::Pause;
        }
        let limit = pending.limit as u64;
        self.drive(host, &policy, RequestFlow::AwaitBody { limit }, lookups)
    }

    /// More of the body has come than the request may have.
    fn refuse_body(&mut self, host: &H, lookups: Option<&mut SharedLookups>) -> FilterAction {
        if let Some(lookups) = lookups {
            self.cancel_lookup(lookups);
        }
        let Some(pending) = self.pending.take() else { return FilterAction::Continue };
        let mut effects = Vec::new();
        self.exchange.body_too_large(pending.limit as u64, &mut effects);
        self.apply(host, &effects)
    }

    /// Carries out the effects of an event of the request.
    fn apply(&mut self, host: &H, effects: &[Effect<'_>]) -> FilterAction {
        if let Some(Effect::Reply(problem)) = effects.first() {
            return self.reply(host, problem);
        }
        match edit(host, effects) {
            Ok(()) => FilterAction::Continue,
            // A header that could not be set or removed must not reach the backend as it is (invariant I1).
            Err(HostError) => self.reply(host, &Problem::policy_invalid()),
        }
    }

    /// Answers instead of the backend.
    fn reply(&mut self, host: &H, problem: &Problem) -> FilterAction {
        let docs_url = self.policy.as_ref().and_then(|policy| policy.docs_url());
        let document = problem.document(docs_url);
        let details = match self.exchange.reason() {
            Some(reason) => format!("{}.{reason}", problem.code.name()),
            None => problem.code.name().to_owned(),
        };
        self.replied = true;
        self.pending = None;
        let headers = problem.headers(docs_url);
        let (status, body) = (problem.status(), document.as_bytes());
        // A host that cannot even reply has ended the stream; paused, nothing is forwarded in any case.
        let _ = host.reply(&LocalReply { status, details: &details, headers: &headers, body });
        FilterAction::Pause
    }
}

/// Carries out edits, up to the first that fails.
fn edit<H: Host>(host: &H, effects: &[Effect<'_>]) -> Result<(), HostError> {
    effects.iter().try_for_each(|effect| match effect {
        Effect::Set { map, name, value } => host.set_header(*map, name, value),
        Effect::Remove { map, name } => host.remove_header(*map, name),
        Effect::Body(_) | Effect::Reply(_) => Ok(()),
    })
}
