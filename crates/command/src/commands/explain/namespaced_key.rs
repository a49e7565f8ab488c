//! `explain --key`: a namespaced key in its parts.

use crate::explain::terminal_text;
use crate::restate_admin::keys_text::readable_subject;
use crate::restate_admin::selection::STORED_FORM;
use edge_idempotency_engine::identity::Project;
use edge_idempotency_engine::key::decode;
use serde_json::json;

/// What to print of a namespaced key: as JSON, or a line for each part.
///
/// # Errors
/// The text is no namespaced key.
pub(super) fn explained(text: &str, as_json: bool) -> Result<String, String> {
    let parts = decode(text).map_err(|_| {
        let digest = if text.starts_with("sha256:") { " A digest cannot be turned back into a key." } else { "" };
        format!("this is no namespaced key: {STORED_FORM}.{digest}")
    })?;
    let (tenant, project) = (parts.identity.tenant.as_str(), parts.identity.project.as_str());
    let subject = readable_subject(&parts.identity.subject);
    let scope = match parts.identity.project {
        Project::Named(_) => "project",
        Project::Tenant => "tenant",
        Project::Platform => "platform",
    };
    Ok(if as_json {
        terminal_text::json(&json!({
            "tenant": tenant, "project": project, "scope": scope, "subject": subject, "key": parts.raw, "namespaced_key": text,
        }))
    } else {
        let remark = if scope == "project" { String::new() } else { format!(" (routes of scope {scope})") };
        let lines =
            [("tenant", tenant), ("project", &format!("{project}{remark}")), ("subject", &subject), ("key", parts.raw)];
        lines.map(|(name, value)| format!("{name:8} {}", terminal_text::printable(value))).join("\n")
    })
}
