//! The filter's counters in Envoy's `/stats/prometheus`: a mix of requests with known counts, over two workers, with the
//! labels as `deploy/demo/envoy.yaml` takes them out of the names.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::json;

const LISTENER: &str = "api";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("counts and labels", counts),
        Test::new("tenants beyond max_series share a series", folded),
        Test::new("a histogram of the attempts that clients tell", attempts),
    ];
    Ok(vec![sharing(start, tests)])
}

fn start() -> Result<TestGateway> {
    let policy = |endpoint: &str, max_series: u32| {
        json!({
            "version": 1,
            "backend": {"kind": "restate"},
            "identity": {"sources": [{
                "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
            }]},
            "routes": [{"endpoint": endpoint, "path": "/api/v1/refunds", "policy": "REQUIRED_A"}],
            "max_series": max_series,
        })
        .to_string()
    };
    let listeners = [
        (
            LISTENER.to_owned(),
            ListenerSpec { policy: policy("refunds.create", 2000), changes: vec![Change::EveryPath] },
        ),
        ("small".to_owned(), ListenerSpec { policy: policy("small", 4), changes: vec![Change::EveryPath] }),
    ];
    TestGateway::start_within(&TestEnvironment { concurrency: 2, ..TestEnvironment::default() }, &listeners)
}

/// Sends a request so often, and gives the statuses.
fn send(
    gateway: &TestGateway,
    listener: &str,
    tenant: &str,
    key: Option<&str>,
    answer: &Answer,
    times: usize,
) -> Result<u16> {
    let token = gateway.token(&json!({"tenant_id": tenant, "project_id": "shop", "sub": "u1"}))?;
    let mut request = Request::post("/api/v1/refunds").bearer(&token);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let mut status = 0;
    for _ in 0..times {
        status = gateway.http1_answered(listener, &request, answer)?.reply.status;
    }
    Ok(status)
}

fn restate(status: u16, more: &[(&str, &str)]) -> Answer {
    let lines = [("content-type", "application/json"), ("x-restate-id", "inv_1")].iter().chain(more);
    let headers = lines.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    Answer { status, headers, ..Answer::default() }
}

fn attempts(gateway: &TestGateway) -> Result<()> {
    for attempt in ["1", "1", "1", "2", "3", "1000", "first"] {
        gateway.http1("small", &Request::post("/nowhere").header("x-retry-attempt", attempt))?;
    }
    let mut of_tenants = Vec::new();
    // The small listener has room for four series, and a histogram is 22.
    for (listener, tenant, [shown, project]) in
        [(LISTENER, "acme", ["acme", "shop"]), ("small", "globex", ["_other", "_other"])]
    {
        let token = gateway.token(&json!({"tenant_id": tenant, "project_id": "shop", "sub": "u1"}))?;
        gateway.http1(listener, &Request::post("/nowhere").bearer(&token).header("x-retry-attempt", "2"))?;
        of_tenants.push(format!("tenant=\"{shown}\",project=\"{project}\",endpoint=\"_unmatched\",le=\"+Inf\"}} 1"));
    }
    // Envoy merges histograms every five seconds.
    gateway.until("all values are there", |gateway| {
        let text = gateway.admin("/stats/prometheus")?;
        let there = of_tenants.iter().all(|labels| text.contains(&format!("idempotency_attempt_bucket{{{labels}")));
        Ok(there && buckets(gateway)?.last() == Some(&("+Inf".to_owned(), 6)))
    })?;
    let expected = [("0.5", 0), ("1", 3), ("5", 5), ("10", 5), ("25", 5), ("50", 5), ("100", 6)];
    let seen = buckets(gateway)?;
    let same = expected.iter().zip(&seen).all(|((le, count), seen)| (*le, *count) == (seen.0.as_str(), seen.1));
    ensure!(same, "{seen:?}");
    Ok(())
}

/// The buckets of the attempts of nobody: upper bound and count.
fn buckets(gateway: &TestGateway) -> Result<Vec<(String, u64)>> {
    let text = gateway.admin("/stats/prometheus")?;
    let lines = text.lines().filter_map(|line| {
        let labels = line.strip_prefix("idempotency_attempt_bucket{tenant=\"_none\",project=\"_none\",")?;
        labels.strip_prefix("endpoint=\"_unmatched\",le=\"")?.split_once("\"} ")
    });
    lines.map(|(le, count)| Ok((le.to_owned(), count.parse()?))).collect()
}

/// The filter's counters of an endpoint by name and labels.
fn seen(gateway: &TestGateway, endpoint: &str) -> Result<BTreeMap<String, u64>> {
    let text = gateway.admin("/stats/prometheus")?;
    let of_endpoint = format!("endpoint=\"{endpoint}\"");
    let ours = text.lines().filter(|line| !line.starts_with('#') && line.contains(&of_endpoint));
    ours.map(|line| {
        let (name, value) = line.rsplit_once(' ').context("a sample")?;
        Ok((name.to_owned(), value.parse()?))
    })
    .collect()
}

