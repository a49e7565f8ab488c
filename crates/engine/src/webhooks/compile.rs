//! Webhooks: the providers that a policy names, and the checks of bindings and routes against them.

use super::document::Webhooks;
use crate::json::cursor::{child, suggestion};
use crate::policy::compile::Compiler;
use crate::policy::document::PolicyKind;
use crate::policy::document::RouteDocument;
use crate::policy::{Route, Target};
use crate::provider::{Catalogue, Provider};
use std::collections::BTreeMap;

impl Compiler<'_> {
    /// The providers that bindings and routes name, from the document or else from the catalogue.
    #[inline(never)]
    pub(crate) fn providers(&mut self) -> BTreeMap<String, Provider> {
        let mut providers = BTreeMap::new();
        let document = self.document;
        if let Some(webhooks) = &document.webhooks {
            for (id, binding) in &webhooks.bindings {
                let at = child("/webhooks/static", id);
                self.provider(&binding.provider, &format!("{at}/provider"), &mut providers);
            }
        }
        for (index, route) in &document.routes {
            let Some(block) = &route.webhook else { continue };
            let at = format!("/routes/{index}/webhook/provider");
            let Some(name) = block.provider.as_ref().filter(|name| !name.is_empty()) else { continue };
            let has_identifier = self.provider(name, &at, &mut providers).is_none_or(Provider::has_identifier);
            if route.policy == PolicyKind::RequiredB && !has_identifier {
                let message = format!(
                    "`{name}` sends no identifier for a key: write `HANDLER_INTERNAL_C`, and let the handler deduplicate"
                );
                self.issues.add(at, message);
            }
        }
        self.webhook_warnings();
        let looked_up = document.webhooks.as_ref().filter(|webhooks| webhooks.unkey.is_some());
        if let Some(webhooks) = looked_up.filter(|_| self.takes_any_provider()) {
            let own: Vec<&str> = webhooks.providers.keys().map(String::as_str).collect();
            for name in [own, Catalogue::compiled_in().names().collect()].concat() {
                self.provider(name, "", &mut providers);
            }
        }
        providers
    }

    /// Reports a policy and a `webhook` block that contradict each other, and a path without what the block leaves to it.
    #[inline(never)]
    pub(crate) fn check_webhook(&mut self, index: usize, route: &RouteDocument) {
        let at = |member: &str| format!("/routes/{index}/{member}");
        let policy = route.policy;
        match (policy, &route.webhook) {
            (PolicyKind::RequiredB, None) => {
                self.issues.add(
                    at("policy"),
                    "`REQUIRED_B` verifies a webhook: the route needs a `webhook` block, e.g. `\"webhook\": {}`",
                );
            }
            (PolicyKind::RequiredA | PolicyKind::Prohibited, Some(_)) => {
                let message = format!(
                    "`{}` and `webhook` exclude each other; a webhook's policy is REQUIRED_B, ACCEPTED or HANDLER_INTERNAL_C",
                    policy.name()
                );
                self.issues.add(at("webhook"), message);
            }
            (_, Some(block)) => {
                for (name, fixed) in [("provider", &block.provider), ("webhook_id", &block.id)] {
                    if fixed.is_none() && !route.template.parameters().any(|parameter| parameter == name) {
                        let member = if name == "webhook_id" { "id" } else { name };
                        let message = format!("the path has no `{{{name}}}`: add it, or fix it with `\"{member}\"`");
                        self.issues.add(at("webhook"), message);
                    }
                }
            }
            (_, None) => {}
        }
    }

    /// Reports a target that names members of a body which nobody verifies, or which it cannot name.
    #[inline(never)]
    pub(crate) fn check_members(&mut self, index: usize, route: &RouteDocument, target: Option<&Target>) {
        let at = |member: &str| format!("/routes/{index}/{member}");
        let backend = self.backend_of(route);
        let has_members = target.is_some_and(|target| !target.members().is_empty());
        if route.acknowledges.is_some() && !has_members {
            self.warnings
                .add(at("on_unmatched"), "this member has no effect without `{body:…}` or `{form:…}` in the `target`");
        }
        if has_members && route.webhook.is_none() {
            self.issues.add(
                at("target"),
                "`body:` and `form:` name members of a verified delivery: the route needs a `webhook` block. What clients and \
                 signed callers choose comes in the path: write a parameter",
            );
        } else if has_members && !(backend.abilities().takes_any_value && backend.rewrite_path) {
            self.issues.add(
                at("target"),
                "`body:` and `form:` work only where `rewrite_path` leads to a backend of kind `restate`: other backends may \
                 read a slash in a value as the end of a segment",
            );
        }
    }

    /// Reports targets that name members of a body which the provider does not sign.
    #[inline(never)]
    pub(crate) fn check_signed_members(&mut self, routes: &[(usize, Route)], providers: &BTreeMap<String, Provider>) {
        for (index, route) in routes {
            let named = route.target.as_ref().is_some_and(|target| !target.members().is_empty());
            let provider = route.webhook.as_ref().and_then(|block| providers.get(block.provider.as_ref()?));
            if let Some(provider) = provider.filter(|provider| named && !provider.may_sign_members()) {
                let message = format!(
                    "`{}` does not sign the body, so anyone who has seen a delivery could choose the object: leave `body:` and \
                     `form:` out, and have the handler look at the body",
                    provider.name()
                );
                self.issues.add(format!("/routes/{index}/target"), message);
            }
        }
    }

    /// Whether a route takes the provider from its path.
    fn takes_any_provider(&self) -> bool {
        let blocks = self.document.routes.iter().filter_map(|(_, route)| route.webhook.as_ref());
        blocks.into_iter().any(|block| block.provider.is_none())
    }

    #[inline(never)]
    fn provider<'p>(
        &mut self,
        name: &str,
        at: &str,
        providers: &'p mut BTreeMap<String, Provider>,
    ) -> Option<&'p Provider> {
        if !providers.contains_key(name) {
            let own = self.document.webhooks.as_ref().and_then(|webhooks| webhooks.providers.get(name).cloned());
            match own.or_else(|| Catalogue::compiled_in().provider(name)) {
                Some(provider) => {
                    providers.insert(name.to_owned(), provider);
                }
                None => self.unknown_provider(name, at),
            }
        }
        providers.get(name)
    }

    #[inline(never)]
    fn unknown_provider(&mut self, name: &str, at: &str) {
        let own = self.document.webhooks.iter().flat_map(|webhooks| webhooks.providers.keys());
        let mut known: Vec<&str> = Catalogue::compiled_in().names().collect();
        known.extend(own.map(String::as_str));
        let near = suggestion(name, known.iter().copied());
        let message = if near.is_empty() {
            let list = known.join(", ");
            format!("no provider `{name}` is known; describe it in /webhooks/providers, or name one of {list}")
        } else {
            format!("no provider `{name}` is known{near}")
        };
        self.issues.add(at, message);
    }

    #[inline(never)]
    fn webhook_warnings(&mut self) {
        let webhooks = self.document.webhooks.as_ref();
        let has_routes = self.document.routes.iter().any(|(_, route)| route.webhook.is_some());
        if has_routes && webhooks.is_none_or(|webhooks| webhooks.bindings.is_empty() && webhooks.unkey.is_none()) {
            self.warnings.add(
                "/webhooks",
                "no webhook is bound, so every delivery gets 404: list bindings in `static`, or look them up with \
                 `unkey`",
            );
        }
        let listed = |webhooks: &Webhooks| webhooks.bindings.values().all(|binding| !binding.secrets.is_empty());
        if webhooks.is_some_and(|webhooks| webhooks.openbao.is_some() && webhooks.unkey.is_none() && listed(webhooks)) {
            self.warnings
                .add("/webhooks/openbao", "this store is never asked, because every binding lists its secrets");
        }
    }
}
