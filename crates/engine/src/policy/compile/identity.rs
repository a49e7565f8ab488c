//! Identity sources against the scopes of the routes that use them.

use super::{Compiler, RouteDocument};
use crate::identity::{IdentityPlace, IdentitySource};
use crate::policy::document::{CallerHeaders, IdentityRules, Scope};

impl Compiler<'_> {
    /// Reports constant subjects that are reserved, and warns about those that two sources have.
    #[inline(never)]
    pub(super) fn check_constant_subjects(&mut self, reserved: &[String]) {
        let document = self.document;
        let own = document
            .routes
            .iter()
            .filter_map(|(index, route)| Some((format!("/routes/{index}/identity"), route.identity.as_ref()?)));
        for (at, rules) in document.identity.iter().map(|rules| ("/identity".to_owned(), rules)).chain(own) {
            let constants: Vec<(usize, &IdentitySource, &str)> = rules.constant_subjects().collect();
            for (place, (index, source, subject)) in constants.iter().enumerate() {
                let at = format!("{at}/sources/{index}/subject/value");
                if reserved.iter().any(|reserved| reserved == subject) {
                    let message = format!(
                        "webhooks or a signed caller have the subject `{subject}`, so every request of this source would be refused: \
                         choose another one"
                    );
                    self.issues.add(at, message);
                } else if let Some((_, other, _)) = constants.iter().take(place).find(|(_, _, other)| other == subject)
                {
                    let message = format!(
                        "the sources `{}` and `{}` have the same constant subject, so their callers share keys, and get each other's \
                         answers, where tenant and project are the same: give each source a subject of its own, unless you mean this",
                        other.name, source.name
                    );
                    self.warnings.add(at, message);
                }
            }
        }
    }

    /// Reports what a route asks of API keys where no API key is read.
    #[inline(never)]
    pub(super) fn check_api_key(&mut self, index: usize, route: &RouteDocument) {
        // A source that could not be read may be the one.
        let is_unclear = self.issues.0.iter().any(|issue| issue.pointer.starts_with("/identity"));
        let message = if route.api_key.is_none() || is_unclear {
            return;
        } else if route.webhook.is_some() {
            "deliveries of webhooks bring no API key: remove this member"
        } else if route.identity.is_some() {
            "the route has an `identity` of its own, without a source of API keys: remove one of the two"
        } else if self.document.identity.as_ref().is_none_or(|rules| rules.registry.is_none()) {
            "no source of the document's `identity` has `unkey`, so no API key is read: add one, or remove this member"
        } else {
            return;
        };
        self.issues.add(format!("/routes/{index}/api_key"), message);
    }

    /// Reports a header of API keys that means something else as well, and warns about bearer tokens that are no API keys and
    /// would be shown to the registry.
    #[inline(never)]
    pub(super) fn check_key_header(&mut self, identities: &[IdentityRules], callers: Option<&CallerHeaders>) {
        let Some(rules) = &self.document.identity else { return };
        let found =
            rules.sources.iter().enumerate().find_map(|(index, source)| Some((index, source.api_key.as_ref()?)));
        let Some((index, place)) = found else { return };
        let of_sources = identities.iter().flat_map(|rules| &rules.sources).filter(|source| source.api_key.is_none());
        let places = of_sources.flat_map(|source| source.places().map(|(_, place)| place)).flatten();
        let headers = places.filter_map(IdentityPlace::header);
        let forwarded = identities.iter().flat_map(|rules| rules.forward.names());
        let signed = callers.into_iter().flat_map(|headers| [headers.tenant.as_str(), &headers.project]);
        if headers.chain(forwarded).chain(signed).any(|name| name == place.header) {
            self.issues.add(
                format!("/identity/sources/{index}/unkey/header"),
                "this header carries a part of the identity, too: take another header for API keys",
            );
        }
        if place.is_bearer() && place.prefix.is_empty() && rules.sources.len() > 1 {
            self.warnings.add(
                format!("/identity/sources/{index}/unkey"),
                "tokens of other sources come in `authorization`, too, and one that its filter does not accept would be sent to the \
                 registry: name the `prefix` of API keys",
            );
        }
    }

    /// Reports routes and sources that can never fit: the scope of the route asks for a project, and the source has none.
    #[inline(never)]
    pub(super) fn check_scopes(&mut self) {
        let document = self.document;
        let mut users: Vec<(usize, &RouteDocument)> = Vec::new();
        for (index, route) in &document.routes {
            match &route.identity {
                Some(rules) => self.check_sources(&format!("/routes/{index}/identity"), rules, &[(*index, route)]),
                None => users.push((*index, route)),
            }
        }
        if let Some(rules) = &document.identity {
            self.check_sources("/identity", rules, &users);
        }
    }

    /// Checks the sources of one `identity` object at `at` against the routes that use it.
    fn check_sources(&mut self, at: &str, rules: &IdentityRules, users: &[(usize, &RouteDocument)]) {
        let fits = |(_, route): &&(usize, &RouteDocument)| route.scope != Scope::Project && route.webhook.is_none();
        let needs = |(_, route): &&(usize, &RouteDocument)| route.scope == Scope::Project && route.needs_identity();
        let Some((_, first)) = users.iter().find(needs) else { return };
        let without = || rules.sources.iter().enumerate().filter(|(_, source)| source.project.is_none());
        if !rules.sources.is_empty() && without().count() == rules.sources.len() {
            let names: Vec<String> = without().map(|(_, source)| format!("`{}`", source.name)).collect();
            for (index, route) in users.iter().filter(needs) {
                // A route for signed callers works without the document's sources.
                if route.identity.is_none() && self.document.is_signed(route.endpoint) {
                    continue;
                }
                let message = format!(
                    "{} needs a project (scope `project`), and no identity source names one: {}. Give a source a `project`, which \
                     may be a constant, or give the route the scope `tenant`",
                    route.endpoint,
                    names.join(", ")
                );
                self.issues.add(format!("/routes/{index}/scope"), message);
            }
        } else if !users.iter().any(|user| fits(&user)) {
            for (index, source) in without() {
                let message = format!(
                    "the source `{}` has no `project`, and every route that uses it needs one (scope `project`), such as {}: \
                     give it a `project`, which may be a constant, or remove it",
                    source.name, first.endpoint
                );
                self.issues.add(format!("{at}/sources/{index}"), message);
            }
        }
    }
}