fn counts(gateway: &TestGateway) -> Result<()> {
    let expires = [("idempotency-expires", "2026-11-23T00:00:00Z")];
    let mix: [(&str, Option<&str>, Answer, usize, u16); 6] = [
        ("acme", Some("k1"), restate(200, &[]), 5, 200),
        ("acme", Some("\"k1\""), restate(200, &expires), 3, 200),
        ("globex", Some("k1"), restate(409, &expires), 2, 409),
        ("acme", None, Answer::default(), 4, 400),
        ("acme", Some("a/b"), Answer::default(), 1, 400),
        ("no tenant", Some("k1"), Answer::default(), 2, 403),
    ];
    for (tenant, key, answer, times, status) in &mix {
        let seen = send(gateway, LISTENER, tenant, *key, answer, *times)?;
        ensure!(seen == *status, "{tenant} {key:?}: {seen} instead of {status}");
    }
    let series = |name: &str, labels: &str, tenant: &str, count: u64| {
        let project = if tenant == "_none" { "_none" } else { "shop" };
        let all = format!("{labels}tenant=\"{tenant}\",project=\"{project}\",endpoint=\"refunds.create\"");
        (name.to_owned(), labels_of(&all), count)
    };
    let expected = vec![
        series("idempotency_key_present_total", "case=\"A\",form=\"bare\",", "acme", 6),
        series("idempotency_key_present_total", "case=\"A\",form=\"structured\",", "acme", 3),
        series("idempotency_key_present_total", "case=\"A\",form=\"bare\",", "globex", 2),
        series("idempotency_key_present_total", "case=\"A\",form=\"bare\",", "_none", 2),
        series("idempotency_key_missing_total", "class=\"REQUIRED_A\",", "acme", 4),
        series("idempotency_key_invalid_total", "reason=\"charset\",", "acme", 1),
        series("idempotency_problem_total", "code=\"idempotency_key_required\",", "acme", 4),
        series("idempotency_problem_total", "code=\"idempotency_key_invalid\",", "acme", 1),
        series("idempotency_problem_total", "code=\"identity_invalid\",", "_none", 2),
        series("idempotency_answer_total", "outcome=\"stored\",error=\"false\",", "acme", 5),
        series("idempotency_answer_total", "outcome=\"replayed\",error=\"false\",", "acme", 3),
        series("idempotency_answer_total", "outcome=\"replayed\",error=\"true\",", "globex", 2),
        series("idempotency_cache_hit_total", "restate_status=\"success\",", "acme", 3),
        series("idempotency_cache_hit_total", "restate_status=\"error\",", "globex", 2),
    ];
    let all = |seen: &BTreeMap<String, u64>| -> Vec<(String, Vec<String>, u64)> {
        seen.iter().map(|(name, count)| taken_apart(name, *count)).collect()
    };
    let sorted = |mut list: Vec<(String, Vec<String>, u64)>| {
        list.sort();
        list
    };
    let expected = sorted(expected);
    // Counts reach the gateway with the next tick of each worker.
    let told = gateway
        .until("the counts are as expected", |gateway| Ok(sorted(all(&seen(gateway, "refunds.create")?)) == expected));
    told.with_context(|| format!("{:#?}\ninstead of {expected:#?}", seen(gateway, "refunds.create")))
}

/// Name and labels, without those that Envoy adds.
fn taken_apart(sample: &str, count: u64) -> (String, Vec<String>, u64) {
    let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
    (name.to_owned(), labels_of(labels.trim_end_matches('}')), count)
}

fn labels_of(text: &str) -> Vec<String> {
    let mut labels: Vec<String> = text.split(',').map(str::to_owned).collect();
    labels.sort();
    labels
}

fn folded(gateway: &TestGateway) -> Result<()> {
    for tenant in ["t1", "t2", "t3", "t4", "t5", "t6"] {
        send(gateway, "small", tenant, Some("k1"), &restate(200, &[]), 2)?;
    }
    let sum = |name: &str| -> Result<u64> {
        let seen = seen(gateway, "small")?;
        Ok(seen.iter().filter(|(sample, _)| sample.starts_with(name)).map(|(_, count)| count).sum())
    };
    gateway.until("every request is counted", |_| {
        Ok(sum("idempotency_key_present_total")? == 12 && sum("idempotency_answer_total")? == 12)
    })?;
    let series = seen(gateway, "small")?;
    // Each of the two workers has four series, and those of `_other`.
    ensure!(series.len() <= 2 * 4 + 2, "{series:#?}");
    ensure!(series.keys().any(|sample| sample.contains("tenant=\"_other\"")), "{series:#?}");
    gateway.until("what was folded is counted", |gateway| {
        Ok(gateway.admin("/stats/prometheus")?.lines().any(|line| line.starts_with("idempotency_series_folded_total")))
    })
}
