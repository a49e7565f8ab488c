//! What a code and a reason mean and what to do, in plain text: the engine's explanations, which the tables of docs/ have too.

use edge_idempotency_engine::problem::{Audience, Code, Reason};

/// Why a request gets a code, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseAndCure {
    /// Why
    pub cause: String,
    /// What to do
    pub cure: String,
}

/// The explanation of a code; `None` for a code that this release does not have. Some codes mean one thing to callers and another
/// to the senders of webhooks. Where the operator has to do something, it is the operator's.
pub fn of_code(code: &str, is_webhook: bool) -> Option<CauseAndCure> {
    let explanations = code_named(code)?.explanations();
    let of = |reader| explanations.iter().find(|explanation| explanation.reader == reader);
    let of_sender = of(Audience::WebhookSender).filter(|_| is_webhook);
    let explanation = of(Audience::Operator).or(of_sender).or_else(|| explanations.first())?;
    Some(CauseAndCure { cause: plain(explanation.cause), cure: plain(explanation.cure) })
}

/// The meaning of a reason; `None` for a reason that this release does not have. A reason may mean something else with another
/// code.
pub fn of_reason(code: &str, reason: &str) -> Option<String> {
    Reason::named(reason, code_named(code)).map(|reason| plain(reason.meaning()))
}

fn code_named(name: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.name() == name)
}

/// Markdown with each link as its text and the address behind it.
fn plain(markdown: &str) -> String {
    let mut parts = markdown.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (address, after) = part.split_once(')').unwrap_or((part, ""));
        if let Some(bracket) = text.rfind('[') {
            text.remove(bracket);
        }
        for piece in [" (docs/", address, ")", after] {
            text.push_str(piece);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_gets_its_own_explanation() {
        for code in Code::ALL {
            assert!(of_code(code.name(), false).is_some(), "{}", code.name());
        }
        assert_eq!(of_code("no_such_code", false), None);
        let [caller, webhook] = [false, true].map(|is_webhook| of_code("dependency_unavailable", is_webhook).unwrap());
        assert!(caller.cause.contains("backend") && webhook.cause.contains("secret"), "{caller:?} {webhook:?}");
        assert!(of_code("policy_invalid", false).unwrap().cause.contains("filter_metadata"));
        let [one, other] = ["webhook_signature_invalid", "transport_translation_failed"]
            .map(|code| of_reason(code, "body_not_json").unwrap());
        assert!(one.contains("Square") && other.contains("identifier or target"), "{one} {other}");
        assert_eq!(of_reason("idempotency_key_invalid", "no_such_reason"), None);
    }

    #[test]
    fn links_become_addresses() {
        let markdown = "`a[\"b\"]`, [c d](callers.md#from-a-browser) or [g](backends.md)";
        assert_eq!(plain(markdown), "`a[\"b\"]`, c d (docs/callers.md#from-a-browser) or g (docs/backends.md)");
        assert_eq!(plain("`[a-z]`"), "`[a-z]`");
        let explanations = Code::ALL.into_iter().filter_map(|code| of_code(code.name(), false));
        for text in explanations.flat_map(|one| [one.cause, one.cure]) {
            assert!(!text.contains("]("), "{text}");
        }
    }
}
