//! Operations: the ids with which callers ask for the answers of their earlier requests, and the paths that they ask at
//! (docs/contract.md section 6).
//!
//! An operation id is `{invocation id}.{tag}`. The backend gives the answer of an invocation to whoever knows its id. The
//! tag shows that the filter has given the id to this caller, so the filter stores nothing for it.

use crate::identity::{Identity, Project};
use crate::json::Issues;
use crate::policy::Secret;
use crate::policy::document::Scope;
use crate::provider::{equal, hmac_sha_256};
use crate::recovery::{OUTPUT, Wait};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Names the format of the tagged text. Operation ids outlive a release, so another format needs another version.
const VERSION: &str = "edge-idempotency/operation/1";
/// The length of a tag, in bytes: the first ones of the HMAC.
const TAG_BYTES: usize = 16;
/// The longest invocation id that is taken, in bytes. Restate's have 38.
const MAX_INVOCATION_BYTES: usize = 64;

/// Whether a text has the form of Restate's invocation ids. It becomes a segment of a path.
pub(crate) fn is_invocation_id(id: &str) -> bool {
    let is_plain = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    id.len() <= MAX_INVOCATION_BYTES && id.strip_prefix("inv_").is_some_and(is_plain)
}

/// The tag of an operation id: base64url, without padding, of the first 16 bytes of HMAC-SHA-256 (RFC 2104) over version,
/// tenant, project, subject and invocation id, each behind its length in bytes (8 bytes, big-endian). `None` for an empty
/// secret.
pub fn tag(secret: &[u8], caller: &Identity, project: &Project, invocation: &str) -> Option<String> {
    if secret.is_empty() {
        return None;
    }
    let parts = [VERSION, caller.tenant.as_str(), project.as_str(), caller.subject.as_str(), invocation];
    let mac = hmac_sha_256(secret, &|sink| {
        for part in parts {
            sink(&(part.len() as u64).to_be_bytes());
            sink(part.as_bytes());
        }
    })?;
    mac.get(..TAG_BYTES).map(|tag| URL_SAFE_NO_PAD.encode(tag))
}

/// What a policy says about operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operations {
    /// The index of the backend that is asked
    pub(crate) backend: usize,
    /// The place of the secrets in the document
    pub(crate) place: String,
    /// The path in front of the operation id, with its last slash
    pub(crate) prefix: String,
    /// The first one that is not empty makes tags, and all of them verify tags
    pub(crate) secrets: Vec<Secret>,
    /// The scopes of routes with a target that are wider than a project, without duplicates
    pub(crate) wider_scopes: Vec<Scope>,
}

impl Operations {
    /// The path that a policy document shows.
    pub(crate) fn template(&self) -> String {
        format!("{}{{operation_id}}", self.prefix)
    }

    /// The path of an operation.
    pub(crate) fn path(&self, operation_id: &str) -> String {
        [self.prefix.as_str(), operation_id].concat()
    }

    /// The scopes of routes that are wider than a project.
    pub(crate) fn wider_scopes(&self) -> &[Scope] {
        &self.wider_scopes
    }

