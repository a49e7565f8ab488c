//! Bounds of the filter's counters in a real Envoy with two workers: label values, the number of series whatever tenants
//! come, and that no count is lost when the policy is replaced.

use std::cell::Cell;
use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::discovery::Discovery;
use e2e::gateway::{TestEnvironment, TestGateway, tools};
use e2e::raw::{Request, send_each};
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use serde_json::{Value, json};
use tempfile::TempDir;

const WORKERS: u64 = 2;
/// The default of `max_series`.
const MAX_SERIES: u64 = 2000;
/// The beginning of the series of a histogram.
const ATTEMPTS: &str = "idempotency_attempt_";
const TENANTS: u64 = 50_000;

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![
        sharing(
            start,
            vec![
                Test::new("label values are as they were written", labels),
                Test::new("a histogram of the attempts that clients tell", attempts),
            ],
        ),
        sharing(start, vec![Test::new("50,000 tenants: bounded series and memory, exact sums", tenants)]),
        sharing(start_reloaded, vec![Test::new("a replaced policy loses no count", reloaded)]),
    ])
}

/// The endpoint names, by path. Two of them end like names that Envoy itself makes labels of.
fn endpoints() -> [(&'static str, String); 5] {
    [
        ("/plain", "plain".to_owned()),
        ("/dots", "v1.x-y_z.create".to_owned()),
        ("/long", "e".repeat(128)),
        ("/code", "x_rq_200".to_owned()),
        ("/class", "http.api.rq_2xx".to_owned()),
    ]
}

fn policy(endpoints: &[(&str, String)]) -> Value {
    let routes =
        endpoints.iter().map(|(path, endpoint)| json!({"endpoint": endpoint, "path": path, "policy": "REQUIRED_A"}));
    json!({
        "version": 1,
        "backend": {"kind": "generic"},
        "identity": {"sources": [
            tokens::source(),
            {
                "name": "headers", "headers_owned_by": "tests", "tenant": "x-tenant", "project": "x-project",
                "subject": {"field": "x-user", "type": "user"},
            },
        ]},
        "routes": routes.collect::<Vec<_>>(),
    })
}

fn start() -> Result<TestGateway> {
    let spec = ListenerSpec { policy: policy(&endpoints()).to_string(), changes: vec![Change::EveryPath] };
    let around = TestEnvironment { concurrency: 2, ..TestEnvironment::default() };
    TestGateway::start_within(&around, &[("api".to_owned(), spec)])
}

/// One of the filter's counters: its name, its labels with their values, and its own value.
type Sample = (String, Vec<(String, String)>, u64);

fn samples(gateway: &TestGateway) -> Result<Vec<Sample>> {
    let text = gateway.admin("/stats/prometheus")?;
    let ours = text.lines().filter(|line| line.starts_with("idempotency_") && !line.starts_with(ATTEMPTS));
    ours.map(|line| {
        let (sample, value) = line.rsplit_once(' ').context("a sample")?;
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let labels = labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(label, value)| (label.to_owned(), value.trim_matches('"').to_owned()));
        Ok((name.to_owned(), labels.collect(), value.parse()?))
    })
    .collect()
}

/// The sum of a counter's samples.
fn sum(gateway: &TestGateway, counter: &str) -> Result<u64> {
    Ok(samples(gateway)?.iter().filter(|(name, ..)| name == counter).map(|(.., value)| value).sum())
}

/// The values of a label.
fn values(gateway: &TestGateway, counter: &str, label: &str) -> Result<BTreeSet<String>> {
    let samples = samples(gateway)?.into_iter().filter(|(name, ..)| name == counter);
    let labels = samples.flat_map(|(_, labels, _)| labels);
    Ok(labels.filter(|(name, _)| name == label).map(|(_, value)| value).collect())
}

