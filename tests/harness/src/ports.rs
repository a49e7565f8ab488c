//! Ports on the loopback interface: free ones, unless the environment sets them.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

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
        // All are held until the last is found: the system would hand out the same port twice otherwise.
        let mut held = Vec::new();
        let mut port = |name: &str| -> Result<u16> {
            let variable = format!("DEMO_PORT_{name}");
            let (listener, port) = match setting(&variable) {
                Some(value) => set_port(&variable, &value)?,
                None => free_port()?,
            };
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

/// A free port for a program that may take long until it listens. It is below those that Linux gives away by itself, and this process gives
/// each of them once.
///
/// # Errors
/// There is none.
pub fn free() -> Result<u16> {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        // Another process begins elsewhere.
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(97));
        let port = u16::try_from(FIRST + number % COUNT)?;
        if TcpListener::bind(loopback(port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("there is no free port from {FIRST} on")
}

fn free_port() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(loopback(0)).context("there is no free port")?;
    let port = listener.local_addr().context("a listener without an address")?.port();
    Ok((listener, port))
}

fn set_port(variable: &str, value: &str) -> Result<(TcpListener, u16)> {
    let port = match value.parse() {
        Ok(0) | Err(_) => bail!("{variable} is `{value}`, not a port"),
        Ok(port) => port,
    };
    let listener = TcpListener::bind(loopback(port)).with_context(|| format!("{variable}: port {port} is not free"))?;
    Ok((listener, port))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn free_ports_differ() {
        let ports = Ports::free().unwrap();
        let all = [
            ports.gateway,
            ports.admin,
            ports.restate_ingress,
            ports.restate_admin,
            ports.restate_node,
            ports.service,
            ports.ledger,
            ports.registry,
            ports.openbao,
        ];
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn a_free_port_is_given_once() {
        let ports: Vec<u16> = (0..200).map(|_| free().unwrap()).collect();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| (20_000..32_000).contains(port)), "{ports:?}");
    }

    #[test]
    fn a_set_port_wins_and_a_bad_one_is_named() {
        let (held, port) = free_port().unwrap();
        let set = |value: String| move |variable: &str| (variable == "DEMO_PORT_GATEWAY").then(|| value.clone());
        let taken = Ports::pick(set(port.to_string())).unwrap_err().to_string();
        assert!(taken.contains("DEMO_PORT_GATEWAY") && taken.contains("not free"), "{taken}");
        drop(held);
        assert_eq!(Ports::pick(set(port.to_string())).unwrap().gateway, port);
        for bad in ["0", "http", "70000", ""] {
            let error = Ports::pick(set(bad.to_owned())).unwrap_err().to_string();
            assert!(error.contains("DEMO_PORT_GATEWAY") && error.contains("not a port"), "{error}");
        }
    }
}
