//! The guard: does it keep the first fingerprint of a key?

use super::LiveCheck;
use super::upstreams::as_reply;
use crate::lint::live_list::{LIVE_GUARD, LIVE_UNREACHABLE};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edge_idempotency_engine::collision::{GuardProbe, GuardVerdict};
use edge_idempotency_engine::problem::Code;

const START_ONE: &str = "register a guard that returns its input (docs/backends.md)";

pub(super) fn check(live: &mut LiveCheck<'_>) {
    if !live.policy.needs().routes.iter().any(|route| route.collision.asks_guard()) {
        return;
    }
    let mut bytes = [0; 32];
    if let Err(error) = getrandom::fill(&mut bytes) {
        live.add(&LIVE_UNREACHABLE, "", format!("the operating system gives no random bytes: {error}"), "");
        return;
    }
    // No claim of the filter has such a key: it is a digest there, too.
    for probe in GuardProbe::all(live.policy, &URL_SAFE_NO_PAD.encode(bytes)) {
        one(live, &probe);
    }
}

/// Asks the guard of one backend.
fn one(live: &mut LiveCheck<'_>, probe: &GuardProbe) {
    let calls = probe.calls();
    let [first, _] = &calls;
    let cluster = first.cluster.as_str();
    let own = live.policy.needs().backends.iter().find(|backend| backend.cluster.as_deref() == Some(cluster));
    let at = own.map(|backend| format!("{}/guard", backend.pointer)).unwrap_or_default();
    let at = at.as_str();
    let Some(upstream) = live.upstreams.named(&first.cluster).cloned() else {
        live.not_asked(at, "the guard", &format!("--upstream {}=URL", first.cluster));
        return;
    };
    let mut replies = Vec::new();
    for call in &calls {
        match live.upstreams.send(&upstream, call, None) {
            Ok(reply) => replies.push(reply),
            Err(error) => return live.add(&LIVE_UNREACHABLE, at, format!("the guard: {error}"), ""),
        }
    }
    let [one, two] = replies.as_slice() else { return };
    match probe.verdict([as_reply(one), as_reply(two)]) {
        GuardVerdict::Keeps => live.works(at, "the guard keeps the first fingerprint of a key"),
        GuardVerdict::Forgets => live.add(
            &LIVE_GUARD,
            at,
            "the guard gives each claim its own fingerprint, so no request with a used key is noticed",
            "its handler has to be called with the header `idempotency-key`, whose first result Restate keeps; look for a proxy that \
             removes the header, and for a retention of 0",
        ),
        GuardVerdict::Invents => live.add(
            &LIVE_GUARD,
            at,
            "the guard gives a fingerprint that it did not get under this key",
            START_ONE,
        ),
        GuardVerdict::Unusable(reason) => {
            let meaning = crate::explain::explanations::of_reason(Code::DependencyUnavailable.name(), reason);
            let meaning = meaning.map(|meaning| format!(": {meaning}")).unwrap_or_default();
            let message = format!("the guard gives no usable answer (status {}, `{reason}`{meaning})", one.status);
            live.add(&LIVE_GUARD, at, message, START_ONE);
        }
    }
}
