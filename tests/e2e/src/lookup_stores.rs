//! Both stores of lookups, and webhooks in them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use harness::envoy::Stores;
use harness::faults::FaultyServer;
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

/// Both stores. The secret store is asked through something that counts, and fails when it is told to.
pub struct LookupStores {
    /// The registry.
    pub unkey: Unkey,
    /// The secret store.
    pub openbao: Mutex<OpenBao>,
    /// What stands before it.
    pub openbao_proxy: FaultyServer,
    /// What the gateway reads the secret store with.
    pub token: Mutex<String>,
}

impl LookupStores {
    /// Starts both; the secret store's data and log go to `directory`.
    pub fn start(directory: &Path) -> Result<Self> {
        let program = tools()?.openbao.context("OpenBao is not there: `make tools` builds it, or set EDGE_OPENBAO")?;
        let options = OpenBaoOptions { program, run_dir: directory.to_owned(), port: Ports::free()?.gateway };
        runtime()?.block_on(async {
            let openbao = OpenBao::start(options).await?;
            let token = openbao.token().await?;
            let unkey = Unkey::start(SocketAddr::from(([127, 0, 0, 1], 0)), ROOT_KEY).await?;
            let openbao_proxy = FaultyServer::before(&openbao.url()).await?;
            Ok(Self { unkey, openbao: Mutex::new(openbao), openbao_proxy, token: Mutex::new(token) })
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

    /// The secret store.
    pub fn openbao(&self) -> MutexGuard<'_, OpenBao> {
        self.openbao.lock().unwrap_or_else(PoisonError::into_inner)
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
        runtime()?.block_on(self.openbao().put(&hook.stored_at(), data))
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
        let secret = format!("GET /v1/{MOUNT}/data/{}", hook.stored_at());
        (count(self.unkey.server(), &hook.id), count(&self.openbao_proxy, &secret))
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
