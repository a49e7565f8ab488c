//! Gateways that others build around Envoy: their own control planes, the Envoy that they start, and what `edge-idempotency render`
//! writes for them, in front of a real Restate and of the API of `examples/own-api`. One scenario (`scenario.rs`) for all of them.
//!
//! The control planes listen on fixed ports on all addresses, so `crates/xtask/scripts/platforms.sh` runs these tests in a network namespace of
//! their own. Elsewhere they are left out.

mod envoy_gateway;
mod image;
mod istio;
mod scenario;

use std::env;

use anyhow::{Result, ensure};
use e2e::runner::Group;

/// The variable with the names of the platforms that are tested, with spaces between them. `crates/xtask/scripts/platforms.sh` sets it.
const CHOSEN: &str = "EDGE_PLATFORMS";

/// A platform's name, and its tests.
type Platform = (&'static str, fn() -> Result<Vec<Group>>);
const PLATFORMS: [Platform; 2] = [("envoy-gateway", envoy_gateway::groups), ("istio", istio::groups)];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let chosen = env::var(CHOSEN).unwrap_or_default();
    let chosen: Vec<&str> = chosen.split_whitespace().collect();
    let unknown = chosen.iter().find(|name| PLATFORMS.iter().all(|(platform, _)| platform != *name));
    ensure!(unknown.is_none(), "{CHOSEN}: no platform is named {}", unknown.unwrap_or(&""));
    let mut all = Vec::new();
    for (name, groups) in PLATFORMS {
        let is_chosen = chosen.contains(&name);
        if !is_chosen {
            eprintln!(
                "SKIPPED: {name} is not started here, so what `render {name}` writes is not run. `crates/xtask/scripts/platforms.sh {name}` runs it."
            );
        }
        // They have fixed ports, so no two of them run at the same time.
        all.extend(groups()?.into_iter().map(|group| if is_chosen { group.alone() } else { group.left_out() }));
    }
    Ok(all)
}
