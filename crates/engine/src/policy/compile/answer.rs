//! What a route says of its answers: their mapping, and the member that reports work which was done before.

use super::{Compiler, RouteDocument};
use crate::json::scan::Pointer;
use crate::policy::answer::{AnswerMapping, LocationTemplate};
use crate::policy::document::PolicyKind;

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
    /// The member of an answer that says whether the handler had done the work before.
    #[inline(never)]
    pub(super) fn internal_hit(&mut self, index: usize, route: &RouteDocument) -> Option<Pointer> {
        let member = route.internal_hit.as_ref()?;
        let at = format!("/routes/{index}/internal_hit");
        if route.policy != PolicyKind::HandlerInternalC {
            self.issues.add(&at, "`internal_hit` works only on a HANDLER_INTERNAL_C route, whose handler deduplicates");
        } else if route.one_way {
            self.issues
                .add(&at, "a one-way target answers before its handler has run: remove `internal_hit` or `one_way`");
        }
        Some(member.clone())
    }
}
