//! The secrets of a policy: taken from the environment, and listed for checks.

use super::{Policy, PolicyErrors, Secret};
use crate::api_keys::KeyRegistry;
use crate::json::Issues;
use crate::json::cursor::child;
use crate::policy::document::LiveSecret;
use crate::provider::{Provider, around};
use crate::webhooks::Binding;
use std::sync::Arc;

/// Secrets that stand in one list of the document. `Debug` does not show their values (invariant I6).
#[derive(Debug)]
pub struct SecretList<'p> {
    /// The JSON pointer of the list
    pub pointer: String,
    /// The secrets
    pub secrets: &'p [Secret],
    /// Whose deliveries or requests they verify; `None` for the secrets of operation ids
    pub provider: Option<&'p Provider>,
}

impl Policy {
    /// Replaces the names of environment variables by the secrets in them, and subscribes to those that the gateway keeps up to
    /// date. Texts that cannot be secrets as they stand become warnings. `explain` works without this call, on a machine that does
    /// not have the secrets.
    ///
    /// # Errors
    /// All missing variables (`variable` returns `None`), secrets that the gateway does not keep, and malformed credentials, each
    /// with its JSON pointer.
    pub fn read_secrets(
        &mut self,
        variable: impl Fn(&str) -> Option<Vec<u8>>,
        subscribe: impl Fn(&LiveSecret) -> bool,
        advice: &str,
    ) -> Result<(), PolicyErrors> {
        let (mut issues, mut warnings) = (Issues::default(), Issues::default());
        let mut resolve = |secret: &mut Secret, pointer: &dyn Fn() -> String, is_header: bool| {
            if let Secret::Env(name) = secret {
                let Some(value) = variable(name) else {
                    let message = format!("the VM has no variable `{name}`: {advice}");
                    return issues.add(pointer(), message);
                };
                *secret = Secret::Value(value);
            }
            if let Secret::Sds(live) = secret
                && !subscribe(live)
            {
                let message = "this gateway gives the filter no secrets by SDS: write {\"env\": \"NAME\"}";
                return issues.add(pointer(), message);
            }
            if let Secret::Value(value) = secret
                && is_header
                && (value.is_empty() || !value.iter().all(u8::is_ascii_graphic))
            {
                return issues.add(pointer(), "expected visible ASCII characters, without spaces or line breaks");
            }
            // A header has no signature.
            if let Secret::Value(value) = secret
                && is_header
                && let Some(fault) = around(value)
            {
                warnings.add(pointer(), fault.replace("no signature fits", "the service does not know it"));
            }
        };
        let secrets_of = |(id, binding)| ("/webhooks/static", id, &mut Arc::<Binding>::make_mut(binding).secrets);
        let bindings = self.bindings.iter_mut().map(secrets_of);
        let callers = self.callers.iter_mut().map(|caller| ("/callers", &caller.name, &mut caller.secrets));
        for (list, name, secrets) in bindings.chain(callers) {
            for (index, secret) in secrets.iter_mut().enumerate() {
                resolve(secret, &|| format!("{}/secrets/{index}", child(list, name)), false);
            }
        }
        let root_key = self.unkey.as_mut().map(|unkey| (&mut unkey.service.credential, "/webhooks/unkey/root_key"));
        let token = self.openbao.as_mut().map(|openbao| (&mut openbao.service.credential, "/webhooks/openbao/token"));
        for (credential, pointer) in root_key.into_iter().chain(token) {
            if let Some(secret) = credential {
                resolve(secret, &|| pointer.to_owned(), true);
            }
        }
        if let Some(KeyRegistry { unkey, pointer, .. }) = &mut self.key_registry
            && let Some(secret) = &mut unkey.service.credential
        {
            resolve(secret, &|| child(pointer, "root_key"), true);
        }
        if let Some(operations) = &mut self.operations {
            for (pointer, secret) in operations.secrets_mut() {
                resolve(secret, &|| pointer.clone(), false);
            }
            operations.check_keys(&mut issues);
        }
        self.secret_faults(&mut warnings);
        self.warnings.append(&mut warnings.0);
        if issues.0.is_empty() { Ok(()) } else { Err(PolicyErrors(issues.0)) }
    }

    /// Secrets of others that verify nothing as they stand. Their values are not told.
    fn secret_faults(&self, warnings: &mut Issues) {
        for SecretList { pointer, secrets, provider } in self.secret_lists() {
            let Some(provider) = provider else { continue };
            for (index, secret) in secrets.iter().enumerate() {
                if let Secret::Value(value) = secret
                    && let Some(fault) = provider.secret_fault(value)
                {
                    warnings.add(format!("{pointer}/{index}"), fault);
                }
            }
        }
    }

    /// The secrets that the gateway keeps up to date.
    pub(crate) fn live_secrets(&self) -> impl Iterator<Item = &LiveSecret> {
        let bindings = self.bindings.values().flat_map(|binding| &binding.secrets);
        let secrets = bindings.chain(self.callers.iter().flat_map(|caller| &caller.secrets));
        secrets.filter_map(|secret| match secret {
            Secret::Sds(live) => Some(live),
            Secret::Env(_) | Secret::Value(_) => None,
        })
    }

