//! Looking up whose webhook a delivery is for, with which secrets it is signed (docs/contract.md section 5), and who holds an
//! API key (section 3).
//!
//! [`Lookups`] is a state machine. Its events are: a request looks something up, a reply comes or a call fails, time
//! passes, a request ends. Its outputs are calls to make and results for the requests that wait. It has no clock, no I/O
//! and no host. Times are Unix time in milliseconds and need not be monotonic: a result from the future is not served.
//!
//! | module | subject |
//! |---|---|
//! | `cache` | the cache of one store: results, calls under way, waiting requests |
//! | `pacing` | how many calls unknown keys cause |
//! | `unkey` | bindings, and holders of API keys: `keys.verifyKey` |
//! | `openbao` | secrets: the KV engine, version 2 |

mod cache;
mod openbao;
mod pacing;
mod unkey;

pub use pacing::SenderNetwork;

use crate::api_keys::KeyRegistry;
use crate::api_keys::{ApiKey, KeyHolder};
use crate::backend::restate::Progress;
use crate::call::{Call, CallReply};
use crate::codes::Reason;
use crate::policy::Policy;
use crate::policy::document::{OpenBao, Secret, Unkey};
use crate::webhooks::Binding;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cache::{CacheDecision, LookupCache, LookupOutcome, RequestedCall};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Bindings, by webhook id
    Bindings,
    /// Secrets, by `{tenant}:{project}:{provider}`
    Secrets,
    /// Holders of API keys, by the digest of a key and the permissions that a route asks for
    ApiKeys,
}

impl StoreKind {
    /// All stores.
    const ALL: [Self; 3] = [Self::Bindings, Self::Secrets, Self::ApiKeys];

    /// The store as metrics write it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bindings => "unkey",
            Self::Secrets => "openbao",
            Self::ApiKeys => "unkey_api_keys",
        }
    }
}

/// A lookup that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupRequest {
    /// The store
    pub kind: StoreKind,
    /// A webhook id, `{tenant}:{project}:{provider}`, or what stands for an API key
    pub key: Arc<str>,
    /// What is asked about an API key
    pub question: Option<KeyQuestion>,
    /// The cached result did not fit the request: a new call is made, unless the last one is recent
    pub force_refresh: bool,
}

/// What the registry is asked about an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyQuestion {
    /// The key
    pub key: ApiKey,
    /// The permissions that it needs, as a query of the registry
    pub permissions: Option<Arc<str>>,
}

impl LookupRequest {
    /// The lookup of a binding, or of secrets.
    pub fn new(kind: StoreKind, key: Arc<str>, force_refresh: bool) -> Self {
        Self { kind, key, question: None, force_refresh }
    }

    /// The lookup of an API key's holder. The cache knows the key by its SHA-256.
    pub fn about_key(question: KeyQuestion) -> Self {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(question.key.expose()));
        let key = match &question.permissions {
            Some(permissions) => format!("{digest} {permissions}").into(),
            None => digest.into(),
        };
        Self { kind: StoreKind::ApiKeys, key, question: Some(question), force_refresh: false }
    }

    /// How many bytes of what is asked the request keeps while it waits.
    pub(crate) fn counted(&self) -> usize {
        self.key.len() + self.question.as_ref().map_or(0, |question| question.key.expose().len())
    }
}

/// Why a store gives no value. The reasons are log values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupFailure {
    /// The store has no valid value for the key; the reason
    Unknown(Reason),
    /// The value could not be fetched, or is malformed; the reason
    Unavailable(Reason),
    /// The API key may not do what is asked; the reason
    Forbidden(Reason),
    /// The API key is above a rate limit
    RateLimited {
        /// After how long it may come again
        seconds: u32,
    },
}

/// The reason of a lookup whose call was not made, or whose reply was lost.
const LOST: Reason = Reason::LookupLost;

/// Where the result of a lookup came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupOrigin {
    /// The cache, before the result expired
    Cache,
    /// The cache, after the result expired, because the store is down
    Stale,
    /// A call that the request waited for
    Call,
}

