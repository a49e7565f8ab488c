//! What clients do: logical operations, each made from the seed and its number alone, so that a run can be repeated.

use std::time::Duration;

use harness::http::{Reply, Request};
use serde_json::{Value, json};
use testkit::signatures;

use crate::checker::{ClientObservation, Got, RightAnswer};
use crate::client::{Answered, RetryVerdict, RetryingClient};
use crate::policy::{
    CALLERS, CHARGES, HOOKS, OPERATIONS, PAYMENTS, PURCHASES, SCHEDULED, SoakCaller, SoakWebhook, deposits,
};
use crate::service::{Answer, SoakOrder};

/// Accounts of each project.
const ACCOUNTS: usize = 50;
/// The longest work of a handler, in milliseconds.
const MOST_WORK_MS: u64 = 120;

/// The work of a call that is repeated while it is under way.
const LONG_WORK_MS: u64 = 600;

/// What kind an operation is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum OperationKind {
    /// A call with a key.
    Create,
    /// The same call twice at once, and retries of it when the answer is there.
    Replay,
    /// The same, and then the same key with another body.
    Mismatch,
    /// Two bodies with one key, at once.
    Race,
    /// Two tenants with the same key, at once.
    Twins,
    /// A webhook with redeliveries, and the same event id of another tenant's webhook.
    Webhook,
    /// A call whose answer is lost, and which is recovered by its key.
    Recovery,
    /// A call that is only accepted, and whose answer is asked for later.
    Scheduled,
    /// A call whose handler waits for a webhook, which comes earlier or later, several times, and with another event.
    Promise,
}

/// The kinds, and how many of a hundred operations are of each.
pub const SHARES: [(OperationKind, u32); 9] = [
    (OperationKind::Create, 22),
    (OperationKind::Replay, 15),
    (OperationKind::Mismatch, 10),
    (OperationKind::Race, 5),
    (OperationKind::Twins, 10),
    (OperationKind::Webhook, 12),
    (OperationKind::Recovery, 10),
    (OperationKind::Scheduled, 8),
    (OperationKind::Promise, 8),
];

/// One logical operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its number, from 0.
    pub number: u64,
    /// Its kind.
    pub kind: OperationKind,
    random: fastrand::Rng,
}

/// What an operation needs of its surroundings.
pub struct CallerSecrets<'a> {
    /// A token of each of [`CALLERS`].
    pub tokens: &'a [String],
    /// What webhooks are signed with.
    pub webhook_secret: &'a str,
}

impl Operation {
    /// The operation with this number.
    pub fn of(seed: u64, number: u64) -> Self {
        // Any mix that keeps numbers apart will do.
        let mut random = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut left = random.u32(0..SHARES.iter().map(|(_, share)| share).sum());
        let mut kind = OperationKind::Create;
        for (candidate, share) in SHARES {
            if left < share {
                kind = candidate;
                break;
            }
            left -= share;
        }
        Self { number, kind, random }
    }

    /// Does it, and tells what came of it.
    pub async fn run(
        mut self,
        surroundings: &CallerSecrets<'_>,
        client: &mut RetryingClient<'_>,
    ) -> Vec<ClientObservation> {
        let seen = Run { operation: &mut self, surroundings, seen: Vec::new() };
        seen.run(client).await
    }
}

/// An order with its key, on its way.
#[derive(Clone)]
struct KeyedCall {
    nonce: String,
    caller: SoakCaller,
    token: String,
    path: String,
    key: String,
    account: Option<usize>,
    work_ms: u64,
}

impl KeyedCall {
    fn request(&self) -> Request {
        let order = SoakOrder { nonce: self.nonce.clone(), work_ms: self.work_ms };
        Request::post(&self.path).bearer(&self.token).header("idempotency-key", &self.key).json(&json!(order))
    }

    fn recovery(&self, suffix: &str) -> Request {
        Request::get(&format!("{}/by-idempotency-key/{}{suffix}", self.path, self.key)).bearer(&self.token)
    }

    fn of(&self, caller: (SoakCaller, &str)) -> Self {
        Self { caller: caller.0, token: caller.1.to_owned(), ..self.clone() }
    }

    fn with_nonce(&self, suffix: &str) -> Self {
        Self { nonce: format!("{}{suffix}", self.nonce), ..self.clone() }
    }
}

struct Run<'a> {
    operation: &'a mut Operation,
    surroundings: &'a CallerSecrets<'a>,
    seen: Vec<ClientObservation>,
}

