//! The steps in which a handler waits for a third party, whose webhook completes what waits for it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::http::{Reply, Request};
use harness::senders::{LOOKED_UP, stripe};
use serde_json::{Value, json};

use super::checks::header;
use crate::callers::{ALICE, ALICE_GLOBEX};
use crate::narrator::{Narrator, Told};

const PURCHASES: &str = "/api/v1/purchases";
const ACME: &str = "/webhooks/stripe/wh_01JSTRIPE/purchases";

const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Tells them all.
pub(super) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    webhook_completes(narrator).await?;
    webhook_is_first(narrator).await?;
    for_nobody(narrator).await?;
    of_another_tenant(narrator).await?;
    after_its_time(narrator).await
}

fn purchase(key: &str, charge: &str, ttl_s: u64) -> Request {
    Request::post(PURCHASES).header("Idempotency-Key", key).json(&json!({"charge": charge, "ttl_s": ttl_s}))
}

fn promise(charge: &str) -> Request {
    Request::get(&format!("/api/v1/promises/key:stripe:{charge}"))
}

/// Stripe's signed event about a charge.
fn event(narrator: &Narrator<'_>, id: &str, kind: &str, charge: &str) -> Request {
    let body = json!({"id": id, "type": kind, "data": {"object": {"id": charge, "amount": 4200}}});
    Request { path: ACME.to_owned(), ..stripe(0, &[&narrator.senders().stripe], &body) }
}

/// A member of an answer.
fn told(reply: &Reply, pointer: &str) -> Value {
    reply.json().pointer(pointer).cloned().unwrap_or_default()
}

