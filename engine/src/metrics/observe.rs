//! What an exchange counts, once when its request is decided and once when its response is.

use super::{Count, Counter, Histogram, SeriesTable};
use crate::exchange::{Exchange, KeyFact};
use crate::host::Host;
use crate::policy::Policy;
use crate::problem::Code;
use crate::telemetry::Case;

use super::series::{NONE, UNMATCHED};

/// Counts what is known about the request when it is forwarded or refused.
pub(crate) fn count_request<H: Host>(exchange: &Exchange, policy: &Policy, host: &H, series: &mut SeriesTable) {
    if let Some(attempt) = exchange.attempt() {
        let endpoint = exchange.endpoint(policy).unwrap_or(UNMATCHED);
        series.record(host, Histogram::Attempt, endpoint, attempt.into());
    }
    for (store, result) in exchange.lookups() {
        add(exchange, policy, series, Counter::Lookup, [store, result]);
    }
    match (exchange.case(), exchange.key_fact()) {
        (Some(Case::B), _) => count_delivery(exchange, policy, series),
        (_, KeyFact::Unread) => {}
        (_, KeyFact::Absent) => {
            let class = exchange.policy_name().unwrap_or(NONE);
            add(exchange, policy, series, Counter::KeyMissing, [class, NONE]);
        }
        (_, KeyFact::Sent(form)) => {
            add(exchange, policy, series, Counter::KeyPresent, [Case::A.name(), form.name()]);
        }
    }
    if let Some(problem) = exchange.problem() {
        match problem.code {
            Code::KeyInvalid => {
                add(exchange, policy, series, Counter::KeyInvalid, [problem.reason.unwrap_or(NONE), NONE]);
            }
            Code::KeyReused => add(exchange, policy, series, Counter::KeyCollision, ["enforce", NONE]),
            Code::SignatureInvalid => {
                let values = [exchange.signer(policy).unwrap_or(NONE), exchange.reason().unwrap_or(NONE)];
                add(exchange, policy, series, Counter::SignatureFailed, values);
            }
            _ => {}
        }
    }
    match (exchange.refusal(), exchange.shadow()) {
        (Some(problem), _) => add(exchange, policy, series, Counter::Problem, [problem.code.name(), NONE]),
        (None, Some(Some(problem))) => {
            add(exchange, policy, series, Counter::Shadow, ["refuse", problem.code.name()]);
        }
        (None, Some(None)) if exchange.key().is_some() => {
            add(exchange, policy, series, Counter::Shadow, ["rewrite", NONE]);
        }
        _ => {}
    }
}

/// Counts a delivery of a webhook.
fn count_delivery(exchange: &Exchange, policy: &Policy, series: &mut SeriesTable) {
    let provider = exchange.provider_name().unwrap_or(NONE);
    let reason = exchange.reason().unwrap_or(NONE);
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
    add(exchange, policy, series, counter, values);
}

/// Counts what is known about the response when it is decided.
pub(crate) fn count_response(exchange: &Exchange, policy: &Policy, series: &mut SeriesTable) {
    if exchange.handler_hit() {
        add(exchange, policy, series, Counter::HandlerHit, [NONE; 2]);
    }
    if let Some(why) = exchange.unshaped() {
        add(exchange, policy, series, Counter::Unshaped, [why.name(), NONE]);
    }
    let answer = exchange.answer();
    if let Some(answer) = answer.filter(|_| exchange.is_replayed()) {
        let status = if answer.error { "error" } else { "success" };
        add(exchange, policy, series, Counter::CacheHit, [status, NONE]);
    }
    if let Some(problem) = exchange.refusal() {
        add(exchange, policy, series, Counter::Problem, [problem.code.name(), NONE]);
    } else if let Some(answer) = answer {
        let error = if answer.error { "true" } else { "false" };
        add(exchange, policy, series, Counter::Answer, [answer.outcome, error]);
    }
}

/// Counts one for the exchange's tenant, project and endpoint.
fn add(exchange: &Exchange, policy: &Policy, series: &mut SeriesTable, counter: Counter, values: [&str; 2]) {
    let identity = exchange.identity();
    let count = Count {
        counter,
        values,
        tenant: identity.map(|identity| identity.tenant.as_str()),
        project: identity.map(|identity| identity.project.as_str()),
        endpoint: exchange.endpoint(policy),
    };
    series.add(&count, policy.max_series());
}
