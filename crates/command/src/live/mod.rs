//! `check --live`: asks what a policy needs whether it is there, before and after a rollout.
//!
//! | module | subject |
//! |---|---|
//! | `arguments` | options: where everything is |
//! | `upstreams` | calls of the filter, made from here to the addresses of its clusters |
//! | `guard` | two claims with a key that nobody else has |
//! | `restate` | Restate's ingress and admin API: services, handlers, retention |
//! | `recorder` | the recorder: its APIs, and whether Restate knows it |
//! | `stores` | the registry and the secret store of webhooks |
//! | `key_sets` | the keys that verify tokens |
//! | `gateway` | the admin interface of Envoy: filter, policy, clusters, refused configurations |
//! | `chains` | listeners in such a dump: is the filter in their chains |
//! | `dump` | a filter of this project in a configuration dump of Envoy |

pub(crate) mod arguments;
mod chains;
mod dump;
mod gateway;
mod guard;
mod key_sets;
mod recorder;
mod restate;
mod stores;
mod upstreams;

use crate::lint::live_list::LIVE_WORKS;
use crate::lints::PolicyFinding;
use crate::lints::diagnostics::lint::Lint;
use crate::lints::list::NOT_SEEN;
use arguments::LiveArguments;
use edge_idempotency_engine::Policy;
use serde_json::Value;
use upstreams::Upstreams;

/// A policy, and what is known of its surroundings.
struct LiveCheck<'c> {
    args: &'c LiveArguments,
    policy: &'c Policy,
    document: &'c Value,
    upstreams: Upstreams<'c>,
    findings: Vec<PolicyFinding>,
}

impl LiveCheck<'_> {
    fn add(&mut self, lint: &'static Lint, pointer: &str, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(PolicyFinding::new(lint, pointer, message, help));
    }

    /// Something that answered as it should.
    fn works(&mut self, pointer: &str, message: impl Into<String>) {
        self.add(&LIVE_WORKS, pointer, message, "");
    }

    /// Something that was not asked, because nobody said where it is.
    fn not_asked(&mut self, pointer: &str, what: &str, option: &str) {
        self.add(&NOT_SEEN, pointer, format!("{what} was not asked"), format!("give {option}"));
    }
}

/// Asks everything that the options say where it is.
pub(crate) fn check(args: &LiveArguments, policy: &Policy, document: &Value) -> Vec<PolicyFinding> {
    let upstreams = Upstreams { args };
    let mut live = LiveCheck { args, policy, document, upstreams, findings: Vec::new() };
    guard::check(&mut live);
    restate::check(&mut live);
    recorder::check(&mut live);
    stores::check(&mut live);
    key_sets::check(&mut live);
    gateway::check(&mut live);
    live.findings
}
