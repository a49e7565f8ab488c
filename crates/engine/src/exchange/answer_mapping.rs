//! Maps the successes of a target: status and `Location` (docs/contract.md section 6).

use super::edits::set;
use super::matched_route::MatchedRoute;
use super::{Effect, Exchange};
use crate::policy::Policy;
use crate::policy::answer::{AnswerMapping, LocationTemplate, Unmapped};

impl Exchange {
    /// Keeps the values of the path's parameters that the route's `Location` will need.
    pub(super) fn keep_path_values(&mut self, matched: &MatchedRoute<'_, '_>) {
        let location = matched.route.and_then(|route| route.answer.as_ref()?.location.as_ref());
        if location.is_some_and(LocationTemplate::reads_path) {
            self.path_values = matched.decoded();
        }
    }

    /// What becomes of the route's answers with status 200.
    pub(super) fn answer_mapping<'p>(&self, policy: &'p Policy) -> Option<&'p AnswerMapping> {
        self.route(policy)?.answer.as_ref()
    }

    /// Gives an answer with status 200 the status and the `Location` of the route. `body` is the answer's whole body, or anything
    /// if the mapping does not need it.
    pub(super) fn map_answer<'a>(&mut self, mapping: &'a AnswerMapping, body: &[u8], effects: &mut Vec<Effect<'a>>) {
        match mapping.location.as_ref().map(|location| location.path(&self.path_values, body)) {
            Some(Err(why)) => return self.leave_unmapped(why),
            Some(Ok(path)) => set("location", path.into_bytes(), effects),
            None => {}
        }
        if let Some(status) = &mapping.status {
            set(":status", status.as_bytes(), effects);
        }
    }

    /// Leaves an answer as the backend sent it.
    pub(super) const fn leave_unmapped(&mut self, why: Unmapped) {
        self.telemetry.unmapped = Some(why);
    }
}
