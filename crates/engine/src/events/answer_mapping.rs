//! Maps the successes of a target: status and `Location` (docs/contract.md section 6).

use crate::exchange::{Effect, Exchange, set};
use crate::policy::Policy;
use crate::policy::answer::AnswerMapping;

/// What becomes of the route's answers with status 200.
pub(super) fn answer_mapping<'p>(exchange: &Exchange, policy: &'p Policy) -> Option<&'p AnswerMapping> {
    exchange.route(policy)?.answer.as_ref()
}

/// Gives an answer with status 200 the status and the `Location` of the route. `body` is the answer's whole body, or anything
/// if the mapping does not need it.
pub(super) fn map_answer<'a>(
    exchange: &mut Exchange,
    mapping: &'a AnswerMapping,
    body: &[u8],
    effects: &mut Vec<Effect<'a>>,
) {
    match mapping.location.as_ref().map(|location| location.path(&exchange.path_values, body)) {
        Some(Err(why)) => return exchange.facts.unmapped = Some(why),
        Some(Ok(path)) => set("location", path.into_bytes(), effects),
        None => {}
    }
    if let Some(status) = &mapping.status {
        set(":status", status.as_bytes(), effects);
    }
}
