//! What a code and a reason mean and what to do, from the tables of docs/: the pages and this command cannot disagree.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

const ERRORS: &str = "docs/errors.md";
const PAGES: [(&str, &str); 2] =
    [(ERRORS, include_str!("../../docs/errors.md")), ("docs/webhooks.md", include_str!("../../docs/webhooks.md"))];

/// The meaning of a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeMeaning {
    /// Why a request gets it
    pub(crate) cause: String,
    /// What to do
    pub(crate) cure: String,
}

/// The meaning of a code; `None` for a code that this release does not have. Some codes mean one thing to callers and another
/// to the senders of webhooks.
pub(crate) fn of_code(code: &str, is_webhook: bool) -> Option<CodeMeaning> {
    let name = format!("`{code}`");
    let rows = rows();
    let meanings = || rows.iter().filter(|row| row.page == ERRORS && row.cells.first() == Some(&name));
    let preferred = match code {
        "policy_invalid" => "For operators",
        _ if is_webhook => "For webhook senders",
        _ => "",
    };
    let row = meanings().find(|row| row.section == preferred).or_else(|| meanings().next())?;
    match row.cells.as_slice() {
        [_, _, cause, cure] => Some(CodeMeaning { cause: cause.clone(), cure: cure.clone() }),
        _ => None,
    }
}

/// The meaning of a reason; `None` for a reason that this release does not have. A reason may mean something else with another
/// code.
pub(crate) fn of_reason(code: &str, reason: &str) -> Option<String> {
    let (code, reason) = (format!("`{code}`"), format!("`{reason}`"));
    let rows = rows();
    // The reason stands in the first cell of its row, or in the last.
    let meanings = || {
        rows.iter().filter_map(|row| match row.cells.as_slice() {
            [reasons, meaning] if reasons.contains(&reason) => Some((row, meaning)),
            [reasons, _, meaning] if reasons.contains(&reason) => Some((row, meaning)),
            [meaning, _, reasons] if reasons.contains(&reason) => Some((row, meaning)),
            _ => None,
        })
    };
    let has_code = |row: &Row| row.cells.iter().any(|cell| cell.contains(&code));
    let row = meanings().find(|(row, _)| has_code(row));
    // Then a table whose rows name no code.
    let row = row.or_else(|| meanings().find(|(row, _)| row.cells.len() == 2)).or_else(|| meanings().next());
    row.map(|(_, meaning)| meaning.clone())
}

/// A row of a table.
struct Row {
    page: &'static str,
    /// The heading above
    section: String,
    /// As plain text; code stays between backticks, and a link has its address behind it.
    cells: Vec<String>,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (page, text) in PAGES {
        let (mut section, mut cells, mut written) = (String::new(), Vec::new(), String::new());
        let mut link = String::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. } | Tag::TableCell) => written.clear(),
                Event::End(TagEnd::Heading(_)) => section = std::mem::take(&mut written),
                Event::End(TagEnd::TableCell) => cells.push(std::mem::take(&mut written)),
                Event::End(TagEnd::TableHead) => cells.clear(),
                Event::End(TagEnd::TableRow) => {
                    rows.push(Row { page, section: section.clone(), cells: std::mem::take(&mut cells) });
                }
                Event::Start(Tag::Link { dest_url, .. }) => {
                    let place = if dest_url.starts_with('#') { page.trim_start_matches("docs/") } else { "" };
                    link = format!(" (docs/{place}{dest_url})");
                }
                Event::End(TagEnd::Link) => written.push_str(&link),
                Event::Text(text) => written.push_str(&text),
                Event::Code(code) => written.push_str(&format!("`{code}`")),
                Event::SoftBreak => written.push(' '),
                _ => {}
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_idempotency_engine::problem::Code;

    #[test]
    fn every_code_has_a_meaning() {
        for code in Code::ALL {
            let meaning = of_code(code.name(), false).unwrap_or_else(|| panic!("{} has no row", code.name()));
            assert!(!meaning.cause.is_empty() && !meaning.cure.is_empty(), "{meaning:?}");
        }
        assert_eq!(of_code("no_such_code", false), None);
        let [caller, webhook] = [false, true].map(|is_webhook| of_code("dependency_unavailable", is_webhook).unwrap());
        assert!(caller.cause.contains("backend") && webhook.cause.contains("secret"), "{caller:?} {webhook:?}");
        assert!(of_code("policy_invalid", false).unwrap().cause.contains("filter_metadata"));
    }

    /// The reasons of the engine, by their codes. The reasons of metrics are the same.
    #[test]
    fn every_reason_has_a_meaning() {
        let signature = "missing_header malformed_header ambiguous_header unsupported_scheme no_supported_signature \
            timestamp_expired timestamp_future signature_mismatch missing_body_hash ambiguous_body_hash \
            body_hash_mismatch body_not_json secret_invalid";
        let store = "binding_malformed secret_missing secret_malformed secret_store_forbidden registry_forbidden \
            secret_store_sealed secret_store_unreachable registry_unreachable secret_store_timeout registry_timeout \
            secret_store_error registry_error secret_store_throttled registry_throttled secret_store_moved \
            secret_store_refused registry_refused secret_store_reply_malformed registry_reply_malformed \
            lookups_exhausted lookups_paced waiting_full waiting_share invocation_lookup_failed invocation_lookup_malformed lookup_lost \
            guard_failed guard_malformed guard_incomparable caller_waits_full tenant_waits_full";
        for (code, reasons) in [
            (
                "idempotency_key_invalid",
                "multiple empty syntax length charset reserved_prefix format expired namespaced_length",
            ),
            ("webhook_signature_invalid", signature),
            ("webhook_unknown", "binding_not_found binding_not_valid binding_of_another_kind provider_mismatch"),
            (
                "transport_translation_failed",
                "delivery_id_missing delivery_id_empty delivery_id_ambiguous delivery_id_not_string multiple_events \
                 body_not_json",
            ),
            ("dependency_unavailable", store),
        ] {
            for reason in reasons.split_whitespace() {
                assert!(of_reason(code, reason).is_some_and(|meaning| !meaning.is_empty()), "{code}.{reason}");
            }
        }
        let [one, other] = ["webhook_signature_invalid", "transport_translation_failed"]
            .map(|code| of_reason(code, "body_not_json").unwrap());
        assert!(one.contains("Square") && other.contains("genuine"), "{one} {other}");
        assert_eq!(of_reason("idempotency_key_invalid", "no_such_reason"), None);
    }
}
