//! The header that carries the future key in shadow mode: what else uses it, and whether any request carries it.

use super::Compiler;
use crate::headers::canonical;
use crate::policy::Route;
use crate::policy::document::{CallerHeaders, IdentityRules, Mode};
use crate::provider::Provider;
use std::collections::BTreeMap;

impl Compiler<'_> {
    /// Reports a header for future keys that the policy uses for something else, and one that no request ever carries.
    #[inline(never)]
    pub(super) fn check_shadow_key(
        &mut self,
        identities: &[IdentityRules],
        callers: Option<&CallerHeaders>,
        providers: &BTreeMap<String, Provider>,
        routes: &[(usize, Route)],
    ) {
        let Some(header) = self.document.shadow_key_header.as_deref() else { return };
        const AT: &str = "/shadow_key_header";
        let of_identity = identities.iter().flat_map(|rules| rules.source_headers().chain(rules.forward.names()));
        let of_callers = callers.into_iter().flat_map(|headers| [headers.tenant.as_str(), &headers.project]);
        let signed = self.document.callers.iter().map(|caller| &caller.signature);
        let signed: Vec<String> = signed.chain(providers.values()).flat_map(Provider::signature_headers).collect();
        let mut used = of_identity.chain(of_callers).chain(signed.iter().map(String::as_str));
        if used.any(|name| canonical(name) == header) {
            self.issues.add(AT, format!("this policy already uses the header `{header}`: choose another one"));
        }
        self.check_prefix(std::iter::once(header));
        let carries = |(_, route): &(usize, Route)| {
            route.mode == Mode::Shadow && route.policy.is_case_a() && route.webhook.is_none()
        };
        if !routes.iter().any(carries) {
            self.warnings.add(AT, "this member has no effect without a REQUIRED_A or ACCEPTED route in shadow mode");
        }
    }
}
