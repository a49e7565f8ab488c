//! Gives the records of a configuration's requests to the gateway, and writes their log lines.

use super::budget::{LineBudget, LineKind};
use super::record::{Record, RecordPart};
use super::struct_message::append;
use crate::bytes::equal;
use crate::exchange::{Exchange, Stage};
use crate::host::{Gateway, Host, LogLevel};
use crate::policy::Policy;

/// The type of the message that [`Host::set_record`] gets.
pub const RECORD_TYPE: &str = "type.googleapis.com/google.protobuf.Struct";

/// The prefix of the filter's lines in the gateway's log.
pub(crate) const PREFIX: &str = "edge-idempotency:";

/// What the requests of one configuration share for their records.
pub struct Recorder {
    /// The members that all requests of a route have in common, encoded, by the route's index; empty before the first one
    routes: Vec<Box<[u8]>>,
    /// The level of the gateway's log, as it was read last
    level: LogLevel,
    budget: LineBudget,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { routes: Vec::new(), level: LogLevel::Info, budget: LineBudget::default() }
    }
}

/// The record of one request, as the gateway has it.
#[derive(Debug, Default)]
pub(crate) struct GivenRecord {
    message: Vec<u8>,
    /// The length of the part that the response does not change
    fixed: usize,
}

impl Recorder {
    /// Takes a tick, of which there is one a second: reads the level of the gateway's log, and at the end of a window writes
    /// how many lines were left out.
    pub fn on_tick<G: Gateway>(&mut self, gateway: &G) {
        self.read_level(gateway);
        if self.budget.tick() {
            self.report(gateway);
        }
    }

    /// Reads the level of the gateway's log.
    pub fn read_level<G: Gateway>(&mut self, gateway: &G) {
        self.level = gateway.log_level();
    }

    /// Writes how many lines were left out since the last report.
    pub fn report<G: Gateway>(&mut self, gateway: &G) {
        self.budget.end_window(|kind, code, count| {
            let (kind, code) = (kind.word(), code.name());
            gateway.log(LogLevel::Info, &format!("{PREFIX} {count} {kind} lines with code {code} were left out"));
        });
    }

    /// Gives the record of an exchange that has reached a new stage to the gateway, and writes its log lines. `before` is the
    /// stage of the last call.
    pub(crate) fn record<H: Host>(
        &mut self,
        host: &H,
        exchange: &Exchange,
        policy: &Policy,
        before: Stage,
        given: &mut GivenRecord,
    ) {
        let is_first = before < Stage::RequestDecided;
        if policy.record {
            self.give(host, exchange, policy, is_first, given);
        }
        if self.level <= LogLevel::Info {
            self.log(host, exchange, policy, is_first);
        }
    }

    /// Gives the record to the gateway, if it is another than the one that the gateway has.
    fn give<H: Host>(
        &mut self,
        host: &H,
        exchange: &Exchange,
        policy: &Policy,
        is_first: bool,
        given: &mut GivenRecord,
    ) {
        if is_first {
            given.message.reserve(512);
            self.append_fixed(exchange, exchange.record(policy), &mut given.message);
            given.fixed = given.message.len();
        }
        // The new outcome stands behind the earlier one until it is known to be another.
        let end = given.message.len();
        append(&mut given.message, exchange.record(policy), RecordPart::Outcome);
        let outcomes =
            given.message.get(given.fixed..).and_then(|outcomes| outcomes.split_at_checked(end - given.fixed));
        if outcomes.is_some_and(|(earlier, now)| equal(earlier, now)) {
            given.message.truncate(end);
        } else {
            given.message.drain(given.fixed..end);
            // Nothing depends on the record: without it, the access log has less.
            let _ = host.set_record(&given.message);
        }
    }

    fn append_fixed(&mut self, exchange: &Exchange, record: Record<'_>, message: &mut Vec<u8>) {
        match exchange.route_index().filter(|_| !exchange.is_recovery()) {
            Some(route) => {
                if self.routes.len() <= route {
                    self.routes.resize_with(route + 1, Box::default);
                }
                let Some(shared) = self.routes.get_mut(route) else { return };
                if shared.is_empty() {
                    append(message, record, RecordPart::Route);
                    *shared = message.as_slice().into();
                } else {
                    message.extend_from_slice(shared);
                }
            }
            None => append(message, record, RecordPart::Route),
        }
        append(message, record, RecordPart::Request);
    }

    /// Writes a line for a problem document that is sent, for a verdict of shadow mode, and at the level `debug` for every
    /// other exchange. `is_first`: the exchange has no line yet.
    fn log<G: Gateway>(&mut self, gateway: &G, exchange: &Exchange, policy: &Policy, is_first: bool) {
        let is_debug = self.level == LogLevel::Debug;
        // Where the record shows what enforcing would refuse, a line about a replaced error of the backend would be untrue.
        let shown = exchange.problem().map(|problem| problem.code);
        let bounded = match (exchange.refusal(), exchange.shadow()) {
            (Some(problem), _) if shown == Some(problem.code) => Some((LineKind::Refused, problem.code)),
            (_, Some(Some(problem))) if is_first => Some((LineKind::Shadow, problem.code)),
            _ => None,
        };
        let (level, word) = match bounded {
            Some((kind, code)) if self.budget.allows(kind, code) => (LogLevel::Info, kind.word()),
            None if is_debug && is_first && exchange.shadow_verdict().is_some() => {
                (LogLevel::Debug, LineKind::Shadow.word())
            }
            None if is_debug && exchange.stage() == Stage::ResponseDecided => (LogLevel::Debug, "request"),
            _ => return,
        };
        write_line(gateway, level, word, exchange, policy);
    }
}

fn write_line<G: Gateway>(gateway: &G, level: LogLevel, word: &str, exchange: &Exchange, policy: &Policy) {
    let id = exchange.request_id().map(|id| id.to_string());
    let record = exchange.record(policy).to_json_with(id.as_deref());
    gateway.log(level, &format!("{PREFIX} {word} {record}"));
}
