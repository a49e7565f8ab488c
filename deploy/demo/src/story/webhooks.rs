//! The steps with webhooks: third parties that have no token and send no key, only a signature.

use anyhow::Result;
use harness::http::Request;
use harness::senders::{github_key, stripe, twilio_key};
use serde_json::{Value, json};

use super::checks::{check_refused, check_replayed, check_stored};
use crate::narrator::{Narrator, Told};

const CHARGE: &str = "ch_1001";
const COMMIT: &str = "6113728f27ae82c7b1a177c8d03f9e96e0adf246";
const GUID: &str = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const MESSAGE: &str = "SM1001";
/// A token that no delivery had.
const FRESH: &str = "00000000-0000-4000-8000-000000000001";

/// How long ago a first attempt was signed: Stripe signs each anew.
const MINUTE: u64 = 60;

/// The key of a delivery, in the namespace of its webhook's binding.
fn namespaced(raw: &str) -> String {
    format!("t-acme:health-prod:service:webhook-ingest:{raw}")
}

fn refunded(event: &str, charge: &str) -> Value {
    json!({"id": event, "type": "charge.refunded", "data": {"object": {"id": charge, "amount": 4200}}})
}

/// Tells them all.
pub(super) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    from_stripe(narrator).await?;
    rotation(narrator).await?;
    from_github(narrator).await?;
    from_twilio(narrator).await
}

async fn from_stripe(narrator: &mut Narrator<'_>) -> Result<()> {
    let secret = narrator.senders().stripe.clone();
    let event = refunded("evt_1001", CHARGE);

    narrator.step("A webhook from Stripe");
    let genuine = stripe(MINUTE, &[&secret], &event);
    let first = narrator.deliver("Stripe", genuine.clone(), Some(CHARGE)).await?;
    narrator.why(
        "REQUIRED_B: nothing went on before the signature was verified over the very bytes that came. Then the event's \
         own id became the key. Tenant and project are those of the webhook's binding: Stripe knows nothing of them.",
    );
    check_stored(narrator, &first, &namespaced("stripe-evt_1001"), 1);
    check_seen(narrator, &first, "stripe-signature");

    narrator.step("Stripe got no answer and sends it again");
    let again = narrator.deliver("Stripe", stripe(0, &[&secret], &event), Some(CHARGE)).await?;
    narrator.why("Another time and so another signature, but the same event: it was answered from the stored result.");
    check_replayed(narrator, &again, &first.reply, 1);

    narrator.step("Somebody changes the amount");
    let body = event.to_string().replace("4200", "9900");
    let tampered = narrator.deliver("somebody on the way", genuine.body(body), Some(CHARGE)).await?;
    narrator.why("The signature is the genuine one, of other bytes. The answer does not say what is wrong with it.");
    check_refused(narrator, &tampered, 401, "webhook_signature_invalid");
    narrator.check("effects", 1, tampered.backend.effects);

    narrator.step("Somebody without the secret invents an event");
    let invented = stripe(0, &["whsec_guessed"], &refunded("evt_6666", "ch_6666"));
    let invented = invented.header("Idempotency-Key", namespaced("stripe-evt_6666"));
    let refused = narrator.deliver("somebody", invented, Some("ch_6666")).await?;
    narrator.why("A key that comes along makes no difference: on this route none is ever read.");
    check_refused(narrator, &refused, 401, "webhook_signature_invalid");
    narrator.check("effects", 0, refused.backend.effects);
    Ok(())
}

