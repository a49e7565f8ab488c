//! Envoy with two workers, both stores, and Prometheus; and all requests that the tests count.

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::lookup_stores::LookupStores;
use e2e::prometheus::{Programs, Prometheus};
use e2e::raw::Request;
use e2e::wire::PATIENCE;
use harness::faults::Fault;
use harness::openbao::MOUNT;
use harness::tokens;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::documents::text;
use super::expressions::rules_of_a_short_run;
use super::mix::Mix;

/// A rate needs two scrapes with an increment between them: each request is sent in both phases.
pub(crate) const PHASES: usize = 2;
/// The endpoint, and the listener, of more tenants than there are series.
pub(crate) const FOLDING: &str = "many-tenants";
/// The endpoint, and the listener, of webhooks that are looked up. Answers are kept for a second.
pub(crate) const HOOKS: &str = "hooks.looked-up";
/// The endpoint, on the same listener, of webhooks whose target is in the body.
pub(crate) const PROMISES: &str = "hooks.promises";
/// A listener whose VM fails at each request.
const FAILING: &str = "failing";
const TENANTS: usize = 6;

/// Everything that runs, after all requests were sent and counted.
pub(crate) struct ObservabilitySetup {
    pub(crate) prometheus: Prometheus,
    pub(crate) mix: Mix,
    /// How many deliveries were looked up while both stores answered.
    pub(crate) deliveries: usize,
    /// How many requests of many tenants were sent.
    pub(crate) of_many_tenants: usize,
    /// Envoy's counters of failed VMs, as its admin interface has them.
    pub(crate) vm_failures: Vec<(&'static str, u64)>,
    pub(crate) gateway: TestGateway,
    pub(crate) stores: LookupStores,
    _directory: TempDir,
}

impl ObservabilitySetup {
    pub(crate) fn start(programs: &Programs) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let stores = LookupStores::stand_ins()?;
        let mix = Mix::load()?;
        let mut listeners = mix.listeners.clone();
        let own = [(FOLDING, folding()), (HOOKS, hooks()), (FAILING, failing()?)];
        listeners.extend(own.map(|(name, listener)| (name.to_owned(), listener)));
        let around = TestEnvironment {
            concurrency: 2,
            environment: mix.environment.clone(),
            stores: Some(stores.stores()),
            ..TestEnvironment::default()
        };
        let gateway = TestGateway::start_within(&around, &listeners)?;
        let prometheus = Prometheus::start(
            programs,
            directory.path(),
            &gateway.admin_address(),
            &rules_of_a_short_run(&text("prometheus-rules.yaml")?)?,
        )?;
        let (deliveries, of_many_tenants, vm_failures) = (0, 0, Vec::new());
        let mut setup =
            Self { prometheus, mix, deliveries, of_many_tenants, vm_failures, gateway, stores, _directory: directory };
        for phase in 1..=PHASES {
            setup.phase(phase).with_context(|| format!("phase {phase}"))?;
        }
        Ok(setup)
    }

    /// Sends everything once, and waits until Prometheus has it.
    fn phase(&mut self, phase: usize) -> Result<()> {
        self.mix.send(&self.gateway)?;
        for tenant in 0..TENANTS {
            self.of_tenant(&format!("tenant-{tenant}"))?;
        }
        let (warm, cold) = (self.stores.hook(&format!("warm-{phase}"))?, format!("/webhooks/stripe/wh_cold_{phase}"));
        for event in 0..10 {
            let status = self.deliver(&warm.delivery(&format!("evt_{event}")))?;
            ensure!(status == 200, "a delivery: {status}");
        }
        let status = self.deliver(&Request::post(format!("/webhooks/stripe/wh_unknown_{phase}")))?;
        ensure!(status == 404, "a webhook that nobody knows: {status}");
        let promises = warm.path().replace("/webhooks/", "/promises/");
        let mut for_nobody = warm.delivery(&format!("evt_nobody_{phase}"));
        for_nobody.target = promises.into_bytes();
        let status = self.gateway.http1(HOOKS, &for_nobody)?.reply.status;
        ensure!(status == 200, "a delivery about nothing here: {status}");

        // Both stores are away: what is known is used, what is not known is refused.
        self.stores.unkey.server().fail(Fault::Status(500));
        self.stores.openbao_proxy.fail(Fault::Status(500));
        let status = self.deliver(&Request::post(cold))?;
        ensure!(status == 503, "a registry that is away: {status}");
        let stale = |store: &str| format!("idempotency_lookup_total{{.*store=\"{store}\".*result=\"stale\"");
        let (begin, mut deliveries) = (Instant::now(), 0);
        while self.counter(&stale("unkey"))? < phase as u64 || self.counter(&stale("openbao"))? < phase as u64 {
            deliveries += 1;
            ensure!(begin.elapsed() < PATIENCE, "no delivery used an old value");
            self.deliver(&warm.delivery(&format!("evt_stale_{deliveries}")))?;
        }
        self.stores.forget();
        self.fail_vms(phase as u64)?;
        self.mix.counted(&self.prometheus, phase)?;
        self.wait_for_the_rest()
    }

    /// A request of a tenant, in a gateway that has not enough series.
    pub(crate) fn of_tenant(&mut self, tenant: &str) -> Result<()> {
        let token = self.gateway.token(&json!({"tenant_id": tenant, "project_id": "shop", "sub": "u1"}))?;
        let request = Request::post("/api/v1/refunds").bearer(&token).header("idempotency-key", "k1");
        let status = self.gateway.http1(FOLDING, &request)?.reply.status;
        self.of_many_tenants += 1;
        ensure!(status == 200, "a request of {tenant}: {status}");
        Ok(())
    }

