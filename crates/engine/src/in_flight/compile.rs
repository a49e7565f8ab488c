//! `in_flight`: the routes that can have it.

use crate::policy::compile::Compiler;
use crate::policy::document::RouteDocument;

impl Compiler<'_> {
    /// Reports a route whose backend cannot be asked for the first request with a key.
    #[inline(never)]
    pub(crate) fn check_in_flight(&mut self, index: usize, route: &RouteDocument) {
        if route.in_flight_conflict && !(route.has_results() && self.backend_of(route).abilities().finds_results) {
            self.issues.add(
                format!("/routes/{index}/in_flight"),
                "`conflict` works only on a REQUIRED_A or ACCEPTED route with a `target` in Restate",
            );
        }
    }
}
