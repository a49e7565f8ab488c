//! Ports on the loopback interface: free ones, unless the environment sets them.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self as unix, UnixListener};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// One port for each thing that listens.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Ports {
    /// The gateway: the only port that clients would see.
    pub gateway: u16,
    /// Envoy's admin interface.
    pub admin: u16,
    /// Restate's ingress, the gateway's upstream.
    pub restate_ingress: u16,
    /// Restate's admin interface and SQL.
    pub restate_admin: u16,
    /// Restate's own traffic between nodes.
    pub restate_node: u16,
    /// The sample service, called by Restate.
    pub service: u16,
    /// The sample service's ledger.
    pub ledger: u16,
    /// The stand-in for the registry of webhooks, in the sample service's process.
    pub registry: u16,
    /// The secret store.
    pub openbao: u16,
}

impl Ports {
    /// Nine free ports.
    pub fn free() -> Result<Self> {
        Self::pick(|_| None)
    }

    /// As [`Ports::free`], but `DEMO_PORT_GATEWAY`, `DEMO_PORT_ADMIN`, `DEMO_PORT_RESTATE_INGRESS`,
    /// `DEMO_PORT_RESTATE_ADMIN`, `DEMO_PORT_RESTATE_NODE`, `DEMO_PORT_SERVICE`, `DEMO_PORT_LEDGER`, `DEMO_PORT_REGISTRY` and
    /// `DEMO_PORT_OPENBAO` win.
    pub fn from_env() -> Result<Self> {
        Self::pick(|variable| env::var(variable).ok())
    }

    fn pick(setting: impl Fn(&str) -> Option<String>) -> Result<Self> {
        // Those that are set are held until the last is found: two of them could be one.
        let mut held = Vec::new();
        let mut port = |name: &str| -> Result<u16> {
            let variable = format!("DEMO_PORT_{name}");
            let Some(value) = setting(&variable) else { return free() };
            let (listener, port) = set_port(&variable, &value)?;
            held.push(listener);
            Ok(port)
        };
        Ok(Self {
            gateway: port("GATEWAY")?,
            admin: port("ADMIN")?,
            restate_ingress: port("RESTATE_INGRESS")?,
            restate_admin: port("RESTATE_ADMIN")?,
            restate_node: port("RESTATE_NODE")?,
            service: port("SERVICE")?,
            ledger: port("LEDGER")?,
            registry: port("REGISTRY")?,
            openbao: port("OPENBAO")?,
        })
    }
}

/// `127.0.0.1:port`.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// `http://127.0.0.1:port`.
pub fn loopback_url(port: u16) -> String {
    format!("http://{}", loopback(port))
}

/// A free port. It is below those that Linux gives to connections, and no other process that uses this function gets it while this
/// one lives, so that a program may take long until it listens there.
///
/// # Errors
/// There is none.
pub fn free() -> Result<u16> {
    static BLOCK: Mutex<Range<u16>> = Mutex::new(0..0);
    let mut block = BLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(port) = block.by_ref().find(|port| TcpListener::bind(loopback(*port)).is_ok()) {
            return Ok(port);
        }
        *block = claimed_block()?;
    }
}

/// The ports that [`free`] gives, and how many a process takes at a time.
const FREE: Range<u16> = 20_000..32_000;
const BLOCK_LENGTH: u16 = 100;

/// Ports that belong to this process until it ends: a socket without a file says so, which Linux removes with the process.
fn claimed_block() -> Result<Range<u16>> {
    for first in FREE.step_by(BLOCK_LENGTH.into()) {
        let name = unix::SocketAddr::from_abstract_name(format!("edge-idempotency: ports from {first}"))?;
        if let Ok(claim) = UnixListener::bind_addr(&name) {
            std::mem::forget(claim);
            return Ok(first..first + BLOCK_LENGTH);
        }
    }
    bail!("other processes have all ports from {} to {}", FREE.start, FREE.end)
}

fn set_port(variable: &str, value: &str) -> Result<(TcpListener, u16)> {
    let port = match value.parse() {
        Ok(0) | Err(_) => bail!("{variable} is `{value}`, not a port"),
        Ok(port) => port,
    };
    let listener = TcpListener::bind(loopback(port)).with_context(|| format!("{variable}: port {port} is not free"))?;
    Ok((listener, port))
}
