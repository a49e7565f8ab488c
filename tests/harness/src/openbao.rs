//! The secret store: a real OpenBao with its data in the run directory, and a KV version 2 mount that holds what webhooks are
//! signed with.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::http::{Reply, Request};
use crate::ports::{loopback, loopback_url};
use crate::process::Process;

/// The mount.
pub const MOUNT: &str = "webhooks";

/// Reads what is in the mount, and nothing else.
const POLICY: &str = "edge-idempotency";
const POLICY_TEXT: &str = include_str!("../../../deploy/demo/openbao-policy.hcl");

const READY: Duration = Duration::from_secs(60);

/// How to run OpenBao.
#[derive(Clone, Debug)]
pub struct OpenBaoOptions {
    /// The program, `bao`.
    pub program: PathBuf,
    /// Where data and log go. It has to exist.
    pub run_dir: PathBuf,
    /// Where it listens.
    pub port: u16,
}

/// A running OpenBao, unsealed.
pub struct OpenBao {
    /// The process; replaced by [`OpenBao::restart`].
    pub process: Process,
    options: OpenBaoOptions,
    unseal_key: String,
    root_token: String,
}

impl OpenBao {
    /// Starts an OpenBao without data: initialised, unsealed, with the mount and the policy.
    pub async fn start(options: OpenBaoOptions) -> Result<Self> {
        let process = spawn(&options)?;
        let mut openbao = Self { process, options, unseal_key: String::new(), root_token: String::new() };
        // 501: there is no data yet.
        openbao.healthy(501).await?;
        let shares = json!({"secret_shares": 1, "secret_threshold": 1});
        let initialised = openbao.ask(Request::new("PUT", "/v1/sys/init").json(&shares)).await?.json();
        let text = |pointer| initialised.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        openbao.unseal_key = text("/keys/0").context("OpenBao gave no key")?;
        openbao.root_token = text("/root_token").context("OpenBao gave no token")?;
        openbao.unseal().await?;
        let mount = json!({"type": "kv", "options": {"version": "2"}});
        openbao.ask(Request::post(&format!("/v1/sys/mounts/{MOUNT}")).json(&mount)).await?;
        openbao.mounted().await?;
        let policy = json!({"policy": POLICY_TEXT});
        openbao.ask(Request::new("PUT", &format!("/v1/sys/policies/acl/{POLICY}")).json(&policy)).await?;
        Ok(openbao)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        loopback(self.options.port)
    }

    /// The same, as a URL.
    pub fn url(&self) -> String {
        loopback_url(self.options.port)
    }

    /// A new token that reads the mount.
    pub async fn token(&self) -> Result<String> {
        let wanted = json!({"policies": [POLICY], "no_default_policy": true, "ttl": "1h"});
        let made = self.ask(Request::post("/v1/auth/token/create").json(&wanted)).await?.json();
        let token = made.pointer("/auth/client_token").and_then(Value::as_str);
        token.map(str::to_owned).with_context(|| format!("OpenBao made no token: {made}"))
    }

    /// A new token that writes secrets into the mount, and reads nothing.
    pub async fn writing_token(&self) -> Result<String> {
        let text = format!(
            "path \"{MOUNT}/data/*\" {{ capabilities = [\"create\", \"update\"] }}
             path \"{MOUNT}/subkeys/*\" {{ capabilities = [\"read\"] }}"
        );
        let policy = json!({"policy": text});
        self.ask(Request::new("PUT", "/v1/sys/policies/acl/webhook-writer").json(&policy)).await?;
        let wanted = json!({"policies": ["webhook-writer"], "no_default_policy": true, "ttl": "1h"});
        let made = self.ask(Request::post("/v1/auth/token/create").json(&wanted)).await?.json();
        let token = made.pointer("/auth/client_token").and_then(Value::as_str);
        token.map(str::to_owned).with_context(|| format!("OpenBao made no token: {made}"))
    }

    /// Takes a token back.
    pub async fn revoke(&self, token: &str) -> Result<()> {
        self.ask(Request::post("/v1/auth/token/revoke").json(&json!({"token": token}))).await.map(drop)
    }

    /// Writes a new version of a secret: `{"secret": …}` or `{"secrets": […]}` is what the filter reads.
    pub async fn put(&self, path: &str, data: &Value) -> Result<()> {
        let request = Request::post(&format!("/v1/{MOUNT}/data/{path}")).json(&json!({"data": data}));
        self.ask(request).await.map(drop)
    }

    /// Deletes the newest version; what is left is a 404 with metadata.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.ask(Request::new("DELETE", &format!("/v1/{MOUNT}/data/{path}"))).await.map(drop)
    }

    /// Deletes every version and the metadata; what is left is a 404 without anything.
    pub async fn erase(&self, path: &str) -> Result<()> {
        self.ask(Request::new("DELETE", &format!("/v1/{MOUNT}/metadata/{path}"))).await.map(drop)
    }

    /// Seals it: every request is answered with 503.
    pub async fn seal(&mut self) -> Result<()> {
        self.ask(Request::new("PUT", "/v1/sys/seal")).await?;
        self.healthy(503).await
    }

    /// Unseals it, and waits until it answers.
    pub async fn unseal(&mut self) -> Result<()> {
        let key = json!({"key": self.unseal_key});
        self.ask(Request::new("PUT", "/v1/sys/unseal").json(&key)).await?;
        self.healthy(200).await
    }

    /// Kills it as a crash would; nothing listens then.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Starts it again on the same data, killing it first if it runs. It is sealed then.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = spawn(&self.options)?;
        self.healthy(503).await
    }

    /// Waits until `/v1/sys/health` answers so.
    async fn healthy(&mut self, status: u16) -> Result<()> {
        let url = self.url();
        self.process
            .ready(READY, async || {
                let reply = Request::get("/v1/sys/health").send(&url).await?;
                ensure!(reply.status == status, "/v1/sys/health answers {}: {}", reply.status, reply.text());
                Ok(())
            })
            .await
    }

    /// Waits until the mount keeps versions: for a moment after it is made, OpenBao refuses each request to it with 400.
    async fn mounted(&mut self) -> Result<()> {
        let (url, token) = (self.url(), self.root_token.clone());
        self.process
            .ready(READY, async || {
                let reply =
                    Request::get(&format!("/v1/{MOUNT}/config")).header("x-vault-token", &token).send(&url).await?;
                ensure!(reply.status == 200, "OpenBao's mount answers {}: {}", reply.status, reply.text());
                Ok(())
            })
            .await
    }

    async fn ask(&self, request: Request) -> Result<Reply> {
        let what = format!("{} {}", request.method, request.path);
        let reply = request.header("x-vault-token", &self.root_token).send(&self.url()).await?;
        ensure!(matches!(reply.status, 200 | 204), "OpenBao answers {what} with {}: {}", reply.status, reply.text());
        Ok(reply)
    }
}

fn spawn(options: &OpenBaoOptions) -> Result<Process> {
    let directory = options.run_dir.join("openbao-data");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let config = options.run_dir.join("openbao.json");
    let address = loopback(options.port);
    let document = json!({
        "api_addr": format!("http://{address}"),
        "listener": [{"tcp": {"address": address, "tls_disable": true}}],
        "storage": {"file": {"path": directory}},
    });
    fs::write(&config, document.to_string()).with_context(|| format!("cannot write {}", config.display()))?;
    let mut command = Command::new(&options.program);
    command.arg("server").arg("-config").arg(&config);
    Process::spawn("OpenBao", &mut command, &options.run_dir.join("openbao.log"))
}
