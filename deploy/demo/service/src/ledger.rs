//! What happened in the service, kept in memory: which handlers ran, what they saw, and which effects they had.
//!
//! The ledger plays the part of the outside world (a payment provider, a mail server): an effect counted here is one that
//! cannot be undone. Reading it over the side port shows what reached the backend, independently of what clients were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// One run of a handler, as the handler saw it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HandlerRun {
    /// `Service/handler`.
    pub(crate) handler: &'static str,
    /// Key of the virtual object, if it is one.
    pub(crate) object_key: Option<String>,
    pub(crate) invocation_id: String,
    /// Every request header that Restate handed on, in no order. It keeps `idempotency-key` to itself.
    pub(crate) headers: Vec<(String, String)>,
}

#[derive(Default)]
struct Entries {
    calls: Vec<HandlerRun>,
    effects: BTreeMap<String, u64>,
    last_effect: u64,
    registered: BTreeMap<String, u64>,
    attempted: BTreeSet<String>,
    charges: BTreeMap<String, Charged>,
}

impl Entries {
    fn add_effect(&mut self, id: &str) -> u64 {
        self.last_effect += 1;
        *self.effects.entry(id.to_owned()).or_default() += 1;
        self.last_effect
    }
}

/// What a payment provider knows of a token.
#[derive(Clone, Copy, Default)]
pub(crate) struct Charged {
    /// The charge's running number
    pub(crate) number: u64,
    /// How often it was asked for
    pub(crate) attempts: u64,
}

/// Calls, effects, and the one table with a unique constraint that the Case C handler relies on.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Entries>);

/// `GET /calls`: the calls after a given number, and how many there are in all.
#[derive(Serialize)]
pub(crate) struct Calls {
    pub(crate) total: usize,
    pub(crate) calls: Vec<HandlerRun>,
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a handler ran.
    pub(crate) fn record_call(&self, call: HandlerRun) {
        self.entries().calls.push(call);
    }

    /// An effect on `id` that cannot be undone. Returns its running number.
    pub(crate) fn record_effect(&self, id: &str) -> u64 {
        self.entries().add_effect(id)
    }

    /// Whether the payment provider sees this order for the first time.
    pub(crate) fn is_first_attempt(&self, id: &str) -> bool {
        self.entries().attempted.insert(id.to_owned())
    }

    /// Inserts under a unique constraint: the registration's number, and whether it was there already.
    pub(crate) fn register(&self, unique: &str) -> (u64, bool) {
        let mut entries = self.entries();
        if let Some(number) = entries.registered.get(unique) {
            return (*number, true);
        }
        let number = entries.registered.len() as u64 + 1;
        entries.registered.insert(unique.to_owned(), number);
        *entries.effects.entry(unique.to_owned()).or_default() += 1;
        (number, false)
    }

    /// Charges for an order once for each token.
    pub(crate) fn charge(&self, token: &str, order: &str) -> Charged {
        let mut entries = self.entries();
        let mut charged = entries.charges.get(token).copied().unwrap_or_default();
        charged.attempts += 1;
        if charged.attempts == 1 {
            charged.number = entries.add_effect(order);
        }
        entries.charges.insert(token.to_owned(), charged);
        charged
    }

    /// Effects per id.
    pub(crate) fn effects(&self) -> BTreeMap<String, u64> {
        self.entries().effects.clone()
    }

    /// The calls after the first `after` ones.
    pub(crate) fn calls(&self, after: usize) -> Calls {
        let entries = self.entries();
        Calls { total: entries.calls.len(), calls: entries.calls.iter().skip(after).cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_add_up_and_registrations_do_not() {
        let ledger = Ledger::default();
        assert_eq!(ledger.record_effect("order-1"), 1);
        assert_eq!(ledger.record_effect("order-1"), 2);
        assert_eq!(ledger.register("acme/phone"), (1, false));
        assert_eq!(ledger.register("acme/phone"), (1, true));
        assert_eq!(ledger.register("globex/phone"), (2, false));
        let effects = ledger.effects();
        assert_eq!(effects["order-1"], 2);
        assert_eq!(effects["acme/phone"], 1);
    }

    #[test]
    fn a_token_is_charged_once() {
        let ledger = Ledger::default();
        let charged = |token| {
            let Charged { number, attempts } = ledger.charge(token, "order-1");
            (number, attempts)
        };
        assert_eq!([charged("a"), charged("a"), charged("b"), charged("a")], [(1, 1), (1, 2), (2, 1), (1, 3)]);
        assert_eq!(ledger.effects()["order-1"], 2);
    }

    #[test]
    fn calls_are_told_from_a_point_on() {
        let ledger = Ledger::default();
        for id in ["inv_1", "inv_2", "inv_3"] {
            ledger.record_call(HandlerRun {
                handler: "Refunds/create",
                object_key: None,
                invocation_id: id.to_owned(),
                headers: Vec::new(),
            });
        }
        let seen = ledger.calls(2);
        assert_eq!((seen.total, seen.calls.len()), (3, 1));
        assert_eq!(seen.calls[0].invocation_id, "inv_3");
        assert!(ledger.calls(9).calls.is_empty());
    }
}
