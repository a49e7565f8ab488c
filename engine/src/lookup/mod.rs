//! Looking up whose webhook a delivery is for, and with which secrets it is signed (DESIGN section 5).
//!
//! [`Lookups`] is a state machine: what happens goes in (a request asks, a reply comes or does not, time passes, a request
//! leaves), what is to be done comes out (calls to make, answers for requests that waited). It has no clock, no I/O and no
//! host. Time is Unix time in milliseconds, and need not be monotonic: what was fetched in the future is not trusted.
//!
//! | module | subject |
//! |---|---|
//! | `store` | one store's answers, how long they hold, who waits for them |
//! | `unkey` | bindings: `keys.verifyKey` |
//! | `openbao` | secrets: the KV engine, version 2 |
//! | `given` | stores that a document describes, for `explain` and tests |

mod given;
mod openbao;
mod store;
mod unkey;

pub use given::Given;

use crate::policy::Policy;
use crate::policy::document::{Binding, OpenBao, Secret, Service, Unkey};
use crate::provider::json::{self, Found, Pointer, Value};
use std::rc::Rc;
use store::{Decision, Store};

/// The longest body of a reply that is read, in bytes.
pub const MAX_REPLY_BYTES: usize = 65_536;
/// How often [`Lookups::tick`] wants to be called, in milliseconds.
pub const TICK_MS: u32 = 1000;

/// Which of the two stores something is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bindings, by webhook id
    Bindings,
    /// Secrets, by `{tenant}:{project}:{provider}`
    Secrets,
}

/// A question of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// To which store
    pub kind: Kind,
    /// For what
    pub key: Rc<str>,
    /// What is held has failed the asker: fetch it anew, unless that was done a moment ago
    pub anew: bool,
}

/// What a request gets to know.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The webhook's binding; it lists no secrets
    Binding(Rc<Binding>),
    /// Secrets, in the order in which they are tried
    Secrets(Rc<Vec<Secret>>),
    /// The store says that there is none, and why
    Unknown(&'static str),
    /// It cannot be had or used, and why
    Unavailable(&'static str),
}

/// Identifies a call until its reply or its failure has been told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    kind: Kind,
    key: Rc<str>,
    number: u32,
    /// It is for the version before the current one.
    previous: bool,
}

/// An HTTP request to make. It holds credentials and is never shown.
pub struct Call {
    /// To tell what became of it
    pub ticket: Ticket,
    /// The gateway's cluster
    pub cluster: String,
    /// Pseudo headers first; names in lower case
    pub headers: Vec<(&'static str, String)>,
    /// The body
    pub body: Vec<u8>,
    /// When it has failed, in milliseconds
    pub timeout_ms: u32,
}

/// What a call brought.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'r> {
    /// The status; none if there was no HTTP answer
    pub status: Option<u16>,
    /// The body; none if it is longer than [`MAX_REPLY_BYTES`]
    pub body: Option<&'r [u8]>,
}

/// What a store's health came to, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// Which store
    pub kind: Kind,
    /// Why it gives no answers; none if it does again
    pub trouble: Option<&'static str>,
}

/// The stores of one policy and VM.
pub struct Lookups {
    unkey: Option<Unkey>,
    openbao: Option<OpenBao>,
    bindings: Store,
    secrets: Store,
    last_call: u32,
    calls: Vec<Call>,
    answers: Vec<(u32, Answer)>,
}

impl Lookups {
    /// The stores that a policy names; none if it names none.
    pub fn of(policy: &Policy) -> Option<Self> {
        let (unkey, openbao) = (policy.unkey.clone(), policy.openbao.clone());
        if unkey.is_none() && openbao.is_none() {
            return None;
        }
        Some(Self {
            bindings: Store::new(unkey.as_ref().map(|unkey| &unkey.service)),
            secrets: Store::new(openbao.as_ref().map(|openbao| &openbao.service)),
            unkey,
            openbao,
            last_call: 0,
            calls: Vec::new(),
            answers: Vec::new(),
        })
    }

    /// A request, known by `stream`, asks. Without an answer it has to wait: [`Lookups::next_answer`] tells. It waits for
    /// one thing at a time.
    pub fn ask(&mut self, stream: u32, ask: &Ask, now: u64) -> Option<Answer> {
        let Decision { answer, call } = self.store(ask.kind).decide(&ask.key, ask.anew, now);
        let asked = answer.is_none();
        if call {
            self.call(ask.kind, &ask.key, now, asked);
        }
        if asked {
            self.store(ask.kind).wait(&ask.key, stream, ask.anew);
        }
        answer
    }

    /// A call to make.
    pub fn next_call(&mut self) -> Option<Call> {
        self.calls.pop()
    }

    /// A request that waited, and its answer.
    pub fn next_answer(&mut self) -> Option<(u32, Answer)> {
        self.answers.pop()
    }

    /// The answer for one request, if it is there already.
    pub fn answer_for(&mut self, stream: u32) -> Option<Answer> {
        let place = self.answers.iter().position(|(waiter, _)| *waiter == stream)?;
        Some(self.answers.swap_remove(place).1)
    }

