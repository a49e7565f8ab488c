//! The playbook (docs/testing.md): what a team should test of its own API. Each scenario is a few rows of a table, and runs against a
//! real Envoy and a real Restate; the accounts of the demo's sample service are the ledger.

mod inbox;
mod replays;
mod retries;
mod tables;

use std::fs;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::payouts::statement;
use e2e::runner::{Group, Test, runtime, sharing};
use harness::http::{Reply, Request};
use harness::stack::{Stack, StackOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

const POLICY: &str = include_str!("policy.json");
const TENANT: &str = "acme";
const PROJECT: &str = "health-prod";

/// A route of the gateway for payouts, which waits for three seconds only: the tests see within them that a payout is under way.
const IMPATIENT: &str = r#"              - name: payouts
                match:
                  safe_regex: {regex: "/restate/call/Accounts/[^/]+/payout"}
                  headers:
                  - name: x-edge-idempotency
                    present_match: true
                route: {cluster: backend-requests, timeout: 3s}
                request_headers_to_remove: [x-edge-idempotency]
"#;
/// The route of the demo's gateway before which it stands.
const PATIENT: &str = "              - name: backend\n                match:\n                  prefix: /\n";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let groups = [("replays", replays::tests()?), ("retries", retries::tests()?), ("inbox", inbox::tests()?)];
    let tests =
        groups.into_iter().flat_map(|(group, tests)| tests.into_iter().map(move |(_, test)| test.within(group)));
    Ok(vec![sharing(PlaybookSetup::start, tests.collect())])
}

/// The scenario's name, and its test.
type Scenario = (String, Test<PlaybookSetup>);

/// A test that has everything to itself.
fn scenario(name: &str, body: impl AsyncFnOnce(&mut Stack) -> Result<()> + Send + 'static) -> Scenario {
    let test = Test::new(name, move |setup: &PlaybookSetup| {
        let mut stack = setup.stack.lock().unwrap_or_else(PoisonError::into_inner);
        runtime()?.block_on(body(&mut stack))
    });
    (name.to_owned(), test)
}

struct PlaybookSetup {
    stack: Mutex<Stack>,
    _directory: TempDir,
}

impl PlaybookSetup {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let options = StackOptions { policy: POLICY.to_owned(), ..StackOptions::new(tools()?, directory.path()) };
        let stack = runtime()?.block_on(async {
            let mut stack = Stack::start(options, &|_| {}).await?;
            let file = directory.path().join("envoy.yaml");
            let config = fs::read_to_string(&file)?;
            ensure!(config.matches(PATIENT).count() == 1, "the gateway has another route to the backend");
            fs::write(&file, config.replace(PATIENT, &format!("{IMPATIENT}{PATIENT}")))?;
            stack.envoy.restart().await?;
            anyhow::Ok(stack)
        })?;
        Ok(Self { stack: Mutex::new(stack), _directory: directory })
    }
}

/// The account of a scenario.
fn account(scenario: &str) -> String {
    scenario.replace(' ', "-")
}

/// A request of a client, with its token.
fn by(stack: &Stack, user: &str, request: Request) -> Result<Request> {
    let claims = json!({"tenant_id": TENANT, "project_id": PROJECT, "sub": user});
    Ok(request.bearer(&stack.signer.mint(&claims)?))
}

/// `charge`, `refund`, `void` or `payout`; `amount` is the charge's id if a charge is to be void.
fn order(scenario: &str, operation: &str, key: &str, amount: &str) -> Result<Request> {
    let path = format!("/api/v1/accounts/{}/{operation}s", account(scenario));
    let body = match operation {
        "void" => json!({"charge": amount}),
        _ => json!({"amount": amount.parse::<u64>()?}),
    };
    let request = Request::post(&path).json(&body);
    Ok(if key == "-" { request } else { request.header("Idempotency-Key", key) })
}

/// The object's key of a scenario's account.
fn object(scenario: &str) -> String {
    format!("{TENANT}:{PROJECT}:{}", account(scenario))
}

/// In a word: the code of a problem document, or what became of the key, or what a consumer says of a message.
fn outcome(reply: &Reply) -> String {
    let duplicate = reply.json().get("duplicate").and_then(Value::as_bool);
    match (reply.code(), reply.header("idempotency-status"), duplicate) {
        (code, _, _) if !code.is_empty() => code,
        (_, Some(status), _) => status.to_owned(),
        (_, None, Some(true)) => "duplicate".to_owned(),
        (_, None, Some(false)) => "first".to_owned(),
        _ => "-".to_owned(),
    }
}

/// Compares an answer, and the account after it, with a row.
async fn compare(stack: &Stack, row: &tables::TableRow, reply: &Reply) -> Result<()> {
    let seen = (reply.status.to_string(), outcome(reply));
    ensure!(
        (seen.0.as_str(), seen.1.as_str()) == (row.get("status"), row.get("outcome")),
        "{row}: {seen:?} {}",
        reply.text()
    );
    // The policy shapes every answer of an operation that has made something.
    let made = reply.json().get("id").and_then(Value::as_str).map(str::to_owned);
    let location = reply.header("location").unwrap_or_default();
    if reply.status == 201 {
        let id = made.context("no id")?;
        ensure!(
            location.starts_with("/api/v1/accounts/") && location.ends_with(&format!("/{id}")),
            "{row}: {location}"
        );
    }
    entries(stack, row).await
}

/// Compares the number of the account's entries with a row; `?` is any.
async fn entries(stack: &Stack, row: &tables::TableRow) -> Result<()> {
    if row.get("entries") == "?" {
        return Ok(());
    }
    let entries = statement(&stack.restate, &object(row.get("scenario"))).await?.entries;
    ensure!(entries.to_string() == row.get("entries"), "{row}: {entries} entries");
    Ok(())
}
