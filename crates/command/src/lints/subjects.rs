//! Lints of callers that share keys: constant subjects, and routes whose keys have no subject.

use super::PolicyFinding;
use super::view::{DocumentView, IdentityView, RouteView, SourceView};
use crate::lints::list::SHARED_KEYS;

pub(super) fn check(document: &DocumentView, findings: &mut Vec<PolicyFinding>) {
    if let Some(identity) = &document.identity {
        constants("/identity", identity, findings);
    }
    for (index, route) in document.routes.iter().enumerate() {
        if let Some(identity) = &route.identity {
            constants(&format!("/routes/{index}/identity"), identity, findings);
        }
        if route.subject.as_deref() == Some("none") {
            findings.push(shared_keys(index, route));
        }
    }
}

/// Sources whose callers are all one subject.
fn constants(at: &str, identity: &IdentityView, findings: &mut Vec<PolicyFinding>) {
    for (index, source) in identity.sources.iter().enumerate() {
        let Some(subject) = &source.subject.value else { continue };
        let mut text = format!(
            "all callers of the source `{}` are the subject `{subject}`: in one tenant and project they share keys, and get each other's \
             answers",
            source.name
        );
        let kind = subject.split(':').next();
        let can_name = |other: &&SourceView| {
            other.subject.value.is_none() && (other.subject.kind.is_none() || other.subject.kind.as_deref() == kind)
        };
        let others: Vec<String> =
            identity.sources.iter().filter(can_name).map(|other| format!("`{}`", other.name)).collect();
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
fn shared_keys(index: usize, route: &RouteView) -> PolicyFinding {
    let who = match route.scope.as_deref() {
        Some("tenant" | "platform") => "tenant",
        _ => "tenant and project",
    };
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
