//! docs/operate.md has the metrics that the engine can count, and what is said of each here.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use edge_idempotency_engine::{MetricKind, metric_names};
use std::collections::BTreeSet;
use testkit::cases::workspace;

const BEGIN: &str = "<!-- metrics: written by crates/engine/tests/metrics_page.rs -->\n";
const END: &str = "<!-- end of metrics -->\n";

/// What is said of each metric: the values that its own labels can have, and what it has one for each.
const TEXTS: &[(&str, &[&str], &str)] = &[
    (
        "idempotency_key_present_total",
        &["`A`, `B`", "A: `bare`, `structured`, `repeated`; B: `header`, `json`, `form`, `composite`"],
        "request with a key, valid or not, on a route that makes keys; verified delivery with an identifier",
    ),
    (
        "idempotency_key_missing_total",
        &["the policy"],
        "request without a key on such a route; verified delivery without an identifier",
    ),
    (
        "idempotency_key_invalid_total",
        &["[reasons](callers.md#reasons-of-idempotency_key_invalid)"],
        "key that was refused, or would be without shadow mode",
    ),
    (
        "transport_translation_failed_total",
        &["the provider", "[reasons](webhooks.md)"],
        "verified delivery that was refused: it makes no key, or no target",
    ),
    (
        "idempotency_delivery_acknowledged_total",
        &["the provider", "[reasons](webhooks.md)"],
        "verified delivery that was answered 200 without a call",
    ),
    (
        "idempotency_signature_failed_total",
        &["the provider, or the signed caller", "[reasons](webhooks.md)"],
        "signature that was refused; its tenant is not known",
    ),
    ("idempotency_problem_total", &["[codes](callers.md)"], "problem document that was sent"),
    (
        "idempotency_answer_total",
        &["`stored`, `replayed`, `processing`, `recovered`, `passed`", "`true`, `false`"],
        "answer to a request with a key, a recovery or an operation that no problem document replaced",
    ),
    ("idempotency_cache_hit_total", &["`success`, `error`"], "replay of the backend"),
    (
        "handler_internal_dedup_hit_total",
        &[],
        "answer of a Case C handler that says it is a hit (`x-idempotency-internal-hit: true`, or `internal_hit`)",
    ),
    (
        "idempotency_shadow_total",
        &["`rewrite`, `refuse`", "[codes](callers.md)"],
        "request in shadow mode whose key would be rewritten, or that would be refused",
    ),
    (
        "idempotency_lookup_total",
        &["`unkey`, `unkey_api_keys`, `openbao`, `restate`, `guard`", "see below"],
        "lookup that a decided request needed; claim at the guard",
    ),
    ("idempotency_key_collision_total", &["`enforce`, `observe`"], "request whose key was used with another request"),
    (
        "idempotency_answer_unshaped_total",
        &["`body_not_json`, `body_encoded`, `body_too_long`, `body_kept_back`, `member_missing`, `member_unusable`"],
        "answer that kept its status 200 although the route has `answer`",
    ),
    ("idempotency_lookup_milliseconds", &["as above"], "histogram: call of a lookup with a reply or a timeout"),
    ("idempotency_attempt", &[], "histogram: decided request with `X-Retry-Attempt`; more than 100 is 100"),
    (
        "idempotency_series_folded_total",
        &[],
        "increment that went to `_other`. It has no label, and is 0 from the start on",
    ),
];

const TAIL: &str = "
The `result` of a lookup is one of these, or the reason why there is none:

| result | meaning |
|---|---|
| `hit`, `miss` | the cache had it; a call gave it |
| `stale` | the cache had it beyond its time, while the store is down |
| `not_found` | there is no valid binding or API key |
| `forbidden`, `rate_limited` | of API keys |
| `match`, `mismatch` | of claims at the guard |
| `body_too_large`, `observing_full` | `observe` made no claim: the body is too long, or there is no room for it |

";

/// The labels of every metric that has labels.
const COMMON: [&str; 3] = ["tenant", "project", "endpoint"];

fn row(name: &str, labels: &[&str]) -> String {
    let (_, values, one_for_each) =
        TEXTS.iter().find(|(known, ..)| *known == name).unwrap_or_else(|| panic!("no text about {name}"));
    let own: Vec<_> = labels.iter().filter(|label| !COMMON.contains(label)).collect();
    assert_eq!(own.len(), values.len(), "{name}: each label of its own has its values");
    let own: Vec<_> = own.iter().zip(*values).map(|(label, values)| format!("`{label}`: {values}")).collect();
    format!("| `{name}` | {} | {one_for_each} |\n", own.join("<br>"))
}

fn table(wanted: MetricKind) -> String {
    metric_names().filter(|(kind, ..)| *kind == wanted).map(|(_, name, labels)| row(name, &labels)).collect()
}

fn section() -> String {
    let rows = table(MetricKind::Counter) + &table(MetricKind::Histogram);
    format!("\n| metric | its own labels | one for each |\n|---|---|---|\n{rows}{TAIL}")
}

/// With `UPDATE_DOCS=1` the section is written anew.
#[test]
fn the_page_has_the_metrics_of_the_code() {
    let file = workspace().join("docs/operate.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (old, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, format!("{before}{BEGIN}{}{END}{after}", section())).unwrap();
        return;
    }
    assert_eq!(old, section(), "UPDATE_DOCS=1 cargo test --test engine metrics_page writes it");
}

#[test]
fn nothing_is_said_of_metrics_that_there_are_not() {
    let known: BTreeSet<&str> = metric_names().map(|(_, name, _)| name).collect();
    let told: BTreeSet<&str> = TEXTS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(known, told);
}