fn labels(gateway: &TestGateway) -> Result<()> {
    let (longest, too_long) = ("t".repeat(63), "t".repeat(300));
    let fine = ["a", "a.b.c~d", "-", &longest];
    let refused = ["a;b", "a\"b", "a\\b", "\u{e9}", "a/b", "a:b", "a,b", "a=b", "a{b}", "a\nb", "_none", &too_long];
    let send = |path: &str, tenant: &str| -> Result<u16> {
        let token = gateway.token(&json!({"tenant_id": tenant, "project_id": "p", "sub": "u"}))?;
        Ok(gateway.http1("api", &Request::post(path).bearer(&token).header("idempotency-key", "k"))?.reply.status)
    };
    for tenant in fine {
        ensure!(send("/plain", tenant)? == 200, "{tenant}");
    }
    for tenant in refused {
        ensure!(send("/plain", tenant)? == 403, "{tenant}");
    }
    for (path, _) in endpoints() {
        ensure!(send(path, "a")? == 200, "{path}");
    }
    let all = (fine.len() + refused.len() + endpoints().len()) as u64;
    gateway.until("every request is counted", |gateway| Ok(sum(gateway, "idempotency_key_present_total")? == all))?;
    let tenants: BTreeSet<String> = fine.into_iter().chain(["_none"]).map(str::to_owned).collect();
    let seen = values(gateway, "idempotency_key_present_total", "tenant")?;
    ensure!(seen == tenants, "{seen:?} instead of {tenants:?}");
    let names: BTreeSet<String> = endpoints().into_iter().map(|(_, endpoint)| endpoint).collect();
    let seen = values(gateway, "idempotency_key_present_total", "endpoint")?;
    ensure!(seen == names, "{seen:?} instead of {names:?}");
    Ok(())
}

fn attempts(gateway: &TestGateway) -> Result<()> {
    for attempt in ["1", "1", "1", "2", "3", "1000", "first"] {
        gateway.http1("api", &Request::post("/plain").header("x-retry-attempt", attempt))?;
    }
    let token = gateway.user_token()?;
    gateway.http1("api", &Request::post("/plain").bearer(&token).header("x-retry-attempt", "2"))?;
    let of_tenant = "idempotency_attempt_bucket{tenant=\"acme\",project=\"shop\",endpoint=\"plain\",le=\"+Inf\"} 1";
    // Envoy merges histograms every five seconds.
    gateway.until("all values are there", |gateway| {
        Ok(gateway.admin("/stats/prometheus")?.contains(of_tenant)
            && buckets(gateway)?.last() == Some(&("+Inf".to_owned(), 6)))
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
        labels.strip_prefix("endpoint=\"plain\",le=\"")?.split_once("\"} ")
    });
    lines.map(|(le, count)| Ok((le.to_owned(), count.parse()?))).collect()
}

fn tenants(gateway: &TestGateway) -> Result<()> {
    let address = gateway.address("api")?;
    // Half of them forget the key.
    let has_key = |number: u64| number.is_multiple_of(2);
    let request = |number: u64| {
        let request = Request::post("/plain").header("x-tenant", format!("tenant-{number}"));
        let request = request.header("x-project", "shop").header("x-user", "u1").header("x-retry-attempt", "1");
        if has_key(number) { request.header("idempotency-key", "k1") } else { request }
    };
    let ask = |numbers| {
        send_each(address, numbers, request, |number, reply| {
            let expected = if has_key(number) { 200 } else { 400 };
            ensure!(reply.status == expected, "status {}", reply.status);
            Ok(())
        })
    };
    let counted = |requests: u64| {
        gateway.until("every request is counted", |gateway| {
            let [present, missing] = ["idempotency_key_present_total", "idempotency_key_missing_total"];
            Ok(sum(gateway, present)? == requests / 2 && sum(gateway, missing)? == requests / 2)
        })
    };
    ask(0..1000)?;
    counted(1000)?;
    let before = gateway.resident_bytes()?;
    ask(1000..TENANTS)?;
    counted(TENANTS)?;
    gateway.capture().take();
    let (after, series) = (gateway.resident_bytes()?, samples(gateway)?.len() as u64);
    // Beyond the bound each worker has the series of `_other`, and Envoy the counter of what was folded.
    ensure!(series <= WORKERS * MAX_SERIES + 5, "{series} series");
    ensure!(after < before + (64 << 20), "resident memory went from {before} to {after} bytes");
    // Those of a histogram are as many again, and those of `_other`.
    let all_attempts = || {
        let text = gateway.admin("/stats/prometheus")?;
        let buckets = text.lines().filter(|line| line.starts_with(ATTEMPTS)).map(str::to_owned);
        Ok::<_, anyhow::Error>(buckets.collect::<Vec<_>>())
    };
    let counted = |lines: &[String]| {
        let counts = lines.iter().filter_map(|line| line.strip_prefix("idempotency_attempt_count{")?.rsplit_once(' '));
        counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum::<u64>()
    };
    gateway.until("every attempt is there", |_| Ok(counted(&all_attempts()?) == TENANTS))?;
    let attempts = all_attempts()?.len() as u64;
    ensure!(
        (WORKERS * MAX_SERIES / 2..=WORKERS * MAX_SERIES + 22).contains(&attempts),
        "{attempts} series of a histogram"
    );
    let total = |name: &str| sum(gateway, name);
    let problems = total("idempotency_problem_total")?;
    ensure!(problems == TENANTS / 2, "{problems} problems");
    let named: u64 = samples(gateway)?
        .iter()
        .filter(|(_, labels, _)| labels.iter().any(|(label, value)| label == "tenant" && value != "_other"))
        .map(|(.., value)| value)
        .sum();
    // A forwarded request counts in two counters, its key and its answer, and a refused one in two, too.
    ensure!(named + total("idempotency_series_folded_total")? == 2 * TENANTS, "{named} counts name a tenant");
    Ok(())
}

