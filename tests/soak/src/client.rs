//! A client that retries as docs/callers.md says, and notes every attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::http::{Reply, Request};

/// The schedule of docs/callers.md.
pub const ATTEMPTS: u32 = 10;
const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// After its attempts a client keeps the key and tries again later: so often.
const ROUNDS: u32 = 3;

/// One attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// When it began, since the start of the run.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// Status and code, or what went wrong.
    pub outcome: String,
}

/// One request with all its attempts.
#[derive(Clone, Debug)]
pub struct RequestWait {
    /// When its first attempt began, since the start of the run.
    pub at: Duration,
    /// Until the answer was there.
    pub took: Duration,
    /// How many attempts it took.
    pub attempts: u32,
    /// Whether there was an answer.
    pub answered: bool,
}

/// What all clients noted.
pub struct Notes {
    start: Instant,
    noted: Mutex<Noted>,
}

/// Attempts and waits, in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Every attempt.
    pub attempts: Vec<Attempt>,
    /// Every request.
    pub waits: Vec<RequestWait>,
}

impl Notes {
    /// Begins now.
    pub fn begin() -> Self {
        Self { start: Instant::now(), noted: Mutex::default() }
    }

    /// Since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// What was noted so far.
    pub fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client of the gateways.
pub struct RetryingClient<'a> {
    /// Where it sends requests; each attempt takes any of them.
    pub gateways: &'a [String],
    /// Where it notes what happens.
    pub notes: &'a Notes,
    /// Its dice.
    pub random: fastrand::Rng,
}

/// An answer, and when the attempt that got it began.
pub struct Answered {
    /// The answer.
    pub reply: Reply,
    /// In milliseconds since 1970.
    pub asked_at_ms: u64,
}

/// What a client makes of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryVerdict {
    /// What its headers and its status say.
    AsAdvised,
    /// The same request once more.
    Again,
    /// The same, whatever `Retry-After` says.
    OwnSchedule,
    /// It is the answer.
    Final,
}

impl RetryingClient<'_> {
    /// Sends a request until there is an answer that says more than "try again", as `call` in docs/callers.md. `verdict`
    /// may know better what an answer means.
    pub async fn call_until(
        &mut self,
        request: impl Fn() -> Request,
        verdict: impl Fn(&Reply) -> RetryVerdict,
    ) -> Option<Answered> {
        let at = self.notes.elapsed();
        let mut attempts = 0;
        let mut answered = None;
        'rounds: for _ in 0..ROUNDS {
            for attempt in 0..ATTEMPTS {
                let asked_at_ms = now_ms();
                attempts += 1;
                let request = request().header("x-retry-attempt", attempts.to_string());
                let wait = match self.attempt(&request).await {
                    Some(reply) => match (verdict(&reply), wait_after(&reply)) {
                        (RetryVerdict::Final, _) | (RetryVerdict::AsAdvised, None) => {
                            answered = Some(Answered { reply, asked_at_ms });
                            break 'rounds;
                        }
                        (RetryVerdict::OwnSchedule, _) => Duration::ZERO,
                        (RetryVerdict::Again, _) => retry_after(reply.header("retry-after").unwrap_or_default()),
                        (RetryVerdict::AsAdvised, Some(wait)) => wait,
                    },
                    None => Duration::ZERO,
                };
                let most = CAP.min(BASE * 2_u32.pow(attempt));
                tokio::time::sleep(wait + most.mul_f64(self.random.f64())).await;
            }
        }
        let took = self.notes.elapsed().saturating_sub(at);
        self.notes.noted().waits.push(RequestWait { at, took, attempts, answered: answered.is_some() });
        answered
    }

    /// As [`RetryingClient::call_until`], for a request that is the same each time and whose every answer counts.
    pub async fn call(&mut self, request: &Request) -> Option<Answered> {
        self.call_until(|| request.clone(), |_| RetryVerdict::AsAdvised).await
    }

    /// One attempt, which the client gives up after `patience`: its connection is closed then.
    pub async fn abandon(&mut self, request: &Request, patience: Duration) {
        let gateway = self.gateway();
        // What the request did is found out later.
        let _ = tokio::time::timeout(patience, request.send(&gateway)).await;
    }

    fn gateway(&mut self) -> String {
        self.random.choice(self.gateways).cloned().unwrap_or_default()
    }

    async fn attempt(&mut self, request: &Request) -> Option<Reply> {
        let gateway = self.gateway();
        let at = self.notes.elapsed();
        let result = request.send(&gateway).await;
        let took = self.notes.elapsed().saturating_sub(at);
        let outcome = match &result {
            Ok(reply) => match reply.code() {
                code if code.is_empty() => reply.status.to_string(),
                code => format!("{} {code}", reply.status),
            },
            Err(error) => broken(&format!("{error:#}")).to_owned(),
        };
        self.notes.noted().attempts.push(Attempt { at, took, outcome });
        result.ok()
    }
}

/// Why there is no answer.
fn broken(error: &str) -> &'static str {
    if error.contains("cannot connect") {
        "no connection"
    } else if error.contains("no answer within") {
        "no answer in 30 s"
    } else {
        "broken connection"
    }
}

/// How long to wait at least before the same request is sent again; nothing if it must not be.
pub fn wait_after(reply: &Reply) -> Option<Duration> {
    let under_way = matches!(reply.status, 409 | 425) && reply.header("retry-after").is_some();
    let unknown = under_way || matches!(reply.status, 429 | 502 | 503 | 504);
    let again = match reply.header("idempotency-retry") {
        Some(advice) => matches!(advice, "same_key" | "wait"),
        None => unknown,
    };
    again.then(|| retry_after(reply.header("retry-after").unwrap_or_default()))
}

/// `Retry-After` is a number of seconds or a date.
pub fn retry_after(value: &str) -> Duration {
    let wait = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value)
            .ok()
            .and_then(|date| date.duration_since(SystemTime::now()).ok())
            .unwrap_or_default(),
    };
    wait.min(LONGEST_WAIT)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