    /// The secrets of bindings, signed callers and operation ids, for checks before a start. [`Policy::read_secrets`] comes
    /// first, or secrets of the environment are still names.
    pub fn secret_lists(&self) -> Vec<SecretList<'_>> {
        let bindings = self.bindings.iter().filter_map(|(id, binding)| {
            Some(("/webhooks/static", id, &binding.secrets, self.providers.get(&binding.provider)?))
        });
        let callers = self.callers.iter().map(|caller| ("/callers", &caller.name, &caller.secrets, &caller.signature));
        let signed = bindings.chain(callers).map(|(list, name, secrets, provider)| SecretList {
            pointer: format!("{}/secrets", child(list, name)),
            secrets,
            provider: Some(provider),
        });
        let operations = self.operations.iter().map(|operations| SecretList {
            pointer: operations.place.clone(),
            secrets: &operations.secrets,
            provider: None,
        });
        signed.chain(operations).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{
        "version": 1,
        "backend": {"kind": "restate"},
        "routes": [{"endpoint": "hook", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
        "webhooks": {"static": {"wh_01JABC": {"tenant": "a", "project": "p", "provider": "stripe",
            "secrets": [{"env": "NEW"}, {"env": "OLD"}]}}}
    }"#;

    #[test]
    fn secrets_come_from_the_environment_and_are_never_shown() {
        let mut policy = Policy::from_json(DOCUMENT.as_bytes()).unwrap();
        let missing =
            policy.read_secrets(|name| (name == "NEW").then(|| b"planted".to_vec()), |_| true, "").unwrap_err();
        let places: Vec<&str> = missing.0.iter().map(|issue| issue.pointer.as_str()).collect();
        assert_eq!(places, ["/webhooks/static/wh_01JABC/secrets/1"]);
        assert!(!format!("{policy:?} {missing}").contains("planted"));
        policy.read_secrets(|_| Some(b"planted".to_vec()), |_| true, "").unwrap();
        assert_eq!(policy.bindings["wh_01JABC"].secrets, vec![Secret::Value(b"planted".to_vec()); 2]);
        assert!(!format!("{policy:?}").contains("planted"));
    }

    #[test]
    fn a_gateway_without_sds_starts_with_no_such_secret() {
        let document = DOCUMENT.replace(r#"{"env": "OLD"}"#, r#"{"sds": "old"}"#);
        let mut policy = Policy::from_json(document.as_bytes()).unwrap();
        let errors = policy.read_secrets(|_| Some(b"planted".to_vec()), |_| false, "").unwrap_err();
        let [issue] = errors.0.as_slice() else { panic!("{errors}") };
        assert_eq!(issue.pointer, "/webhooks/static/wh_01JABC/secrets/1");
        assert!(issue.message.contains("no secrets by SDS"), "{}", issue.message);
    }

    #[test]
    fn lists_of_secrets_have_their_places_and_show_no_value() {
        let mut policy = Policy::from_json(DOCUMENT.as_bytes()).unwrap();
        policy.read_secrets(|_| Some(b"planted".to_vec()), |_| true, "").unwrap();
        let lists = policy.secret_lists();
        let places: Vec<&str> = lists.iter().map(|list| list.pointer.as_str()).collect();
        assert_eq!(places, ["/webhooks/static/wh_01JABC/secrets"]);
        assert_eq!(lists[0].secrets.len(), 2);
        assert!(lists[0].provider.is_some());
        assert!(!format!("{lists:?}").contains("planted"));
    }

    #[test]
    fn what_was_pasted_with_a_secret_is_a_warning_at_start() {
        let document =
            DOCUMENT.replace(r#""static""#, r#""unkey": {"cluster": "c", "root_key": {"env": "QUOTED"}}, "openbao": {"cluster": "c", "token": {"env": "TOKEN"}}, "static""#);
        let mut policy = Policy::from_json(document.as_bytes()).unwrap();
        let before = policy.warnings().len();
        let values =
            [("NEW", "v1,whsec_planted"), ("OLD", "whsec_planted"), ("QUOTED", "'planted'"), ("TOKEN", "planted")];
        let value =
            |name: &str| values.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_bytes().to_vec());
        policy.read_secrets(value, |_| true, "").unwrap();
        let found: Vec<_> = policy.warnings()[before..].iter().map(|issue| issue.pointer.as_str()).collect();
        assert_eq!(found, ["/webhooks/unkey/root_key", "/webhooks/static/wh_01JABC/secrets/0"]);
        assert!(policy.warnings().iter().all(|issue| !issue.message.contains("planted")), "{:?}", policy.warnings());
    }

    #[test]
    fn credentials_for_stores_are_header_values() {
        let webhooks = r#""webhooks": {"unkey": {"cluster": "c", "root_key": {"env": "KEY"}},
            "openbao": {"cluster": "c", "token": {"env": "TOKEN"}}, "#;
        let document = DOCUMENT.replace(r#""webhooks": {"static""#, &format!(r#"{webhooks}"static""#));
        let places = |token: &[u8]| {
            let variable = |name: &str| (name != "KEY").then(|| token.to_vec());
            let errors =
                Policy::from_json(document.as_bytes()).unwrap().read_secrets(variable, |_| true, "").unwrap_err();
            assert!(!errors.to_string().contains("planted"));
            errors.0.into_iter().map(|issue| issue.pointer).collect::<Vec<_>>()
        };
        assert_eq!(places(b"planted"), ["/webhooks/unkey/root_key"]);
        for token in [b"".as_slice(), b"planted\n", b"planted token", b"\xff"] {
            assert_eq!(places(token), ["/webhooks/unkey/root_key", "/webhooks/openbao/token"]);
        }
    }

    #[test]
    fn a_secret_in_the_document_is_an_error_that_does_not_repeat_it() {
        let inline = DOCUMENT.replace(r#"{"env": "NEW"}"#, r#""planted""#);
        let errors = Policy::from_json(inline.as_bytes()).unwrap_err();
        assert_eq!(errors.0[0].pointer, "/webhooks/static/wh_01JABC/secrets/0");
        assert!(!errors.to_string().contains("planted"));
        let allowed = inline.replace("\"version\": 1", "\"version\": 1, \"allow_inline_secrets\": true");
        assert!(!format!("{:?}", Policy::from_json(allowed.as_bytes()).unwrap()).contains("planted"));
    }
}
