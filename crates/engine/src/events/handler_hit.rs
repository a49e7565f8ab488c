//! Case C: whether a handler reports in the body of its answer that it had done the work before (docs/contract.md section 9).
//! A handler in Restate has no other place for it, since it cannot set headers of a response.

use crate::backend::ResponseHead;
use crate::exchange::Exchange;
use crate::json::scan::{self, JsonScalar, PointerResult};
use crate::policy::{Policy, Route};

/// Whether the answer's body has to be read for it: the route names the member, the answer's head does not report it
/// already, and the body can be read.
pub(super) fn seeks_hit(exchange: &Exchange, route: Option<&Route>, head: &ResponseHead<'_>) -> bool {
    let is_named = route.is_some_and(|route| route.internal_hit.is_some());
    is_named && head.is_json && !head.is_encoded && !exchange.handler_hit
}

impl Exchange {
    /// Reads the whole body of an answer that passes ([`super::ResponseFlow::Observe`]), or that was waited for. A body that is
    /// not JSON, or has the member twice, reports nothing.
    pub(crate) fn read_hit(&mut self, policy: &Policy, body: &[u8]) {
        let Some(member) = self.route(policy).and_then(|route| route.internal_hit.as_ref()) else { return };
        let found = scan::find(body, &[member]);
        self.handler_hit |= matches!(found.as_deref(), Ok([PointerResult::Value(JsonScalar::Boolean(b"true"))]));
    }
}
