//! Envoy, Restate, OpenBao and the sample service together.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use tokio::sync::Mutex;

use crate::demo_policy::POLICY;
use crate::envoy::{Envoy, EnvoyOptions, Stores};
use crate::openbao::{OpenBao, OpenBaoOptions};
use crate::ports::{Ports, loopback};
use crate::private;
use crate::process::{Process, Record};
use crate::rendered;
use crate::restate::{Restate, RestateOptions};
use crate::senders::{LOOKED_UP, Senders, random};
use crate::service::Service;
use crate::tokens::Signer;
use crate::tools::Tools;

/// How to run the stack.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// The programs.
    pub tools: Tools,
    /// Where configuration, data and logs go; made if it is not there.
    pub run_dir: PathBuf,
    /// Which ports; free ones if not given.
    pub ports: Option<Ports>,
    /// The policy document.
    pub policy: String,
    /// As [`EnvoyOptions::require_token`].
    pub require_token: bool,
    /// The command that makes the gateway's configuration (`edge-idempotency`); without it that is `deploy/demo/envoy.yaml`.
    pub renderer: Option<PathBuf>,
    /// As [`RestateOptions::env`].
    pub restate_env: Vec<(String, String)>,
}

impl StackOptions {
    /// The demo's own policy, free ports, tokens required.
    pub fn new(tools: Tools, run_dir: impl Into<PathBuf>) -> Self {
        Self {
            tools,
            run_dir: run_dir.into(),
            ports: None,
            policy: POLICY.to_owned(),
            require_token: true,
            renderer: None,
            restate_env: Vec::new(),
        }
    }
}

/// The running stack. Dropping it ends every process.
pub struct Stack {
    /// The gateway.
    pub envoy: Envoy,
    /// The backend.
    pub restate: Restate,
    /// The service behind it.
    pub service: Service,
    /// The secret store, if the program is there.
    pub openbao: Option<Mutex<OpenBao>>,
    /// Mints the tokens that the gateway believes.
    pub signer: Signer,
    /// Sign the webhooks that the filter believes.
    pub senders: Senders,
    /// Where everything listens.
    pub ports: Ports,
}

impl Stack {
    /// Starts everything and waits until it works. `progress` is told what is going on.
    pub async fn start(options: StackOptions, progress: &dyn Fn(&str)) -> Result<Self> {
        let StackOptions { tools, run_dir, ports, policy, require_token, renderer, restate_env } = options;
        private::create_folder(&run_dir)?;
        let ports = ports.map_or_else(Ports::free, Ok)?;
        let signer = Signer::generate();
        let senders = Senders::generate();

        let root_key = format!("unkey_{}", random());
        let openbao =
            tools.openbao.map(|program| OpenBaoOptions { program, run_dir: run_dir.clone(), port: ports.openbao });
        if openbao.is_none() {
            progress("OpenBao is not there (`make tools-all` installs it): what needs it is left out");
        }

        progress("starting Restate, the sample service, the secret store and Envoy");
        let restate = Restate::start(RestateOptions {
            program: tools.restate,
            run_dir: run_dir.clone(),
            ingress_port: ports.restate_ingress,
            admin_port: ports.restate_admin,
            node_port: ports.restate_node,
            env: restate_env,
        });
        let service = Service::start_with_registry(&tools.service, &run_dir, &ports, &root_key);
        let store = async {
            let Some(options) = openbao else { return Ok((None, None)) };
            let openbao = OpenBao::start(options).await?;
            for hook in LOOKED_UP {
                openbao.put(&hook.secret_path(), &json!({"secret": senders.looked_up})).await?;
            }
            let token = openbao.token().await?;
            anyhow::Ok((Some(Mutex::new(openbao)), Some(token)))
        };
        let front = async {
            let (openbao, openbao_token) = store.await?;
            let options = EnvoyOptions {
                program: tools.envoy,
                run_dir: run_dir.clone(),
                filter: tools.filter,
                policy,
                jwks: signer.jwks(),
                require_token,
                backend: loopback(ports.restate_ingress),
                gateway_port: ports.gateway,
                admin_port: ports.admin,
                concurrency: 2,
                environment: senders.environment(),
                stores: Some(Stores {
                    unkey: loopback(ports.registry),
                    unkey_root_key: root_key.clone(),
                    openbao: loopback(ports.openbao),
                    openbao_token,
                }),
            };
            let envoy = match &renderer {
                Some(program) => rendered::start(program, options).await?,
                None => Envoy::start(options).await?,
            };
            anyhow::Ok((openbao, envoy))
        };
        let (mut restate, service, (openbao, envoy)) = tokio::try_join!(restate, service, front)?;
        progress("registering the sample service with Restate");
        restate.register(&service.url()).await?;
        Ok(Self { envoy, restate, service, openbao, signer, senders, ports })
    }

    /// Where clients send their requests.
    pub fn gateway_url(&self) -> String {
        self.envoy.gateway_url()
    }

    /// Ends every process, from the front to the back, and waits until they are gone.
    pub fn stop(mut self) -> Result<()> {
        self.processes().into_iter().try_for_each(Process::kill)
    }

    /// Lets everything run on when this program ends.
    pub fn detach(self) -> Vec<Record> {
        let store = self.openbao.map(|openbao| openbao.into_inner().process);
        let others = [self.envoy.process, self.restate.process, self.service.process];
        others.into_iter().chain(store).map(Process::detach).collect()
    }

    /// The processes, from the front to the back.
    pub fn processes(&mut self) -> Vec<&mut Process> {
        let store = self.openbao.as_mut().map(|openbao| &mut openbao.get_mut().process);
        let others = [&mut self.envoy.process, &mut self.restate.process, &mut self.service.process];
        others.into_iter().chain(store).collect()
    }
}
