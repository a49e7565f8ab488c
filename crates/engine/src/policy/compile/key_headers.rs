//! The headers that carry the namespaced key beside `Idempotency-Key`: what else uses them.

use super::Compiler;
use super::backends::identity_headers;
use crate::headers::canonical;
use crate::policy::document::IdentityRules;
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
        for (at, header) in future.map(|header| (FUTURE.to_owned(), header)).into_iter().chain(of_backends) {
            let is_future = at != FUTURE && future == Some(header);
            if is_future || reads(header) || used.iter().any(|name| name == header) {
                self.issues.add(at, format!("this policy already uses the header `{header}`: choose another one"));
            }
            self.check_prefix(&[header]);
        }
    }
}
