//! The steps, in the order in which they build on each other.

use anyhow::Result;
use harness::http::{Reply, Request};
use serde_json::{Value, json};

use super::checks::{check_kept, check_refused, check_replayed, check_stored, header, stored_key};
use super::{lookups, operations, own_api, promises, recovery, scheduler, webhooks};
use crate::callers::{ALICE, ALICE_BILLING, ALICE_GLOBEX, BOB, Caller};
use crate::narrator::{Narrator, Told};
use crate::style::say;

const REFUNDS: &str = "/api/v1/refunds";
const MESSAGES: &str = "/api/v1/conversations/send-message";
const DEVICES: &str = "/api/v1/notifications/devices";
const CAPTURE: &str = "/api/v1/orders/order-77/capture";
const CAPTURE_LOST: &str = "/api/v1/orders/order-78/capture";
const PROJECTS: &str = "/api/v1/projects";
const CHECKOUT: &str = "/api/v1/carts/c-42/checkout";
const ORDER_OF_CART: &str = "/api/v1/carts/c-42/orders/1";

const RAW: &str = "refund-1001";
const ORDER: &str = "order-1001";
const BURST: usize = 20;

/// Tells them all. An error means that the stack itself failed; a wrong answer is a row of the table.
pub(crate) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    let first = first_call(narrator).await?;
    retries(narrator, &first).await?;
    other_requests(narrator, &first).await?;
    other_callers(narrator, &first).await?;
    refusals(narrator).await?;
    internal_dedup(narrator).await?;
    third_party(narrator).await?;
    cart(narrator).await?;
    direct_hits(narrator).await?;
    spoofed_identity(narrator).await?;
    burst(narrator).await?;
    recovery::tell(narrator).await?;
    operations::tell(narrator).await?;
    webhooks::tell(narrator).await?;
    scheduler::tell(narrator).await?;
    lookups::tell(narrator).await?;
    promises::tell(narrator).await?;
    nothing_leaks(narrator);
    own_api::tell(narrator).await
}

fn refund(key: &str) -> Request {
    Request::post(REFUNDS).header("Idempotency-Key", key).json(&json!({"order_id": ORDER, "amount": 4200}))
}

fn message() -> Request {
    Request::post(MESSAGES).json(&json!({"conversation_id": "c-7", "text": "hello"}))
}

async fn first_call(narrator: &mut Narrator<'_>) -> Result<Reply> {
    narrator.step("A first call");
    let told = narrator.tell(Some(&ALICE), refund(RAW), Some(ORDER)).await?;
    narrator.why(
        "The key is Alice's own now: tenant, project and user stand before it, taken from her verified token. The \
         refund was made once, and its result is stored under that name.",
    );
    check_stored(narrator, &told, &ALICE.namespaced(RAW), 1);
    Ok(told.reply)
}

async fn retries(narrator: &mut Narrator<'_>, first: &Reply) -> Result<()> {
    narrator.step("Alice's network failed, she retries");
    let told = narrator.tell(Some(&ALICE), refund(RAW), Some(ORDER)).await?;
    narrator.why(
        "Same caller, same key, so the same namespaced key: Restate gave the stored result, the handler never knew, \
         and the money left once. The answer says that it is a replay.",
    );
    check_replayed(narrator, &told, first, 1);

    narrator.step("The same key in quotes");
    let told = narrator.tell(Some(&ALICE), refund(&format!("\"{RAW}\"")), Some(ORDER)).await?;
    narrator.why(
        "The IETF draft writes the key as a quoted string, most clients write it bare. Both mean the same key, so this \
         is a replay too; to Restate alone the quotes would have made it another key, and a second refund.",
    );
    check_replayed(narrator, &told, first, 1);
    Ok(())
}

async fn other_requests(narrator: &mut Narrator<'_>, first: &Reply) -> Result<()> {
    narrator.step("The same key with another amount");
    let other = Request::post(REFUNDS).header("Idempotency-Key", RAW).json(&json!({"order_id": ORDER, "amount": 9900}));
    let told = narrator.tell(Some(&ALICE), other, Some(ORDER)).await?;
    narrator.why(
        "Restate compares only keys: Alice would have taken the first refund's answer for the answer to this request. The \
         guard remembers what the first request was, and the filter refuses another one (`\"collision\": \"enforce\"`).",
    );
    check_refused(narrator, &told, 422, "idempotency_key_reused");
    narrator.check("effects", 1, told.backend.effects);

    narrator.step("The same request, written in another way");
    let body = format!("{{ \"amount\": 4200, \"order_id\": \"{ORDER}\" }}");
    let same =
        Request::post(REFUNDS).header("Idempotency-Key", RAW).header("content-type", "application/json").body(body);
    let told = narrator.tell(Some(&ALICE), same, Some(ORDER)).await?;
    narrator.why("The route compares canonical JSON, in which the order of members and space do not count.");
    check_replayed(narrator, &told, first, 1);
    Ok(())
}