/// What a store answers.
#[derive(Debug, Clone)]
pub struct StoreAnswer<T> {
    /// The value, or why there is none
    pub result: Result<T, LookupFailure>,
    /// Where the result came from
    pub origin: LookupOrigin,
}

impl<T> StoreAnswer<T> {
    /// The answer of a call that a request waited for.
    const fn fetched(result: Result<T, LookupFailure>) -> Self {
        Self { result, origin: LookupOrigin::Call }
    }

    /// The answer without a value.
    const fn unavailable(reason: Reason) -> Self {
        Self::fetched(Err(LookupFailure::Unavailable(reason)))
    }

    /// The answer as metrics write it: `hit`, `stale`, `miss`, `not_found`, or the reason of a failure.
    pub const fn name(&self) -> &'static str {
        match (&self.result, self.origin) {
            (Err(LookupFailure::Unavailable(reason)), _) => reason.name(),
            (Err(LookupFailure::Unknown(_)), _) => "not_found",
            (Err(LookupFailure::Forbidden(_)), _) => "forbidden",
            (Err(LookupFailure::RateLimited { .. }), _) => "rate_limited",
            (Ok(_), LookupOrigin::Cache) => "hit",
            (Ok(_), LookupOrigin::Stale) => "stale",
            (Ok(_), LookupOrigin::Call) => FETCHED,
        }
    }
}

/// What a store answers to a [`LookupRequest`], or what a call without a cache gives. The reasons of failures are log values.
#[derive(Debug, Clone)]
pub enum LookupAnswer {
    /// The webhook's binding; it lists no secrets
    Binding(StoreAnswer<Arc<Binding>>),
    /// Secrets, in the order in which they are tried
    Secrets(StoreAnswer<Arc<Vec<Secret>>>),
    /// The holder of an API key
    Holder(StoreAnswer<Arc<KeyHolder>>),
    /// The invocation's id, `inv_[A-Za-z0-9]+`
    Invocation(Result<Box<str>, Reason>),
    /// The fingerprint of the first claim under the key
    FirstClaim(Result<Box<str>, Reason>),
    /// How far the work of the invocation is
    Output(Result<Progress, Reason>),
}

/// The value that a store has for a key.
#[derive(Debug, Clone)]
enum StoreValue {
    /// A binding, from the store of bindings
    Binding(Arc<Binding>),
    /// Secrets, from the store of secrets
    Secrets(Arc<Vec<Secret>>),
    /// The holder of an API key, from the registry
    Holder(Arc<KeyHolder>),
}

impl LookupAnswer {
    /// The answer of a store. Its value tells what was asked; where it has none, `kind` does.
    fn of_store(kind: StoreKind, StoreAnswer { result, origin }: StoreAnswer<StoreValue>) -> Self {
        match (result, kind) {
            (Ok(StoreValue::Binding(binding)), _) => Self::Binding(StoreAnswer { result: Ok(binding), origin }),
            (Ok(StoreValue::Secrets(secrets)), _) => Self::Secrets(StoreAnswer { result: Ok(secrets), origin }),
            (Ok(StoreValue::Holder(holder)), _) => Self::Holder(StoreAnswer { result: Ok(holder), origin }),
            (Err(why), StoreKind::Bindings) => Self::Binding(StoreAnswer { result: Err(why), origin }),
            (Err(why), StoreKind::Secrets) => Self::Secrets(StoreAnswer { result: Err(why), origin }),
            (Err(why), StoreKind::ApiKeys) => Self::Holder(StoreAnswer { result: Err(why), origin }),
        }
    }
}

/// A call was made, and it gave a value; as metrics write it.
pub(crate) const FETCHED: &str = "miss";

impl LookupRequest {
    /// The answer if the call was not made, or its reply was lost.
    pub(crate) fn lost(&self) -> LookupAnswer {
        LookupAnswer::of_store(self.kind, StoreAnswer::unavailable(LOST))
    }
}

/// Identifies a call until [`Lookups::replied`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallId {
    kind: StoreKind,
    key: Arc<str>,
    number: u32,
    /// The call is for the previous version of the secrets
    previous: bool,
}

