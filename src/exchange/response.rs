//! The response's way back: the operation id under its public name, nothing that names the backend, and what became of
//! the key (DESIGN section 6).

use super::{Effect, Exchange, Map};
use crate::headers::Headers;
use crate::policy::Policy;
use crate::telemetry::Outcome;
use std::borrow::Cow;

/// Says that an answer was given before.
const REPLAYED: &str = "idempotent-replayed";
/// Says what became of the key.
const STATUS: &str = "idempotency-status";
/// Restate's one sign that an answer comes from its store.
const EXPIRES: &[u8] = b"idempotency-expires";
/// Who made an error, the ingress or the handler.
const ERROR_SOURCE: &[u8] = b"x-restate-error-source";

impl Exchange {
    /// The response's headers have come. The filter's own replies pass here too, and pass unchanged.
    pub fn response_headers<'a>(&mut self, policy: &'a Policy, headers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        if self.refusal.is_some() {
            return;
        }
        let (mut operation, mut replayed, mut by_ingress) = (None, false, false);
        let mut removed: Vec<&[u8]> = Vec::new();
        for (name, value) in headers.iter() {
            match name {
                EXPIRES => replayed = true,
                ERROR_SOURCE => by_ingress = value == b"ingress",
                _ => {}
            }
            let is_operation = policy.operation_id.as_ref().is_some_and(|id| id.from.as_bytes() == name);
            if is_operation {
                operation = Some(value);
            }
            // Only the filter speaks of keys where it knows the backend's own signs.
            let is_mark = policy.restate && (name == REPLAYED.as_bytes() || name == STATUS.as_bytes());
            if (is_operation || is_mark || policy.hide.contains(name)) && !removed.contains(&name) {
                removed.push(name);
                effects.push(Effect::Remove { map: Map::Response, name });
            }
        }
        let mut set =
            |name: &'a str, value: Cow<'a, [u8]>| effects.push(Effect::Set { map: Map::Response, name, value });
        if let (Some(value), Some(id)) = (operation, &policy.operation_id) {
            self.invocation = Some(String::from_utf8_lossy(value).into_owned());
            set(&id.to, Cow::Borrowed(value));
        }
        if !(policy.restate && self.keyed) {
            return;
        }
        let one_way = self.route.and_then(|id| policy.route(id)).is_some_and(|route| route.one_way);
        let status = if replayed {
            set(REPLAYED, Cow::Borrowed(b"true"));
            self.outcome = Outcome::Replayed;
            "replayed"
        } else if operation.is_none() || by_ingress {
            return;
        } else if one_way {
            "processing"
        } else {
            self.outcome = Outcome::Stored;
            "stored"
        };
        set(STATUS, Cow::Borrowed(status.as_bytes()));
    }
}