async fn other_callers(narrator: &mut Narrator<'_>, first: &Reply) -> Result<()> {
    let others: [(&str, Caller, &str); 3] = [
        (
            "The same raw key from another user",
            BOB,
            "Without the filter Bob would have been given Alice's refund, and his own would never have been made.",
        ),
        (
            "The same raw key from another project",
            ALICE_BILLING,
            "The same person in another project is another caller: projects share nothing.",
        ),
        (
            "The same raw key from another tenant",
            ALICE_GLOBEX,
            "Another customer, whose user happens to be called alice as well and happens to use the same key.",
        ),
    ];
    for (effects, (title, caller, why)) in (2..).zip(others) {
        narrator.step(title);
        let told = narrator.tell(Some(&caller), refund(RAW), Some(ORDER)).await?;
        narrator.why(why);
        check_stored(narrator, &told, &caller.namespaced(RAW), effects);
        let differs = told.reply.header("x-operation-id") != first.header("x-operation-id");
        narrator.check("an operation of its own", true, differs);
    }
    Ok(())
}

async fn refusals(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("No key where one is required");
    let told = narrator.tell(Some(&ALICE), message(), Some("c-7")).await?;
    narrator.why("This endpoint's policy is REQUIRED_A. The answer says what is missing and what to do about it.");
    check_refused(narrator, &told, 400, "idempotency_key_required");

    narrator.step("A malformed key");
    let malformed = message().header("Idempotency-Key", "hello world!");
    let told = narrator.tell(Some(&ALICE), malformed, Some("c-7")).await?;
    narrator.why(
        "A space and `!` are outside the key alphabet. The key is refused, never repaired: two keys repaired into one \
         would share a result.",
    );
    check_refused(narrator, &told, 400, "idempotency_key_invalid");

    narrator.step("A key that pretends to be namespaced");
    let forged = message().header("Idempotency-Key", "t-acme:health-prod:user:bob:refund-1001");
    let told = narrator.tell(Some(&ALICE), forged, Some("c-7")).await?;
    narrator.why("Alice may not name Bob's key: what the filter makes can never come from a client.");
    check_refused(narrator, &told, 400, "idempotency_key_invalid");

    narrator.step("A key where none is allowed");
    let told = narrator.tell(Some(&ALICE), Request::get(PROJECTS).header("Idempotency-Key", "list-1"), None).await?;
    narrator.why("A list is read anew each time (PROHIBITED): a stored answer would be an old one.");
    check_refused(narrator, &told, 400, "idempotency_key_prohibited");

    narrator.step("The same without a key");
    let told = narrator.tell(Some(&ALICE), Request::get(PROJECTS), None).await?;
    narrator.why("Without a key the list is simply forwarded.");
    narrator.check("status", 200, told.reply.status);
    narrator.check("handler runs", 1, told.backend.runs.len());
    narrator.check("key at Restate", "none", stored_key(&told));

    narrator.step("No token");
    let told = narrator.tell(None, refund(RAW), Some(ORDER)).await?;
    narrator.why("Envoy's own authentication refuses it before the filter is asked: without identity there is no key.");
    narrator.check("status", 401, told.reply.status);
    narrator.check("reached the backend", 0, told.backend.new.len() + told.backend.runs.len());
    Ok(())
}

async fn internal_dedup(narrator: &mut Narrator<'_>) -> Result<()> {
    let device = "acme/health-prod/phone-5";
    let request = || {
        let body = json!({"device_token": "phone-5"});
        Request::post(DEVICES).header("Idempotency-Key", "device-1").json(&body)
    };
    narrator.step("A key on an endpoint that deduplicates by itself");
    let told = narrator.tell(Some(&ALICE), request(), Some(device)).await?;
    narrator.why(
        "Case C: this handler has a unique constraint on the device, so it needs no key. The client's key is removed \
         unread, and Restate never sees it.",
    );
    narrator.check("status", 200, told.reply.status);
    narrator.check("key at Restate", "none", stored_key(&told));
    narrator.check("effects", 1, told.backend.effects);

    narrator.step("… and once more");
    let told = narrator.tell(Some(&ALICE), request(), Some(device)).await?;
    narrator.why("The handler ran again, as it should, and found the device registered: one effect, by its own doing.");
    narrator.check("status", 200, told.reply.status);
    narrator.check("handler runs", 1, told.backend.runs.len());
    narrator.check("duplicate, says the handler", true, duplicate(&told));
    narrator.check("effects", 1, told.backend.effects);
    Ok(())
}

