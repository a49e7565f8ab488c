//! Ids of promises: `prm_`, 16 hexadecimal digits that tell a promise from earlier and later ones under its key, `_`, and the rest of the
//! key behind tenant and project in base64url. An id says nothing about tenant and project: these come from the caller's identity, so
//! an id leads to a promise of the caller's own, or to none.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The key of a promise in its parts.
pub(super) struct PromiseKey<'a> {
    /// `{tenant}:{project}`. Neither can hold a colon.
    scope: &'a str,
    rest: &'a str,
}

impl<'a> PromiseKey<'a> {
    /// Nothing if the key has no tenant, no project, or nothing behind them.
    pub(super) fn of(key: &'a str) -> Option<Self> {
        let (tenant, behind) = key.split_once(':')?;
        let (project, rest) = behind.split_once(':')?;
        let scope = key.get(..tenant.len() + 1 + project.len())?;
        let is_whole = !tenant.is_empty() && !project.is_empty() && !rest.is_empty();
        is_whole.then_some(Self { scope, rest })
    }

    /// The id of the promise with this number.
    pub(super) fn id(&self, number: &str) -> String {
        format!("prm_{number}_{}", URL_SAFE_NO_PAD.encode(self.rest))
    }

    /// The number and the key that an id stands for, where `self` is the id behind its caller's tenant and project.
    pub(super) fn named(&self) -> Option<(String, String)> {
        let (number, rest) = self.rest.strip_prefix("prm_")?.split_once('_')?;
        let rest = String::from_utf8(URL_SAFE_NO_PAD.decode(rest).ok()?).ok()?;
        (!rest.is_empty()).then(|| (number.to_owned(), format!("{}:{rest}", self.scope)))
    }
}

/// Whether Restate can complete an awakeable with this id: `sign_1` or, from older SDKs, `prom_1`, and an invocation and a number, 28
/// bytes in base64url. A malformed one would be tried for ever, and nothing else could be done with the key meanwhile.
pub(super) fn is_awakeable(id: &str) -> bool {
    let bytes = id.strip_prefix("sign_1").or_else(|| id.strip_prefix("prom_1"));
    bytes.and_then(|bytes| URL_SAFE_NO_PAD.decode(bytes).ok()).is_some_and(|bytes| bytes.len() == 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_its_key_in_the_callers_scope() {
        let key = "acme:shop:stripe:charge.succeeded:ch_1/ü";
        let id = PromiseKey::of(key).unwrap().id("00ff00ff00ff00ff");
        let of = |scope: &str| PromiseKey::of(&format!("{scope}:{id}")).unwrap().named().unwrap();
        assert_eq!(of("acme:shop"), ("00ff00ff00ff00ff".to_owned(), key.to_owned()));
        assert_eq!(of("globex:shop").1, "globex:shop:stripe:charge.succeeded:ch_1/ü");
    }

    #[test]
    fn keys_without_a_scope_and_ids_that_are_none() {
        for key in ["", "acme", "acme:shop", "acme:shop:", ":shop:x", "acme::x"] {
            assert!(PromiseKey::of(key).is_none(), "{key}");
        }
        for id in ["x", "prm_", "prm_00", "prm_00_", "prm_00_!", "prm_00_/w", "PRM_00_eA"] {
            assert!(PromiseKey::of(&format!("a:b:{id}")).unwrap().named().is_none(), "{id}");
        }
    }

    #[test]
    fn awakeables() {
        let body = URL_SAFE_NO_PAD.encode([7; 28]);
        assert!(is_awakeable(&format!("sign_1{body}")) && is_awakeable(&format!("prom_1{body}")));
        for id in ["", "sign_1", "sign_1AAAA", &body, &format!("sign_2{body}"), &format!("sign_1{body}A"), "inv_1abc"] {
            assert!(!is_awakeable(id), "{id}");
        }
    }
}
