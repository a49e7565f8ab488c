//! Identity sources against the scopes of the routes that use them.

use super::{Compiler, RouteDocument};
use crate::identity::IdentitySource;
use crate::policy::document::{IdentityRules, Scope};

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