impl Run<'_> {
    async fn run(mut self, client: &mut RetryingClient<'_>) -> Vec<ClientObservation> {
        match self.operation.kind {
            OperationKind::Create => {
                let call = self.keyed_call();
                self.ask(client, &call, "call", RightAnswer::Answer).await;
            }
            OperationKind::Replay => self.replay(client).await,
            OperationKind::Mismatch => self.mismatch(client).await,
            OperationKind::Race => self.race(client).await,
            OperationKind::Twins => self.twins(client).await,
            OperationKind::Webhook => self.webhook(client).await,
            OperationKind::Recovery => self.recovery(client).await,
            OperationKind::Scheduled => self.scheduled(client).await,
            OperationKind::Promise => self.promise(client).await,
        }
        self.seen
    }

    fn caller(&mut self) -> (SoakCaller, String) {
        let place = self.operation.random.usize(0..CALLERS.len());
        let token = self.surroundings.tokens.get(place).cloned().unwrap_or_default();
        (CALLERS.get(place).copied().unwrap_or(CALLERS[0]), token)
    }

    /// A caller that is not this one.
    fn other(&mut self, than: SoakCaller) -> (SoakCaller, String) {
        loop {
            let other = self.caller();
            if other.0 != than {
                return other;
            }
        }
    }

    fn call_to(&mut self, path: String, account: Option<usize>) -> KeyedCall {
        let (caller, token) = self.caller();
        let random = &mut self.operation.random;
        // Half of all calls are over at once.
        let work_ms = if random.bool() { 0 } else { random.u64(0..MOST_WORK_MS) };
        let key = format!("{:016x}-{}", random.u64(..), self.operation.number);
        KeyedCall { nonce: format!("n{}", self.operation.number), caller, token, path, key, account, work_ms }
    }

    /// A call to the service or to the virtual object.
    fn keyed_call(&mut self) -> KeyedCall {
        let account = self.operation.random.usize(0..ACCOUNTS);
        match self.operation.random.u8(0..4) {
            0 => self.call_to(deposits(account), Some(account)),
            1 => self.call_to(CHARGES.to_owned(), None),
            _ => self.call_to(PAYMENTS.to_owned(), None),
        }
    }

    fn note(&mut self, call: &KeyedCall, act: &'static str, expected: RightAnswer, answered: Option<Answered>) -> Got {
        let asked_at_ms = answered.as_ref().map_or(0, |answered| answered.asked_at_ms);
        let got = answered.map_or(Got::Nothing, |answered| got(&answered.reply));
        self.seen.push(ClientObservation {
            nonce: call.nonce.clone(),
            caller: call.caller.seen(),
            account: call.account.map_or_else(String::new, |account| call.caller.account(account)),
            act,
            expected,
            got: got.clone(),
            asked_at_ms,
        });
        got
    }

    /// Sends the call until there is an answer.
    async fn ask(
        &mut self,
        client: &mut RetryingClient<'_>,
        call: &KeyedCall,
        act: &'static str,
        expected: RightAnswer,
    ) -> Got {
        let answered = client.call(&call.request()).await;
        self.note(call, act, expected, answered)
    }

    /// Asks for a result until it is there, or is not.
    async fn look(
        &mut self,
        client: &mut RetryingClient<'_>,
        call: &KeyedCall,
        request: Request,
        act: &'static str,
        expected: RightAnswer,
    ) -> Got {
        // 202: not finished; ask again. 404: to ask again is of no use, the call itself has to be sent.
        let answered = client.call_until(|| request.clone(), |reply| found(reply.status)).await;
        self.note(call, act, expected, answered)
    }

    async fn replay(&mut self, client: &mut RetryingClient<'_>) {
        let mut call = self.keyed_call();
        let mut later = Duration::ZERO;
        if call.path == CHARGES {
            // The second call finds the first one under way, unless the first one was held up.
            call.work_ms = LONG_WORK_MS;
            later = Duration::from_millis(self.operation.random.u64(50..LONG_WORK_MS / 2));
        }
        let (answered, second) = at_once(client, call.request(), call.request(), later).await;
        self.note(&call, "the same call at the same time", RightAnswer::Answer, second);
        let id = answered.as_ref().and_then(|answered| answered.reply.header("x-operation-id")).unwrap_or_default();
        let lookup = Request::get(&format!("{OPERATIONS}/{id}/output")).bearer(&call.token);
        self.note(&call, "call", RightAnswer::Answer, answered);
        self.look(client, &call, lookup, "lookup of a call by id", RightAnswer::Answer).await;
        for _ in 0..self.operation.random.u8(1..=3) {
            self.ask(client, &call, "retry", RightAnswer::Replay).await;
        }
    }

    async fn mismatch(&mut self, client: &mut RetryingClient<'_>) {
        let call = self.keyed_call();
        self.ask(client, &call, "call", RightAnswer::Answer).await;
        let other = call.with_nonce("-other-body");
        self.ask(client, &other, "the same key with another body", RightAnswer::Mismatch).await;
        self.ask(client, &call, "retry after a mismatch", RightAnswer::Replay).await;
    }

    async fn race(&mut self, client: &mut RetryingClient<'_>) {
        let first = self.keyed_call();
        let second = first.with_nonce("-rival");
        let (one, two) = at_once(client, first.request(), second.request(), Duration::ZERO).await;
        self.note(&first, "one of two bodies at once", RightAnswer::AnswerOrMismatch(second.nonce.clone()), one);
        self.note(&second, "one of two bodies at once", RightAnswer::AnswerOrMismatch(first.nonce.clone()), two);
    }

    async fn twins(&mut self, client: &mut RetryingClient<'_>) {
        let first = self.keyed_call();
        let (caller, token) = self.other(first.caller);
        let mut second = first.of((caller, &token));
        // The same order is an operation of its own, too, if another caller sends it.
        if self.operation.random.bool() {
            second = second.with_nonce("-twin");
        }
        let (one, two) = at_once(client, first.request(), second.request(), Duration::ZERO).await;
        self.note(&first, "one of two callers with one key", RightAnswer::Answer, one);
        self.note(&second, "one of two callers with one key", RightAnswer::Answer, two);
        self.ask(client, &second, "retry of a twin", RightAnswer::Replay).await;
        self.ask(client, &first, "retry of a twin", RightAnswer::Replay).await;
    }

    async fn recovery(&mut self, client: &mut RetryingClient<'_>) {
        let mut call = self.keyed_call();
        if self.operation.random.bool() {
            call.work_ms = LONG_WORK_MS;
        }
        let nobody = KeyedCall { key: format!("{}-never-sent", call.key), ..call.clone() };
        self.look(
            client,
            &nobody,
            nobody.recovery("/output"),
            "recovery of a key that was never sent",
            RightAnswer::Unknown,
        )
        .await;
        // The connection breaks before the request has reached the backend, while it is under way, or after the answer.
        let random = &mut self.operation.random;
        let patience_us = if random.bool() { random.u64(100..3_000) } else { random.u64(3_000..LONG_WORK_MS * 1_000) };
        let patience = Duration::from_micros(patience_us);
        client.abandon(&call.request(), patience).await;
        let suffix = if self.operation.random.bool() { "" } else { "/output" };
        let request = call.recovery(suffix);
        let got = self
            .look(client, &call, request.clone(), "recovery after a lost answer", RightAnswer::AnswerOrUnknown)
            .await;
        if !matches!(got, Got::Answer { .. }) {
            self.ask(client, &call, "call after a recovery", RightAnswer::Answer).await;
        }
        self.look(client, &call, request, "recovery", RightAnswer::Answer).await;
        let (caller, token) = self.other(call.caller);
        let stranger = call.of((caller, &token));
        self.look(client, &stranger, stranger.recovery(suffix), "recovery by another caller", RightAnswer::Unknown)
            .await;
    }

    async fn scheduled(&mut self, client: &mut RetryingClient<'_>) {
        let call = self.call_to(SCHEDULED.to_owned(), None);
        let Some(accepted) = client.call(&call.request()).await else {
            self.note(&call, "scheduled call", RightAnswer::Acknowledgement, None);
            return;
        };
        let place = accepted.reply.header("location").map(str::to_owned);
        let id = accepted.reply.header("x-operation-id").unwrap_or_default().to_owned();
        self.note(&call, "scheduled call", RightAnswer::Acknowledgement, Some(accepted));
        // Without `Location` the lookup fails, and the check tells.
        let place = place.unwrap_or_else(|| format!("{OPERATIONS}/no-location"));
        let suffix = if self.operation.random.bool() { "" } else { "/output" };
        let lookup = |path: &str, token: &str| Request::get(path).bearer(token);
        self.look(
            client,
            &call,
            lookup(&format!("{place}{suffix}"), &call.token),
            "lookup by Location",
            RightAnswer::Answer,
        )
        .await;
        let by_id = format!("{OPERATIONS}/{id}");
        self.look(client, &call, lookup(&by_id, &call.token), "lookup by id", RightAnswer::Answer).await;
        self.look(client, &call, call.recovery(""), "recovery of a scheduled call", RightAnswer::Answer).await;
        let (caller, token) = self.other(call.caller);
        let stranger = call.of((caller, &token));
        self.look(client, &stranger, lookup(&by_id, &token), "lookup by another caller", RightAnswer::Unknown).await;
    }

    /// The same charge of two tenants: each handler waits for its own tenant's webhook.
    async fn promise(&mut self, client: &mut RetryingClient<'_>) {
        let webhook_is_first = self.operation.random.bool();
        for hook in HOOKS {
            let (caller, token) = loop {
                let (caller, token) = self.caller();
                if (caller.tenant, caller.project) == (hook.tenant, hook.project) {
                    break (caller, token);
                }
            };
            let call = KeyedCall { caller, token, ..self.call_to(PURCHASES.to_owned(), None) };
            if webhook_is_first {
                self.complete(client, hook, &call).await;
            }
            let accepted = client.call(&call.request()).await;
            let place = accepted.as_ref().and_then(|accepted| accepted.reply.header("location")).map(str::to_owned);
            self.note(&call, "purchase", RightAnswer::Acknowledgement, accepted);
            if !webhook_is_first {
                self.complete(client, hook, &call).await;
            }
            let lookup = Request::get(place.as_deref().unwrap_or("/no-location")).bearer(&call.token);
            self.look(client, &call, lookup, "result of a purchase", RightAnswer::Answer).await;
        }
    }

    /// Two events about the purchase, each of them delivered up to three times.
    async fn complete(&mut self, client: &mut RetryingClient<'_>, hook: SoakWebhook, call: &KeyedCall) {
        for part in ["a", "b"] {
            let event = format!("evt_{}_{part}", self.operation.number);
            let object = SoakOrder { nonce: call.nonce.clone(), work_ms: 0 };
            let body = json!({"id": event, "type": "charge.succeeded", "data": {"object": object}});
            for _ in 0..self.operation.random.u8(1..=3) {
                let secret = self.surroundings.webhook_secret;
                let request = || delivery(&hook.purchases_path(), secret, &body);
                let answered = client.call_until(request, |reply| taken(reply.status)).await;
                self.note(call, "webhook of a purchase", RightAnswer::Completion(event.clone()), answered);
            }
        }
    }

    async fn webhook(&mut self, client: &mut RetryingClient<'_>) {
        let event = format!("evt_{}", self.operation.number);
        let work_ms = self.operation.random.u64(0..MOST_WORK_MS);
        for (place, hook) in HOOKS.into_iter().enumerate() {
            let nonce = format!("n{}-{place}", self.operation.number);
            let order = SoakOrder { nonce: nonce.clone(), work_ms };
            let body = json!({"id": event, "type": "payment.created", "data": {"object": order}});
            let redeliveries = self.operation.random.u8(0..=2);
            for number in 0..=redeliveries {
                let (act, expected) = match number {
                    0 => ("delivery", RightAnswer::Answer),
                    _ => ("redelivery", RightAnswer::Replay),
                };
                let secret = self.surroundings.webhook_secret;
                // A provider signs each delivery anew, and repeats whatever is no success.
                let request = || delivery(&hook.path(), secret, &body);
                let answered = client.call_until(request, |reply| taken(reply.status)).await;
                let asked_at_ms = answered.as_ref().map_or(0, |answered| answered.asked_at_ms);
                let got = answered.map_or(Got::Nothing, |answered| got(&answered.reply));
                let (nonce, caller, account) = (nonce.clone(), hook.seen(), String::new());
                self.seen.push(ClientObservation { nonce, caller, account, act, expected, got, asked_at_ms });
            }
        }
    }
}

