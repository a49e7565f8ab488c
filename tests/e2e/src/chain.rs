//! Restate and the sample service behind an Envoy whose configuration a test changes.

use std::path::Path;

use anyhow::Result;
use harness::ports::{Ports, loopback};
use harness::restate::{Invocation, Restate, RestateOptions};
use harness::service::Service;
use tempfile::TempDir;

use crate::config::ListenerSpec;
use crate::gateway::{TestEnvironment, TestGateway, tools};
use crate::runner::runtime;

/// The running chain, from the front to the back.
pub struct Chain {
    /// The gateway.
    pub gateway: TestGateway,
    /// The backend.
    pub restate: Restate,
    /// The service behind it.
    pub service: Service,
    /// Data and logs.
    pub directory: TempDir,
}

impl Chain {
    /// Starts everything; `around` need not name the backend.
    pub fn start(around: TestEnvironment, listeners: &[(String, ListenerSpec)]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ports = Ports::free()?;
        let (restate, service) = start_backend(directory.path(), &ports)?;
        let around = TestEnvironment { backend: Some(loopback(ports.restate_ingress)), ..around };
        let gateway = TestGateway::start_within(&around, listeners)?;
        Ok(Self { gateway, restate, service, directory })
    }

    /// Everything that Restate stored under a key.
    pub fn stored(&self, key: &str) -> Result<Vec<Invocation>> {
        let all = runtime()?.block_on(self.restate.invocations())?;
        Ok(all.into_iter().filter(|invocation| invocation.idempotency_key.as_deref() == Some(key)).collect())
    }

    /// How often there was this effect.
    pub fn effects(&self, id: &str) -> Result<u64> {
        Ok(runtime()?.block_on(self.service.effects())?.get(id).copied().unwrap_or_default())
    }
}

/// Starts Restate on these ports, and the sample service, which Restate then knows. Data and logs go to `directory`.
pub fn start_backend(directory: &Path, ports: &Ports) -> Result<(Restate, Service)> {
    let tools = tools()?;
    runtime()?.block_on(async {
        let mut restate = Restate::start(RestateOptions {
            program: tools.restate,
            run_dir: directory.to_owned(),
            ingress_port: ports.restate_ingress,
            admin_port: ports.restate_admin,
            node_port: ports.restate_node,
            env: Vec::new(),
        })
        .await?;
        let service = Service::start(&tools.service, directory, ports.service, ports.ledger).await?;
        restate.register(&service.url()).await?;
        Ok((restate, service))
    })
}