/// Waits until a promise of acme is in this state, past the gateway, so that the story is not filled with questions.
async fn until(narrator: &Narrator<'_>, charge: &str, state: Option<&str>) -> Result<()> {
    let request = Request::get(&format!("/restate/call/Promises/acme:health-prod:stripe:{charge}/get"));
    let start = Instant::now();
    while told(&narrator.past_the_gateway(&request).await?, "/state").as_str() != state {
        ensure!(start.elapsed() < PATIENCE, "the promise for {charge} does not become {state:?}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Asks for the result of a purchase, and waits for it.
async fn result(narrator: &mut Narrator<'_>, begun: &Told, charge: &str) -> Result<Told> {
    let location = header(&begun.reply, "location").to_owned();
    narrator.tell(Some(&ALICE), Request::get(&location), Some(charge)).await
}

async fn webhook_completes(narrator: &mut Narrator<'_>) -> Result<()> {
    let charge = "ch_7001";
    narrator.step("A purchase that a third party settles");
    let begun = narrator.tell(Some(&ALICE), purchase("purchase-7001", charge, 3600), None).await?;
    until(narrator, charge, Some("waiting")).await?;
    let waiting = narrator.tell(Some(&ALICE), promise(charge), Some(charge)).await?;
    narrator.why(
        "The handler has charged the card, and waits for what Stripe will say of ch_7001. It costs nothing meanwhile. What \
         waits has a key of acme's, and an id; by neither can anybody get at the handler itself.",
    );
    narrator.check("status", 202, begun.reply.status);
    narrator.check("state of the promise", json!("waiting"), told(&waiting.reply, "/state"));
    narrator.check("effects", 1, waiting.backend.effects);

    narrator.step("Stripe says that it is paid");
    let first = event(narrator, "evt_7001", "charge.succeeded", charge);
    let delivered = narrator.deliver("Stripe", first.clone(), Some(charge)).await?;
    let paid = result(narrator, &begun, charge).await?;
    narrator.why(
        "The filter verified the signature, took the charge's id from the verified body, and called the promise of this \
         key. So the handler got the event, and its result is the purchase's.",
    );
    narrator.check("status", 200, delivered.reply.status);
    narrator.check("it was the first", json!(true), told(&delivered.reply, "/first"));
    narrator.check("status of the purchase", 200, paid.reply.status);
    narrator.check("the event that the handler got", json!("evt_7001"), told(&paid.reply, "/event/id"));

    narrator.step("Stripe sends it again, and then another event about the same charge");
    let again = narrator.deliver("Stripe", first, Some(charge)).await?;
    let other = event(narrator, "evt_7002", "charge.refunded", charge);
    let other = narrator.deliver("Stripe", other, Some(charge)).await?;
    narrator.why(
        "The same delivery is a replay. The other event comes too late: the first outcome counts, and the answer says so with \
         200, so that Stripe does not repeat it.",
    );
    narrator.check("Idempotent-Replayed", "true", header(&again.reply, "idempotent-replayed"));
    narrator.check("same body", true, again.reply.body == delivered.reply.body);
    narrator.check("status of the other", 200, other.reply.status);
    narrator.check("it was the first", json!(false), told(&other.reply, "/first"));
    narrator.check("effects", 1, other.backend.effects);
    Ok(())
}

async fn webhook_is_first(narrator: &mut Narrator<'_>) -> Result<()> {
    let charge = "ch_7003";
    narrator.step("The webhook is there before anybody waits");
    let delivery = event(narrator, "evt_7003", "charge.succeeded", charge);
    let kept = narrator.deliver("Stripe", delivery, Some(charge)).await?;
    let begun = narrator.tell(Some(&ALICE), purchase("purchase-7003", charge, 3600), None).await?;
    let paid = result(narrator, &begun, charge).await?;
    narrator.why("It is kept for a day. The handler that comes within this time gets it at once.");
    narrator.check("state", json!("kept"), told(&kept.reply, "/state"));
    narrator.check("the event that the handler got", json!("evt_7003"), told(&paid.reply, "/event/id"));
    Ok(())
}

async fn for_nobody(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("A webhook that is about nothing here");
    let body = json!({"id": "evt_7004", "type": "balance.available", "data": {"object": {"object": "balance"}}});
    let request = Request { path: ACME.to_owned(), ..stripe(0, &[&narrator.senders().stripe], &body) };
    let told = narrator.deliver("Stripe", request, None).await?;
    narrator.why(
        "The object of this event has no id. The route says `acknowledge`, so Stripe is content, and nothing was called.",
    );
    narrator.check("status", 200, told.reply.status);
    narrator.check("outcome", json!("acknowledged"), self::told(&told.reply, "/outcome"));
    narrator.check("reached the backend", 0, told.backend.new.len() + told.backend.runs.len());
    Ok(())
}

async fn of_another_tenant(narrator: &mut Narrator<'_>) -> Result<()> {
    let (charge, title) = ("ch_7005", "Another tenant's webhook about a charge of the same name");
    let [globex, ..] = LOOKED_UP;
    if narrator.openbao().is_none() {
        narrator.leave_out(title, "needs OpenBao, which holds the other tenant's secret");
        return Ok(());
    }
    narrator.step(title);
    let begun = narrator.tell(Some(&ALICE), purchase("purchase-7005", charge, 3600), None).await?;
    until(narrator, charge, Some("waiting")).await?;
    let body = json!({"id": "evt_7005", "type": "charge.succeeded", "data": {"object": {"id": charge}}});
    let secret = narrator.senders().looked_up.clone();
    let delivery = Request { path: format!("{}/purchases", globex.path()), ..stripe(0, &[&secret], &body) };
    let delivered = narrator.deliver("Stripe, for globex", delivery, Some(charge)).await?;
    let waiting = narrator.tell(Some(&ALICE), promise(charge), None).await?;
    let unseen = narrator.tell(Some(&ALICE_GLOBEX), promise(charge), None).await?;
    narrator.why(
        "Tenant and project are those of the webhook's binding, so it is about a key of globex's, where nobody waits. Alice's \
         purchase still waits, and an alice of globex does not see it.",
    );
    narrator.check("state under globex's key", json!("kept"), told(&delivered.reply, "/state"));
    narrator.check("state under acme's key", json!("waiting"), told(&waiting.reply, "/state"));
    narrator.check("status for another tenant", 404, unseen.reply.status);

    narrator.step("Somebody of acme's cancels the purchase");
    let cancel = Request::post(&format!("/api/v1/promises/key:stripe:{charge}/reject"));
    let cancel = cancel.header("Idempotency-Key", "cancel-7005").json(&json!("the customer changed her mind"));
    let cancelled = narrator.tell(Some(&ALICE), cancel, Some(charge)).await?;
    let ended = result(narrator, &begun, charge).await?;
    narrator.why("A caller of the tenant's own may complete a promise as well, with a key, as any other operation.");
    narrator.check("it was the first", json!(true), told(&cancelled.reply, "/first"));
    narrator.check("status of the purchase", 500, ended.reply.status);
    narrator.check("its message", json!("the customer changed her mind"), told(&ended.reply, "/message"));
    Ok(())
}

async fn after_its_time(narrator: &mut Narrator<'_>) -> Result<()> {
    let charge = "ch_7006";
    narrator.step("Nobody says anything");
    let begun = narrator.tell(Some(&ALICE), purchase("purchase-7006", charge, 1), None).await?;
    let expired = result(narrator, &begun, charge).await?;
    until(narrator, charge, None).await?;
    let delivery = event(narrator, "evt_7006", "charge.succeeded", charge);
    let late = narrator.deliver("Stripe, too late", delivery, Some(charge)).await?;
    narrator.why(
        "The handler wanted to wait for a second only. Then it was told, and the key was free. What comes later is kept for \
         whoever waits next.",
    );
    narrator.check("status of the purchase", 408, expired.reply.status);
    narrator.check("its message", json!("expired"), told(&expired.reply, "/message"));
    narrator.check("state of what came late", json!("kept"), told(&late.reply, "/state"));
    Ok(())
}
