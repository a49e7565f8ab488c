//! API keys: routes that ask something of them, and a header of API keys that means something else as well.

use crate::identity::IdentityPlace;
use crate::policy::compile::Compiler;
use crate::policy::document::{IdentityRules, RouteDocument};
use crate::signed_callers::CallerHeaders;

impl Compiler<'_> {
    /// Reports what a route asks of API keys where no API key is read.
    #[inline(never)]
    pub(crate) fn check_api_key(&mut self, index: usize, route: &RouteDocument) {
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
    pub(crate) fn check_key_header(&mut self, identities: &[IdentityRules], callers: Option<&CallerHeaders>) {
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
}
