//! The steps with webhooks that are looked up: whose they are in a registry, what they are signed with in a secret store.

use anyhow::Result;
use harness::http::Request;
use harness::senders::{LOOKED_UP, LookedUp, stripe};
use serde_json::json;

use super::checks::{check_refused, check_stored};
use crate::narrator::Narrator;

/// A delivery of Stripe's about a charge, signed now.
fn delivery(narrator: &Narrator<'_>, hook: LookedUp, charge: &str) -> Result<Request> {
    let event = json!({"id": format!("evt_{charge}"), "type": "charge.refunded", "data": {"object": {"id": charge}}});
    let path = hook.path();
    Ok(Request { path, ..stripe(0, &[&narrator.senders().looked_up], &event) })
}

fn namespaced(hook: LookedUp, charge: &str) -> String {
    let LookedUp { tenant, project, provider, .. } = hook;
    format!("t-{tenant}:{project}:service:webhook-ingest:{provider}-evt_{charge}")
}

/// The titles of the steps.
const TITLES: [&str; 4] = [
    "A webhook that the policy does not list",
    "A webhook id that does not exist",
    "The secret store is down: a webhook whose secret is not held",
    "The secret store is back, and Stripe tries again",
];

/// Tells them all. Without a secret store they are left out, and the reader is told so.
pub(super) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    let Some(openbao) = narrator.openbao() else {
        TITLES.iter().for_each(|title| narrator.leave_out(title, "needs OpenBao; `make tools-all` installs it"));
        return Ok(());
    };
    let [known, cold] = LOOKED_UP;
    let [not_listed, not_there, down, back] = TITLES;

    narrator.step(not_listed);
    let first = narrator.deliver("Stripe", delivery(narrator, known, "ch_2001")?, Some("ch_2001")).await?;
    narrator.why(
        "The filter asked the registry (here a stand-in for Unkey) whose the webhook id is, and the secret store (a real \
         OpenBao) what its deliveries are signed with. Each of Envoy's workers holds both answers for a while.",
    );
    check_stored(narrator, &first, &namespaced(known, "ch_2001"), 1);

    narrator.step(not_there);
    let invented = LookedUp { webhook_id: "wh_01JNOBODY", ..known };
    let unknown = narrator.deliver("somebody", delivery(narrator, invented, "ch_2002")?, Some("ch_2002")).await?;
    narrator.why("The registry does not know it. A provider that does not match is answered in the same way.");
    check_refused(narrator, &unknown, 404, "webhook_unknown");

    openbao.lock().await.kill()?;
    narrator.step(down);
    let refused = narrator.deliver("Stripe", delivery(narrator, cold, "ch_2003")?, Some("ch_2003")).await?;
    narrator
        .why("It cannot be verified, so it does not go on. 503 tells the sender to try again, and nothing is lost.");
    check_refused(narrator, &refused, 503, "dependency_unavailable");
    narrator.check("Retry-After is given", true, refused.reply.header("retry-after").is_some());
    narrator.check("effects", 0, refused.backend.effects);

    let mut store = openbao.lock().await;
    store.restart().await?;
    store.unseal().await?;
    drop(store);
    narrator.step(back);
    let again = narrator.deliver("Stripe", delivery(narrator, cold, "ch_2003")?, Some("ch_2003")).await?;
    narrator.why("The same event, a little later: verified, and acted on once.");
    check_stored(narrator, &again, &namespaced(cold, "ch_2003"), 1);
    Ok(())
}
