//! Encodes and decodes the namespaced key, `t-{tenant}:{project}:{subject}:{raw}` (docs/contract.md section 3,
//! invariants I2, I3).
//!
//! Tenant, project, subject type and subject id contain no colon, so there is one way only to parse the text from the
//! left, for any raw key. Backends store keys in this form, so changing it is a breaking change.

use super::grammar::{KeyError, RESERVED_PREFIX};
use crate::identity::{self, Identity, Project, Subject, Tenant};

/// The longest namespaced key, in bytes.
pub const MAX_NAMESPACED_LENGTH: usize = 640;

/// Puts a raw key into the caller's namespace.
///
/// The caller has checked the grammar of `raw`, which is different for clients, providers and signed callers.
///
/// # Errors
/// [`KeyError::NamespacedLength`] if the result would be longer than [`MAX_NAMESPACED_LENGTH`].
pub fn encode(identity: &Identity, raw: &str) -> Result<String, KeyError> {
    let (tenant, project, subject) = (identity.tenant.as_str(), identity.project.as_str(), identity.subject.as_str());
    let length = [RESERVED_PREFIX, tenant, project, subject, raw].iter().map(|part| part.len()).sum::<usize>() + 3;
    if length > MAX_NAMESPACED_LENGTH {
        return Err(KeyError::NamespacedLength);
    }
    let mut key = String::with_capacity(length);
    key.push_str(RESERVED_PREFIX);
    for segment in [tenant, project, subject] {
        key.push_str(segment);
        key.push(':');
    }
    key.push_str(raw);
    Ok(key)
}

/// The raw key in a text that [`encode`] has made.
pub(crate) fn raw_of(key: &str) -> &str {
    key.splitn(5, ':').nth(4).unwrap_or_default()
}

/// The beginning that all keys of a tenant have, of a tenant's project, or of one subject in it. It ends with the colon
/// behind the last part, so no key of another tenant, project or subject begins so.
pub fn prefix(tenant: &Tenant, rest: Option<(&Project, Option<&Subject>)>) -> String {
    let mut prefix = [RESERVED_PREFIX, tenant.as_str(), ":"].concat();
    if let Some((project, subject)) = rest {
        for part in [Some(project.as_str()), subject.map(Subject::as_str)].into_iter().flatten() {
            prefix.push_str(part);
            prefix.push(':');
        }
    }
    prefix
}

/// The parts of a namespaced key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The owner of the key.
    pub identity: Identity,
    /// The raw key of the caller or the provider.
    pub raw: &'a str,
}

/// The text is not a namespaced key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotNamespaced;

