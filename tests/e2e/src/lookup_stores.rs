//! Both stores of lookups, and webhooks in them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail};
use harness::envoy::Stores;
use harness::faults::FaultyServer;
use harness::http::{Reply, Request as Call};
use harness::openbao::{MOUNT, OpenBao, OpenBaoOptions};
use harness::ports::Ports;
use harness::unkey::{Binding, Unkey};
use serde_json::{Value, json};

use crate::deliveries::{self, now};
use crate::gateway::tools;
use crate::raw::Request;
use crate::runner::runtime;

/// The root key of the registry.
pub const ROOT_KEY: &str = "unkey_planted_root_key";

/// The versions of secrets that a stand-in for the secret store holds, by their request path.
type RecordedSecrets = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// What holds the secrets.
enum SecretStore {
    Real(Box<Mutex<OpenBao>>),
    /// It answers reads as OpenBao does (`tests/compat/tests/lookups/stand_in.rs`), and takes no other request.
    StandIn(RecordedSecrets),
}

/// Both stores. The secret store is asked through something that counts, and fails when it is told to.
pub struct LookupStores {
    /// The registry.
    pub unkey: Unkey,
    secrets: SecretStore,
    /// What stands before the secret store, or for it.
    pub openbao_proxy: FaultyServer,
    /// What the gateway reads the secret store with.
    pub token: Mutex<String>,
}

impl LookupStores {
    /// Starts both, with a real OpenBao, whose data and log go to `directory`.
    pub fn start(directory: &Path) -> Result<Self> {
        let program =
            tools()?.openbao.context("OpenBao is not there: `make tools-all` builds it, or set EDGE_OPENBAO")?;
        let options = OpenBaoOptions { program, run_dir: directory.to_owned(), port: Ports::free()?.gateway };
        runtime()?.block_on(async {
            let openbao = OpenBao::start(options).await?;
            let token = openbao.token().await?;
            let unkey = Unkey::start(SocketAddr::from(([127, 0, 0, 1], 0)), ROOT_KEY).await?;
            let openbao_proxy = FaultyServer::before(&openbao.url()).await?;
            Ok(Self {
                unkey,
                secrets: SecretStore::Real(Box::new(Mutex::new(openbao))),
                openbao_proxy,
                token: Mutex::new(token),
            })
        })
    }

    /// Starts a registry, and a stand-in for the secret store with the answers of a real one.
    pub fn stand_ins() -> Result<Self> {
        let recorded = RecordedSecrets::default();
        let held = Arc::clone(&recorded);
        let label = |request: &Call| format!("{} {}", request.method, request.path);
        runtime()?.block_on(async {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let unkey = Unkey::start(address, ROOT_KEY).await?;
            let openbao_proxy = FaultyServer::start(address, label, move |request| {
                let reply = recorded_reply(&request, &held.lock().unwrap_or_else(PoisonError::into_inner));
                async move { Ok(reply) }
            })
            .await?;
            let token = Mutex::new("s.planted_stand_in".to_owned());
            Ok(Self { unkey, secrets: SecretStore::StandIn(recorded), openbao_proxy, token })
        })
    }

    /// As the gateway knows them.
    pub fn stores(&self) -> Stores {
        Stores {
            unkey: self.unkey.server().address(),
            unkey_root_key: ROOT_KEY.to_owned(),
            openbao: self.openbao_proxy.address(),
            openbao_token: Some(self.token().clone()),
        }
    }

