//! The steps with webhooks that are looked up: whose they are in a registry, what they are signed with in a secret store.

use anyhow::Result;
use edge_idempotency_demo::http::Request;
use edge_idempotency_demo::senders::{LOOKED_UP, LookedUp, stripe};
use serde_json::json;

use super::steps::{check_refused, check_stored};
use crate::teller::Teller;

/// A delivery of Stripe's about a charge, signed now.
fn delivery(teller: &Teller<'_>, hook: LookedUp, charge: &str) -> Result<Request> {
    let event = json!({"id": format!("evt_{charge}"), "type": "charge.refunded", "data": {"object": {"id": charge}}});
    let path = hook.path();
    Ok(Request { path, ..stripe(0, &[&teller.senders().looked_up], &event) })
}

fn namespaced(hook: LookedUp, charge: &str) -> String {
    let LookedUp { tenant, project, provider, .. } = hook;
    format!("t-{tenant}:{project}:service:webhook-ingest:{provider}-evt_{charge}")
}

/// Tells them all; none without a secret store.
pub(super) async fn tell(teller: &mut Teller<'_>) -> Result<()> {
    let Some(openbao) = teller.openbao() else { return Ok(()) };
    let [known, cold] = LOOKED_UP;

    teller.step("A webhook that the policy does not list");
    let first = teller.deliver("Stripe", delivery(teller, known, "ch_2001")?, Some("ch_2001")).await?;
    teller.why(
        "The filter asked the registry (here a stand-in for Unkey) whose the webhook id is, and the secret store (a real \
         OpenBao) what its deliveries are signed with. Each of Envoy's workers holds both answers for a while.",
    );
    check_stored(teller, &first, &namespaced(known, "ch_2001"), 1);

    teller.step("A webhook id that does not exist");
    let invented = LookedUp { webhook_id: "wh_01JNOBODY", ..known };
    let unknown = teller.deliver("somebody", delivery(teller, invented, "ch_2002")?, Some("ch_2002")).await?;
    teller.why("The registry does not know it. A provider that does not match is answered in the same way.");
    check_refused(teller, &unknown, 404, "webhook_unknown");

    openbao.lock().await.kill()?;
    teller.step("The secret store is down: a webhook whose secret is not held");
    let refused = teller.deliver("Stripe", delivery(teller, cold, "ch_2003")?, Some("ch_2003")).await?;
    teller.why("It cannot be verified, so it does not go on. 503 tells the sender to try again, and nothing is lost.");
    check_refused(teller, &refused, 503, "dependency_unavailable");
    teller.check("Retry-After is given", true, refused.reply.header("retry-after").is_some());
    teller.check("effects", 0, refused.backend.effects);

    let mut store = openbao.lock().await;
    store.restart().await?;
    store.unseal().await?;
    drop(store);
    teller.step("The secret store is back, and Stripe tries again");
    let again = teller.deliver("Stripe", delivery(teller, cold, "ch_2003")?, Some("ch_2003")).await?;
    teller.why("The same event, a little later: verified, and acted on once.");
    check_stored(teller, &again, &namespaced(cold, "ch_2003"), 1);
    Ok(())
}
