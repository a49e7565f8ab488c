//! The steps with work that is not waited for: its caller asks for the answer by the operation's id, others get nothing.

use anyhow::Result;
use harness::http::{Reply, Request};
use serde_json::json;

use crate::callers::{ALICE, ALICE_GLOBEX};
use crate::narrator::Narrator;

const EXPORTS: &str = "/api/v1/exports";
const REPORT: &str = "refunds-of-2026";

/// Tells them all.
pub(super) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("Work that nobody waits for");
    let order = Request::post(EXPORTS).json(&json!({"report": REPORT}));
    let begun = narrator.tell(Some(&ALICE), order, None).await?;
    narrator.why(
        "The route is `one_way`: the work is accepted, and its answer comes later. Location says where to ask for it. The \
         request had no key, so the operation's id is all that Alice needs; the tag behind the dot belongs to her.",
    );
    let location = header(&begun.reply, "location");
    narrator.check("status", 202, begun.reply.status);
    narrator.check(
        "status in the body",
        "\"processing\"",
        begun.reply.json().get("status").cloned().unwrap_or_default(),
    );
    let operation = header(&begun.reply, "x-operation-id");
    narrator.check("Location names the operation", true, location == format!("/api/v1/operations/{operation}"));

    narrator.step("Alice asks for its result");
    let told = narrator.tell(Some(&ALICE), Request::get(&location), Some(REPORT)).await?;
    narrator.why("The filter keeps no list of operations: it sees by the tag that this one is Alice's.");
    narrator.check("status", 200, told.reply.status);
    narrator.check("Idempotency-Status", "completed", header(&told.reply, "idempotency-status"));
    narrator.check("X-Operation-Id", &operation, header(&told.reply, "x-operation-id"));
    narrator.check("the report", json!(REPORT), told.reply.json().get("report").cloned().unwrap_or_default());
    narrator.check("effects", 1, told.backend.effects);

    narrator.step("An alice of another tenant with the operation's id");
    let told = narrator.tell(Some(&ALICE_GLOBEX), Request::get(&location), None).await?;
    let unused = narrator.probe(Some(&ALICE_GLOBEX), Request::get("/api/v1/operations/inv_none")).await?;
    narrator.why("The tag is another caller's, so the answer is that for an id which nobody ever got.");
    narrator.check("status", 404, told.reply.status);
    narrator.check("code", "operation_unknown", told.reply.code());
    narrator.check("as for an unused id", told.reply.code(), unused.code());
    Ok(())
}

fn header(reply: &Reply, name: &str) -> String {
    reply.header(name).unwrap_or("-").to_owned()
}
