//! docs/metrics.md has the metrics that the engine can count, and what is said of each here.
#![allow(clippy::panic, reason = "tests")]

use edge_idempotency_engine::{MetricKind, metric_names};
use std::collections::BTreeSet;

const HEAD: &str = "\
# Metrics

<!-- Made from the metrics of crates/engine/src/metrics/ by `UPDATE_DOCS=1 cargo test --test engine metrics_page`. Change the code, or
the texts in crates/engine/tests/metrics_page.rs. -->

What the filter counts, and what a gateway shows of it: in Envoy at `/stats/prometheus`, in KrakenD at the bridge's own address.
[Operations](operations.md#metrics) says how to read them, how many series there are, and which counters of the gateway belong to them;
[the dashboard and the alerts](../deploy/observability/README.md) use them; [the contract](contract.md#9-telemetry) says which identity a request is
counted for, and when a count arrives. Names and labels are part of the contract.

Each metric but the last counter has the labels `tenant`, `project` and `endpoint`, and its own.
";

/// What is said of each metric: the values that its own labels can have, and what it has one for each.
const TEXTS: &[(&str, &[&str], &str)] = &[
    (
        "idempotency_key_present_total",
        &["`A`, `B`", "A: `bare`, `structured`, `repeated`; B: `header`, `json`, `form`, `composite`"],
        "request that brought a key, valid or not, on a route that makes keys, and was not refused before its key was read (a \
         signature that does not fit, an ambiguous path); verified delivery with an identifier",
    ),
    (
        "idempotency_key_missing_total",
        &["the policy"],
        "request without a key on such a route; verified delivery without an identifier. Where the handler deduplicates \
         (`HANDLER_INTERNAL_C`) nobody looks for one, so neither is counted",
    ),
    (
        "idempotency_key_invalid_total",
        &["[reasons](errors.md#reasons-of-idempotency_key_invalid)"],
        "key that was refused, or would be without shadow mode, also the key in a recovery's path",
    ),
    (
        "transport_translation_failed_total",
        &["[providers](providers.md)", "[reasons](webhooks.md#what-a-refusal-means)"],
        "verified delivery that was refused because no key, or no target, can be made",
    ),
    (
        "idempotency_delivery_acknowledged_total",
        &["[providers](providers.md)", "[reasons](webhooks.md#what-a-refusal-means)"],
        "verified delivery that was answered 200 without a call (`on_unmatched: acknowledge`)",
    ),
    (
        "idempotency_signature_failed_total",
        &["the provider, or the signed caller", "[reasons](webhooks.md#what-a-refusal-means)"],
        "signature that was refused; its tenant is not known. A secret that cannot be used is no such failure: it is answered 503",
    ),
    (
        "idempotency_problem_total",
        &["[codes](errors.md)"],
        "problem document that was sent: a refusal, or one that replaced an error of the backend",
    ),
    (
        "idempotency_answer_total",
        &["`stored`, `replayed`, `processing`, `recovered`, `passed`", "`true`, `false`"],
        "answer to a request with a key, to a recovery, or to a request for an operation, that no problem document replaced. An error \
         of the gateway itself that is not replaced is `passed`, too",
    ),
    (
        "idempotency_cache_hit_total",
        &["`success`, `error`"],
        "replay of the backend, whatever its kind, also one whose error a problem document replaced; recoveries are not counted",
    ),
    (
        "handler_internal_dedup_hit_total",
        &[],
        "answer of a Case C handler with the header `x-idempotency-internal-hit: true`, which is removed from every answer, or with \
         `true` at the pointer of the route's [`internal_hit`](policy.md#routes); one with both counts once",
    ),
    (
        "idempotency_shadow_total",
        &["`rewrite`, `refuse`", "[codes](errors.md)"],
        "request in shadow mode whose key would be rewritten, or that would be refused",
    ),
    (
        "idempotency_lookup_total",
        &["`unkey`, `unkey_api_keys`, `openbao`, `restate`, `guard`", "[see below](#results-of-lookups)"],
        "lookup that a decided request needed; claim at the guard, with `observe` when its reply comes",
    ),
    (
        "idempotency_key_collision_total",
        &["`enforce`, `observe`"],
        "request whose key was used with another request; with `enforce` it was refused",
    ),
    (
        "idempotency_answer_unshaped_total",
        &["`body_not_json`, `body_encoded`, `body_too_long`, `body_kept_back`, `member_missing`, `member_unusable`"],
        "answer of a target that kept its status 200 although the route has [`answer`](policy.md#routesanswer)",
    ),
    (
        "idempotency_lookup_milliseconds",
        &["as of the counter of lookups"],
        "call of a lookup with a reply or a timeout: its time. Calls to `restate` and `guard` have the caller's tenant and project; \
         those to `unkey` and `openbao` have `_none`, because nobody knows yet who sends a delivery, and a call that no request has \
         begun just now (a refresh, an earlier secret) has no endpoint either",
    ),
    (
        "idempotency_attempt",
        &[],
        "decided request with the header `X-Retry-Attempt`, which a client may set to the number of the attempt: digits, and more \
         than 100 is 100. Anything else is ignored, and of several lines the last one counts. The header goes to the backend unchanged",
    ),
    (
        "idempotency_series_folded_total",
        &[],
        "increment that went to a series of `_other`. It has no label, and is there, at 0, as soon as a configuration has started",
    ),
];

const TAIL: &str = "
## Results of lookups

The `result` of `idempotency_lookup_total` is one of these, or else the reason why there is no result, as in `idempotency_reason`
([webhooks](webhooks.md#webhooks-that-are-looked-up)).

| result | meaning |
|---|---|
| `hit` | the cache had it |
| `stale` | the cache had it, beyond its time, while the store is down |
| `miss` | a call gave it; the only success of `restate` |
| `not_found` | the registry has no valid binding or API key, or a cached answer says so |
| `forbidden`, `rate_limited` | of API keys |
| `match`, `mismatch` | of claims at the guard |
| `body_too_large`, `observing_full` | `observe` made no claim: the body is too long, or the bodies that are kept leave no room for it |

## Values of labels

| value | meaning |
|---|---|
| `_none` | a value that is absent |
| `_unmatched` | the endpoint of a request that matches no route |
| `_operations` | the endpoint of a request for an operation |
| `_other` | tenant and project of what is beyond `max_series` |
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

fn page() -> String {
    let counters = format!(
        "## Counters\n\n| counter | its own labels | one for each |\n|---|---|---|\n{}",
        table(MetricKind::Counter)
    );
    let histograms = format!(
        "## Histograms\n\n| histogram | its own label | one value for each |\n|---|---|---|\n{}",
        table(MetricKind::Histogram)
    );
    format!("{HEAD}\n{counters}\n{histograms}{TAIL}")
}

/// With `UPDATE_DOCS=1` the page is written anew.
#[test]
fn the_page_has_the_metrics_of_the_code() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    let command = "UPDATE_DOCS=1 cargo test --test engine metrics_page";
    assert!(std::fs::read_to_string(file).is_ok_and(|text| text == page()), "docs/metrics.md is stale: {command}");
}

#[test]
fn nothing_is_said_of_metrics_that_there_are_not() {
    let known: BTreeSet<&str> = metric_names().map(|(_, name, _)| name).collect();
    let told: BTreeSet<&str> = TEXTS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(known, told);
}