async fn rotation(narrator: &mut Narrator<'_>) -> Result<()> {
    let senders = narrator.senders().clone();
    let (old, new) = (senders.stripe_previous.as_str(), senders.stripe.as_str());
    let event = refunded("evt_1002", "ch_1002");

    narrator.step("While the secret is rolled: signed with the old one");
    let first = narrator.deliver("Stripe", stripe(MINUTE, &[old], &event), Some("ch_1002")).await?;
    narrator.why("The binding names two secrets, and each is tried. So a secret is changed without losing a delivery.");
    check_stored(narrator, &first, &namespaced("stripe-evt_1002"), 1);

    narrator.step("… and sent again, signed with both");
    let again = narrator.deliver("Stripe", stripe(0, &[old, new], &event), Some("ch_1002")).await?;
    narrator.why("Which secret signed does not show in the key: the same event is the same key across the change.");
    check_replayed(narrator, &again, &first.reply, 1);
    Ok(())
}

async fn from_github(narrator: &mut Narrator<'_>) -> Result<()> {
    let push = json!({"ref": "refs/heads/main", "after": COMMIT, "repository": {"full_name": "acme/health"}});
    let request = narrator.senders().github(GUID, "push", &push);

    narrator.step("A webhook from GitHub");
    let first = narrator.deliver("GitHub", request.clone(), Some(COMMIT)).await?;
    narrator.why(
        "The same route and the same filter: how GitHub signs, and that its id is in a header, is data. The signature covers \
         the body and not the id, so the key is a digest of both: another body under this id would get another key.",
    );
    check_stored(narrator, &first, &namespaced(&github_key(GUID, &push)), 1);
    check_seen(narrator, &first, "x-hub-signature-256");

    narrator.step("“Redeliver”, in GitHub's settings");
    let again = narrator.deliver("GitHub", request, Some(COMMIT)).await?;
    narrator.why("A redelivery has the id and the body of the first delivery, so it is a replay.");
    check_replayed(narrator, &again, &first.reply, 1);
    Ok(())
}

async fn from_twilio(narrator: &mut Narrator<'_>) -> Result<()> {
    let callback = |status| [("MessageSid", MESSAGE), ("MessageStatus", status), ("AccountSid", "AC1")];
    let key = |status: &'static str| namespaced(&twilio_key(&callback(status)));
    let sent: Request = narrator.senders().twilio(&callback("sent"));
    let delivered = narrator.senders().twilio(&callback("delivered"));

    narrator.step("A callback from Twilio: sent");
    let first = narrator.deliver("Twilio", sent.clone(), Some(MESSAGE)).await?;
    narrator.why(
        "Twilio signs the public URL and the form's fields, so the filter is told the public URL. It puts nothing between \
         names and values, so the key is a digest of all that is signed: however the same text is cut into fields, it has \
         one key.",
    );
    check_stored(narrator, &first, &key("sent"), 1);

    narrator.step("Another callback about the same message: delivered");
    let second = narrator.deliver("Twilio", delivered, Some(MESSAGE)).await?;
    narrator.why("Another status is another event, with a key of its own.");
    check_stored(narrator, &second, &key("delivered"), 2);

    narrator.step("The first callback again, cut into other fields, with a key and a token of the sender's choice");
    let again = sent.header("Idempotency-Key", "fresh-1").header("I-Twilio-Idempotency-Token", FRESH);
    let again = again.body(format!("MessageSid={MESSAGE}&MessageStat=ussent&AccountSid=AC1"));
    let again = narrator.deliver("somebody who recorded it", again, Some(MESSAGE)).await?;
    narrator.why(
        "The signature fits, for the signed text is the same; so is the key, which is made of that text. A recorded delivery \
         cannot be made a new one.",
    );
    check_replayed(narrator, &again, &first.reply, 2);
    Ok(())
}

/// Whose the handler took the delivery to be, and that what proves it stayed at the gateway.
fn check_seen(narrator: &mut Narrator<'_>, told: &Told, signature: &str) {
    for (name, expected) in [("x-tenant-id", "acme"), ("x-subject", "service:webhook-ingest"), (signature, "-")] {
        let seen = told.backend.runs.first().and_then(|run| run.header(name)).unwrap_or("-").to_owned();
        narrator.check(&format!("{name} at the handler"), expected, seen);
    }
}
