//! The raw key of a delivery: `{provider}-{identifier}`, or a digest in the identifier's place (docs/contract.md section 5).
//!
//! # Why different things never get the same key (invariant I2)
//!
//! A key names a provider, a slot, an identifier and, where keys are scoped or bound so, a webhook and a body.
//!
//! - Provider names hold no `-`, so a key falls apart at its first `-` in one way only.
//! - A digest begins with `~`, a literal identifier never does.
//! - Of two slots one is not the first, and its literals match its pattern. A literal of any slot matches the pattern of
//!   no other slot, so the same literal cannot come from both.
//! - A digest is taken over a text that falls apart in one way only (SHA-256's own collisions apart):
//!   - `\0b`, the body's digest (32 bytes), and one of the following, where the key is bound to the body;
//!   - `{webhook id}\0` and one of the following, where it is scoped to the webhook;
//!   - `{slot}\0{identifier}` for a slot after the first;
//!   - `\0s` and the digest of the whole signed text, where its parts cannot be told apart; never behind `\0b`, for the
//!     signed text holds the body;
//!   - `{identifier}` for the first, or `\0i{identifier}` where that could be mistaken for one of the above.
//!
//!   Webhook ids have at least 8 characters and slots at most 7, neither holds a `\0`, and an identifier that begins
//!   with either and a `\0`, or with a `\0`, is one that could be mistaken.
//! - Whether the namespace leaves room for a literal depends on the binding, the route's scope and the literal, so in one
//!   namespace an identifier is always digested or never.
//! - A key that is scoped to a webhook, or bound to a body, is a digest, so it is the literal key of nothing.
//!
//! # Why a signature has one key
//!
//! Of a signed text whose parts cannot be told apart the key is a digest of the text, and of the webhook where so scoped.
//! Of any other, `boundaries` says why it falls apart in one way: its identifier is a part of it, where that is signed.

use super::identifier::{Identifier, MAX_LITERAL};
use super::{Provider, crypto};
use crate::percent::is_unreserved;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The digest of a body that a key is bound to.
pub fn body_digest(body: &[u8]) -> [u8; 32] {
    crypto::sha_256(body)
}

impl Provider {
    /// The raw key of a delivery with this identifier. `webhook_id` is given where keys are scoped to the webhook
    /// (`key_scope`), `body` where they are bound to the body (`bind_body`); one that is made of the whole signed text is
    /// bound to it anyway.
    pub fn raw_key(&self, identifier: &Identifier, webhook_id: Option<&str>, body: Option<&[u8; 32]>) -> String {
        let text = identifier.text.as_slice();
        let literal =
            !identifier.whole && webhook_id.is_none() && body.is_none() && self.is_literal(identifier.slot, text);
        match std::str::from_utf8(text) {
            Ok(text) if literal => [&self.name, "-", text].concat(),
            _ => self.digest_key(identifier, webhook_id, body),
        }
    }

    /// The same with a digest even where the identifier could stand in the key: there the namespace leaves it no room.
    pub fn digest_key(&self, identifier: &Identifier, webhook_id: Option<&str>, body: Option<&[u8; 32]>) -> String {
        let mut key = [&self.name, "-~"].concat();
        URL_SAFE_NO_PAD.encode_string(crypto::sha_256(&self.digested(identifier, webhook_id, body)), &mut key);
        key
    }

    /// Whether an identifier may stand in a key as it is.
    fn is_literal(&self, slot: usize, text: &[u8]) -> bool {
        let fits = (1..=MAX_LITERAL).contains(&text.len())
            && !text.starts_with(b"~")
            && text.iter().copied().all(is_unreserved);
        fits && self.identifiers.iter().enumerate().all(|(index, other)| {
            let matches = other.pattern.as_ref().is_some_and(|pattern| pattern.matches(text));
            // The first slot has no pattern, and a later one without is never literal.
            if index == slot { index == 0 || matches } else { !matches }
        })
    }

    /// What a digest is taken over.
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
            _ if self.could_be_mistaken(&identifier.text) => text.extend(b"\0i"),
            _ => {}
        }
        text.extend(&identifier.text);
        text
    }

    fn could_be_mistaken(&self, text: &[u8]) -> bool {
        let mut halves = text.splitn(2, |byte| *byte == 0);
        let (Some(head), Some(_)) = (halves.next(), halves.next()) else { return false };
        head.is_empty()
            || self.identifiers.iter().skip(1).any(|slot| slot.name.as_bytes() == head)
            || (head.len() >= 8 && head.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')))
    }
}
