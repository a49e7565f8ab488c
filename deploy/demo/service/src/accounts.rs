//! Money on accounts, as the playbook's tests need it (docs/callers.md): an account is a virtual object, and its entries are the
//! object's state. So an entry is made exactly once for each invocation, even if the handler runs again after a crash, and the
//! entries show how often an operation had an effect.

use std::collections::BTreeSet;

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::handlers::{PROJECT, TENANT};
use crate::signups::{Signup, SignupsClient};

/// The state with the list of entries.
const ENTRIES: &str = "entries";
/// The state with the ids of messages that were received.
const INBOX: &str = "inbox";
/// The state with the id of the awakeable that a payout waits for.
const PROVIDER: &str = "provider";

/// `Accounts`: the key is `{tenant}:{project}:{account}`.
pub(crate) struct Accounts;

/// What a client asks for.
#[derive(Deserialize, Serialize)]
struct Order {
    /// In cents
    amount: u64,
}

/// A client's wish to take a charge back.
#[derive(Deserialize)]
struct Void {
    /// The charge's id
    charge: String,
}

/// A message of a queue that delivers at least once.
#[derive(Deserialize)]
struct Message {
    id: String,
    amount: u64,
}

/// One entry of an account.
#[derive(Clone, Deserialize, Serialize)]
struct Entry {
    /// `charge_1`, `refund_2` and so on: the kind, and the entry's place in the list
    id: String,
    /// In cents; negative if money leaves the account
    amount: i64,
}

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl Accounts {
    #[handler]
    async fn charge(&self, ctx: ObjectContext<'_>, Json(order): Json<Order>) -> HandlerResult<Json<Entry>> {
        if order.amount == 0 {
            return Err(TerminalError::new_with_code(422, "there is nothing to charge").into());
        }
        enter(&ctx, "charge", cents(order.amount)?).await
    }

    #[handler]
    async fn refund(&self, ctx: ObjectContext<'_>, Json(order): Json<Order>) -> HandlerResult<Json<Entry>> {
        enter(&ctx, "refund", -cents(order.amount)?).await
    }

    #[handler]
    async fn void(&self, ctx: ObjectContext<'_>, Json(void): Json<Void>) -> HandlerResult<Json<Entry>> {
        let entries = entries(&ctx).await?;
        let charge = entries.iter().find(|entry| entry.id == void.charge && entry.amount > 0);
        match charge.map(|charge| charge.amount) {
            Some(amount) => enter(&ctx, "void", -amount).await,
            None => Err(TerminalError::new_with_code(422, "there is no such charge").into()),
        }
    }

    /// Pays out as soon as the payment provider has confirmed, which whoever knows the statement's `provider` may do.
    #[handler]
    async fn payout(&self, ctx: ObjectContext<'_>, Json(order): Json<Order>) -> HandlerResult<Json<Entry>> {
        let (id, confirmed) = ctx.awakeable::<Json<Value>>();
        ctx.set(PROVIDER, id);
        confirmed.await?;
        ctx.clear(PROVIDER);
        enter(&ctx, "payout", -cents(order.amount)?).await
    }

    #[handler]
    async fn deposit(&self, ctx: ObjectContext<'_>, Json(order): Json<Order>) -> HandlerResult<Json<Entry>> {
        enter(&ctx, "deposit", cents(order.amount)?).await
    }

    /// Case C: the ids of messages are kept beside the entries, in one step, so no key is needed.
    #[handler]
    async fn receive(&self, ctx: ObjectContext<'_>, Json(message): Json<Message>) -> HandlerResult<Json<Value>> {
        let mut inbox = ctx.get::<Json<BTreeSet<String>>>(INBOX).await?.map(Json::into_inner).unwrap_or_default();
        let is_new = inbox.insert(message.id);
        if is_new {
            ctx.set(INBOX, Json(inbox));
            enter(&ctx, "message", cents(message.amount)?).await?;
        }
        Ok(Json(json!({"duplicate": !is_new})))
    }

    /// The entries, and the id of the awakeable that a payout waits for.
    #[handler]
    async fn statement(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Value>> {
        let entries = ctx.get::<Json<Vec<Entry>>>(ENTRIES).await?.map(Json::into_inner).unwrap_or_default();
        let provider = ctx.get::<String>(PROVIDER).await?;
        Ok(Json(json!({"entries": entries, "provider": provider})))
    }
}

async fn entries(ctx: &ObjectContext<'_>) -> Result<Vec<Entry>, TerminalError> {
    Ok(ctx.get::<Json<Vec<Entry>>>(ENTRIES).await?.map(Json::into_inner).unwrap_or_default())
}

async fn enter(ctx: &ObjectContext<'_>, kind: &str, amount: i64) -> HandlerResult<Json<Entry>> {
    let mut entries = entries(ctx).await?;
    let entry = Entry { id: format!("{kind}_{}", entries.len() + 1), amount };
    entries.push(entry.clone());
    ctx.set(ENTRIES, Json(entries));
    Ok(Json(entry))
}

fn cents(amount: u64) -> Result<i64, TerminalError> {
    i64::try_from(amount).map_err(|_| TerminalError::new_with_code(422, "the amount is too large"))
}

/// `Deposits`: what a payment provider's webhook tells. The account is in the event, so this service finds the object.
pub(crate) struct Deposits;

/// An event in Stripe's form.
#[derive(Deserialize)]
struct Event {
    id: String,
    data: EventData,
}

#[derive(Deserialize)]
struct EventData {
    object: Deposit,
}

#[derive(Deserialize)]
struct Deposit {
    account: String,
    amount: u64,
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl Deposits {
    #[handler]
    async fn receive(&self, ctx: Context<'_>, Json(event): Json<Event>) -> HandlerResult<Json<Entry>> {
        let Deposit { account, amount } = event.data.object;
        let part = |name: &str| ctx.headers().get(name).cloned().unwrap_or_default();
        let account = format!("{}:{}:{account}", part(TENANT), part(PROJECT));
        Ok(ctx.object_client::<AccountsClient>(account).deposit(Json(Order { amount })).call().await?)
    }

    /// Work that whoever handles this event shares: a deposit under a key of its own, and a workflow that runs once.
    #[handler]
    async fn share(&self, ctx: Context<'_>, Json(event): Json<Event>) -> HandlerResult<Json<Entry>> {
        let Deposit { account, amount } = event.data.object;
        let signup = Json(Signup { email: format!("{account}@example.com") });
        ctx.workflow_client::<SignupsClient>(event.id.clone()).run(signup).send();
        let deposit = ctx.object_client::<AccountsClient>(account).deposit(Json(Order { amount }));
        Ok(deposit.idempotency_key(event.id).call().await?)
    }
}
