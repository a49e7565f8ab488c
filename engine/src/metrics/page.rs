//! docs/metrics.md, from the counters and histograms and what is said of each here. It is compiled for tests only.

use super::series::FOLDED;
use super::{Counter, Histogram};

const HEAD: &str = "\
# Metrics

<!-- Made from engine/src/metrics/ by `UPDATE_DOCS=1 cargo test --workspace --lib metrics::page`. Change the code, or page.rs there. -->

What the filter counts, and what a gateway shows of it: in Envoy at `/stats/prometheus`, in KrakenD at the bridge's own address.
[Operations](operations.md#metrics) says how to read them, how many series there are, and which counters of the gateway belong to them;
[the dashboard and the alerts](../observability/README.md) use them; [the contract](contract.md#9-telemetry) says which identity a request is
counted for, and when a count arrives. Names and labels are part of the contract.

Each metric but the last counter has the labels `tenant`, `project` and `endpoint`, and its own.
";

/// What a counter's own labels can be, and what it counts one for each.
const fn counts(counter: Counter) -> (&'static [&'static str], &'static str) {
    match counter {
        Counter::KeyPresent => (
            &["`A`, `B`", "A: `bare`, `structured`, `repeated`; B: `header`, `json`, `form`, `composite`"],
            "request that brought a key, valid or not, on a route that makes keys, and was not refused before its key was read (a \
             signature that does not fit, an ambiguous path); verified delivery with an identifier",
        ),
        Counter::KeyMissing => (
            &["the policy"],
            "request without a key on such a route; verified delivery without an identifier. Where the handler deduplicates \
             (`HANDLER_INTERNAL_C`) nobody looks for one, so neither is counted",
        ),
        Counter::KeyInvalid => (
            &["[reasons](errors.md#reasons-of-idempotency_key_invalid)"],
            "key that was refused, or would be without shadow mode, also the key in a recovery's path",
        ),
        Counter::TranslationFailed => (
            &["[providers](providers.md)", "[reasons](webhooks.md#what-a-refusal-means)"],
            "verified delivery that was refused because no key, or no target, can be made",
        ),
        Counter::DeliveryAcknowledged => (
            &["[providers](providers.md)", "[reasons](webhooks.md#what-a-refusal-means)"],
            "verified delivery that was answered 200 without a call (`on_unmatched: acknowledge`)",
        ),
        Counter::SignatureFailed => (
            &["the provider, or the signed caller", "[reasons](webhooks.md#what-a-refusal-means)"],
            "signature that was refused; its tenant is not known. A secret that cannot be used is no such failure: it is answered 503",
        ),
        Counter::Problem => (
            &["[codes](errors.md)"],
            "problem document that was sent: a refusal, or one that replaced an error of the backend",
        ),
        Counter::Answer => (
            &["`stored`, `replayed`, `processing`, `recovered`, `passed`", "`true`, `false`"],
            "answer to a request with a key, to a recovery, or to a request for an operation, that no problem document replaced. An error \
             of the gateway itself that is not replaced is `passed`, too",
        ),
        Counter::CacheHit => (
            &["`success`, `error`"],
            "replay of the backend, whatever its kind, also one whose error a problem document replaced; recoveries are not counted",
        ),
        Counter::HandlerHit => (
            &[],
            "answer of a Case C handler with the header `x-idempotency-internal-hit: true`, which is removed from every answer, or with \
             `true` at the pointer of the route's [`internal_hit`](policy.md#routesinternal_hit); one with both counts once",
        ),
        Counter::Shadow => (
            &["`rewrite`, `refuse`", "[codes](errors.md)"],
            "request in shadow mode whose key would be rewritten, or that would be refused",
        ),
        Counter::Lookup => (
            &["`unkey`, `unkey_api_keys`, `openbao`, `restate`, `guard`", "[see below](#results-of-lookups)"],
            "lookup that a decided request needed; claim at the guard, with `observe` when its reply comes",
        ),
        Counter::KeyCollision => (
            &["`enforce`, `observe`"],
            "request whose key was used with another request; with `enforce` it was refused",
        ),
        Counter::Unshaped => (
            &["`body_not_json`, `body_encoded`, `body_too_long`, `body_kept_back`, `member_missing`, `member_unusable`"],
            "answer of a target that kept its status 200 although the route has [`answer`](policy.md#routesanswer)",
        ),
    }
}

const fn records(histogram: Histogram) -> (&'static [&'static str], &'static str) {
    match histogram {
        Histogram::LookupTime => (
            &["as of the counter of lookups"],
            "call of a lookup with a reply or a timeout: its time. Calls to `restate` and `guard` have the caller's tenant and project; \
             those to `unkey` and `openbao` have `_none`, because nobody knows yet who sends a delivery, and a call that no request has \
             begun just now (a refresh, an earlier secret) has no endpoint either",
        ),
        Histogram::Attempt => (
            &[],
            "decided request with the header `X-Retry-Attempt`, which a client may set to the number of the attempt: digits, and more \
             than 100 is 100. Anything else is ignored, and of several lines the last one counts. The header goes to the backend unchanged",
        ),
    }
}

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
| `_other` | tenant and project of what is beyond `telemetry.max_series` |
";

fn row(name: &str, labels: &[&str], (values, one_for_each): (&[&str], &str)) -> String {
    assert_eq!(labels.len(), values.len(), "{name}: each label has its values");
    let labels: Vec<_> = labels.iter().zip(values).map(|(label, values)| format!("`{label}`: {values}")).collect();
    format!("| `{name}` | {} | {one_for_each} |\n", labels.join("<br>"))
}

fn page() -> String {
    let mut page = format!("{HEAD}\n## Counters\n\n| counter | its own labels | one for each |\n|---|---|---|\n");
    for counter in Counter::ALL {
        page += &row(counter.name(), counter.labels(), counts(counter));
    }
    page += &row(
        FOLDED,
        &[],
        (&[], "increment that went to a series of `_other`. It has no label, and is there, at 0, as soon as a configuration has started"),
    );
    page += "\n## Histograms\n\n| histogram | its own label | one value for each |\n|---|---|---|\n";
    for histogram in Histogram::ALL {
        page += &row(histogram.name(), histogram.labels(), records(histogram));
    }
    page + TAIL
}

/// `UPDATE_DOCS=1` writes the page anew.
#[test]
fn the_page_has_the_metrics_of_the_code() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    assert!(std::fs::read_to_string(file).is_ok_and(|text| text == page()), "run this test with UPDATE_DOCS=1");
}