    /// The operation id in a normalised path, whatever its form, and whether to wait for the answer. `None` for the path of
    /// something else.
    pub(crate) fn parse<'r>(&self, path: &'r str) -> Option<(&'r str, Wait)> {
        let rest = path.strip_prefix(self.prefix.as_str())?;
        match rest.split_once('/') {
            None => Some((rest, Wait::Attach)),
            Some((id, OUTPUT)) => Some((id, Wait::Output)),
            Some(_) => None,
        }
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.secrets.iter().filter_map(|secret| match secret {
            Secret::Value(value) if !value.is_empty() => Some(value.as_slice()),
            Secret::Value(_) | Secret::Env(_) | Secret::Sds(_) => None,
        })
    }

    /// Whether there is a secret. Without secrets from the environment (`explain`) there may be none.
    pub(crate) fn has_key(&self) -> bool {
        self.keys().next().is_some()
    }

    /// The operation id of an invocation for its caller. `None` if the text is no invocation id.
    pub(crate) fn operation_id(&self, invocation: &str, caller: &Identity) -> Option<String> {
        let key = self.keys().next().filter(|_| is_invocation_id(invocation))?;
        Some(format!("{invocation}.{}", tag(key, caller, &caller.project, invocation)?))
    }

    /// The invocation id in an operation id that was made for `caller` in one of `projects`, and that project; else `None`.
    /// Every secret is tried, and tags are compared in constant time.
    pub(crate) fn verify<'r>(
        &self,
        operation_id: &'r str,
        caller: &Identity,
        projects: &[Project],
    ) -> Option<(&'r str, Project)> {
        let (invocation, sent) = operation_id.rsplit_once('.')?;
        if !is_invocation_id(invocation) {
            return None;
        }
        let mut found = None;
        for project in projects {
            for key in self.keys() {
                let expected = tag(key, caller, project, invocation)?;
                if equal(expected.as_bytes(), sent.as_bytes()) {
                    found = Some(project);
                }
            }
        }
        found.map(|project| (invocation, project.clone()))
    }

    /// The secrets, each with its JSON pointer.
    pub(crate) fn secrets_mut(&mut self) -> impl Iterator<Item = (String, &mut Secret)> {
        let single = self.secrets.len() == 1;
        let place = self.place.clone();
        let pointer = move |index: usize| if single { place.clone() } else { format!("{place}/{index}") };
        self.secrets.iter_mut().enumerate().map(move |(index, secret)| (pointer(index), secret))
    }

    /// Reports that no secret can make a tag.
    pub(crate) fn check_keys(&self, issues: &mut Issues) {
        if self.secrets.iter().all(|secret| matches!(secret, Secret::Value(value) if value.is_empty())) {
            issues.add(&self.place, "every secret is empty, so no operation id can be made");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Subject, Tenant};

    fn caller(project: Project) -> Identity {
        Identity { tenant: Tenant::parse(b"acme").unwrap(), project, subject: Subject::new("user", b"alice").unwrap() }
    }

    fn operations(secrets: &[&str]) -> Operations {
        Operations {
            backend: 0,
            place: "/backend/operations/secret".to_owned(),
            prefix: "/operations/".to_owned(),
            secrets: secrets.iter().map(|secret| Secret::Value(secret.as_bytes().to_vec())).collect(),
            wider_scopes: Vec::new(),
        }
    }

    #[test]
    fn paths_of_operations_have_two_forms() {
        let operations = operations(&["s"]);
        for (path, expected) in [
            ("/operations/a", Some(("a", Wait::Attach))),
            ("/operations/a/output", Some(("a", Wait::Output))),
            ("/operations/output", Some(("output", Wait::Attach))),
            ("/operations/a%2Foutput", Some(("a%2Foutput", Wait::Attach))),
            ("/operations/a/outputs", None),
            ("/operations/a/output/output", None),
            ("/operations", None),
            ("/operationsa", None),
            ("/Operations/a", None),
            ("/v1/operations/a", None),
        ] {
            assert_eq!(operations.parse(path), expected, "{path}");
        }
    }

    #[test]
    fn the_first_secret_makes_tags_and_all_verify_them() {
        let shop = Project::parse(b"shop").unwrap();
        let (alice, projects) = (caller(shop.clone()), [shop.clone(), Project::Tenant]);
        let (old, both, new) = (operations(&["old"]), operations(&["", "new", "old"]), operations(&["new"]));
        let id = old.operation_id("inv_1a", &alice).unwrap();
        assert_eq!(both.verify(&id, &alice, &projects), Some(("inv_1a", shop)));
        assert_eq!(new.verify(&id, &alice, &projects), None);
        assert_eq!(both.operation_id("inv_1a", &alice), new.operation_id("inv_1a", &alice));
        assert_eq!(operations(&[""]).operation_id("inv_1a", &alice), None);
        assert!(!operations(&[""]).has_key() && both.has_key());
        for bad in ["", "inv_", "inv_1.a", "inv_1/a", "sub_1a", &format!("inv_{}", "a".repeat(61))] {
            assert_eq!(both.operation_id(bad, &alice), None, "{bad}");
        }
    }

    #[test]
    fn a_caller_of_a_wider_scope_is_another_caller() {
        let operations = operations(&["s"]);
        let shop = caller(Project::parse(b"shop").unwrap());
        let id = operations.operation_id("inv_1a", &caller(Project::Tenant)).unwrap();
        assert_eq!(operations.verify(&id, &shop, std::slice::from_ref(&shop.project)), None);
        let verified = operations.verify(&id, &shop, &[shop.project.clone(), Project::Platform, Project::Tenant]);
        assert_eq!(verified, Some(("inv_1a", Project::Tenant)));
    }

    #[test]
    fn only_the_whole_id_in_its_own_spelling_is_taken() {
        let operations = operations(&["s"]);
        let alice = caller(Project::parse(b"shop").unwrap());
        let id = operations.operation_id("inv_1a", &alice).unwrap();
        let verify = |id: &str| operations.verify(id, &alice, std::slice::from_ref(&alice.project)).is_some();
        assert!(verify(&id));
        assert_eq!(id.len(), "inv_1a.".len() + 22);
        for end in 0..id.len() {
            assert!(!verify(id.get(..end).unwrap()), "{end}");
        }
        let (invocation, tag) = id.split_once('.').unwrap();
        for other in [
            format!("{id}="),
            format!("{id}A"),
            format!(".{tag}"),
            format!("{invocation}..{tag}"),
            format!("{invocation}b.{tag}"),
            format!("{invocation}.{}", tag.to_ascii_uppercase()),
            id.replace('.', "%2E"),
        ] {
            assert!(!verify(&other), "{other}");
        }
        // The last character has bits that no byte of the tag holds: other characters would decode to the same tag.
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let all_but_last = id.get(..id.len() - 1).unwrap();
        let taken = alphabet.iter().filter(|last| verify(&format!("{all_but_last}{}", char::from(**last))));
        assert_eq!(taken.count(), 1);
    }
}
