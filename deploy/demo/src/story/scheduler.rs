//! The steps with the platform's own scheduler: it has no token and signs its requests.

use anyhow::Result;
use harness::scheduler::Dispatch;
use serde_json::json;

use super::checks::{check_refused, check_replayed, check_stored};
use crate::callers::ALICE;
use crate::narrator::Narrator;

const REPORT: &str = "monthly-usage";
const MINUTE: u64 = 60;

/// Tells them all.
pub(super) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    let secret = narrator.senders().scheduler.clone();
    let dispatch = Dispatch {
        schedule: "nightly-report",
        due_ms: 1_793_000_000_000,
        tenant: "acme",
        project: "health-prod",
        body: json!({"report": REPORT}),
    };

    narrator.step("The scheduler runs a report");
    let first = narrator.deliver("the scheduler", dispatch.signed(&secret, MINUTE), Some(REPORT)).await?;
    narrator.why(
        "It has no token. Its signature covers the whole request, so tenant and project are its word, and the key may name \
         the run: the schedule, and when it was due.",
    );
    check_stored(narrator, &first, &dispatch.namespaced(), 1);
    for (name, expected) in [("x-subject", "service:scheduler"), ("x-schedule-signature", "-")] {
        let seen = first.backend.runs.first().and_then(|run| run.header(name)).unwrap_or("-").to_owned();
        narrator.check(&format!("{name} at the handler"), expected, seen);
    }

    narrator.step("The scheduler was restarted and dispatches it again");
    let again = narrator.deliver("the scheduler", dispatch.signed(&secret, 0), Some(REPORT)).await?;
    narrator.why("Signed anew, but the same run and so the same key. The report's handler has no code for this.");
    check_replayed(narrator, &again, &first.reply, 1);

    narrator.step("Somebody sends the dispatch to another tenant");
    let mut moved = dispatch.signed(&secret, 0);
    for (name, value) in &mut moved.headers {
        if name == "X-Tenant-Id" {
            *value = b"globex".to_vec();
        }
    }
    let moved = narrator.deliver("somebody who recorded it", moved, Some(REPORT)).await?;
    narrator.why("The tenant is part of what was signed.");
    check_refused(narrator, &moved, 401, "signature_invalid");

    narrator.step("A user sends the scheduler's key");
    let unsigned = narrator.tell(Some(&ALICE), dispatch.unsigned(), Some(REPORT)).await?;
    narrator.why("Without a signature it is an ordinary request, and no client's key holds a colon.");
    check_refused(narrator, &unsigned, 400, "idempotency_key_invalid");
    narrator.check("effects", 1, unsigned.backend.effects);
    Ok(())
}
