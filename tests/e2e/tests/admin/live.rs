//! `check --live` against the demo's stack, and against a wrong one of each service.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::capture::{Answer, Capture};
use e2e::config::{Change, ListenerSpec};
use e2e::discovery::Discovery;
use e2e::gateway::{TestGateway, tools};
use e2e::runner::Test;
use harness::openbao::OpenBao;
use harness::ports::loopback_url;
use harness::senders::LOOKED_UP;
use harness::tokens::Signer;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::setup::{AdminSetup, Ran, run_command, test};

pub(crate) fn tests() -> Vec<Test<AdminSetup>> {
    vec![
        test("live: a sound stack", sound),
        test("live: a guard that gives something else, or forgets", wrong_guard),
        test("live: a service or a handler that Restate does not have, and another retention", wrong_targets),
        test("live: wrong credentials, an unknown webhook, a secret that is missing", wrong_stores),
        test("live: key sets that verify nothing", wrong_keys),
        test("live: another policy, a cluster that is missing, a gateway that is none", wrong_gateway),
        Test::new("live: a configuration that the gateway refused", refused),
        test("live: what is not there, and what is not asked", absent),
    ]
}

/// A run of the command: what is given in the place of what the stack has.
struct LiveRun<'s> {
    setup: &'s AdminSetup,
    policy: PathBuf,
    options: Vec<(&'static str, String)>,
    environment: Vec<(&'static str, String)>,
}

impl<'s> LiveRun<'s> {
    /// Everything as the stack has it.
    async fn of(setup: &'s AdminSetup) -> Result<Self> {
        let stack = &setup.stack;
        let file = setup.directory.path().join("unkey-root-key.json");
        let stored: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let root_key = stored.pointer("/resources/0/generic_secret/secret/inline_string").and_then(Value::as_str);
        let environment = vec![
            ("UNKEY_ROOT_KEY", root_key.context("no root key")?.to_owned()),
            ("BAO_TOKEN", openbao(setup)?.lock().await.token().await?),
        ];
        let keys = setup.directory.path().join("live-jwks.json");
        fs::write(&keys, stack.signer.jwks())?;
        let options = vec![
            ("backend", stack.restate.ingress_url()),
            ("unkey", loopback_url(stack.ports.registry)),
            ("openbao", loopback_url(stack.ports.openbao)),
            ("--admin", stack.restate.admin_url()),
            ("--admin-envoy", stack.envoy.admin_url()),
            ("--jwt-keys", keys.display().to_string()),
            ("--webhook", LOOKED_UP.first().context("no webhook")?.webhook_id.to_owned()),
        ];
        Ok(Self { setup, policy: setup.policy.clone(), options, environment })
    }

    /// With another value of an option, of a cluster or of a variable.
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let given = self.options.iter_mut().chain(&mut self.environment).find(|(other, _)| *other == name);
        let value = value.into();
        match given {
            Some((_, old)) => *old = value,
            None => self.options.push((name, value)),
        }
        self
    }

    /// With another policy: the stack's, changed.
    fn changed(mut self, change: impl FnOnce(&mut Value) -> Option<()>) -> Result<Self> {
        let mut policy: Value = serde_json::from_str(&fs::read_to_string(&self.setup.policy)?)?;
        change(&mut policy).context("the policy has no such place")?;
        self.policy = self.setup.directory.path().join("changed-policy.json");
        fs::write(&self.policy, policy.to_string())?;
        Ok(self)
    }

    fn run(&self, format: &str) -> Result<Ran> {
        let mut args = vec!["check".to_owned(), "--live".to_owned(), format!("--format={format}")];
        for (name, value) in &self.options {
            args.push(if name.starts_with('-') {
                format!("{name}={value}")
            } else {
                format!("--upstream={name}={value}")
            });
        }
        args.push(self.policy.display().to_string());
        let environment: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        run_command(&super::setup::command()?, "", &environment, args)
    }

    /// Lint, pointer and message of what `--live` found.
    fn found(&self) -> Result<Vec<(String, String, String)>> {
        let ran = self.run("json")?;
        let report = ran.json()?;
        let text =
            |finding: &Value, name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let all = report.get("findings").and_then(Value::as_array).context("no findings")?;
        let is_start_error = |finding: &Value| text(finding, "lint") == "start-error";
        ensure!(!all.iter().any(is_start_error), "the policy does not start: {report}");
        let live =
            all.iter().map(|finding| (text(finding, "lint"), text(finding, "pointer"), text(finding, "message")));
        Ok(live.filter(|(lint, ..)| lint.starts_with("live-") || lint == "not-seen").collect())
    }

    /// The findings besides those of what works, which are these.
    fn finds(&self, expected: &[(&str, &str, &str)]) -> Result<()> {
        let all = self.found()?;
        let found: Vec<_> = all.iter().filter(|(lint, ..)| lint != "live-works").collect();
        let fits = |(found, expected): (&&(String, String, String), &(&str, &str, &str))| {
            found.0 == expected.0 && found.1 == expected.1 && found.2.contains(expected.2)
        };
        let same = found.len() == expected.len() && found.iter().zip(expected).all(fits);
        ensure!(same, "{expected:?} is expected: {all:#?}");
        Ok(())
    }
}

