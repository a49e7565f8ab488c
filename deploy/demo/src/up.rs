//! `up` and `down`: a stack that stays, to try by hand. What runs is written down in `.run/up/`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use harness::http::Request;
use harness::ports::{Ports, loopback, loopback_url};
use harness::private;
use harness::process::Record;
use harness::senders::{LOOKED_UP, STRIPE_PATH, Senders};
use harness::stack::{Stack, StackOptions};
use harness::tokens::Signer;
use harness::tools::repository;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::callers::{ALICE, ALICE_GLOBEX, BOB, CALLERS, Caller, curl};
use crate::style::say;
use crate::tools;

/// What `down`, and a second `up`, need to know.
#[derive(Deserialize, Serialize)]
struct State {
    processes: Vec<Record>,
    ports: Ports,
}

/// Starts a stack and leaves it running, unless there is one.
pub(crate) async fn up(run_directory: &Path) -> Result<ExitCode> {
    let _lock = lock(run_directory)?;
    let directory = run_directory.join("up");
    if let Some(state) = read_state(&directory)? {
        if state.processes.iter().all(Record::is_running) {
            say("already up; `make down` stops it");
            say(hints(&directory, &state));
            return Ok(ExitCode::SUCCESS);
        }
        say("part of the last stack has ended; starting afresh");
        stop(&directory, &state)?;
    }

    say("preparing the sample service");
    let options = StackOptions { ports: Some(Ports::from_env()?), ..StackOptions::new(tools().await?, &directory) };
    let stack = Stack::start(options, &|progress| say(progress)).await?;
    let ports = stack.ports;
    fs::write(prometheus_file(&directory), prometheus(&ports)).context("cannot write Prometheus' configuration")?;
    private::write(&env_file(&directory), &variables(&stack.signer, &stack.senders, &ports)?)?;
    // From here on the stack stays: its records are on disk before it is let go.
    let mut stack = stack;
    let processes = stack.processes().iter().map(|process| process.record().clone()).collect();
    let state = State { processes, ports };
    write_state(&directory, &state)?;
    stack.detach();

    say("up; `make down` stops it");
    say(hints(&directory, &state));
    Ok(ExitCode::SUCCESS)
}

/// Stops what `up` started, and nothing else.
pub(crate) fn down(run_directory: &Path) -> Result<ExitCode> {
    let _lock = lock(run_directory)?;
    let directory = run_directory.join("up");
    match read_state(&directory)? {
        Some(state) => stop(&directory, &state)?,
        None => say("nothing is up"),
    }
    Ok(ExitCode::SUCCESS)
}

fn stop(directory: &Path, state: &State) -> Result<()> {
    for process in &state.processes {
        let ended = if process.kill()? { "stopped" } else { "was not running" };
        say(format!("{} (process {}) {ended}", process.name, process.pid));
    }
    fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))
}

/// Keeps two of these commands from working at once.
fn lock(run_directory: &Path) -> Result<File> {
    fs::create_dir_all(run_directory).with_context(|| format!("cannot make {}", run_directory.display()))?;
    let path = run_directory.join("up.lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another `up` or `down` is at work");
    }
    Ok(file)
}

fn state_file(directory: &Path) -> PathBuf {
    directory.join("state.json")
}

fn env_file(directory: &Path) -> PathBuf {
    directory.join("env")
}

fn prometheus_file(directory: &Path) -> PathBuf {
    directory.join("prometheus.yml")
}

fn read_state(directory: &Path) -> Result<Option<State>> {
    let path = state_file(directory);
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(serde_json::from_str(&text).with_context(|| format!("{} is not what `up` writes", path.display()))?))
}

fn write_state(directory: &Path, state: &State) -> Result<()> {
    let path = state_file(directory);
    fs::write(&path, serde_json::to_string_pretty(state)?).with_context(|| format!("cannot write {}", path.display()))
}

/// The shipped configuration of Prometheus, for this gateway.
fn prometheus(ports: &Ports) -> String {
    let rules = repository().join("deploy/observability/prometheus-rules.yaml");
    include_str!("../../observability/prometheus.yml")
        .replace("127.0.0.1:9901", &loopback(ports.admin).to_string())
        .replace("- prometheus-rules.yaml", &format!("- {}", rules.display()))
}

/// Where metrics, access log and dashboard are, and how to run a Prometheus.
fn observability(directory: &Path, state: &State) -> String {
    let metrics = format!("{}/stats/prometheus", loopback_url(state.ports.admin));
    let (repository, log) = (repository(), directory.join("access.log"));
    format!(
        r#"
# what the gateway counts
curl -s {metrics} | grep '^idempotency_'

# the access log: a JSON object for each request, which Envoy writes into the file within ten seconds
tail -n 3 {log}

# a Prometheus for this gateway, with the rules and alerts; then http://127.0.0.1:9090/alerts
{scripts}/tools.sh prometheus && {tools}/prometheus --config.file={config} \
  --storage.tsdb.path={data} --web.listen-address=127.0.0.1:9090

# the dashboard, to import into Grafana: {dashboard}
"#,
        log = log.display(),
        scripts = repository.join("scripts").display(),
        tools = repository.join(".tools/bin").display(),
        config = prometheus_file(directory).display(),
        data = directory.join("prometheus-data").display(),
        dashboard = repository.join("deploy/observability/grafana-dashboard.json").display(),
    )
}

