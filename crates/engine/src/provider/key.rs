//! The raw key of a delivery: `{provider}-{identifier}`, or `{provider}-~{digest}` (docs/contract.md section 5).
//!
//! # Why different deliveries never get the same key (invariant I2)
//!
//! A key identifies a provider, a slot and an identifier. If the key is scoped to the webhook or bound to the body, it
//! also identifies the webhook or the body.
//!
//! - Provider names contain no `-`, so the first `-` of a key ends the provider name.
//! - A digest begins with `~`, and a literal identifier does not.
//! - The same literal cannot come from two slots. One of two slots is not the first one, so its literals match its
//!   pattern, and a literal of any other slot does not match this pattern.
//! - The digested text has one division into parts only, so two digests are equal only for equal parts (or by a
//!   collision of SHA-256). It consists of:
//!   - `\0b`, the digest of the body (32 bytes) and one of the following, if the key is bound to the body;
//!   - `{webhook id}\0` and one of the following, if the key is scoped to the webhook;
//!   - `{slot}\0{identifier}` for a slot after the first;
//!   - `\0s` and the digest of the whole signed text, if its parts cannot be separated; never after `\0b`, since the
//!     signed text contains the body;
//!   - `{identifier}` for the first slot, or `\0i{identifier}` if it could be confused with one of the above.
//!
//!   Webhook ids have at least 8 characters and slot names at most 7, and neither contains a `\0`. An identifier can be
//!   confused if it begins with `\0`, or with a possible webhook id or a slot name followed by `\0`.
//! - Whether a literal fits into the namespaced key depends on the binding, the route's scope and the literal. So
//!   within one namespace an identifier is either always digested or never.
//! - A key that is scoped to a webhook or bound to a body is always a digest, so it is different from all literal keys.
//!
//! # Why a signature has one key
//!
//! If the parts of a signed text cannot be separated, the key is a digest of the whole text, and of the webhook if keys
//! are scoped to it. Any other signed text has one division into parts (see `boundaries`), and a signed identifier is
//! one of these parts.

use super::identifier::{Identifier, MAX_LITERAL};
use super::{Provider, crypto};
use crate::percent::is_unreserved;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

impl Provider {
    /// The raw key of a delivery with this identifier. `webhook_id` is set if keys are scoped to the webhook
    /// (`key_scope`), `body` (the body's digest) if they are bound to the body (`bind_body`). A key of a whole signed
    /// text is bound to the body in any case.
    pub fn raw_key(&self, identifier: &Identifier, webhook_id: Option<&str>, body: Option<&[u8; 32]>) -> String {
        let text = identifier.text.as_slice();
        let literal =
            !identifier.whole && webhook_id.is_none() && body.is_none() && self.is_literal(identifier.slot, text);
        match std::str::from_utf8(text) {
            Ok(text) if literal => [&self.name, "-", text].concat(),
            _ => self.digest_key(identifier, webhook_id, body),
        }
    }

    /// As [`Provider::raw_key`], but always with a digest, for an identifier that makes the namespaced key too long.
    fn digest_key(&self, identifier: &Identifier, webhook_id: Option<&str>, body: Option<&[u8; 32]>) -> String {
        let mut key = [&self.name, "-~"].concat();
        URL_SAFE_NO_PAD.encode_string(crypto::sha_256(&self.digested(identifier, webhook_id, body)), &mut key);
        key
    }

    /// Whether an identifier may be used literally in a key.
    fn is_literal(&self, slot: usize, text: &[u8]) -> bool {
        let fits = (1..=MAX_LITERAL).contains(&text.len())
            && !text.starts_with(b"~")
            && text.iter().copied().all(is_unreserved);
        fits && self.identifiers.iter().enumerate().all(|(index, other)| {
            let matches = other.pattern.as_ref().is_some_and(|pattern| pattern.matches(text));
            // The first slot has no pattern. Identifiers of a later slot without a pattern are never literal.
            if index == slot { index == 0 || matches } else { !matches }
        })
    }

    /// The text to digest.
    fn digested(&self, identifier: &Identifier, webhook_id: Option<&str>, body: Option<&[u8; 32]>) -> Vec<u8> {
        let mut text = Vec::with_capacity(identifier.text.len() + 128);
        if let Some(digest) = body.filter(|_| !identifier.whole) {
            text.extend(b"\0b");
            text.extend(digest);
        }
        if let Some(id) = webhook_id {
            text.extend(id.as_bytes());
            text.push(0);
        }
        match self.identifiers.get(identifier.slot) {
            _ if identifier.whole => text.extend(b"\0s"),
            Some(slot) if identifier.slot > 0 => {
                text.extend(slot.name.as_bytes());
                text.push(0);
            }
            _ if self.could_be_confused(&identifier.text) => text.extend(b"\0i"),
            _ => {}
        }
        text.extend(&identifier.text);
        text
    }

    fn could_be_confused(&self, text: &[u8]) -> bool {
        let mut halves = text.splitn(2, |byte| *byte == 0);
        let (Some(head), Some(_)) = (halves.next(), halves.next()) else { return false };
        head.is_empty()
            || self.identifiers.iter().skip(1).any(|slot| slot.name.as_bytes() == head)
            || (head.len() >= 8 && head.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')))
    }
}