impl CallId {
    /// The store as metrics write it.
    pub(crate) const fn store_name(&self) -> &'static str {
        self.kind.name()
    }
}

/// The health of a store, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreHealth {
    /// Which store
    pub kind: StoreKind,
    /// The reason why the last call failed; `None` if it succeeded
    pub trouble: Option<Reason>,
}

/// The stores of one policy and VM.
pub struct Lookups {
    unkey: Option<Unkey>,
    openbao: Option<OpenBao>,
    registry: Option<KeyRegistry>,
    bindings: LookupCache,
    secrets: LookupCache,
    api_keys: LookupCache,
    last_call: u32,
    calls: Vec<(CallId, Call)>,
    answers: Vec<(u32, LookupAnswer)>,
}

impl Lookups {
    /// The lookups of a policy; `None` if it names no store.
    pub fn of(policy: &Policy) -> Option<Self> {
        let (unkey, openbao) = (policy.unkey().cloned(), policy.openbao().cloned());
        let registry = policy.key_registry().cloned();
        if unkey.is_none() && openbao.is_none() && registry.is_none() {
            return None;
        }
        Some(Self {
            bindings: LookupCache::new(unkey.as_ref().map(|unkey| &unkey.service), true),
            secrets: LookupCache::new(openbao.as_ref().map(|openbao| &openbao.service), true),
            // Nothing keeps the API keys, which calls need.
            api_keys: LookupCache::new(registry.as_ref().map(|registry| &registry.unkey.service), false),
            unkey,
            openbao,
            registry,
            last_call: 0,
            calls: Vec::new(),
            answers: Vec::new(),
        })
    }

    /// Looks something up for the request with the number `stream`; `sender` tells who sent it, if the gateway knows. `None`: the
    /// request has to wait until [`Lookups::next_answer`] gives its answer. A request waits for one lookup at a time.
    pub fn look_up(
        &mut self,
        stream: u32,
        request: &LookupRequest,
        sender: &dyn Fn() -> Option<SenderNetwork>,
        now: u64,
    ) -> Option<LookupAnswer> {
        let kind = request.kind;
        match self.store(kind).decide(&request.key, request.force_refresh, sender, now) {
            CacheDecision::Answer { answer, refresh } => {
                if refresh {
                    self.call(request.kind, request.question.as_ref(), &request.key, now, None);
                }
                Some(LookupAnswer::of_store(kind, answer))
            }
            CacheDecision::Wait(call) => {
                if call.is_some() {
                    self.call(request.kind, request.question.as_ref(), &request.key, now, call);
                }
                self.store(request.kind).add_waiter(&request.key, stream, request.force_refresh);
                None
            }
        }
    }

    /// The next call to make, with the id for its reply.
    pub fn next_call(&mut self) -> Option<(CallId, Call)> {
        self.calls.pop()
    }

    /// The next request that has waited, and its answer.
    pub fn next_answer(&mut self) -> Option<(u32, LookupAnswer)> {
        self.answers.pop()
    }

    /// The answer for one request, if there is one already.
    pub fn answer_for(&mut self, stream: u32) -> Option<LookupAnswer> {
        let index = self.answers.iter().position(|(waiter, _)| *waiter == stream)?;
        Some(self.answers.swap_remove(index).1)
    }

    /// Takes the reply to a call. A call that failed has a reply without [`CallReply::status`].
    pub fn replied(&mut self, id: &CallId, reply: &CallReply<'_>, now: u64) {
        let CallId { kind, key, number, previous } = id;
        let Some(in_time) = self.store(*kind).match_reply(key, *number, now) else { return };
        let outcome = match (in_time, kind, previous) {
            (None, ..) => LookupOutcome::unreachable(*kind),
            (_, StoreKind::Bindings, _) => unkey::read(reply),
            (_, StoreKind::ApiKeys, _) => {
                let none = [const { None }; 3];
                let members = self.registry.as_ref().map_or(&none, |registry| &registry.members);
                unkey::read_holder(reply, members, now)
            }
            (Some(current), StoreKind::Secrets, true) => openbao::with_previous(current, reply),
            (_, StoreKind::Secrets, false) => {
                let grace = self.openbao.as_ref().map_or(0, |openbao| openbao.grace_ms);
                match openbao::read(reply, now, grace) {
                    openbao::Read::Outcome(outcome) => outcome,
                    // During the rotation grace the previous version is valid too.
                    openbao::Read::AlsoVersion(version, current) => {
                        let id = self.call_id(StoreKind::Secrets, key, true);
                        self.secrets.replace_call(&id, current, now);
                        return self.calls.extend(self.openbao.as_ref().map(|bao| openbao::call(bao, id, version)));
                    }
                }
            }
        };
        self.complete(*kind, key, outcome, now);
    }