/// What a client makes of the answer to a recovery or a lookup.
fn found(status: u16) -> RetryVerdict {
    match status {
        202 => RetryVerdict::Again,
        404 => RetryVerdict::Final,
        _ => RetryVerdict::AsAdvised,
    }
}

/// What a provider makes of the answer to a delivery. Providers have schedules of their own.
fn taken(status: u16) -> RetryVerdict {
    if (200..300).contains(&status) { RetryVerdict::Final } else { RetryVerdict::OwnSchedule }
}

fn delivery(path: &str, secret: &str, body: &Value) -> Request {
    let signature = signatures::stripe(&[secret], signatures::unix_now(), body.to_string().as_bytes());
    Request::post(path).header("stripe-signature", signature).json(body)
}

/// Two requests, the second one so much later, each with the retries of a client.
async fn at_once(
    client: &mut RetryingClient<'_>,
    one: Request,
    two: Request,
    later: Duration,
) -> (Option<Answered>, Option<Answered>) {
    let mut second = RetryingClient { gateways: client.gateways, notes: client.notes, random: client.random.fork() };
    tokio::join!(client.call(&one), async {
        tokio::time::sleep(later).await;
        second.call(&two).await
    })
}

/// What a reply says.
fn got(reply: &Reply) -> Got {
    if let (200, Some(first)) = (reply.status, reply.json().get("first").and_then(Value::as_bool)) {
        return Got::Completed { first };
    }
    match (reply.status, serde_json::from_slice::<Answer>(&reply.body)) {
        (200, Ok(answer)) => {
            Got::Answer { answer, replayed: reply.header("idempotent-replayed").is_some_and(|value| value == "true") }
        }
        (202, _) => Got::Accepted,
        (status, _) => Got::Refused { status, code: reply.code() },
    }
}
