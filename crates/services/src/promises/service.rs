//! The Restate services around [`super::machine`].
//!
//! Restate runs a handler again from its journal, so nothing here depends on a clock or on chance outside of `ctx.run`. Numbers come
//! from the invocation's random seed, which is the same each time.

use std::time::{Duration, SystemTime};

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use super::Limits;
use super::id::{PromiseKey, is_awakeable};
use super::machine::{Answer, Completion, Effect, Entry, Event, Outcome, step};
use super::payload::{BodyError, rejected, resolved};

/// The name of the one state of an object.
const ENTRY: &str = "entry";

/// `Promises`.
pub(super) struct Promises {
    pub(super) limits: Limits,
}

/// `PromiseIds`.
pub(super) struct PromiseIds {
    pub(super) limits: Limits,
}

/// What an object keeps.
#[derive(Clone, Deserialize, Serialize)]
struct Record {
    entry: Entry,
    /// RFC 3339.
    expires_at: String,
}

/// The input of `await`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Registration {
    awakeable: String,
    /// Seconds.
    ttl_s: Option<u64>,
}

/// The input of `complete`.
#[derive(Deserialize, Serialize)]
struct NamedCompletion {
    number: String,
    completion: Completion,
}

/// What callers are told of a promise. The awakeable is not a part of it, nor is the payload: that is for the handler that waits.
#[derive(Deserialize, Serialize)]
struct View {
    /// Nothing as long as nobody waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    /// The answer to a completion: whether it was the first, and so the one that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<bool>,
    expires_at: String,
}

