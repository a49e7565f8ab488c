//! Shapes the successes of a target: status and `Location` (docs/contract.md section 6).

use super::edits::set;
use super::request::MatchedRoute;
use super::{Effect, Exchange};
use crate::policy::Policy;
use crate::policy::answer::{AnswerShape, LocationTemplate, Unshaped};

impl Exchange {
    /// Keeps the values of the path's parameters that the route's `Location` will need.
    pub(super) fn keep_path_values(&mut self, matched: &MatchedRoute<'_, '_>) {
        let location = matched.route.and_then(|route| route.answer.as_ref()?.location.as_ref());
        if location.is_some_and(LocationTemplate::reads_path) {
            self.path_values = matched.decoded();
        }
    }

    /// The shape of the route's answers.
    pub(super) fn answer_shape<'p>(&self, policy: &'p Policy) -> Option<&'p AnswerShape> {
        self.route(policy)?.answer.as_ref()
    }

    /// Gives an answer with status 200 the route's shape. `body` is the answer's whole body, or anything if the shape does
    /// not need it.
    pub(super) fn shape<'a>(&mut self, shape: &'a AnswerShape, body: &[u8], effects: &mut Vec<Effect<'a>>) {
        match shape.location.as_ref().map(|location| location.path(&self.path_values, body)) {
            Some(Err(why)) => return self.leave_unshaped(why),
            Some(Ok(path)) => set("location", path.into_bytes(), effects),
            None => {}
        }
        if let Some(status) = &shape.status {
            set(":status", status.as_bytes(), effects);
        }
    }

    /// Leaves an answer as the backend sent it.
    pub(super) const fn leave_unshaped(&mut self, why: Unshaped) {
        self.facts.unshaped = Some(why);
    }
}
