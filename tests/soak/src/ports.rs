//! Ports for processes that are killed and need the same port again.

use std::fs::{self, File};
use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};
use harness::ports::loopback;

/// Where Linux keeps the range of ports that it gives to outgoing connections.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const DEFAULT_FIRST_EPHEMERAL: u16 = 32_768;
const LOWEST: u16 = 10_100;
/// Ports of a slice.
const SLICE: u16 = 200;

/// A part of the ports that no other soak on this machine uses while this value is there.
pub struct PortSlice {
    _lock: Option<File>,
}

impl PortSlice {
    /// So many free ports. They lie below those of outgoing connections, so that no connection of a client takes a port while its
    /// owner is down; if there is no such range, they are any free ones.
    pub fn take(count: usize) -> Result<(Self, Vec<u16>)> {
        let range = fs::read_to_string(EPHEMERAL).unwrap_or_default();
        let first =
            range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_FIRST_EPHEMERAL);
        let locks = std::env::temp_dir().join("edge-idempotency-soak-ports");
        fs::create_dir_all(&locks).with_context(|| format!("cannot make {}", locks.display()))?;
        let slices = first.saturating_sub(LOWEST) / SLICE;
        for slice in 0..slices {
            let path = locks.join(slice.to_string());
            let lock = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
            // A lock ends with its process, however that ends.
            if lock.try_lock().is_ok() {
                let start = LOWEST + slice * SLICE;
                // OpenBao takes the port after its own, too.
                let ports = free((start..start + SLICE).step_by(2).collect(), count);
                if ports.len() == count {
                    return Ok((Self { _lock: Some(lock) }, ports));
                }
            }
        }
        let ports = free(vec![0; count], count);
        ensure!(ports.len() == count, "there are no {count} free ports");
        Ok((Self { _lock: None }, ports))
    }
}

/// The first free ones of these ports; 0 stands for any.
fn free(candidates: Vec<u16>, count: usize) -> Vec<u16> {
    // All are held until the last is found.
    let held: Vec<_> =
        candidates.into_iter().filter_map(|port| TcpListener::bind(loopback(port)).ok()).take(count).collect();
    held.iter().filter_map(|listener| Some(listener.local_addr().ok()?.port())).collect()
}