    /// A call has been answered, or ([`Reply::status`]) has not and never will be.
    pub fn replied(&mut self, ticket: &Ticket, reply: &Reply<'_>, now: u64) {
        let Ticket { kind, key, number, previous } = ticket;
        let Some(in_time) = self.store(*kind).reply_of(key, *number, now) else { return };
        let verdict = match (in_time, kind, previous) {
            (None, ..) => store::Verdict::unreachable(*kind),
            (_, Kind::Bindings, _) => unkey::read(reply),
            (Some(current), Kind::Secrets, true) => openbao::with_previous(current, reply),
            (_, Kind::Secrets, false) => {
                let grace = self.openbao.as_ref().map_or(0, |openbao| openbao.grace_ms);
                match openbao::read(reply, now, grace) {
                    openbao::Read::Verdict(verdict) => verdict,
                    // A version that is new brings the one before it along.
                    openbao::Read::AlsoVersion(version, current) => {
                        let ticket = self.ticket(Kind::Secrets, key, true);
                        self.secrets.go_on(&ticket, current, now);
                        return self.calls.extend(self.openbao.as_ref().map(|bao| openbao::call(bao, ticket, version)));
                    }
                }
            }
        };
        self.settle(*kind, key, verdict, now);
    }

    /// Time has passed: what is used and about to expire is fetched, what has expired is dropped.
    pub fn tick(&mut self, now: u64) {
        for kind in [Kind::Bindings, Kind::Secrets] {
            for (key, is_lost) in self.store(kind).tick(now) {
                if is_lost {
                    self.settle(kind, &key, store::Verdict::unreachable(kind), now);
                } else {
                    self.call(kind, &key, now, false);
                }
            }
        }
    }

    /// A request that waits for this is gone, or waits no longer. It is still fetched: others may want it.
    pub fn left(&mut self, stream: u32, ask: &Ask) {
        self.store(ask.kind).forget(&ask.key, stream);
        self.answers.retain(|(waiter, _)| *waiter != stream);
    }

    /// A store whose health has changed since this was last asked.
    pub fn changed_health(&mut self) -> Option<Health> {
        let change = |kind, store: &mut Store| store.changed_health().map(|trouble| Health { kind, trouble });
        change(Kind::Bindings, &mut self.bindings).or_else(|| change(Kind::Secrets, &mut self.secrets))
    }

    /// How many positive answers are held, how many negative ones, and how many calls are under way.
    pub fn sizes(&self) -> [usize; 3] {
        let (bindings, secrets) = (self.bindings.sizes(), self.secrets.sizes());
        std::array::from_fn(|place| bindings.get(place).unwrap_or(&0) + secrets.get(place).unwrap_or(&0))
    }

    const fn store(&mut self, kind: Kind) -> &mut Store {
        match kind {
            Kind::Bindings => &mut self.bindings,
            Kind::Secrets => &mut self.secrets,
        }
    }

    fn ticket(&mut self, kind: Kind, key: &Rc<str>, previous: bool) -> Ticket {
        self.last_call = self.last_call.wrapping_add(1);
        Ticket { kind, key: Rc::clone(key), number: self.last_call, previous }
    }

    /// Begins a call, of which there is one for each key. `asked`: a request waits for it.
    fn call(&mut self, kind: Kind, key: &Rc<str>, now: u64, asked: bool) {
        let ticket = self.ticket(kind, key, false);
        self.store(kind).begin(&ticket, now, asked);
        // Nobody asks for what the policy does not name; if it were so, the call would be lost after a while.
        self.calls.extend(match kind {
            Kind::Bindings => self.unkey.as_ref().map(|unkey| unkey::call(unkey, ticket)),
            Kind::Secrets => self.openbao.as_ref().map(|openbao| openbao::call(openbao, ticket, 0)),
        });
    }

    /// Keeps a verdict and answers everybody who waits for it.
    fn settle(&mut self, kind: Kind, key: &Rc<str>, verdict: store::Verdict, now: u64) {
        let answers = self.store(kind).settle(key, verdict, now);
        self.answers.extend(answers);
    }
}

/// The header lines that every call begins with.
fn head(service: &Service, method: &str, path: String) -> Vec<(&'static str, String)> {
    vec![
        (":method", method.to_owned()),
        (":path", path),
        (":authority", service.authority.clone()),
        ("accept", "application/json".to_owned()),
    ]
}

/// A credential as the value of a header; none if the gateway adds it.
fn credential(service: &Service) -> Option<String> {
    match &service.credential {
        Some(Secret::Value(value)) => String::from_utf8(value.clone()).ok(),
        Some(Secret::Env(_)) | None => None,
    }
}

/// The value at each of these places of a JSON text; none if it is no JSON.
fn places<'b>(body: &'b [u8], places: &[&str]) -> Option<Vec<Found<'b>>> {
    let pointers: Vec<Pointer> = places.iter().filter_map(|place| Pointer::parse(place, false)).collect();
    json::find(body, &pointers.iter().collect::<Vec<_>>()).ok()
}

/// The text that was found, if it is one.
fn text(found: Found<'_>) -> Option<Vec<u8>> {
    match found {
        Found::Value(Value::Text(text)) => Some(text.decode().into_owned()),
        _ => None,
    }
}
