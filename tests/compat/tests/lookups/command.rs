//! `edge-idempotency webhook`: a webhook that the command writes into both stores, and a delivery that it signs and sends.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use e2e::lookup_stores::ROOT_KEY;
use e2e::runner::{Test, runtime};
use harness::tools::built;
use serde_json::{Value, json};

use super::setup::{LASTING, LONG, LookupsSetup, forwarded, keys, policy, test};

const SECRET: &str = "whsec_planted_by_the_command";

pub(crate) fn tests() -> Vec<Test<LookupsSetup>> {
    vec![test("a_webhook_of_the_command_takes_the_deliveries_that_it_signs", webhook)]
}

fn webhook(setup: &LookupsSetup) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("policy.json");
    std::fs::write(&file, policy(LONG))?;
    let program = built("EDGE_CLI", "edge-idempotency")?;
    let token = runtime()?.block_on(setup.lookup_stores.openbao()?.writing_token())?;
    let openbao = setup.lookup_stores.openbao()?.url();
    let unkey = format!("http://{}", setup.lookup_stores.unkey.server().address());
    let base = format!("http://{}", setup.gateway.address(LASTING)?);
    let run = |arguments: &[&str], secret: &str| -> Result<Output> {
        let mut command = Command::new(&program);
        command.arg("webhook").args(arguments).arg("--policy").arg(&file).args(["--base-url", &base]);
        command.env("HOOK_SECRET", secret).env("BAO_TOKEN", &token).env("UNKEY_ROOT_KEY", ROOT_KEY);
        let output = command.output()?;
        let text = [output.stdout.as_slice(), &output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        for secret in [SECRET, "whsec_another", &token, ROOT_KEY] {
            ensure!(!text.contains(secret), "a secret is printed: {text}");
        }
        Ok(output)
    };
    let new = |more: &[&str]| {
        let arguments = [
            "new",
            "--tenant",
            "commanded",
            "--project",
            "shop",
            "--provider",
            "stripe",
            "--secret",
            "env:HOOK_SECRET",
            "--apply",
            "--unkey-api",
            "api_webhooks",
            "--unkey",
            &unkey,
            "--openbao",
            &openbao,
            "--json",
        ];
        run(&[&arguments[..], more].concat(), SECRET)
    };
    let made = new(&[])?;
    ensure!(made.status.code() == Some(0), "{made:?}");
    let shown: Value = serde_json::from_slice(&made.stdout)?;
    let id = shown.get("id").and_then(Value::as_str).unwrap_or_default();
    ensure!(id.starts_with("wh_"), "{shown}");
    ensure!(shown.get("url") == Some(&format!("{base}/webhooks/stripe/{id}").into()), "{shown}");

    let sign = |event: &str, secret: &str| {
        let arguments = [
            "sign",
            "--provider",
            "stripe",
            "--id",
            id,
            "--secret",
            "env:HOOK_SECRET",
            "--delivery-id",
            event,
            "--send",
        ];
        run(&arguments, secret)
    };
    let sent = sign("evt_commanded", SECRET)?;
    ensure!(sent.status.code() == Some(0), "{sent:?}");
    let expected = "t-commanded:shop:service:webhook-ingest:stripe-evt_commanded";
    let received = forwarded(&setup.gateway)?;
    ensure!(keys(&received) == [expected], "{received:?}");
    let sent = sign("evt_other_secret", "whsec_another")?;
    let told = String::from_utf8_lossy(&sent.stdout);
    ensure!(sent.status.code() == Some(1) && told.contains("webhook_signature_invalid"), "{sent:?}");
    ensure!(forwarded(&setup.gateway)?.is_empty(), "a delivery with another secret went on");

    // The owner has a secret: it is not replaced by chance, and a key is not made either.
    let again = new(&[])?;
    let told = String::from_utf8_lossy(&again.stderr);
    ensure!(again.status.code() == Some(2) && told.contains("--replace-secret"), "{again:?}");
    let replaced = new(&["--replace-secret"])?;
    ensure!(replaced.status.code() == Some(0), "{replaced:?}");
    // A deleted version is replaced, too.
    let path = "commanded:shop:stripe";
    let store = setup.lookup_stores.openbao()?;
    runtime()?.block_on(store.delete(path))?;
    let replaced = new(&["--replace-secret"])?;
    ensure!(replaced.status.code() == Some(0), "{replaced:?}");
    // A list is not.
    runtime()?.block_on(store.put(path, &json!({"secrets": [SECRET, "whsec_another"]})))?;
    let refused = new(&["--replace-secret"])?;
    let told = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(2) && told.contains("bao kv put"), "{refused:?}");
    Ok(())
}
