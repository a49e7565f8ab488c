//! Ports for processes that are killed and need the same port again.

use std::fs;
use std::net::TcpListener;

use anyhow::{Result, bail};
use edge_idempotency_demo::ports::loopback;

/// Where Linux keeps the range of ports that it gives to outgoing connections.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const DEFAULT_FIRST_EPHEMERAL: u16 = 32_768;
const LOWEST: u16 = 10_000;

/// So many free ports below those of outgoing connections: none of the clients' connections takes a port while its owner is down.
pub fn below_ephemeral(count: usize) -> Result<Vec<u16>> {
    let range = fs::read_to_string(EPHEMERAL).unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_FIRST_EPHEMERAL);
    let mut random = fastrand::Rng::new();
    let mut held = Vec::new();
    for _ in 0..10_000 {
        if held.len() == count {
            break;
        }
        let port = random.u16(LOWEST..first.max(LOWEST + 1));
        if let Ok(listener) = TcpListener::bind(loopback(port)) {
            held.push((listener, port));
        }
    }
    if held.len() < count {
        bail!("there are no {count} free ports between {LOWEST} and {first}");
    }
    Ok(held.into_iter().map(|(_, port)| port).collect())
}
