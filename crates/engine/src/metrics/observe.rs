//! What an exchange counts, once when its request is decided and once when its response is.

use super::series::{CountSubject, NONE};
use super::{Counter, Histogram, HistogramSeries, SeriesTable};
use crate::exchange::{Case, Exchange, KeyPresence};
use crate::host::Gateway;
use crate::identity::Identity;
use crate::policy::Policy;
use crate::problem::{Code, Reason};
use crate::questions;

/// Counts what is known about the request when it is forwarded or refused.
pub(crate) fn count_request<G: Gateway>(exchange: &Exchange, policy: &Policy, gateway: &G, series: &mut SeriesTable) {
    let counting = &mut Counting::new(exchange, policy, series);
    if let Some(attempt) = exchange.attempt() {
        counting.record_attempt(gateway, attempt);
    }
    for (store, result) in exchange.lookups() {
        counting.add(Counter::Lookup, [store, result]);
    }
    match (exchange.case(), exchange.key_presence()) {
        (Some(Case::B), _) => count_delivery(exchange, counting),
        (_, KeyPresence::Unread) => {}
        (_, KeyPresence::Absent) => {
            let class = exchange.policy_name().unwrap_or(NONE);
            counting.add(Counter::KeyMissing, [class, NONE]);
        }
        (_, KeyPresence::Sent(form)) => {
            counting.add(Counter::KeyPresent, [Case::A.name(), form.name()]);
        }
    }
    if let Some(problem) = exchange.problem() {
        match problem.code {
            Code::KeyInvalid => {
                counting.add(Counter::KeyInvalid, [problem.reason.map_or(NONE, Reason::name), NONE]);
            }
            Code::KeyReused => counting.add(Counter::KeyCollision, ["enforce", NONE]),
            Code::SignatureInvalid => {
                let values = [exchange.signer(policy).unwrap_or(NONE), exchange.reason().map_or(NONE, Reason::name)];
                counting.add(Counter::SignatureFailed, values);
            }
            _ => {}
        }
    }
    match (exchange.refusal(), exchange.shadow()) {
        (Some(problem), _) => counting.add(Counter::Problem, [problem.code.name(), NONE]),
        (None, Some(Some(problem))) => {
            counting.add(Counter::Shadow, ["refuse", problem.code.name()]);
        }
        (None, Some(None)) if exchange.key().is_some() => {
            counting.add(Counter::Shadow, ["rewrite", NONE]);
        }
        _ => {}
    }
}

/// The histogram of the time of a call that a request waits for. Who sends a delivery is not known during its lookups.
pub(crate) fn call_time(
    policy: &Policy,
    endpoint: Option<&str>,
    caller: Option<&Identity>,
    store: &'static str,
    series: &mut SeriesTable,
) -> Option<HistogramSeries> {
    let tenant = caller.map(|caller| caller.tenant.as_str());
    let project = caller.map(|caller| caller.project.as_str());
    let about = series.subject(tenant, project, endpoint);
    series.histogram(&about, Histogram::LookupTime, store, policy.max_series)
}

/// Counts a delivery of a webhook.
fn count_delivery(exchange: &Exchange, counting: &mut Counting<'_>) {
    let provider = exchange.provider_name().unwrap_or(NONE);
    let reason = exchange.reason().map_or(NONE, Reason::name);
    if exchange.is_acknowledged() {
        counting.add(Counter::DeliveryAcknowledged, [provider, reason]);
    }
    let (counter, values) = match exchange.refusal().map(|problem| problem.code) {
        Some(Code::WebhookSignatureInvalid) => (Counter::SignatureFailed, [provider, reason]),
        Some(Code::TransportTranslationFailed) => (Counter::TranslationFailed, [provider, reason]),
        Some(_) => return,
        None if exchange.key().is_some() => {
            (Counter::KeyPresent, [Case::B.name(), exchange.source_name().unwrap_or(NONE)])
        }
        // Nobody has looked for the identifier.
        None if exchange.leaves_keys_to_handler() => return,
        None => (Counter::KeyMissing, [exchange.policy_name().unwrap_or(NONE), NONE]),
    };
    counting.add(counter, values);
}

/// Counts what is known about the response when it is decided.
pub(crate) fn count_response(exchange: &Exchange, policy: &Policy, series: &mut SeriesTable) {
    count_handler_hit(exchange, policy, series);
    let counting = &mut Counting::new(exchange, policy, series);
    if let Some(why) = exchange.unmapped() {
        counting.add(Counter::Unshaped, [why.reason().name(), NONE]);
    }
    if let Some(result) = exchange.progress() {
        counting.add(Counter::Lookup, [questions::STORE, result]);
    }
    let answer = exchange.answer();
    if let Some(answer) = answer.filter(|_| exchange.is_replayed()) {
        let status = if answer.error { "error" } else { "success" };
        counting.add(Counter::CacheHit, [status, NONE]);
    }
    if let Some(problem) = exchange.refusal() {
        counting.add(Counter::Problem, [problem.code.name(), NONE]);
    } else if let Some(answer) = answer {
        let error = if answer.error { "true" } else { "false" };
        counting.add(Counter::Answer, [answer.outcome, error]);
    }
}

/// Counts a handler's report that it had done the work before. It may come when the body of a decided response has passed.
pub(crate) fn count_handler_hit(exchange: &Exchange, policy: &Policy, series: &mut SeriesTable) {
    if exchange.handler_hit() {
        Counting::new(exchange, policy, series).add(Counter::HandlerHit, [NONE; 2]);
    }
}

/// Counts for the tenant, the project and the endpoint of one exchange.
struct Counting<'c> {
    exchange: &'c Exchange,
    policy: &'c Policy,
    series: &'c mut SeriesTable,
    /// Looked up for the first count; many exchanges have none
    about: Option<CountSubject<'c>>,
}

impl<'c> Counting<'c> {
    const fn new(exchange: &'c Exchange, policy: &'c Policy, series: &'c mut SeriesTable) -> Self {
        Self { exchange, policy, series, about: None }
    }

    fn add(&mut self, counter: Counter, values: [&str; 2]) {
        let Self { exchange, policy, series, about } = self;
        let about = about.get_or_insert_with(|| subject(exchange, policy, series));
        series.add_about(about, counter, values, policy.max_series);
    }

    fn record_attempt<G: Gateway>(&mut self, gateway: &G, attempt: u8) {
        let Self { exchange, policy, series, about } = self;
        let about = about.get_or_insert_with(|| subject(exchange, policy, series));
        if let Some(histogram) = series.histogram(about, Histogram::Attempt, NONE, policy.max_series) {
            series.record(gateway, histogram, attempt.into());
        }
    }
}

fn subject<'c>(exchange: &'c Exchange, policy: &'c Policy, series: &SeriesTable) -> CountSubject<'c> {
    let identity = exchange.identity();
    let tenant = identity.map(|identity| identity.tenant.as_str());
    let project = identity.map(|identity| identity.project.as_str());
    series.subject(tenant, project, exchange.endpoint(policy))
}