async fn third_party(narrator: &mut Narrator<'_>) -> Result<()> {
    let order = "acme:health-prod:order-77";
    let capture = |lost: u32| Request::post(CAPTURE).json(&json!({"amount": 4200, "lost_answers": lost}));
    narrator.step("A payment at a third party, whose answer gets lost");
    let told = narrator.tell(Some(&ALICE), capture(1), Some(order)).await?;
    narrator.why(
        "Case C again: an order is captured once. The handler sends the payment provider a token that is made of the handler's \
         own key, so when Restate repeats the lost call the provider sees the same token, and charges once.",
    );
    narrator.check("status", 200, told.reply.status);
    narrator.check("duplicate, says the handler", false, duplicate(&told));
    narrator.check("charges", 1, told.backend.effects);

    narrator.step("… and every answer gets lost, so that the client tries again");
    let order = "acme:health-prod:order-78";
    let capture = || Request::post(CAPTURE_LOST).json(&json!({"amount": 4200, "lost_answers": 3}));
    let lost = narrator.tell(Some(&ALICE), capture(), Some(order)).await?;
    let told = narrator.tell(Some(&ALICE), capture(), Some(order)).await?;
    narrator.why(
        "Restate gave up after three attempts, and nobody knew whether the charge was made. The client's retry runs the handler \
         again; the token is still the same, and so is the charge.",
    );
    narrator.check("status of the first", 500, lost.reply.status);
    narrator.check("status of the second", 200, told.reply.status);
    narrator.check("charges", 1, told.backend.effects);
    Ok(())
}

/// Whether the handler says that it had done the work before.
fn duplicate(told: &Told) -> Value {
    told.reply.json().get("duplicate").cloned().unwrap_or_default()
}

async fn cart(narrator: &mut Narrator<'_>) -> Result<()> {
    let request = || Request::post(CHECKOUT).header("Idempotency-Key", "checkout-1").json(&json!({"total": 9900}));
    let target = |caller: &Caller| format!("Cart/{}:{}:c-42/checkout", caller.tenant, caller.project);

    narrator.step("A cart's checkout, with a key");
    let first = narrator.tell(Some(&ALICE), request(), Some("acme:health-prod:c-42")).await?;
    narrator.why(
        "The cart is a virtual object, one at a time per cart. The gateway puts tenant and project into the object's \
         key from the token, so `c-42` is this tenant's cart c-42. The route's `answer` says what a success looks like: 201, \
         and where the order is.",
    );
    check_kept(narrator, &first, &ALICE.namespaced("checkout-1"), 1);
    narrator.check("target at Restate", target(&ALICE), target_of(&first));
    // Restate answers every success with 200; the route's `answer` says what the API promises.
    narrator.check("status", 201, first.reply.status);
    narrator.check("Location", ORDER_OF_CART, header(&first.reply, "location"));

    narrator.step("The checkout again");
    let told = narrator.tell(Some(&ALICE), request(), Some("acme:health-prod:c-42")).await?;
    narrator
        .why("Keys work on objects as on services: the order was placed once. Status and Location are the same, too.");
    check_replayed(narrator, &told, &first.reply, 1);
    narrator.check("Location", ORDER_OF_CART, header(&told.reply, "location"));

    narrator.step("The same cart number at another tenant");
    let told = narrator.tell(Some(&ALICE_GLOBEX), request(), Some("globex:health-prod:c-42")).await?;
    narrator.why("Another object altogether, with its own first order.");
    narrator.check("status", 201, told.reply.status);
    check_kept(narrator, &told, &ALICE_GLOBEX.namespaced("checkout-1"), 1);
    narrator.check("target at Restate", target(&ALICE_GLOBEX), target_of(&told));
    Ok(())
}

fn target_of(told: &Told) -> String {
    told.backend.new.iter().map(|invocation| invocation.target.as_str()).collect::<Vec<_>>().join(", ")
}