fn openbao(setup: &AdminSetup) -> Result<&Mutex<OpenBao>> {
    setup.stack.openbao.as_ref().context("OpenBao is not there: run `make tools-all`")
}

/// A server that answers a path so, and is there as long as it is held.
fn server(answer: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static) -> Result<Capture> {
    Capture::answering(move |message| {
        let line = String::from_utf8_lossy(&message.start).into_owned();
        let (status, body) = answer(line.split(' ').nth(1).unwrap_or_default()).unwrap_or((404, String::new()));
        Answer { status, body: body.into_bytes(), ..Answer::default() }
    })
}

async fn sound(setup: &AdminSetup) -> Result<()> {
    let run = LiveRun::of(setup).await?;
    run.finds(&[])?;
    let works: Vec<String> = run.found()?.into_iter().map(|(_, _, message)| message).collect();
    for part in [
        "the guard keeps",
        "ingress is healthy",
        "has every service and handler",
        "knows the webhook of globex:shop:stripe",
        "has a secret of globex:shop:stripe",
        "has a key that verifies tokens",
        "runs this policy",
    ] {
        ensure!(works.iter().any(|message| message.contains(part)), "{part}: {works:#?}");
    }
    run.run("text")?.exits(0)?;
    Ok(())
}

async fn wrong_guard(setup: &AdminSetup) -> Result<()> {
    for (status, body, reason) in
        [(200, json!({"ok": true}).to_string(), "guard_malformed"), (200, "\"ok\"".to_owned(), "guard_incomparable")]
    {
        let answer = move |path: &str| match path {
            "/restate/health" => Some((200, String::new())),
            _ => Some((status, body.clone())),
        };
        let backend = server(answer)?;
        let run = LiveRun::of(setup).await?.with("backend", backend.url());
        let found = run.found()?;
        let guard: Vec<_> = found.iter().filter(|(lint, ..)| lint == "live-guard").collect();
        ensure!(
            matches!(guard.as_slice(), [(_, at, message)] if at == "/backend/guard" && message.contains(reason)),
            "{found:#?}"
        );
        run.run("text")?.exits(2)?;
    }
    // A proxy without memory gives each claim its own fingerprint.
    let echo = Capture::start()?;
    let found = LiveRun::of(setup).await?.with("backend", echo.url()).found()?;
    ensure!(
        found.iter().any(|(lint, _, message)| lint == "live-guard" && message.contains("its own fingerprint")),
        "{found:#?}"
    );
    Ok(())
}