    /// What the gateway reads the secret store with.
    pub fn token(&self) -> MutexGuard<'_, String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The secret store, if it is a real one.
    pub fn openbao(&self) -> Result<MutexGuard<'_, OpenBao>> {
        match &self.secrets {
            SecretStore::Real(openbao) => Ok(openbao.lock().unwrap_or_else(PoisonError::into_inner)),
            SecretStore::StandIn(_) => bail!("a stand-in for OpenBao does nothing but answer"),
        }
    }

    /// A webhook of Stripe's with a tenant of its own, in both stores.
    pub fn hook(&self, name: &str) -> Result<Hook> {
        let hook = self.bound(name);
        self.sign_with(&hook, &json!({"secret": hook.secret}))?;
        Ok(hook)
    }

    /// One that is in the registry only.
    pub fn bound(&self, name: &str) -> Hook {
        let hook =
            Hook { id: format!("wh_hook_{name}"), tenant: name.to_owned(), secret: format!("whsec_planted_{name}") };
        self.unkey.bind(&hook.id, &Binding::new(&hook.tenant, "shop", "stripe"));
        hook
    }

    /// A new version of what a webhook is signed with.
    pub fn sign_with(&self, hook: &Hook, data: &Value) -> Result<()> {
        match &self.secrets {
            SecretStore::Real(openbao) => {
                runtime()?.block_on(openbao.lock().unwrap_or_else(PoisonError::into_inner).put(&hook.stored_at(), data))
            }
            SecretStore::StandIn(recorded) => {
                let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                recorded.entry(secret_path(hook)).or_default().push(data.clone());
                Ok(())
            }
        }
    }

    /// Nothing fails, and everything is counted anew.
    pub fn forget(&self) {
        for server in [self.unkey.server(), &self.openbao_proxy] {
            server.recover();
            server.forget();
        }
    }

    /// How often a webhook was looked up: in the registry, and in the secret store.
    pub fn lookups(&self, hook: &Hook) -> (u64, u64) {
        let count = |server: &FaultyServer, what: &str| server.counts().get(what).copied().unwrap_or_default();
        let secret = format!("GET {}", secret_path(hook));
        (count(self.unkey.server(), &hook.id), count(&self.openbao_proxy, &secret))
    }
}

fn secret_path(hook: &Hook) -> String {
    format!("/v1/{MOUNT}/data/{}", hook.stored_at())
}

/// The reply of KV version 2 to the read of a secret (https://openbao.org/api-docs/secret/kv/kv-v2/#read-secret-version).
fn recorded_reply(request: &Call, recorded: &BTreeMap<String, Vec<Value>>) -> Reply {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let versions = recorded.get(path).map(Vec::as_slice).unwrap_or_default();
    let wanted = query.strip_prefix("version=").and_then(|version| version.parse().ok()).unwrap_or(versions.len());
    let data = wanted.checked_sub(1).and_then(|index| versions.get(index));
    let (status, body) = match data {
        Some(data) => {
            let metadata = json!({"created_time": "2026-11-01T09:00:00.000000000Z", "custom_metadata": null,
                "deletion_time": "", "destroyed": false, "version": wanted});
            let body = json!({"request_id": "0b6e1b1e-7f3c-4a50-9f57-1f2ad1a1a9f1", "lease_id": "", "renewable": false,
                "lease_duration": 0, "data": {"data": data, "metadata": metadata}, "wrap_info": null, "warnings": null, "auth": null});
            (200, body)
        }
        None => (404, json!({"errors": []})),
    };
    Reply {
        status,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: body.to_string().into_bytes(),
    }
}

/// A webhook that is in both stores.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// What it is signed with at first.
    pub secret: String,
}

impl Hook {
    /// Where in the mount its secret is.
    pub fn stored_at(&self) -> String {
        format!("{}:shop:stripe", self.tenant)
    }

    /// Where its deliveries go.
    pub fn path(&self) -> String {
        format!("/webhooks/stripe/{}", self.id)
    }

    /// A delivery of this event.
    pub fn delivery(&self, event: &str) -> Request {
        self.signed(&self.secret, event)
    }

    /// One that is signed with another secret.
    pub fn signed(&self, secret: &str, event: &str) -> Request {
        deliveries::stripe(&self.path(), &[secret], now(), json!({"id": event}).to_string())
    }

    /// The key that goes on with an event.
    pub fn key(&self, event: &str) -> String {
        format!("t-{}:shop:service:webhook-ingest:stripe-{event}", self.tenant)
    }
}
