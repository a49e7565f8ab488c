//! The handler that Restate calls, once for each key.
//!
//! It notes in the journal that it begins. A later attempt finds the note, and that no answer stands behind it: then nobody knows what
//! the API did, unless this program still has the call, because only Restate was away.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use restate_sdk::prelude::*;
use tokio::sync::watch;
use tokio::time::timeout;

use super::api::{Api, Told};
use super::config::OnUnknown;
use super::counters::Counters;
use super::envelope::{Answer, Call, Outcome, decode, encode};
use super::long_answers::LongAnswers;
use crate::RetryForever as _;

/// How long an answer waits for a Restate that was away.
const KEPT: Duration = Duration::from_secs(600);

/// `Recorder`, bound with [`options`].
#[derive(Clone)]
pub(super) struct Recorder(Arc<Shared>);

struct Shared {
    apis: Arc<BTreeMap<String, Api>>,
    counters: Arc<Counters>,
    long: LongAnswers,
    /// The calls of this program whose answers Restate does not have yet, by their nonces
    calls: Mutex<HashMap<String, watch::Receiver<Option<Vec<u8>>>>>,
}

/// What Restate has to know about the service: how long it keeps answers, and that a call takes as long as the slowest API.
pub(super) fn options(retention: Duration, apis: &BTreeMap<String, Api>) -> ServiceOptions {
    let longest = apis.values().map(|api| api.upstream.longest_call()).max().unwrap_or_default();
    ServiceOptions::new()
        .idempotency_retention(retention)
        .retry_forever()
        .inactivity_timeout(longest)
        .abort_timeout(longest)
}

#[restate_sdk::service(client_visibility = "pub(super)")]
impl Recorder {
    /// Takes an envelope with a call, and returns one with its answer.
    #[handler]
    async fn call(&self, ctx: Context<'_>, envelope: Vec<u8>) -> HandlerResult<Vec<u8>> {
        let (call, body): (Call, _) = decode(envelope.into()).map_err(|error| refuse(&error))?;
        let nonce = call.nonce.clone();
        let may_call = Arc::new(AtomicBool::new(call.on_unknown == OnUnknown::Retry));
        if call.on_unknown == OnUnknown::Fail {
            let begins = Arc::clone(&may_call);
            // This is run, and not only read from the journal, in the attempt that begins.
            let noted = ctx.run(|| async move {
                begins.store(true, Ordering::Relaxed);
                Ok(())
            });
            noted.name("begin").await?;
        }
        // The answer is a step, too: what a handler returns has to be the same each time that it is read from the journal.
        let recorder = self.clone();
        let answer =
            ctx.run(|| async move { Ok(recorder.answer(call, body, may_call.load(Ordering::Relaxed)).await?) });
        let answer = answer.name("call").await?;
        self.0.end(&nonce);
        Ok(answer)
    }
}

impl Recorder {
    pub(super) fn new(apis: Arc<BTreeMap<String, Api>>, counters: Arc<Counters>, long: LongAnswers) -> Self {
        Self(Arc::new(Shared { apis, counters, long, calls: Mutex::default() }))
    }

    /// The answer of the call that runs or has run here; else that of a new one, if this attempt may call.
    async fn answer(&self, call: Call, body: Bytes, may_call: bool) -> Result<Vec<u8>, TerminalError> {
        let mut told = match self.0.join_or_begin(&call, body, may_call) {
            Ok(told) => told,
            Err(outcome) => {
                self.0.counters.count(&call.upstream, outcome, 0);
                return envelope(&call, Told::without_answer(outcome)).map_err(|error| refuse(&error));
            }
        };
        let answer = told.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        answer.ok_or_else(|| TerminalError::new_with_code(500, "the answer cannot be written down"))
    }
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Option<Vec<u8>>>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restate has the answer.
    fn end(&self, nonce: &str) {
        if self.calls().remove(nonce).is_some() {
            self.counters.end();
        }
    }

    fn join_or_begin(
        self: &Arc<Self>,
        call: &Call,
        body: Bytes,
        may_call: bool,
    ) -> Result<watch::Receiver<Option<Vec<u8>>>, Outcome> {
        let mut calls = self.calls();
        if let Some(told) = calls.get(&call.nonce) {
            return Ok(told.clone());
        }
        if !may_call {
            return Err(Outcome::Unknown);
        }
        let (tell, told) = watch::channel(None);
        calls.insert(call.nonce.clone(), told.clone());
        drop(calls);
        self.counters.begin();
        let (shared, call) = (Arc::clone(self), call.clone());
        // The call goes on if the attempt is cut.
        tokio::spawn(async move {
            let mut told = match shared.apis.get(&call.upstream) {
                Some(api) => api.call(&call, &body).await,
                None => Told::without_answer(Outcome::Unreachable),
            };
            shared.counters.count(&call.upstream, told.outcome, told.body.len());
            drop(body);
            if let Some(body) = told.long.take() {
                shared.long.give(&call.nonce, body);
            }
            if let Ok(answer) = envelope(&call, told) {
                let _ = tell.send(Some(answer));
                // Nobody waits any more as soon as Restate has it.
                let _ = timeout(KEPT, tell.closed()).await;
            }
            shared.end(&call.nonce);
        });
        Ok(told)
    }
}

fn envelope(call: &Call, told: Told) -> anyhow::Result<Vec<u8>> {
    let (nonce, fingerprint) = (call.nonce.clone(), call.fingerprint.clone());
    encode(&Answer { nonce, fingerprint, outcome: told.outcome, headers: told.headers }, &told.body)
}

fn refuse(error: &anyhow::Error) -> TerminalError {
    TerminalError::new_with_code(400, format!("this is no call of the recorder's front: {error:#}"))
}