async fn wrong_targets(setup: &AdminSetup) -> Result<()> {
    let run = LiveRun::of(setup).await?.changed(|policy| {
        *policy.pointer_mut("/routes/0/target")? = json!("Conversation/sendMessage");
        *policy.pointer_mut("/routes/1/target")? = json!("Refunds/Create");
        *policy.pointer_mut("/routes/3/target")? = json!("Reports/{tenant}:{project}/run");
        let declared = json!({"classes": {"long": "30d"}, "services": {"Refunds": "long"}});
        policy.as_object_mut()?.insert("retention".to_owned(), declared);
        policy.pointer_mut("/backend")?.as_object_mut()?.insert("guard".to_owned(), json!({"retention": "33d"}));
        Some(())
    })?;
    let found = run.found()?;
    for (lint, at, part) in [
        ("live-missing-handler", "/routes/0/target", "no service `Conversation`"),
        ("live-missing-handler", "/routes/1/target", "no handler `Create`"),
        ("live-missing-handler", "/routes/3/target", "has no object key"),
        ("live-retention", "/retention/services/Refunds", "the policy declares 30d"),
    ] {
        let fits = |(name, pointer, message): &(String, String, String)| {
            name == lint && pointer == at && message.contains(part)
        };
        ensure!(found.iter().any(fits), "{lint} {at} {part}: {found:#?}");
    }
    run.run("text")?.exits(2)?;
    Ok(())
}

async fn wrong_stores(setup: &AdminSetup) -> Result<()> {
    let of = async |name, value: &str| anyhow::Ok(LiveRun::of(setup).await?.with(name, value).found()?);
    let has = |found: &[(String, String, String)], at: &str, part: &str| {
        let fits = |(lint, pointer, message): &(String, String, String)| {
            lint == "live-lookup" && pointer == at && message.contains(part)
        };
        ensure!(found.iter().any(fits), "{at} {part}: {found:#?}");
        Ok(())
    };
    has(&of("UNKEY_ROOT_KEY", "unkey_planted").await?, "/webhooks/unkey", "registry_forbidden")?;
    has(&of("--webhook", "wh_01JNOBODY").await?, "/webhooks/unkey", "binding_not_found")?;
    let other = server(|_| Some((200, json!({"ok": true}).to_string())))?;
    has(&of("unkey", &other.url()).await?, "/webhooks/unkey", "registry_reply_malformed")?;
    has(&of("BAO_TOKEN", "s.planted").await?, "/webhooks/openbao", "secret_store_forbidden")?;
    has(&of("openbao", &other.url()).await?, "/webhooks/openbao", "secret_store_reply_malformed")?;
    let owner = LOOKED_UP.first().context("no webhook")?;
    openbao(setup)?.lock().await.erase(&owner.secret_path()).await?;
    let found = LiveRun::of(setup).await?.found();
    let stored = json!({"secret": setup.stack.senders.looked_up});
    openbao(setup)?.lock().await.put(&owner.secret_path(), &stored).await?;
    has(&found?, "/webhooks/openbao", "secret_missing")?;
    // Without a webhook's id both stores are asked for what nobody has.
    let mut run = LiveRun::of(setup).await?;
    run.options.retain(|(name, _)| *name != "--webhook");
    run.finds(&[("not-seen", "/webhooks/unkey", "the binding of a webhook")])?;
    run = run.with("BAO_TOKEN", "s.planted");
    has(&run.found()?, "/webhooks/openbao", "secret_store_forbidden")
}

async fn wrong_keys(setup: &AdminSetup) -> Result<()> {
    let folder = setup.directory.path();
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        fs::write(&file, text).map(|()| file.display().to_string())
    };
    let discovery = server(|path| match path {
        "/keys" => Some((200, Signer::generate().jwks())),
        "/openid" => Some((200, json!({"jwks_uri": "https://login.example.com/keys"}).to_string())),
        _ => Some((404, String::new())),
    })?;
    let url = |path: &str| discovery.url() + path;
    LiveRun::of(setup).await?.with("--jwt-keys", url("/keys")).finds(&[])?;
    for (source, lint, part) in [
        (write("none.json", json!({"keys": []}).to_string())?, "live-keys", "none of its 0 keys"),
        (url("/openid"), "live-keys", "no list `keys`"),
        (url("/other"), "live-unreachable", "is answered 404"),
        (folder.join("no-such-file").display().to_string(), "live-unreachable", "no-such-file"),
    ] {
        LiveRun::of(setup).await?.with("--jwt-keys", source).finds(&[(lint, "/identity", part)])?;
    }
    Ok(())
}

