//! What comes in with `resolve` and `reject`, and what the waiting handler reads.

use serde_json::Value;

use super::machine::Completion;

/// The longest reason of a rejection in bytes.
const MAX_REASON_BYTES: usize = 4 * 1024;

/// Why a body is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BodyError {
    /// It has more bytes than this.
    TooLarge(usize),
    /// It is no UTF-8.
    NotText,
}

/// JSON passes as it is. Anything else becomes a JSON string, so that a handler that reads JSON can take it; an empty body becomes `null`.
/// JSON that some readers refuse (nested more than 127 deep, numbers that are too large) counts as something else.
pub(super) fn resolved(body: &[u8], max_bytes: usize) -> Result<Completion, BodyError> {
    // Writing a body as a string makes it longer, so this comes first.
    if body.len() > max_bytes {
        return Err(BodyError::TooLarge(max_bytes));
    }
    let text = str::from_utf8(body).map_err(|_| BodyError::NotText)?;
    let payload = if text.trim().is_empty() {
        "null".to_owned()
    } else if serde_json::from_str::<Value>(text).is_ok() {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    };
    if payload.len() > max_bytes {
        return Err(BodyError::TooLarge(max_bytes));
    }
    Ok(Completion::Resolved(payload))
}

/// The reason is text. A JSON string is taken without its quotes and escapes.
pub(super) fn rejected(body: &[u8]) -> Result<Completion, BodyError> {
    if body.len() > MAX_REASON_BYTES {
        return Err(BodyError::TooLarge(MAX_REASON_BYTES));
    }
    let text = str::from_utf8(body).map_err(|_| BodyError::NotText)?;
    let reason = serde_json::from_str(text).unwrap_or_else(|_| text.to_owned());
    Ok(Completion::Rejected(if reason.is_empty() { "rejected".to_owned() } else { reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_passes_and_the_rest_becomes_a_string() {
        let of = |body: &str| match resolved(body.as_bytes(), 1024).unwrap() {
            Completion::Resolved(payload) => payload,
            Completion::Rejected(reason) => format!("rejected: {reason}"),
        };
        for same in [r#"{"b": 1.0, "a": [9007199254740993]}"#, " [1]\n", "\"text\"", "7", "null"] {
            assert_eq!(of(same), same);
        }
        assert_eq!(of("MessageSid=SM1&MessageStatus=sent"), r#""MessageSid=SM1&MessageStatus=sent""#);
        assert_eq!(of("<a b=\"c\"/>\n"), r#""<a b=\"c\"/>\n""#);
        assert_eq!(of(""), "null");
        let deep = "[".repeat(400) + &"]".repeat(400);
        assert_eq!(of(&deep), format!("\"{deep}\""));
    }

    #[test]
    fn bounds() {
        let json = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        assert!(resolved(json(64).as_bytes(), 64).is_ok());
        assert_eq!(resolved(json(65).as_bytes(), 64), Err(BodyError::TooLarge(64)));
        // As a string it has two more.
        assert!(resolved("x".repeat(62).as_bytes(), 64).is_ok());
        assert_eq!(resolved("x".repeat(63).as_bytes(), 64), Err(BodyError::TooLarge(64)));
        assert_eq!(resolved(&[0xff], 64), Err(BodyError::NotText));
        assert!(rejected("x".repeat(MAX_REASON_BYTES).as_bytes()).is_ok());
        assert_eq!(rejected(&[b'x'; MAX_REASON_BYTES + 1]), Err(BodyError::TooLarge(MAX_REASON_BYTES)));
    }

    #[test]
    fn reasons() {
        for (body, reason) in [("no money", "no money"), ("\"no money\"", "no money"), ("", "rejected"), ("{}", "{}")] {
            assert_eq!(rejected(body.as_bytes()), Ok(Completion::Rejected(reason.to_owned())));
        }
    }
}
