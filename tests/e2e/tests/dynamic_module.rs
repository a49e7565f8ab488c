//! What only the dynamic module can do, whichever host `EDGE_HOST` chooses for the other tests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs, thread};

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::deliveries;
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::{Connection, Request};
use e2e::runner::{Group, Test, sharing};
use harness::tools;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Secrets whose previous value counts for an hour, and for no time.
const KEPT: &str = "kept";
const DROPPED: &str = "dropped";

struct Rotated {
    gateway: TestGateway,
    directory: TempDir,
    deliveries: AtomicU64,
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![sharing(start, vec![Test::new("a secret of SDS is rotated under load", rotation)])])
}

fn start() -> Result<Rotated> {
    let directory = tempfile::tempdir()?;
    let setup = |name: &str, grace_s: u64| {
        let path = path(&directory, name);
        let source = json!({"path_config_source": {"path": path}, "resource_api_version": "V3"});
        put(&directory, name, &value(name, 0))?;
        anyhow::Ok(json!({
            "tenant": "acme", "project": "shop", "provider": "github", "bind_body": false,
            "secrets": [{"sds": name, "config_source": source, "rotation_grace_s": grace_s}],
        }))
    };
    let policy = json!({
        "version": 1, "backend": {"kind": "generic"},
        "routes": [{
            "endpoint": "hooks", "path": "/api/v1/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {},
        }],
        "webhooks": {"static": {"wh_kept0001": setup(KEPT, 3600)?, "wh_dropped1": setup(DROPPED, 0)?}},
    });
    let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
    let around =
        TestEnvironment { concurrency: 2, filter: Some(tools::dynamic_module()?), ..TestEnvironment::default() };
    let gateway = TestGateway::start_within(&around, &[("api".to_owned(), listener)])?;
    Ok(Rotated { gateway, directory, deliveries: AtomicU64::new(0) })
}

fn path(directory: &TempDir, name: &str) -> PathBuf {
    directory.path().join(format!("{name}.json"))
}

/// The secret's value after so many rotations.
fn value(name: &str, turn: u32) -> String {
    format!("planted {name} {turn}")
}

/// Envoy notices a file that is moved into place.
fn put(directory: &TempDir, name: &str, value: &str) -> Result<()> {
    let resources = json!({"resources": [{
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        "name": name, "generic_secret": {"secret": {"inline_string": value}},
    }]});
    move_into_place(directory, name, &resources)
}

fn move_into_place(directory: &TempDir, name: &str, resources: &Value) -> Result<()> {
    let new = path(directory, name).with_extension("new");
    fs::write(&new, resources.to_string())?;
    fs::rename(&new, path(directory, name)).context("the file cannot be moved")
}

impl Rotated {
    /// A delivery that is signed with this secret.
    fn delivery(&self, name: &str, secret: &str) -> Request {
        let id = if name == KEPT { "wh_kept0001" } else { "wh_dropped1" };
        let number = self.deliveries.fetch_add(1, Ordering::Relaxed);
        deliveries::github(&format!("/api/v1/hooks/github/{id}"), secret, &format!("delivery-{number}"), "{}")
    }

    /// The status of the answer to such a delivery.
    fn status(&self, connection: &mut Connection, name: &str, turn: u32) -> Result<u16> {
        let request = self.delivery(name, &value(name, turn));
        connection.send(&request.http1())?;
        let reply = connection.answer(&request.method)?;
        if reply.text_header("connection") == Some("close") {
            *connection = self.connection()?;
        }
        Ok(reply.status)
    }

    fn connection(&self) -> Result<Connection> {
        Connection::open(self.gateway.address("api")?)
    }

    /// Puts a value into force, and gives how many deliveries with it were refused until Envoy had it.
    fn rotate(&self, name: &str, turn: u32) -> Result<u32> {
        put(&self.directory, name, &value(name, turn))?;
        let (connection, refused) = (RefCell::new(self.connection()?), Cell::new(0));
        self.gateway.until("the new secret counts", |_| {
            let status = self.status(&mut connection.borrow_mut(), name, turn)?;
            refused.set(refused.get() + u32::from(status != 200));
            Ok(status == 200)
        })?;
        Ok(refused.get())
    }
}

/// Senders go on with the secret that they have, while it is replaced, and none of them is refused. The secret before the previous
/// one counts no more.
fn rotation(setup: &Rotated) -> Result<()> {
    const TURNS: u32 = 5;
    let mut waited = 0;
    for turn in 0..TURNS {
        let stop = AtomicBool::new(false);
        let sent = AtomicU64::new(0);
        let sender = || -> Result<()> {
            let mut connection = setup.connection()?;
            while !stop.load(Ordering::Relaxed) {
                let status = setup.status(&mut connection, KEPT, turn)?;
                ensure!(status == 200, "{status} for the secret {turn}");
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let senders: Vec<_> = (0..4).map(|_| scope.spawn(sender)).collect();
            let rotated = setup.gateway.until("load", |_| Ok(sent.load(Ordering::Relaxed) > 50));
            let rotated = rotated.and_then(|()| setup.rotate(KEPT, turn + 1));
            let after = sent.load(Ordering::Relaxed) + 50;
            let loaded = setup.gateway.until("load", |_| {
                Ok(sent.load(Ordering::Relaxed) > after || senders.iter().any(thread::ScopedJoinHandle::is_finished))
            });
            stop.store(true, Ordering::Relaxed);
            for sender in senders {
                sender.join().map_err(|_| anyhow::anyhow!("a sender panicked"))??;
            }
            waited += rotated?;
            loaded
        })?;
        let mut connection = setup.connection()?;
        let mut statuses = HashMap::new();
        for known in turn.saturating_sub(1)..=turn + 1 {
            statuses.insert(known, setup.status(&mut connection, KEPT, known)?);
        }
        ensure!(statuses.get(&turn) == Some(&200) && statuses.get(&(turn + 1)) == Some(&200), "{statuses:?}");
        if turn > 0 {
            ensure!(statuses.get(&(turn - 1)) == Some(&401), "the secret before the previous one: {statuses:?}");
        }
    }
    println!("{waited} deliveries with a secret that Envoy did not have yet were refused");
    // Without a grace the previous value counts no more as soon as the new one does.
    setup.rotate(DROPPED, 1)?;
    let mut connection = setup.connection()?;
    let statuses = [setup.status(&mut connection, DROPPED, 0)?, setup.status(&mut connection, DROPPED, 1)?];
    ensure!(statuses == [401, 200], "without a grace: {statuses:?}");
    // Envoy keeps the value of a resource that is not there any more. An empty value withdraws it.
    move_into_place(&setup.directory, DROPPED, &json!({"resources": []}))?;
    setup.gateway.until("Envoy refuses it", |gateway| Ok(gateway.stat("^sds.dropped.update_rejected$")? == 1))?;
    ensure!(setup.status(&mut setup.connection()?, DROPPED, 1)? == 200, "a secret without a resource");
    for name in [DROPPED, KEPT] {
        put(&setup.directory, name, "")?;
    }
    setup
        .gateway
        .until("the secret is withdrawn", |_| Ok(setup.status(&mut setup.connection()?, DROPPED, 1)? == 503))?;
    let status = setup.status(&mut setup.connection()?, KEPT, TURNS)?;
    ensure!(status == 200, "within its grace a withdrawn secret counts: {status}");
    let dump = setup.gateway.admin("/config_dump")?;
    let dump: Value = serde_json::from_str(&dump)?;
    ensure!(dump.to_string().contains(KEPT) && !dump.to_string().contains("planted"), "the config dump shows a secret");
    Ok(())
}