async fn direct_hits(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("Around the filter: the backend's own paths");
    let body = json!({"order_id": ORDER, "amount": 4200});
    let post = |path: &str| Request::post(path).header("Idempotency-Key", "mine").json(&body);
    let result = Request::get(&format!("/restate/invocation/Refunds/create/{}/output", ALICE.namespaced(RAW)));
    let hits = [
        ("the service", post("/Refunds/create")),
        ("… with the mark", post("/Refunds/create").header("X-Edge-Idempotency", "1")),
        ("… by way of ..", post("/api/../Refunds/create")),
        ("Restate's call path", post("//restate/call/Refunds/create")),
        ("the guard", post("/IdempotencyGuard/claim")),
        ("Alice's stored result", result.clone()),
        ("Restate's health", Request::get("/restate/health")),
    ];
    for (what, request) in hits {
        let reply = narrator.probe(Some(&BOB), request).await?;
        narrator.check(what, "404 not_found", format!("{} {}", reply.status, reply.code()));
    }
    let backend = narrator.look(Some(ORDER), None).await?;
    narrator.why(
        "Only what the filter has rewritten has a route to the backend, and only the filter can set the header that the \
         route asks for. Restate itself answers whoever reaches it: the table shows that it would have given away Alice's \
         stored result.",
    );
    narrator.check("reached the backend", 0, backend.new.len() + backend.runs.len());
    narrator.check("effects", 4, backend.effects);
    let told = narrator.past_the_gateway(&result).await?;
    narrator.check("Alice's result, past the gateway", 200, told.status);
    Ok(())
}

async fn spoofed_identity(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("A client that claims to be somebody else");
    let request = message()
        .header("Idempotency-Key", "message-1")
        .header("X-Tenant-Id", "globex")
        .header("X-Subject", "user:bob")
        .header("X_Project_Id", "billing");
    let told = narrator.tell(Some(&ALICE), request, Some("c-7")).await?;
    narrator.why(
        "Identity headers that come in are removed, however they are spelt, and set anew from the token: the handler saw \
         Alice, and the key is hers.",
    );
    check_stored(narrator, &told, &ALICE.namespaced("message-1"), 1);
    for (name, expected) in [("x-tenant-id", "acme"), ("x-project-id", "health-prod"), ("x-subject", "user:alice")] {
        let seen = told.backend.runs.iter().map(|run| {
            let values = run.headers.iter().filter(|(header, _)| header.replace('_', "-") == name);
            values.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
        });
        narrator.check(&format!("{name} at the handler"), expected, seen.collect::<Vec<_>>().join("; "));
    }
    Ok(())
}

async fn burst(narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.step("Twenty at once with one key");
    let body = json!({"order_id": "order-2002", "amount": 100, "provider_ms": 300});
    let request = Request::post(REFUNDS).header("Idempotency-Key", "refund-2002").json(&body);
    let replies = narrator.burst(&ALICE, request, BURST).await?;
    let right = replies.iter().filter(|reply| reply.status == 200).count();
    let replays = replies.iter().filter(|reply| reply.header("idempotent-replayed").is_some()).count();
    let distinct = |of: fn(&Reply) -> String| {
        let mut all: Vec<_> = replies.iter().map(of).collect();
        all.sort();
        all.dedup();
        all.len()
    };
    let operations = distinct(|reply| header(reply, "x-operation-id").to_owned());
    let bodies = distinct(Reply::text);
    say(format!(
        "  came back  {right} times HTTP 200, {operations} operation id, {bodies} body, {replays} replay marks"
    ));
    let operation = replies.first().and_then(|reply| reply.header("x-operation-id"));
    let backend = narrator.look(Some("order-2002"), operation).await?;
    narrator.why(
        "The first began the refund; whoever came while it was under way waited for the same result. A replay mark is for \
         a result that was stored before.",
    );
    narrator.check("answers with 200", BURST, right);
    narrator.check("operations", 1, operations);
    narrator.check("different bodies", 1, bodies);
    narrator.check("handler runs", 1, backend.runs.len());
    narrator.check("effects", 1, backend.effects);
    Ok(())
}

fn nothing_leaks(narrator: &mut Narrator<'_>) {
    narrator.step("What clients learnt about the backend");
    let (answers, leaks) = narrator.leaks();
    say(format!(
        "  seen       of {answers} answers, {leaks} named the backend: x-restate-*, its CORS headers, its error bodies"
    ));
    narrator.why("Restate's id goes out as X-Operation-Id; everything else that names the backend stays inside.");
    narrator.check("answers that name it", 0, leaks);
}
