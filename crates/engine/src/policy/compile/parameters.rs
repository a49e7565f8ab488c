//! Path parameters on their way to the backend: the headers that carry them, and parameters that are lost.

use super::{Compiler, RouteDocument};
use crate::headers::canonical;
use crate::policy::target::Target;

impl Compiler<'_> {
    /// The headers that carry the route's path parameters, in the order of the parameters; none without
    /// `parameter_headers`. A name has `-` where the parameter has `_`.
    pub(super) fn parameter_headers(&self, route: &RouteDocument) -> Vec<String> {
        let Some(prefix) = &self.document.parameter_prefix else { return Vec::new() };
        route.template.parameters().map(|name| format!("{prefix}{}", canonical(name))).collect()
    }

    /// Reports a header that the filter knows by its whole name and that begins as the headers of parameters do.
    #[inline(never)]
    pub(super) fn check_prefix(&mut self, names: &[&str]) {
        let Some(prefix) = &self.document.parameter_prefix else { return };
        if let Some(name) = names.iter().find(|name| canonical(name).starts_with(prefix.as_str())) {
            let message =
                format!("the header `{name}`, which this policy uses, has the same beginning: choose another one");
            self.issues.add("/parameter_headers", message);
        }
    }

    /// Warns about parameters that the backend does not get: the path is rewritten, and the target does not name them.
    #[inline(never)]
    pub(super) fn check_lost(
        &mut self,
        index: usize,
        route: &RouteDocument,
        target: Option<&Target>,
        parameters: &[&str],
    ) {
        let rewrites = self.backend_of(route).rewrite_path;
        let Some(target) = target.filter(|_| rewrites && self.document.parameter_prefix.is_none()) else {
            return;
        };
        // The filter itself uses these.
        let of_webhook = |name: &str| route.webhook.is_some() && matches!(name, "provider" | "webhook_id");
        let lost: Vec<String> = parameters
            .iter()
            .enumerate()
            .filter(|(parameter, name)| !target.uses(*parameter) && !of_webhook(name))
            .map(|(_, name)| format!("`{{{name}}}`"))
            .collect();
        if !lost.is_empty() {
            let message = format!(
                "the backend does not get {}: the path is rewritten, and the target does not name it. Put it into the object key, \
                 or set /parameter_headers, for example to `x-path-`",
                lost.join(", ")
            );
            self.warnings.add(format!("/routes/{index}/target"), message);
        }
    }
}
