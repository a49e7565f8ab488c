//! What is checked of an answer in many steps.

use harness::http::Reply;

use crate::narrator::{Narrator, Told, key};

/// What a fresh execution under a key looks like.
pub(super) fn check_stored(narrator: &mut Narrator<'_>, told: &Told, namespaced: &str, effects: u64) {
    narrator.check("status", 200, told.reply.status);
    check_kept(narrator, told, namespaced, effects);
}

/// The same, whatever the status.
pub(super) fn check_kept(narrator: &mut Narrator<'_>, told: &Told, namespaced: &str, effects: u64) {
    narrator.check("Idempotency-Status", "stored", header(&told.reply, "idempotency-status"));
    narrator.check("key at Restate", namespaced, stored_key(told));
    narrator.check("effects", effects, told.backend.effects);
}

/// What a replay of `first` looks like.
pub(super) fn check_replayed(narrator: &mut Narrator<'_>, told: &Told, first: &Reply, effects: u64) {
    narrator.check("status", first.status, told.reply.status);
    narrator.check("Idempotent-Replayed", "true", header(&told.reply, "idempotent-replayed"));
    let operation = first.header("x-operation-id").unwrap_or("the first call's");
    narrator.check("X-Operation-Id", operation, header(&told.reply, "x-operation-id"));
    narrator.check("same body", true, told.reply.body == first.body);
    narrator.check("handler runs", 0, told.backend.runs.len());
    narrator.check("effects", effects, told.backend.effects);
}

/// What a refusal looks like: the code, and nothing behind the gateway.
pub(super) fn check_refused(narrator: &mut Narrator<'_>, told: &Told, status: u16, code: &str) {
    narrator.check("status", status, told.reply.status);
    narrator.check("code", code, told.reply.code());
    narrator.check("reached the backend", 0, told.backend.new.len() + told.backend.runs.len());
}

pub(super) fn header<'a>(reply: &'a Reply, name: &str) -> &'a str {
    reply.header(name).unwrap_or("-")
}

pub(super) fn stored_key(told: &Told) -> String {
    match told.backend.new.as_slice() {
        [one] => key(one).to_owned(),
        other => format!("{} new invocations", other.len()),
    }
}
