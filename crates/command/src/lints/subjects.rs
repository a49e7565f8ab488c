//! Lints of callers that share keys: constant subjects, and routes whose keys have no subject.

use super::PolicyFinding;
use super::view::PolicyView;
use crate::lints::list::SHARED_KEYS;
use edge_idempotency_engine::identity::{IdentityPlace, IdentitySource};
use edge_idempotency_engine::policy::{KeySubject, Route, Scope};

pub(super) fn check(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    constants("/identity", &policy.needs().sources, findings);
    for (index, route, needs) in policy.routes() {
        if let Some(sources) = &needs.sources {
            constants(&format!("/routes/{index}/identity"), sources, findings);
        }
        if route.subject == KeySubject::None {
            findings.push(shared_keys(index, route));
        }
    }
}

/// The subject of all callers of a source.
fn constant(source: &IdentitySource) -> Option<&str> {
    match &source.subject.field {
        IdentityPlace::Constant(subject) => Some(subject),
        _ => None,
    }
}

/// Sources whose callers are all one subject.
fn constants(at: &str, sources: &[IdentitySource], findings: &mut Vec<PolicyFinding>) {
    for (index, source) in sources.iter().enumerate() {
        let Some(subject) = constant(source) else { continue };
        let mut text = format!(
            "all callers of the source `{}` are the subject `{subject}`: in one tenant and project they share keys, and get each other's \
             answers",
            source.name
        );
        let kind = subject.split(':').next();
        let can_name = |other: &&IdentitySource| {
            constant(other).is_none() && (other.subject.kind.is_none() || other.subject.kind.as_deref() == kind)
        };
        let others: Vec<String> = sources.iter().filter(can_name).map(|other| format!("`{}`", other.name)).collect();
        if !others.is_empty() {
            text += &format!("; so does a caller to whom {} gives this subject", others.join(" or "));
        }
        findings.push(PolicyFinding::new(
            &SHARED_KEYS,
            format!("{at}/sources/{index}/subject/value"),
            text,
            "read the subject from the request, or allow this lint if these callers are one service",
        ));
    }
}

/// A route whose keys all callers share.
fn shared_keys(index: usize, route: &Route) -> PolicyFinding {
    let who = if route.scope == Scope::Project { "tenant and project" } else { "tenant" };
    PolicyFinding::new(
        &SHARED_KEYS,
        format!("/routes/{index}/subject"),
        format!(
            "all callers of one {who} share the keys of `{}`: who sends a key that another caller has used gets that caller's answer, and \
             can ask for it by the key",
            route.endpoint
        ),
        "leave the member out, unless every caller may see the answers of every other caller; then allow this lint",
    )
}
