//! Weak secrets, told without their values. An empty secret in a list can be the free place of a rotation.

use super::PolicyFinding;
use crate::lints::list::WEAK_SECRET;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::{Secret, SecretList};
use edge_idempotency_engine::provider::Provider;

/// The minimum length of an HMAC key or a token, in bytes. RFC 2104 (section 3) recommends the length of the hash's
/// output, 20 bytes and more, but some providers' secrets are shorter. Below 128 bits, someone who has seen one
/// delivery or one operation id may find the key by trying.
const SHORT: usize = 16;

/// The length in bytes of the shortest key that a secret makes, if that is too short. `None` for a secret that makes no key, of which
/// the engine itself warns.
fn short(secret: &[u8], provider: Option<&Provider>) -> Option<usize> {
    let lengths = provider.map_or_else(|| vec![Some(secret.len())], |provider| provider.key_lengths(secret));
    // A public key has no length that counts.
    lengths.into_iter().map(|length| length.unwrap_or(SHORT)).min().filter(|length| *length < SHORT)
}

/// Checks the secrets that can be seen.
pub(super) fn check(policy: &Policy, findings: &mut Vec<PolicyFinding>) {
    policy.secret_lists().iter().for_each(|list| check_list(list, findings));
}

fn check_list(list: &SecretList<'_>, findings: &mut Vec<PolicyFinding>) {
    let is_empty = |secret: &Secret| matches!(secret, Secret::Value(value) if value.is_empty());
    if list.provider.is_some() && !list.secrets.is_empty() && list.secrets.iter().all(is_empty) {
        let message = "every secret is empty, so signed requests will get 503";
        return findings.push(PolicyFinding::new(&WEAK_SECRET, list.pointer.clone(), message, ""));
    }
    for (index, secret) in list.secrets.iter().enumerate() {
        let Secret::Value(value) = secret else { continue };
        if let Some(length) = short(value, list.provider).filter(|_| !value.is_empty()) {
            // The only secret of operation ids stands there without a list.
            let (pointer, seen) = match list.provider {
                Some(_) => (format!("{}/{index}", list.pointer), "delivery"),
                None => (list.pointer.clone(), "operation id"),
            };
            let plural = if length == 1 { "" } else { "s" };
            let message = format!(
                "the secret makes a key of {length} byte{plural}, fewer than {SHORT}: whoever has seen one {seen} may find it by trying"
            );
            findings.push(PolicyFinding::new(&WEAK_SECRET, pointer, message, ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_idempotency_engine::provider::Catalogue;

    const DOCUMENT: &str = r#"{
        "version": 1,
        "backend": {"kind": "restate"},
        "routes": [{"endpoint": "hook", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
        "webhooks": {"static": {"wh_01JABC": {"tenant": "a", "project": "p", "provider": "stripe",
            "secrets": [{"env": "NEW"}, {"env": "OLD"}]}}}
    }"#;

    #[test]
    fn weak_secrets_are_told_by_their_places() {
        let places = |new: &str, old: &str| -> Vec<String> {
            let mut policy = Policy::from_json(DOCUMENT.as_bytes()).unwrap();
            policy
                .read_secrets(|name| Some(if name == "NEW" { new } else { old }.as_bytes().to_vec()), |_| true, "")
                .unwrap();
            let mut findings = Vec::new();
            check(&policy, &mut findings);
            assert!(findings.iter().all(|finding| !finding.message.contains("planted")), "{findings:?}");
            findings.into_iter().map(|finding| finding.pointer).collect()
        };
        assert!(places("planted-0123456789", "planted-0123456789").is_empty());
        assert!(places("planted-0123456789", "").is_empty());
        assert_eq!(places("planted-0123456789", "planted"), ["/webhooks/static/wh_01JABC/secrets/1"]);
        assert_eq!(places("", ""), ["/webhooks/static/wh_01JABC/secrets"]);
        let mut findings = Vec::new();
        check(&Policy::from_json(DOCUMENT.as_bytes()).unwrap(), &mut findings);
        assert!(findings.is_empty(), "{findings:?}");
    }

    #[test]
    fn keys_are_measured_as_they_are_used() {
        let short = |provider: &str, secret: &str| {
            short(secret.as_bytes(), Some(&Catalogue::compiled_in().provider(provider).unwrap()))
        };
        assert_eq!(short("github", "0123456789abcdef"), None);
        assert_eq!(short("github", "0123456789abcde"), Some(15));
        assert_eq!(short("github", "x"), Some(1));
        // Base64 of 15 and of 16 bytes.
        assert_eq!(short("standard_webhooks", "whsec_MDEyMzQ1Njc4OWFiY2Rl"), Some(15));
        assert_eq!(short("standard_webhooks", "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="), None);
        assert_eq!(short("standard_webhooks", "whpk_WGZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmY="), None);
    }

    #[test]
    fn secrets_of_operation_ids_are_tokens() {
        assert_eq!(short(b"0123456789abcdef", None), None);
        assert_eq!(short(b"0123456789abcde", None), Some(15));
    }
}