    /// Removes expired results, begins refreshes and gives up lost calls.
    pub fn tick(&mut self, now: u64) {
        for kind in StoreKind::ALL {
            for (key, is_lost) in self.store(kind).tick(now) {
                if is_lost {
                    self.complete(kind, &key, LookupOutcome::unreachable(kind), now);
                } else {
                    self.call(kind, None, &key, now, None);
                }
            }
        }
    }

    /// Forgets a request that waits for a lookup. The call goes on, since other requests may wait for it.
    pub fn cancel(&mut self, stream: u32, request: &LookupRequest) {
        self.store(request.kind).remove_waiter(&request.key, stream);
        self.answers.retain(|(waiter, _)| *waiter != stream);
    }

    /// A store whose health has changed since the last call of this.
    pub fn changed_health(&mut self) -> Option<StoreHealth> {
        let change =
            |kind, store: &mut LookupCache| store.changed_health().map(|trouble| StoreHealth { kind, trouble });
        change(StoreKind::Bindings, &mut self.bindings)
            .or_else(|| change(StoreKind::Secrets, &mut self.secrets))
            .or_else(|| change(StoreKind::ApiKeys, &mut self.api_keys))
    }

    /// The numbers of cached positive results, of cached negative results and of calls under way, of all stores.
    pub fn sizes(&self) -> [usize; 3] {
        let sizes = [&self.bindings, &self.secrets, &self.api_keys].map(LookupCache::sizes);
        std::array::from_fn(|index| sizes.iter().map(|sizes| sizes.get(index).unwrap_or(&0)).sum())
    }

    const fn store(&mut self, kind: StoreKind) -> &mut LookupCache {
        match kind {
            StoreKind::Bindings => &mut self.bindings,
            StoreKind::Secrets => &mut self.secrets,
            StoreKind::ApiKeys => &mut self.api_keys,
        }
    }

    fn call_id(&mut self, kind: StoreKind, key: &Arc<str>, previous: bool) -> CallId {
        self.last_call = self.last_call.wrapping_add(1);
        CallId { kind, key: Arc::clone(key), number: self.last_call, previous }
    }

    /// Begins a call; there is at most one for each key. A call about an API key needs the `question`. `requested`: a request
    /// waits for it.
    fn call(
        &mut self,
        kind: StoreKind,
        question: Option<&KeyQuestion>,
        key: &Arc<str>,
        now: u64,
        requested: Option<RequestedCall>,
    ) {
        let id = self.call_id(kind, key, false);
        self.store(kind).begin(&id, now, requested);
        // A request only needs stores that the policy names. If not, no call is made, and the lookup fails as a lost call.
        self.calls.extend(match kind {
            StoreKind::Bindings => self.unkey.as_ref().map(|unkey| unkey::call(unkey, id)),
            StoreKind::Secrets => self.openbao.as_ref().map(|openbao| openbao::call(openbao, id, 0)),
            StoreKind::ApiKeys => {
                let asked = self.registry.as_ref().zip(question);
                asked.map(|(registry, question)| unkey::key_call(&registry.unkey, id, question))
            }
        });
    }

    /// Ends a call and queues the answers of the requests that wait for it.
    fn complete(&mut self, kind: StoreKind, key: &Arc<str>, outcome: LookupOutcome, now: u64) {
        let answers = self.store(kind).complete(key, outcome, now).into_iter();
        self.answers.extend(answers.map(|(stream, answer)| (stream, LookupAnswer::of_store(kind, answer))));
    }
}
