//! The rules for clients' keys, and keys where none is allowed: which routes they are for, and what contradicts them.

use super::{Compiler, RouteDocument};
use crate::key::{KeyCharset, KeyFormat, KeyPlace, KeyRules};
use crate::policy::document::KeySubject;
use crate::policy::target::Target;
use std::sync::Arc;

impl Compiler<'_> {
    /// The rules for the keys of the route's clients: its own, or else the document's. `None` if they ask for nothing.
    pub(super) fn key_rules(&self, route: &RouteDocument) -> Option<Arc<KeyRules>> {
        let rules = route.key.as_ref().or(self.document.key.as_ref())?;
        let asks = !rules.from.is_empty()
            || rules.charset != KeyCharset::Unreserved
            || rules.format != KeyFormat::Any
            || rules.pattern.is_some();
        asks.then(|| Arc::clone(rules))
    }

    /// Reports `key` and `subject` on routes that have no use for them, and keys that live longer than the results.
    #[inline(never)]
    pub(super) fn check_keys(&mut self, index: usize, route: &RouteDocument, target: Option<&Target>) {
        let takes_keys = route.policy.is_case_a() && route.webhook.is_none();
        if route.key.is_some() && !takes_keys {
            self.issues.add(
                format!("/routes/{index}/key"),
                "only a REQUIRED_A or ACCEPTED route without `webhook` takes keys of clients",
            );
        }
        let is_lost =
            |place: &&KeyPlace| place.header().is_some() && !route.key.iter().any(|own| own.from.contains(*place));
        let mut places = self.document.key.iter().flat_map(|rules| &rules.from);
        if let Some(lost) = places.find(is_lost).filter(|_| route.key.is_some() && takes_keys) {
            let message = format!(
                "this route has rules of its own without `{}`, so a key that a client sends there is removed unread: name it here, too",
                lost.name
            );
            self.warnings.add(format!("/routes/{index}/key/from"), message);
        }
        if route.subject == KeySubject::None {
            let at = format!("/routes/{index}/subject");
            if !takes_keys {
                self.issues.add(at, "only a REQUIRED_A or ACCEPTED route without `webhook` takes keys of clients");
            } else if target.is_some_and(Target::needs_subject) {
                let message = "callers share no results here, because `{subject}` in the target keeps them apart: leave one of the \
                               two out";
                self.issues.add(at, message);
            }
        }
        let rules = route.key.as_ref().or(self.document.key.as_ref()).filter(|_| takes_keys);
        let retention = target
            .and_then(|target| self.document.retentions.iter().find(|retention| retention.service == target.service));
        if let (Some(max_age), Some(retention), Some(target)) =
            (rules.and_then(|rules| rules.max_age.as_ref()), retention, target)
            && max_age.seconds > retention.seconds
        {
            let at = if route.key.is_some() { format!("/routes/{index}") } else { String::new() };
            let message = format!(
                "`{}` is longer than the backend keeps results of {} (/retention/classes/{}), so a late retry of {} \
                 would run again: shorten it, or lengthen the retention",
                max_age.text, target.service, retention.class, route.endpoint
            );
            self.issues.add(format!("{at}/key/max_age"), message);
        }
    }
}
