//! The mapping of a route's answers: which routes can have one.

use super::{Compiler, RouteDocument};
use crate::policy::answer::{AnswerMapping, LocationTemplate};

impl Compiler<'_> {
    /// The mapping of the route's answers, checked against its path and target.
    #[inline(never)]
    pub(super) fn answer(&mut self, index: usize, route: &RouteDocument) -> Option<AnswerMapping> {
        let answer = route.answer.as_ref()?;
        let at = format!("/routes/{index}/answer");
        if route.target.is_none() || !self.backend_of(route).rewrite_path {
            self.issues.add(&at, "`answer` works only on a route with a `target`, and with `\"rewrite_path\": true`");
        } else if route.one_way {
            self.issues.add(&at, "a one-way target answers before there is a result: remove `answer` or `one_way`");
        }
        let parameters: Vec<&str> = route.template.parameters().collect();
        let location = answer.location.as_ref().and_then(|text| {
            let parsed = LocationTemplate::parse(text, &parameters);
            parsed.map_err(|message| self.issues.add(format!("{at}/location"), message)).ok()
        });
        Some(AnswerMapping { status: answer.status.clone(), location })
    }
}