    /// Sends a delivery that is looked up, and gives the status.
    pub(crate) fn deliver(&mut self, delivery: &Request) -> Result<u16> {
        let status = self.gateway.http1_answered(HOOKS, delivery, &Answer::default())?.reply.status;
        if status == 200 {
            self.deliveries += 1;
        }
        Ok(status)
    }

    /// Sends requests to the VM that fails until it was replaced so often, and had a request while it was not.
    fn fail_vms(&mut self, times: u64) -> Result<()> {
        let counter = |name: &str| format!("envoy_wasm_edge_idempotency_vm_reload_{name}{{");
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let [success, failure, backoff] =
                ["success", "failure", "backoff"].map(|name| self.counter(&counter(name)));
            self.vm_failures = vec![("success", success?), ("failure", failure?), ("backoff", backoff?)];
            if matches!(self.vm_failures.as_slice(), [(_, success), _, (_, 1..)] if *success >= times) {
                return Ok(());
            }
            let status = self.gateway.http1(FAILING, &Request::post("/api/x"))?.reply.status;
            ensure!(status == 503, "a VM that failed: {status}");
        }
        bail!("the VM was not replaced: {:?}", self.vm_failures)
    }

    /// What is not in the mix reaches Prometheus, too.
    fn wait_for_the_rest(&self) -> Result<()> {
        let counted = |expression: &str, expected: u64| {
            let so = |prometheus: &Prometheus| {
                Ok(prometheus.query(expression)?.first().is_some_and(|sample| sample.value == expected as f64))
            };
            self.prometheus.until(&format!("{expression} == {expected}"), so)
        };
        let present = |endpoint: &str| format!("sum(idempotency_key_present_total{{endpoint=\"{endpoint}\"}})");
        counted(&present(FOLDING), self.of_many_tenants as u64)?;
        counted(&present(HOOKS), self.deliveries as u64)?;
        for (name, expected) in &self.vm_failures {
            counted(&format!("sum(envoy_wasm_edge_idempotency_vm_reload_{name})"), *expected)?;
        }
        Ok(())
    }

    /// The sum of Envoy's counters whose lines in `/stats/prometheus` begin with a pattern: texts, and `.*` between them.
    fn counter(&self, pattern: &str) -> Result<u64> {
        let text = self.gateway.admin("/stats/prometheus")?;
        let matches = |line: &&str| {
            let mut parts = pattern.split(".*");
            let first = parts.next().unwrap_or_default();
            let Some(mut rest) = line.strip_prefix(first) else { return false };
            parts.all(|part| match rest.split_once(part) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        };
        let values = text.lines().filter(matches).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        Ok(values.sum())
    }
}

fn identity() -> Value {
    json!({"sources": [tokens::source()]})
}

/// Room for four series in each worker.
fn folding() -> ListenerSpec {
    let policy = json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "identity": identity(),
        "routes": [{"endpoint": FOLDING, "path": "/api/v1/refunds", "policy": "REQUIRED_A"}],
        "max_series": 4,
    });
    ListenerSpec { policy: policy.to_string(), changes: Vec::new() }
}

fn hooks() -> ListenerSpec {
    let service = |cluster: &str| {
        json!({
            "cluster": cluster, "authority": format!("{cluster}.internal"), "timeout_ms": 20_000, "cache_ttl_s": 1,
        })
    };
    let mut openbao = service("openbao");
    if let Some(members) = openbao.as_object_mut() {
        members.insert("mount".to_owned(), json!(MOUNT));
    }
    let policy = json!({
        "version": 1,
        "backend": {"kind": "restate", "rewrite_path": true},
        "routes": [{
            "endpoint": HOOKS, "path": "/webhooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {},
            "target": "Hooks/receive",
        }, {
            "endpoint": PROMISES, "path": "/promises/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {},
            "target": "Promises/{tenant}:{project}:{provider}:{body:/data/object/id}/resolve", "on_unmatched": "acknowledge",
        }],
        "webhooks": {"unkey": service("unkey"), "openbao": openbao},
    });
    ListenerSpec { policy: policy.to_string(), changes: vec![Change::DeliveriesAnHour(None)] }
}

/// A plugin of the same name, whose VM fails at each request.
fn failing() -> Result<ListenerSpec> {
    let module = wat::parse_str(
        r#"(module
            (memory (export "memory") 1)
            (func (export "proxy_abi_version_0_2_1"))
            (func (export "proxy_on_memory_allocate") (param i32) (result i32) i32.const 1024)
            (func (export "proxy_on_vm_start") (param i32 i32) (result i32) i32.const 1)
            (func (export "proxy_on_configure") (param i32 i32) (result i32) i32.const 1)
            (func (export "proxy_on_context_create") (param i32 i32))
            (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) unreachable)
        )"#,
    )?;
    let filter = json!({"name": "edge-idempotency", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
        "config": {
            "name": "edge-idempotency", "root_id": "failing", "failure_policy": "FAIL_RELOAD",
            "reload_config": {"backoff": {"base_interval": "1s"}},
            "vm_config": {
                "vm_id": "failing", "runtime": "envoy.wasm.runtime.v8",
                "code": {"local": {"inline_bytes": testkit::signatures::base64(&module)}},
            },
        },
    }});
    Ok(ListenerSpec { policy: "{}".to_owned(), changes: vec![Change::Instead(filter)] })
}
