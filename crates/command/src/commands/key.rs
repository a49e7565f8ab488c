//! `key`: reading a namespaced key.

use super::FORWARD;
use crate::explain::terminal_text;
use crate::input::first_line_of_input;
use crate::output::print;
use crate::restate_admin::keys_text::readable_subject;
use crate::restate_admin::selection::STORED_FORM;
use clap::{Args, Subcommand};
use edge_idempotency_engine::identity::Project;
use edge_idempotency_engine::key::decode;
use serde_json::json;

/// Reads a namespaced key.
///
/// Example:
///   edge-idempotency key decode t-acme:health-prod:user:alice:refund-1001
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct KeyArguments {
    #[command(subcommand)]
    action: KeyAction,
}

#[derive(Subcommand)]
enum KeyAction {
    Decode(DecodeArguments),
}

/// Splits a namespaced key into tenant, project, subject and the key that the caller sent.
///
/// The key has the form t-{tenant}:{project}:{type}:{id}:{key}, as Restate stores it, and the access log has it with
/// "key_in_logs": "full". Only the last part can hold colons. The subject's id is shown as the identity source gave it, so
/// percent-decoded.
///
/// Examples:
///   edge-idempotency key decode t-acme:health-prod:user:alice:refund-1001
///   edge-idempotency key decode --json t-acme:_tenant:client:a%2Fb:refund-1001
///
/// Exit status: 0; 2 if the text is no namespaced key.
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct DecodeArguments {
    /// The namespaced key; - reads the first line of standard input.
    #[arg(value_name = "KEY|-")]
    key: String,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &KeyArguments) -> Result<u8, String> {
    let KeyAction::Decode(args) = &args.action;
    let text =
        if args.key == "-" { first_line_of_input()?.0.ok_or("standard input has no line")? } else { args.key.clone() };
    let text = text.trim_end();
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
    print(&if args.json {
        terminal_text::json(&json!({
            "tenant": tenant, "project": project, "scope": scope, "subject": subject, "key": parts.raw, "namespaced_key": text,
        }))
    } else {
        let remark = if scope == "project" { String::new() } else { format!(" (routes of scope {scope})") };
        let lines =
            [("tenant", tenant), ("project", &format!("{project}{remark}")), ("subject", &subject), ("key", parts.raw)];
        lines.map(|(name, value)| format!("{name:8} {}", terminal_text::printable(value))).join("\n")
    })?;
    Ok(FORWARD)
}
