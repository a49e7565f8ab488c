//! The headers that carry the namespaced key beside `Idempotency-Key`: what else uses them.

use super::Compiler;
use super::backends::identity_headers;
use crate::headers::canonical;
use crate::policy::document::{Document, IdentityRules};
use crate::provider::Provider;
use crate::signed_callers::CallerHeaders;
use std::collections::BTreeMap;

impl Compiler<'_> {
    /// Reports a header for keys that the policy uses for something else.
    #[inline(never)]
    pub(super) fn check_key_headers(
        &mut self,
        identities: &[IdentityRules],
        callers: Option<&CallerHeaders>,
        providers: &BTreeMap<String, Provider>,
        places: &[(Option<usize>, &str)],
    ) {
        const FUTURE: &str = "/shadow_key_header";
        let document = self.document;
        let future = document.shadow_key_header.as_deref();
        let of_backends = document
            .backends
            .iter()
            .filter_map(|backend| Some((backend.pointer("key_header"), backend.key_header.as_deref()?)));
        let used: Vec<String> = identity_headers(identities, callers).into_iter().map(canonical).collect();
        let reads = |name: &str| {
            let mut signed = document.callers.iter().map(|caller| &caller.signature).chain(providers.values());
            signed.any(|provider| provider.reads(name.as_bytes()))
        };
        let mut headers: Vec<(String, &str)> = of_backends.collect();
        headers.extend(future.map(|header| (FUTURE.to_owned(), header)));
        let written = headers.len();
        headers.extend(places.iter().map(|(route, header)| {
            let owner = route.map(|index| format!("/routes/{index}")).unwrap_or_default();
            (owner + "/key/from", *header)
        }));
        for (index, (at, header)) in headers.into_iter().enumerate() {
            let is_future = at != FUTURE && future == Some(header);
            if is_future || index < written && reads(header) || used.iter().any(|name| name == header) {
                self.issues.add(at, format!("this policy already uses the header `{header}`: choose another one"));
            }
            self.check_prefix(&[header]);
        }
    }
}

impl Document<'_> {
    /// The headers beside `Idempotency-Key` in which clients send keys, each with the index of its route; `None` for those of the document.
    #[inline(never)]
    pub(in crate::policy) fn key_places(&self) -> Vec<(Option<usize>, &str)> {
        let mut places = Vec::new();
        let of_routes = self.routes.iter().map(|(index, route)| (Some(*index), &route.key));
        for (route, rules) in std::iter::once((None, &self.key)).chain(of_routes) {
            for place in rules.iter().flat_map(|rules| &rules.from) {
                places.extend(place.header().map(|name| (route, name)));
            }
        }
        places
    }
}