impl View {
    fn of(record: &Record, key: &str) -> Result<Self, TerminalError> {
        let key = scoped(key)?;
        let Record { entry, expires_at } = record;
        let id = entry.promise().map(|number| key.id(number));
        let (state, expires_at) = (entry.state().to_owned(), expires_at.clone());
        Ok(Self { id, state, outcome: entry.outcome(), first: None, expires_at })
    }
}

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl Promises {
    /// Registers an awakeable of the handler that calls. If something was kept for it, it is completed at once.
    #[handler(name = "await")]
    async fn register(&self, ctx: ObjectContext<'_>, Json(input): Json<Registration>) -> HandlerResult<Json<View>> {
        let Registration { awakeable, ttl_s } = input;
        let longest = self.limits.max_ttl;
        let ttl = ttl_s.map_or(self.limits.ttl, Duration::from_secs);
        if ttl.is_zero() || ttl > longest {
            return refuse(400, format!("ttl_s has to be between 1 and {}", longest.as_secs()));
        }
        if !is_awakeable(&awakeable) {
            return refuse(400, "awakeable has to be the id of an awakeable".to_owned());
        }
        let number = number(&ctx);
        let (answer, record) = change(&ctx, Event::Await { number, awakeable }, ttl).await?;
        let view = View::of(&record.ok_or_else(unknown)?, ctx.key())?;
        match (answer, &view) {
            (Answer::Conflict, View { id: Some(id), state, .. }) => {
                refuse(409, format!("the key belongs to the promise {id}, which is {state}"))
            }
            _ => Ok(Json(view)),
        }
    }

    /// Completes the promise with the body, or keeps it until somebody waits.
    #[handler]
    async fn resolve(&self, ctx: ObjectContext<'_>, body: Option<Vec<u8>>) -> HandlerResult<Json<View>> {
        self.first(&ctx, taken(resolved(&body.unwrap_or_default(), self.limits.payload_bytes))?).await
    }

    /// The same, with a reason why there is nothing to wait for.
    #[handler]
    async fn reject(&self, ctx: ObjectContext<'_>, body: Option<Vec<u8>>) -> HandlerResult<Json<View>> {
        self.first(&ctx, taken(rejected(&body.unwrap_or_default()))?).await
    }

    /// For `PromiseIds`: completes one promise and no other.
    #[handler]
    async fn complete(&self, ctx: ObjectContext<'_>, Json(input): Json<NamedCompletion>) -> HandlerResult<Json<View>> {
        let NamedCompletion { number, completion } = input;
        let (answer, record) = change(&ctx, Event::CompleteOnly { number, completion }, Duration::ZERO).await?;
        told(answer, record, ctx.key())
    }

    /// What there is under the key.
    #[handler]
    async fn get(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<View>> {
        let record = ctx.get::<Json<Record>>(ENTRY).await?.ok_or_else(unknown)?;
        Ok(Json(View::of(&record.into_inner(), ctx.key())?))
    }

    /// The timer of the entry with this number.
    #[handler]
    async fn expire(&self, ctx: ObjectContext<'_>, Json(number): Json<String>) -> HandlerResult<()> {
        change(&ctx, Event::Expire { number }, Duration::ZERO).await?;
        Ok(())
    }
}

impl Promises {
    async fn first(&self, ctx: &ObjectContext<'_>, completion: Completion) -> HandlerResult<Json<View>> {
        let event = Event::Complete { number: number(ctx), completion };
        let (answer, record) = change(ctx, event, self.limits.keep).await?;
        told(answer, record, ctx.key())
    }
}

#[restate_sdk::object(client_visibility = "pub(crate)")]
impl PromiseIds {
    /// Completes the promise with this id.
    #[handler]
    async fn resolve(&self, ctx: SharedObjectContext<'_>, body: Option<Vec<u8>>) -> HandlerResult<Json<View>> {
        complete(&ctx, taken(resolved(&body.unwrap_or_default(), self.limits.payload_bytes))?).await
    }

    /// The same, with a reason why there is nothing to wait for.
    #[handler]
    async fn reject(&self, ctx: SharedObjectContext<'_>, body: Option<Vec<u8>>) -> HandlerResult<Json<View>> {
        complete(&ctx, taken(rejected(&body.unwrap_or_default()))?).await
    }
}

async fn complete(ctx: &SharedObjectContext<'_>, completion: Completion) -> HandlerResult<Json<View>> {
    let (number, key) = scoped(ctx.key())?.named().ok_or_else(unknown)?;
    let input = NamedCompletion { number, completion };
    Ok(ctx.object_client::<PromisesClient>(key).complete(Json(input)).call().await?)
}

/// Carries out what the event means. An entry that is new lives for `time`.
async fn change(
    ctx: &ObjectContext<'_>,
    event: Event,
    time: Duration,
) -> Result<(Answer, Option<Record>), TerminalError> {
    scoped(ctx.key())?;
    let (before, expires_at) = match ctx.get::<Json<Record>>(ENTRY).await? {
        Some(Json(Record { entry, expires_at })) => (Some(entry), expires_at),
        None => (None, String::new()),
    };
    let existed = before.is_some();
    let next = step(before, event);
    match next.effect {
        Some(Effect::Complete { awakeable, completion: Completion::Resolved(payload) }) => {
            ctx.resolve_awakeable(&awakeable, payload.into_bytes());
        }
        // Restate's own code for a rejection over HTTP.
        Some(Effect::Complete { awakeable, completion: Completion::Rejected(reason) }) => {
            ctx.reject_awakeable(&awakeable, TerminalError::new_with_code(500, reason));
        }
        Some(Effect::Expired { awakeable }) => {
            ctx.reject_awakeable(&awakeable, TerminalError::new_with_code(408, "expired"));
        }
        Some(Effect::Unclaimed) => eprintln!("nobody waited for {:?} in time; what was kept is gone", ctx.key()),
        None => {}
    }
    let Some(entry) = next.entry else {
        if existed {
            ctx.clear(ENTRY);
        }
        return Ok((next.answer, None));
    };
    let mut record = Record { entry, expires_at };
    if next.starts {
        let expire = ctx.object_client::<PromisesClient>(ctx.key());
        expire.expire(Json(record.entry.number().clone())).send_after(time);
        record.expires_at = ctx
            .run(|| async move { Ok(humantime::format_rfc3339_millis(SystemTime::now() + time).to_string()) })
            .name("when it expires")
            .await?;
    }
    if next.answer == Answer::Done {
        ctx.set(ENTRY, Json(record.clone()));
    }
    Ok((next.answer, Some(record)))
}

/// The answer to a completion.
fn told(answer: Answer, record: Option<Record>, key: &str) -> HandlerResult<Json<View>> {
    match (answer, record) {
        (Answer::Done | Answer::NotFirst, Some(record)) => {
            Ok(Json(View { first: Some(answer == Answer::Done), ..View::of(&record, key)? }))
        }
        _ => Err(unknown().into()),
    }
}

fn number(ctx: &ObjectContext<'_>) -> String {
    format!("{:016x}", ContextSideEffects::random_seed(ctx))
}

fn scoped(key: &str) -> Result<PromiseKey<'_>, TerminalError> {
    PromiseKey::of(key)
        .ok_or_else(|| TerminalError::new_with_code(400, "a key is {tenant}:{project}:{what is waited for}"))
}

fn unknown() -> TerminalError {
    TerminalError::new_with_code(404, "there is no such promise")
}

fn taken(body: Result<Completion, BodyError>) -> Result<Completion, TerminalError> {
    body.map_err(|error| match error {
        BodyError::TooLarge(most) => TerminalError::new_with_code(413, format!("at most {most} bytes can be kept")),
        BodyError::NotText => TerminalError::new_with_code(415, "the body has to be UTF-8"),
    })
}

fn refuse<T>(code: u16, message: String) -> HandlerResult<T> {
    Err(TerminalError::new_with_code(code, message).into())
}
