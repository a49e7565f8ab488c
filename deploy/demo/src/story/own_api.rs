//! The steps with an API of one's own, one endpoint of which has moved to Restate: `examples/own-api` behind an Envoy of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use harness::envoy::{Envoy, EnvoyOptions};
use harness::http::Request;
use harness::ports::Ports;
use harness::process::Process;
use harness::stack::Stack;
use harness::tokens::ISSUER;
use harness::tools::repository;
use serde_json::json;

use super::checks::{check_refused, header, stored_key};
use crate::callers::ALICE;
use crate::narrator::{Narrator, Told};
use crate::style::say;

/// What `render envoy` makes of `policies/examples/own-api-and-restate.json`.
const CONFIGURATION: &str = include_str!("../../../../examples/own-api/two-backends.yaml");
const TITLE: &str = "An API of your own, with one endpoint at Restate";
/// How long the API may take to listen.
const READY: Duration = Duration::from_secs(30);

const ORDER_KEY: &str = "t-acme:health-prod:user:alice:order-1";
const REFUND_KEY: &str = "t-acme:health-prod:user:alice:refund-2001";

/// The API and its gateway.
struct OwnApi {
    api: Process,
    envoy: Envoy,
}

/// Tells them all.
pub(super) async fn tell(narrator: &mut Narrator<'_>) -> Result<()> {
    if Command::new("node").arg("--version").output().is_err() {
        narrator.leave_out(TITLE, "Node.js is not on PATH");
        return Ok(());
    }
    let own = OwnApi::start(narrator.stack()).await?;
    narrator.use_gateway(own.envoy.gateway_url());
    say(format!("\nfrom here on $GATEWAY is {}: an API of its own stands there, too", own.envoy.gateway_url()));
    orders(narrator, &own).await?;
    refunds(narrator, &own).await
}

impl OwnApi {
    async fn start(stack: &Stack) -> Result<Self> {
        let given = stack.envoy.options();
        let directory = given.run_dir.join("own-api");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut command = Command::new("node");
        command.arg(repository().join("examples/own-api/server.mjs")).arg("0");
        let mut api = Process::spawn("the API", &mut command, &directory.join("api.log"))?;
        let log = api.log().to_owned();
        api.ready(READY, async || port(&log).map(drop)).await?;

        let keys = directory.join("jwks.json");
        fs::write(&keys, stack.signer.jwks()).with_context(|| format!("cannot write {}", keys.display()))?;
        let ports = Ports::free()?;
        let mut config = CONFIGURATION.to_owned();
        for (there, here) in [
            ("port_value: 10000", format!("port_value: {}", ports.gateway)),
            ("port_value: 9901", format!("port_value: {}", ports.admin)),
            ("port_value: 9000", format!("port_value: {}", port(&log)?)),
            ("port_value: 8080", format!("port_value: {}", stack.ports.restate_ingress)),
            ("https://trial.example.com", ISSUER.to_owned()),
            ("\"jwks.json\"", format!("\"{}\"", keys.display())),
            ("/etc/envoy/edge_idempotency.wasm", given.filter.path().display().to_string()),
        ] {
            ensure!(config.contains(there), "two-backends.yaml does not have `{there}`");
            config = config.replace(there, &here);
        }
        let path = directory.join("envoy.yaml");
        fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
        let options = EnvoyOptions {
            run_dir: directory,
            gateway_port: ports.gateway,
            admin_port: ports.admin,
            stores: None,
            ..given.clone()
        };
        let envoy = Envoy::start_with(options, &path).await?;
        Ok(Self { api, envoy })
    }

    /// What the API wrote about the last request that it got.
    fn last(&self) -> Result<String> {
        let log = fs::read_to_string(self.api.log())?;
        Ok(log.lines().rfind(|line| !line.starts_with("listening")).unwrap_or("nothing").to_owned())
    }
}