async fn wrong_gateway(setup: &AdminSetup) -> Result<()> {
    // Another endpoint's name: the same clusters.
    let other = LiveRun::of(setup).await?.changed(|policy| {
        *policy.pointer_mut("/routes/0/endpoint")? = json!("another.name");
        Some(())
    })?;
    other.finds(&[("live-other-policy", "", "another policy")])?;
    other.run("text")?.exits(0)?;
    // Restate's admin API in the place of Envoy's, and the gateway's port for clients.
    for url in [setup.stack.restate.admin_url(), setup.stack.gateway_url()] {
        LiveRun::of(setup).await?.with("--admin-envoy", url).finds(&[("live-unreachable", "", "the gateway: GET")])?;
    }
    // A gateway without the filter, whose cluster has a host that fails.
    let status = |name: &str| {
        let health = json!({"eds_health_status": "HEALTHY", "failed_active_health_check": name == "backend"});
        json!({"name": name, "host_statuses": [{"health_status": health}]})
    };
    let unhealthy = json!({"cluster_statuses": [status("backend"), status("unkey"), status("openbao")]});
    let bare = server(move |path| match path.split('?').next()? {
        "/server_info" => Some((200, json!({"state": "LIVE", "version": "a/1.40.0/b"}).to_string())),
        "/config_dump" => Some((200, json!({"configs": []}).to_string())),
        "/clusters" => Some((200, unhealthy.to_string())),
        _ => Some((200, json!({"stats": []}).to_string())),
    })?;
    let found = LiveRun::of(setup).await?.with("--admin-envoy", bare.url()).found()?;
    for (lint, part) in
        [("live-gateway", "no filter of this project"), ("live-cluster", "no host of the gateway's cluster `backend`")]
    {
        ensure!(found.iter().any(|(name, _, message)| name == lint && message.contains(part)), "{lint}: {found:#?}");
    }
    Ok(())
}

/// ECDS keeps the document before, and counts the one with errors.
fn refused(_: &AdminSetup) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let discovery = Discovery::new(directory.path().join("filter.yaml"), tools()?.filter);
    let policy = json!({"version": 1, "backend": {"kind": "generic"}, "routes": [
        {"endpoint": "a", "path": "/a", "methods": ["GET"], "policy": "PROHIBITED"}]});
    discovery.put(&policy.to_string())?;
    let spec = ListenerSpec { policy: String::new(), changes: vec![Change::Instead(discovery.filter()?)] };
    let gateway = TestGateway::start(&[("live".to_owned(), spec)])?;
    let file = directory.path().join("policy.json");
    fs::write(&file, policy.to_string())?;
    let admin = format!("--admin-envoy=http://{}", gateway.admin_address());
    let run = || {
        let args = ["check", "--live", "--format=json", &admin, &file.display().to_string()].map(str::to_owned);
        run_command(&super::setup::command()?, "", &[], args)?.json()
    };
    let lints = |report: &Value| -> Vec<String> {
        let all = report.get("findings").and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|finding| Some(finding.get("lint")?.as_str()?.to_owned())).collect()
    };
    gateway.until("the filter runs", |_| Ok(lints(&run()?) == ["live-works"]))?;
    discovery.put(&policy.to_string().replace("PROHIBITED", "PROHIBITE"))?;
    gateway.until("the document is refused", |gateway| Ok(gateway.stat("config_fail")? > 0))?;
    let found = lints(&run()?);
    // Envoy 1.40 shows the refused document in its dump.
    ensure!(found == ["live-other-policy", "live-other-policy"], "{found:?}");
    Ok(())
}

async fn absent(setup: &AdminSetup) -> Result<()> {
    let mut run = LiveRun::of(setup).await?;
    run.options.clear();
    run.finds(&[
        ("not-seen", "", "the gateway"),
        ("not-seen", "/identity", "the key set"),
        ("not-seen", "/backend", "Restate's admin API"),
        ("not-seen", "/backend/cluster", "ingress"),
        ("not-seen", "/backend/guard", "the guard"),
        ("not-seen", "/webhooks/unkey", "the registry"),
        ("not-seen", "/webhooks/openbao", "the secret store"),
    ])?;
    run.run("text")?.exits(0)?;
    // The ingress in the place of the admin API.
    let swapped = LiveRun::of(setup).await?.with("--admin", setup.stack.restate.ingress_url());
    swapped.finds(&[("live-unreachable", "/backend", "no admin API of Restate")])
}