struct Reloaded {
    gateway: TestGateway,
    discovery: Discovery,
    _directory: TempDir,
}

fn start_reloaded() -> Result<Reloaded> {
    let directory = tempfile::tempdir()?;
    let discovery = Discovery::new(directory.path().join("filter.yaml"), tools()?.filter);
    discovery.put(&versioned(0))?;
    let changes = vec![Change::EveryPath, Change::Instead(discovery.filter()?)];
    let listener = ListenerSpec { policy: String::new(), changes };
    let around = TestEnvironment { concurrency: 2, ..TestEnvironment::default() };
    let gateway = TestGateway::start_within(&around, &[("api".to_owned(), listener)])?;
    Ok(Reloaded { gateway, discovery, _directory: directory })
}

/// The bound on series in [`reloaded`], of one worker.
const FEW_SERIES: u64 = 4;

/// A policy that differs from others in nothing that is counted.
fn versioned(number: u64) -> String {
    let mut policy = policy(&endpoints());
    if let Some(members) = policy.as_object_mut() {
        members.insert("docs_url".to_owned(), json!(format!("https://v{number}.example.com")));
        members.insert("max_series".to_owned(), json!(FEW_SERIES));
    }
    policy.to_string()
}

/// Each policy is replaced as soon as it has counted something, so most counts have not reached Envoy by then. Each has a
/// tenant of its own, since the gateway keeps the series of earlier policies.
fn reloaded(setup: &Reloaded) -> Result<()> {
    let gateway = &setup.gateway;
    let sent = Cell::new(0);
    for number in 1..=10 {
        setup.discovery.put(&versioned(number))?;
        let docs = format!("https://v{number}.example.com");
        gateway.until("the policy is in force", |gateway| Ok(refused(gateway, number, &sent)?.starts_with(&docs)))?;
        for _ in 0..20 {
            refused(gateway, number, &sent)?;
        }
    }
    for counter in ["idempotency_key_missing_total", "idempotency_problem_total"] {
        gateway.until(&format!("{counter} is {}", sent.get()), |gateway| Ok(sum(gateway, counter)? >= sent.get()))?;
        ensure!(sum(gateway, counter)? == sent.get(), "{counter} is above {}", sent.get());
    }
    let is_named =
        |(_, labels, _): &&Sample| labels.iter().any(|(label, value)| label == "tenant" && value != "_other");
    let named = samples(gateway)?.iter().filter(is_named).count() as u64;
    ensure!((1..=WORKERS * FEW_SERIES).contains(&named), "{named} series name a tenant");
    println!("{} requests under 11 policies: each is counted once, in {named} series of tenants", sent.get());
    Ok(())
}

/// Sends a request of the tenant with this number without a key, and gives the `type` of the problem document.
fn refused(gateway: &TestGateway, number: u64, sent: &Cell<u64>) -> Result<String> {
    sent.set(sent.get() + 1);
    let tenant = format!("t{number}");
    let request = Request::post("/plain").header("x-tenant", tenant).header("x-project", "shop").header("x-user", "u1");
    let reply = gateway.http1("api", &request)?.reply;
    let kind = reply.json().get("type").and_then(Value::as_str).map(str::to_owned);
    kind.with_context(|| format!("status {}", reply.status))
}