/// The port that the API says it listens on.
fn port(log: &Path) -> Result<u16> {
    let text = fs::read_to_string(log)?;
    let port = text.lines().find_map(|line| line.strip_prefix("listening on "));
    Ok(port.context("the API does not listen yet")?.parse()?)
}

fn order() -> Request {
    Request::post("/orders").header("Idempotency-Key", "order-1").json(&json!({"item": "tea"}))
}

fn refund() -> Request {
    Request::post("/refunds")
        .header("Idempotency-Key", "refund-2001")
        .json(&json!({"order_id": "order-2001", "amount": 900}))
}

async fn orders(narrator: &mut Narrator<'_>, own: &OwnApi) -> Result<()> {
    narrator.step(TITLE);
    let first = narrator.tell(Some(&ALICE), order(), None).await?;
    narrator.why(
        "The policy has two backends, and this route is the API's: the API gets the key in Alice's namespace, and her token, \
         which it checks itself. Restate learns nothing.",
    );
    narrator.check("status", 201, first.reply.status);
    check_api(narrator, own, &first, &format!("POST /orders key={ORDER_KEY} -> 201"))?;

    narrator.step("Alice's network failed, she sends the order again");
    let again = narrator.tell(Some(&ALICE), order(), None).await?;
    narrator.why("The API has the answer to this key and marks it as a replay. The filter passes the mark on.");
    narrator.check("status", 201, again.reply.status);
    narrator.check("idempotent-replayed", "true", header(&again.reply, "idempotent-replayed"));
    narrator.check("the same answer", first.reply.text(), again.reply.text());

    narrator.step("A client that chooses the backend itself");
    let forged = narrator.tell(Some(&ALICE), order().header("X-Edge-Idempotency", "restate"), None).await?;
    narrator.why(
        "The gateway chooses the backend by this header. It removes a client's own, and the filter sets it for the route's backend.",
    );
    check_api(narrator, own, &forged, &format!("POST /orders key={ORDER_KEY} -> 201"))
}

async fn refunds(narrator: &mut Narrator<'_>, own: &OwnApi) -> Result<()> {
    let before = own.last()?;
    narrator.step("The endpoint that has moved");
    let first = narrator.tell(Some(&ALICE), refund(), Some("order-2001")).await?;
    narrator
        .why("The route names the other backend. Restate gets the same kind of key, and no token: it would store it.");
    narrator.check("status", 200, first.reply.status);
    narrator.check("key in Restate", REFUND_KEY, stored_key(&first));
    let token = first.backend.runs.first().and_then(|run| run.header("authorization")).unwrap_or("-").to_owned();
    narrator.check("token at the handler", "-", token);
    narrator.check("effects", 1, first.backend.effects);
    narrator.check("what the API got last", &before, own.last()?);

    narrator.step("… and once more");
    let again = narrator.tell(Some(&ALICE), refund(), Some("order-2001")).await?;
    narrator.why("Restate has the result and gives it again.");
    narrator.check("idempotency-status", "replayed", header(&again.reply, "idempotency-status"));
    narrator.check("effects", 1, again.backend.effects);

    narrator.step("Around the filter: Restate's own path at the API's gateway");
    let path = Request::post("/restate/call/Refunds/create").json(&json!({"order_id": "order-2001", "amount": 900}));
    let direct = narrator.tell(Some(&ALICE), path, Some("order-2001")).await?;
    narrator.why("Restate's paths are closed, whichever backend a gateway would choose for them.");
    check_refused(narrator, &direct, 404, "not_found");
    narrator.check("effects", 1, direct.backend.effects);
    Ok(())
}

/// The API got this request, and Restate got none.
fn check_api(narrator: &mut Narrator<'_>, own: &OwnApi, told: &Told, expected: &str) -> Result<()> {
    narrator.check("what the API got last", expected, own.last()?);
    narrator.check("new invocations of Restate", 0, told.backend.new.len());
    Ok(())
}