/// Decodes a namespaced key.
///
/// # Errors
/// [`NotNamespaced`] for any text that [`encode`] cannot have made.
pub fn decode(key: &str) -> Result<Decoded<'_>, NotNamespaced> {
    if key.len() > MAX_NAMESPACED_LENGTH {
        return Err(NotNamespaced);
    }
    let rest = key.strip_prefix(RESERVED_PREFIX).ok_or(NotNamespaced)?;
    let (tenant, rest) = rest.split_once(':').ok_or(NotNamespaced)?;
    let (project, rest) = rest.split_once(':').ok_or(NotNamespaced)?;
    let (kind, rest) = rest.split_once(':').ok_or(NotNamespaced)?;
    let (id, raw) = rest.split_once(':').ok_or(NotNamespaced)?;
    if raw.is_empty() {
        return Err(NotNamespaced);
    }
    let project = match project {
        identity::TENANT_SENTINEL => Project::Tenant,
        identity::PLATFORM_SENTINEL => Project::Platform,
        named => Project::parse(named.as_bytes()).map_err(|_| NotNamespaced)?,
    };
    Ok(Decoded {
        identity: Identity {
            tenant: Tenant::parse(tenant.as_bytes()).map_err(|_| NotNamespaced)?,
            project,
            subject: match identity::NO_SUBJECT.split_once(':') {
                Some(none) if none == (kind, id) => Subject::none(),
                _ => Subject::from_encoded(kind, id).map_err(|_| NotNamespaced)?,
            },
        },
        raw,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(tenant: &str, project: Project, kind: &str, id: &str) -> Identity {
        Identity {
            tenant: Tenant::parse(tenant.as_bytes()).unwrap(),
            project,
            subject: Subject::new(kind, id.as_bytes()).unwrap(),
        }
    }

    #[test]
    fn encodes_the_design_s_example() {
        let caller = identity("acme", Project::parse(b"health-prod").unwrap(), "user", "firebase_uid_123");
        let key = encode(&caller, "8e03978e-40d5-43e8-bc93-6894a57f9324").unwrap();
        assert_eq!(key, "t-acme:health-prod:user:firebase_uid_123:8e03978e-40d5-43e8-bc93-6894a57f9324");
        let back = decode(&key).unwrap();
        assert_eq!(back, Decoded { identity: caller, raw: "8e03978e-40d5-43e8-bc93-6894a57f9324" });
    }

    #[test]
    fn colons_in_the_raw_key_and_any_bytes_in_the_subject_parse_one_way() {
        let caller = identity("t-", Project::Tenant, "service", "a:b%c é");
        let key = encode(&caller, "sched:1:2").unwrap();
        assert_eq!(key, "t-t-:_tenant:service:a%3Ab%25c%20%C3%A9:sched:1:2");
        assert_eq!(decode(&key).unwrap(), Decoded { identity: caller, raw: "sched:1:2" });
    }

    #[test]
    fn keys_that_callers_share_have_a_subject_that_no_caller_has() {
        let mut caller = identity("acme", Project::parse(b"shop").unwrap(), "user", "alice");
        caller.subject = Subject::none();
        let key = encode(&caller, "k").unwrap();
        assert_eq!(key, "t-acme:shop:_none:_:k");
        assert_eq!(decode(&key).unwrap(), Decoded { identity: caller, raw: "k" });
        assert!(Subject::new("_none", b"_").is_err() && Subject::from_encoded("_none", "_").is_err());
    }

    #[test]
    fn a_prefix_is_the_beginning_of_its_own_keys_only() {
        let shop = Project::parse(b"shop").unwrap();
        let keys: Vec<String> = [("acme", "alice"), ("acme", "alice2"), ("acme2", "alice"), ("a", "lice")]
            .map(|(tenant, id)| encode(&identity(tenant, shop.clone(), "user", id), "k").unwrap())
            .into();
        let caller = identity("acme", shop, "user", "alice");
        let begin = |prefix: String| keys.iter().filter(|key| key.starts_with(&prefix)).count();
        assert_eq!(begin(prefix(&caller.tenant, None)), 2);
        assert_eq!(begin(prefix(&caller.tenant, Some((&caller.project, None)))), 2);
        assert_eq!(begin(prefix(&caller.tenant, Some((&caller.project, Some(&caller.subject))))), 1);
    }

    #[test]
    fn the_length_is_bounded() {
        let caller = identity(&"t".repeat(63), Project::parse(&[b'p'; 63]).unwrap(), "user", &"u".repeat(200));
        let room = MAX_NAMESPACED_LENGTH - encode(&caller, "").unwrap().len();
        let longest = encode(&caller, &"k".repeat(room)).unwrap();
        assert_eq!((longest.len(), decode(&longest).is_ok()), (MAX_NAMESPACED_LENGTH, true));
        assert_eq!(decode(&(longest + "k")), Err(NotNamespaced));
        assert_eq!(encode(&caller, &"k".repeat(room + 1)), Err(KeyError::NamespacedLength));
    }

    #[test]
    fn refuses_what_it_cannot_have_made() {
        for text in [
            "",
            "t-",
            "acme:p:user:1:k",
            "t-acme:p:user:1",
            "t-acme:p:user:1:",
            "t-:p:user:1:k",
            "t-acme::user:1:k",
            "t-acme:_other:user:1:k",
            "t-acme:p:User:1:k",
            "t-acme:p:user::k",
            "t-acme:p:user:a%3ab:k",
            "t-acme:p:user:a%41:k",
            "t-acme:p:user:a b:k",
            "t-acme:p:_none:a:k",
            "t-acme:p:_none::k",
            "t-acme:p:_other:_:k",
        ] {
            assert_eq!(decode(text), Err(NotNamespaced), "{text}");
        }
    }
}
