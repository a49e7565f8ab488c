//! Shadow mode: what acts all the same.

use crate::backend::Backend;
use crate::headers::distinct_texts;
use crate::policy::Route;
use crate::policy::compile::Compiler;
use crate::policy::compile::backends::{METHOD_OVERRIDES, identity_headers};
use crate::policy::document::{IdentityRules, Mode};

impl Compiler<'_> {
    /// Tells what acts although the document is in shadow mode. Whether nothing does but the removal of headers, so that no other
    /// reading of a path could lead around anything.
    #[inline(never)]
    pub(crate) fn watches(
        &mut self,
        identities: &[IdentityRules],
        routes: &[(usize, Route)],
        backends: &[Backend],
    ) -> bool {
        let document = self.document;
        let named = |is: &dyn Fn(&Route) -> bool| -> Vec<String> {
            routes.iter().filter(|(_, route)| is(route)).map(|(_, route)| format!("`{}`", route.endpoint)).collect()
        };
        let listed = |names: &[String], what: &str| (!names.is_empty()).then(|| format!("{} {what}", names.join(", ")));
        let said = |is: bool, what: &str| is.then(|| what.to_owned());
        let removes = backends.iter().any(|backend| backend.abilities().acts_on_raw_keys);
        let rewrites = backends.iter().any(|backend| backend.rewrite_path);
        let closed: Vec<String> =
            backends.iter().flat_map(|backend| &backend.reserved_paths).map(|path| format!("`{path}`")).collect();
        let has_registry = document.identity.as_ref().is_some_and(|rules| rules.registry.is_some());
        let mut acts: Vec<String> = [
            listed(&named(&|route| route.webhook.is_some()), "(webhooks) verify signatures and refuse"),
            listed(&named(&|route| route.webhook.is_none() && route.mode == Mode::Enforce), "enforce"),
            said(!document.callers.is_empty(), "the signatures of signed callers are verified"),
            said(has_registry, "requests need an API key"),
            said(rewrites, "paths are rewritten to targets"),
            said(
                backends.first().is_some_and(|first| first.abilities().serves_by_name || first.rewrite_path),
                "what no route declares is refused",
            ),
            listed(&closed, "are closed"),
            said(
                document.routes.iter().any(|(_, route)| route.comparison.collision.asks_guard()),
                "the guard's own paths are closed",
            ),
        ]
        .into_iter()
        .flatten()
        .collect();
        let only_watches = acts.is_empty() && !removes;
        let mut removed = identity_headers(identities, None);
        removed.extend(METHOD_OVERRIDES);
        removed.extend(backends.iter().filter_map(|backend| backend.key_header.as_deref()));
        let removed = distinct_texts(removed);
        let of_restate =
            if removes { ", and what Restate never gets (credentials, cookies, `x-restate-*`)" } else { "" };
        acts.extend(said(!only_watches, "paths that programs could read in two ways are refused"));
        acts.push(format!("these request headers are removed: {}{of_restate}", removed.join(", ")));
        acts.push("answers are edited as when enforcing".to_owned());
        self.warnings.add(
            "/mode",
            format!(
                "shadow mode: requests that break the rules of Case A are not refused, and keys are not rewritten. Still: {}",
                acts.join("; ")
            ),
        );
        only_watches
    }
}
