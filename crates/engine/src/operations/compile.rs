//! Operations: what the paths and ids of operations need in the rest of a document.

use super::rules::Operations;
use crate::backend::{Backend, restate};
use crate::policy::compile::Compiler;
use crate::policy::document::Scope;
use crate::policy::template::TemplateSegment;
use crate::policy::text_index::TextIndex;
use crate::policy::{CLOSED, Route, SERVICES, Template, path};
use crate::recovery::{OUTPUT, SEGMENT};

impl Compiler<'_> {
    /// The operations of the document, checked against everything else in it.
    #[inline(never)]
    pub(crate) fn operations(
        &mut self,
        routes: &[(usize, Route)],
        backends: &[Backend],
        closed_services: &TextIndex,
    ) -> Option<Operations> {
        let mut having = self.document.backends.iter().enumerate().filter(|(_, backend)| backend.operations.is_some());
        let (index, backend) = having.next()?;
        let declared = backend.operations.as_ref()?;
        let own = backend.pointer("operations");
        if let Some((_, other)) = having.next() {
            self.issues.add(
                other.pointer("operations"),
                format!("a document has operations of one backend: {own} has them, too"),
            );
        }
        let names_invocations = backend.operation_id.as_ref().is_none_or(|id| id == restate::INVOCATION);
        let id = backend.pointer("operation_id");
        for (fulfilled, message) in [
            (
                backend.abilities().finds_results,
                "only a backend of kind `restate` can be asked for operations".to_owned(),
            ),
            (backend.rewrite_path, "operations are calls of targets: add `\"rewrite_path\": true`".to_owned()),
            (
                self.document.identity.is_some(),
                "operations belong to callers: add `identity`, which says who is calling".to_owned(),
            ),
            (names_invocations, format!("operations are found by Restate's ids: write `x-restate-id` in {id}")),
        ] {
            if !fulfilled {
                self.issues.add(&own, message);
            }
        }
        let at = format!("{own}/path");
        let reserved = backends.get(index).map(|backend| backend.reserved_paths.as_slice()).unwrap_or_default();
        self.open_path(|| at.clone(), &declared.prefix, reserved);
        let mut segments = path::segments(&declared.prefix);
        let first = segments.next().unwrap_or_default();
        if closed_services.get(SERVICES + index, first) == Some(CLOSED) {
            self.issues.add(
                &at,
                format!("`/{first}` is the path of a service of the backend, and therefore closed to clients"),
            );
        }
        if path::segments(&declared.prefix).any(|segment| segment == SEGMENT) {
            self.issues.add(
                &at,
                "`by-idempotency-key` is reserved for paths at which results are recovered: choose another segment",
            );
        }
        for (index, route) in routes.iter().filter(|(_, route)| hides(&declared.prefix, &route.template)) {
            let message = format!(
                "requests for operations also match `{}`: choose another path for {}, or for {own}",
                route.template, route.endpoint
            );
            self.issues.add(format!("/routes/{index}/path"), message);
        }
        let mut wider_scopes = Vec::new();
        for (_, route) in routes
            .iter()
            .filter(|(_, route)| route.backend == index && route.target.is_some() && route.scope != Scope::Project)
        {
            if !wider_scopes.contains(&route.scope) {
                wider_scopes.push(route.scope);
            }
        }
        let (prefix, secrets) = (declared.prefix.clone(), declared.secrets.clone());
        let place = own + "/secret";
        Some(Operations { backend: index, place, prefix, secrets, wider_scopes })
    }
}

/// Whether the path of an operation behind `prefix` could be one of the template, too. A template with a parameter in the
/// place of a fixed segment takes other requests.
fn hides(prefix: &str, template: &Template) -> bool {
    let mut rest = template.segments();
    let is_below = path::segments(prefix).all(|text| rest.next() == Some(TemplateSegment::Literal(text)));
    let output = TemplateSegment::Literal(OUTPUT);
    is_below && rest.next().is_some() && rest.next().is_none_or(|second| second.meets(output)) && rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_hidden_where_an_operation_could_have_its_path() {
        for (prefix, template, expected) in [
            ("/operations/", "/operations", false),
            ("/operations/", "/operations/{id}", true),
            ("/operations/", "/operations/list", true),
            ("/operations/", "/operations/op:{id}", true),
            ("/operations/", "/operations/{id}/output", true),
            ("/operations/", "/operations/{id}/{what}", true),
            ("/operations/", "/operations/{id}/out{what}", true),
            ("/operations/", "/operations/{id}/cancel", false),
            ("/operations/", "/operations/{id}/output/log", false),
            ("/operations/", "/{a}/{b}", false),
            ("/operations/", "/x/{b}", false),
            ("/v1/operations/", "/v1/operations/{id}", true),
            ("/v1/operations/", "/v1/{a}/{id}", false),
            ("/v1/operations/", "/operations/{id}", false),
        ] {
            assert_eq!(hides(prefix, &Template::parse(template).unwrap()), expected, "{prefix} {template}");
        }
    }
}
