//! The steps after a lost answer: its caller asks for it by the key, others who know the key get nothing.

use anyhow::Result;
use edge_idempotency_demo::http::{Reply, Request};
use serde_json::json;

use crate::people::{ALICE, ALICE_BILLING, ALICE_GLOBEX, BOB, Person};
use crate::teller::{Teller, Told};

const KEY: &str = "refund-3003";
const ORDER: &str = "order-3003";
/// Long enough that the work is still under way when it is first asked for.
const PROVIDER_MS: u64 = 2000;

/// Tells them all.
pub(super) async fn tell(teller: &mut Teller<'_>) -> Result<()> {
    lost_answer(teller).await?;
    others(teller).await
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

async fn lost_answer(teller: &mut Teller<'_>) -> Result<()> {
    teller.step("An answer that gets lost");
    let body = json!({"order_id": ORDER, "amount": 4200, "provider_ms": PROVIDER_MS});
    let request = Request::post("/api/v1/refunds").header("Idempotency-Key", KEY).json(&body);
    teller.give_up(&ALICE, request).await?;
    let backend = teller.look(Some(ORDER), None).await?;
    teller.why("Alice's connection broke while the refund was being made. The work goes on without her.");
    teller.check("new at Restate", 1, backend.new.len());
    teller.check("handler runs", 1, backend.runs.len());

    teller.step("Alice asks what became of it");
    let told = teller.tell(Some(&ALICE), output_of(KEY), Some(ORDER)).await?;
    teller.why("She knows her key, and that is enough: the work is still under way. Nothing was begun anew.");
    teller.check("status", 202, told.reply.status);
    teller.check("Idempotency-Status", "processing", header(&told.reply, "idempotency-status"));
    teller.check("Retry-After", true, told.reply.header("retry-after").is_some());
    teller.check("handler runs", 0, told.backend.runs.len());

    teller.step("… and waits for the result");
    let told = teller.tell(Some(&ALICE), result_of(KEY), Some(ORDER)).await?;
    teller.why(
        "The same answer that the first call would have had, and one refund. A retry with the key gets it as well.",
    );
    teller.check("status", 200, told.reply.status);
    teller.check("Idempotency-Status", "completed", header(&told.reply, "idempotency-status"));
    teller.check("Idempotent-Replayed", "true", header(&told.reply, "idempotent-replayed"));
    let order = told.reply.json().get("order_id").cloned().unwrap_or_default();
    teller.check("the order", json!(ORDER), order);
    teller.check("handler runs", 0, told.backend.runs.len());
    teller.check("effects", 1, told.backend.effects);
    Ok(())
}

async fn others(teller: &mut Teller<'_>) -> Result<()> {
    teller.step("Somebody else of her project who knows the key");
    let told = teller.tell(Some(&BOB), output_of(KEY), None).await?;
    let unused = teller.probe(Some(&BOB), output_of("refund-9999")).await?;
    teller.why(
        "The key in the path gets the namespace of whoever asks, so Bob has asked for a key of his own. The answer is, \
         byte for byte, that for a key which nobody ever used.",
    );
    check_unknown(teller, &told);
    teller.check("as for an unused key", true, told.reply.body == unused.body && told.reply.status == unused.status);

    let elsewhere: [(&str, Person); 2] =
        [("Alice, in another project", ALICE_BILLING), ("An alice of another tenant", ALICE_GLOBEX)];
    for (title, person) in elsewhere {
        teller.step(title);
        let told = teller.tell(Some(&person), result_of(KEY), None).await?;
        teller.why("Tenant and project are in the namespace as well.");
        check_unknown(teller, &told);
        teller.check("as for an unused key", true, told.reply.body == unused.body);
    }
    Ok(())
}

fn check_unknown(teller: &mut Teller<'_>, told: &Told) {
    teller.check("status", 404, told.reply.status);
    teller.check("code", "idempotency_key_unknown", told.reply.code());
    teller.check("X-Operation-Id", "-", header(&told.reply, "x-operation-id"));
    teller.check("new at Restate", 0, told.backend.new.len());
}
