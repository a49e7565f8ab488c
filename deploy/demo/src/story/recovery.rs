//! The steps after a lost answer: its caller asks for it by the key, others who know the key get nothing.

use anyhow::Result;
use harness::http::{Reply, Request};
use serde_json::{Value, json};

use crate::callers::{ALICE, ALICE_BILLING, ALICE_GLOBEX, BOB, Caller};
use crate::narrator::{Narrator, Told};

const KEY: &str = "refund-3003";
const ORDER: &str = "order-3003";
/// Long enough that the work is still under way when it is first asked for.
const PROVIDER_MS: u64 = 2000;

/// Tells them all.
pub(super) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    lost_answer(narrator).await?;
    others(narrator).await
}

fn result_of(key: &str) -> Request {
    Request::get(&format!("/api/v1/refunds/by-idempotency-key/{key}"))
}

fn output_of(key: &str) -> Request {
    Request::get(&format!("/api/v1/refunds/by-idempotency-key/{key}/output"))
}

fn header(reply: &Reply, name: &str) -> String {
    reply.header(name).unwrap_or("-").to_owned()
}

async fn lost_answer(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("An answer that gets lost");
    let body = json!({"order_id": ORDER, "amount": 4200, "provider_ms": PROVIDER_MS});
    let request = Request::post("/api/v1/refunds").header("Idempotency-Key", KEY).json(&body);
    narrator.give_up(&ALICE, request).await?;
    let backend = narrator.look(Some(ORDER), None).await?;
    narrator.why("Alice's connection broke while the refund was being made. The work goes on without her.");
    narrator.check("new at Restate", 1, backend.new.len());
    narrator.check("handler runs", 1, backend.runs.len());

    narrator.step("Alice asks what became of it");
    let told = narrator.tell(Some(&ALICE), output_of(KEY), Some(ORDER)).await?;
    narrator.why("She knows her key, and that is enough: the work is still under way. Nothing was begun anew.");
    narrator.check("status", 202, told.reply.status);
    narrator.check("Idempotency-Status", "processing", header(&told.reply, "idempotency-status"));
    narrator.check("Retry-After", true, told.reply.header("retry-after").is_some());
    narrator.check("handler runs", 0, told.backend.runs.len());

    narrator.step("… and waits for the result");
    let told = narrator.tell(Some(&ALICE), result_of(KEY), Some(ORDER)).await?;
    narrator.why(
        "The same answer that the first call would have had, and one refund. A retry with the key gets it as well.",
    );
    narrator.check("status", 200, told.reply.status);
    narrator.check("Idempotency-Status", "completed", header(&told.reply, "idempotency-status"));
    narrator.check("Idempotent-Replayed", "true", header(&told.reply, "idempotent-replayed"));
    let order = told.reply.json().get("order_id").cloned().unwrap_or_default();
    narrator.check("the order", json!(ORDER), order);
    narrator.check("handler runs", 0, told.backend.runs.len());
    narrator.check("effects", 1, told.backend.effects);
    Ok(())
}

async fn others(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("Somebody else of her project who knows the key");
    let told = narrator.tell(Some(&BOB), output_of(KEY), None).await?;
    let unused = narrator.probe(Some(&BOB), output_of("refund-9999")).await?;
    narrator.why(
        "The key in the path gets the namespace of whoever asks, so Bob has asked for a key of his own. The answer is \
         that for a key which nobody ever used, but for the id of the request.",
    );
    check_unknown(narrator, &told);
    narrator.check("as for an unused key", true, without_id(&told.reply) == without_id(&unused));

    let elsewhere: [(&str, Caller); 2] =
        [("Alice, in another project", ALICE_BILLING), ("An alice of another tenant", ALICE_GLOBEX)];
    for (title, caller) in elsewhere {
        narrator.step(title);
        let told = narrator.tell(Some(&caller), result_of(KEY), None).await?;
        narrator.why("Tenant and project are in the namespace as well.");
        check_unknown(narrator, &told);
        narrator.check("as for an unused key", true, without_id(&told.reply) == without_id(&unused));
    }
    Ok(())
}

/// Status and problem document, without the id of the request.
fn without_id(reply: &Reply) -> (u16, Value) {
    let mut problem = reply.json();
    problem.as_object_mut().and_then(|members| members.remove("instance"));
    (reply.status, problem)
}

fn check_unknown(narrator: &mut Narrator<'_>, told: &Told) {
    narrator.check("status", 404, told.reply.status);
    narrator.check("code", "idempotency_key_unknown", told.reply.code());
    narrator.check("X-Operation-Id", "-", header(&told.reply, "x-operation-id"));
    narrator.check("new at Restate", 0, told.backend.new.len());
}