/// The shell variables that the commands use.
fn variables(signer: &Signer, senders: &Senders, ports: &Ports) -> Result<String> {
    let mut text = String::new();
    for (name, port) in [
        ("GATEWAY", ports.gateway),
        ("RESTATE_ADMIN", ports.restate_admin),
        ("ENVOY_ADMIN", ports.admin),
        ("LEDGER", ports.ledger),
    ] {
        writeln!(text, "{name}={}", loopback_url(port))?;
    }
    for caller in &CALLERS {
        writeln!(text, "# {}", caller.introduction())?;
        writeln!(text, "{}={}", caller.variable, caller.token(signer)?)?;
    }
    writeln!(
        text,
        "# what Stripe, GitHub and Twilio sign their webhooks with, the scheduler its requests, and the filter operation ids"
    )?;
    for (name, value) in senders.environment() {
        writeln!(text, "{name}={value}")?;
    }
    writeln!(text, "# the same for the webhook whose owner and secret are looked up, {}", LOOKED_UP[0].path())?;
    writeln!(text, "LOOKED_UP_WHSEC={}", senders.looked_up)?;
    Ok(text)
}

/// A delivery that the shell signs as Stripe does.
fn stripe_delivery() -> String {
    format!(
        r#"
# a webhook from Stripe, signed here: 200, stored. Once more, a redelivery: replayed. With another body for the same
# signature: 401
EVENT='{{"id":"evt_1","type":"charge.refunded","data":{{"object":{{"id":"ch_1"}}}}}}'
T=$(date +%s); SIGNATURE=$(printf '%s.%s' "$T" "$EVENT" | openssl dgst -sha256 -hmac "$STRIPE_WHSEC" | sed 's/.* //')
curl -i "$GATEWAY{STRIPE_PATH}" -H "Stripe-Signature: t=$T,v1=$SIGNATURE" \
  -H 'Content-Type: application/json' -d "$EVENT"
"#
    )
}

/// Commands to try, each with what to expect.
fn hints(directory: &Path, state: &State) -> String {
    let refund = json!({"order_id": "order-1", "amount": 4200});
    let post = |key: &str| Request::post("/api/v1/refunds").header("Idempotency-Key", key).json(&refund);
    let tries: [(&str, Option<&Caller>, Request); 13] = [
        (
            "a first call: 200, Idempotency-Status: stored. Once more, a retry: Idempotent-Replayed: true",
            Some(&ALICE),
            post("refund-1"),
        ),
        ("the same key in quotes: the same key, so a replay", Some(&ALICE), post("\"refund-1\"")),
        (
            "the same key with another amount: 422 idempotency_key_reused",
            Some(&ALICE),
            Request::post("/api/v1/refunds")
                .header("Idempotency-Key", "refund-1")
                .json(&json!({"order_id": "order-1", "amount": 9900})),
        ),
        ("the same key from another user: a refund of his own", Some(&BOB), post("refund-1")),
        ("the same key from another tenant: again another", Some(&ALICE_GLOBEX), post("refund-1")),
        ("no key: 400 idempotency_key_required", Some(&ALICE), Request::post("/api/v1/refunds").json(&refund)),
        ("a malformed key: 400 idempotency_key_invalid", Some(&ALICE), post("refund 1!")),
        (
            "a key where none is allowed: 400 idempotency_key_prohibited",
            Some(&ALICE),
            Request::get("/api/v1/projects").header("Idempotency-Key", "list-1"),
        ),
        (
            "a cart, a virtual object of Restate's: 201, and where the order is",
            Some(&ALICE),
            Request::post("/api/v1/carts/c-42/checkout")
                .header("Idempotency-Key", "checkout-1")
                .json(&json!({"total": 9900})),
        ),
        (
            "work that nobody waits for: 202, and where to ask for its result",
            Some(&ALICE),
            Request::post("/api/v1/exports").json(&json!({"report": "refunds-of-2026"})),
        ),
        (
            "around the filter: 404",
            Some(&BOB),
            Request::post("/Refunds/create").header("Idempotency-Key", "mine").json(&refund),
        ),
        ("Restate's own API: 404", None, Request::get("/restate/health")),
        ("no token: 401", None, post("refund-1")),
    ];
    let mut text =
        format!("\n# the gateway's address and a token for each caller\n. {}\n", env_file(directory).display());
    for (what, caller, request) in tries {
        text.push_str(&format!("\n# {what}\n{}\n", curl(&request, caller)));
    }
    text.push_str(&stripe_delivery());
    text.push_str(
        r#"
# what Restate stored, and under which keys
curl -s "$RESTATE_ADMIN/query" -H 'Content-Type: application/json' -H 'Accept: application/json' \
  -d '{"query": "select id, target, idempotency_key, status from sys_invocation"}'

# how often the handlers ran and what they saw; how many effects there were
curl -s "$LEDGER/calls"
curl -s "$LEDGER/effects"
"#,
    );
    text.push_str(&observability(directory, state));
    text.push_str("\n# logs\n");
    for process in &state.processes {
        text.push_str(&format!("#   {} (process {}): {}\n", process.name, process.pid, process.log.display()));
    }
    text
}
