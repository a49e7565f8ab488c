//! Nodes of Restate that are one cluster: each of them leads some partitions, and two have what each partition wrote.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::http::Request;
use crate::ports::loopback_url;
use crate::restate::{Restate, RestateOptions};

/// Partitions of a cluster, so that each node leads some.
const PARTITIONS: usize = 6;

/// Where a node listens.
#[derive(Clone, Copy, Debug)]
pub struct NodePorts {
    /// Traffic between nodes.
    pub node: u16,
    /// Where requests come in.
    pub ingress: u16,
    /// The admin interface.
    pub admin: u16,
}

/// Starts the nodes of a cluster, or a single node, each within a directory of its own (`restate-1` and so on), and does not wait.
pub fn spawn(program: &Path, directory: &Path, nodes: &[NodePorts]) -> Result<Vec<Restate>> {
    let metadata: Vec<String> = nodes.iter().map(|ports| loopback_url(ports.node)).collect();
    let node = |(place, ports): (usize, &NodePorts)| {
        let name = format!("restate-{}", place + 1);
        let run_dir = directory.join(&name);
        fs::create_dir_all(&run_dir).with_context(|| format!("cannot make {}", run_dir.display()))?;
        Restate::spawn(RestateOptions {
            program: program.to_owned(),
            run_dir,
            ingress_port: ports.ingress,
            admin_port: ports.admin,
            node_port: ports.node,
            env: environment(name, place, &metadata),
        })
    };
    nodes.iter().enumerate().map(node).collect()
}

/// Registers the services at `url`, and waits until their handlers can be called at every node.
pub async fn register(nodes: &mut [Restate], url: &str) -> Result<()> {
    let services = nodes.first_mut().context("there is no node")?.register(url).await?;
    for node in nodes {
        node.knows(&services).await?;
    }
    Ok(())
}

/// What a node leads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Leads {
    /// How many partitions.
    pub partitions: u32,
    /// The replicated metadata, too.
    pub metadata: bool,
}

/// What the node at this address leads, in a cluster of so many nodes; nothing if it does not tell.
pub async fn leads(node_url: &str, nodes: usize) -> Leads {
    match Request::get("/metrics").send(node_url).await {
        Ok(reply) => told(&reply.text(), nodes),
        Err(_) => Leads::default(),
    }
}

/// What a node's metrics say about what it leads.
fn told(metrics: &str, nodes: usize) -> Leads {
    let values = |name| metrics.lines().filter_map(move |line: &str| line.strip_prefix(name)?.rsplit_once(' '));
    let value = |name| values(name).next().and_then(|(_, value)| value.parse::<u32>().ok());
    // Nodes have numbers from 1 on. A node's own number is the one that none of its peers has.
    let peers: Vec<&str> =
        values("restate_metadata_server_replicated_sent_messages_total").map(|(labels, _)| labels).collect();
    let own = (1..=nodes).find(|number| !peers.iter().any(|labels| labels.contains(&format!("peer=\"N{number}\""))));
    let leader = value("restate_metadata_server_replicated_leader_id");
    Leads {
        partitions: value("restate_num_active_partition_leaders").unwrap_or_default(),
        metadata: nodes > 1 && leader.is_some() && leader == own.and_then(|own| u32::try_from(own).ok()),
    }
}

/// What a node of a cluster has to know, or a single node.
fn environment(name: String, place: usize, metadata: &[String]) -> Vec<(String, String)> {
    let mut variables = vec![("RESTATE_NODE_NAME", name)];
    if metadata.len() > 1 {
        variables.extend([
            ("RESTATE_CLUSTER_NAME", "edge-idempotency".to_owned()),
            ("RESTATE_DEFAULT_REPLICATION", "2".to_owned()),
            ("RESTATE_DEFAULT_NUM_PARTITIONS", PARTITIONS.to_string()),
            ("RESTATE_METADATA_CLIENT__ADDRESSES", json!(metadata).to_string()),
            ("RESTATE_ADVERTISED_ADDRESS", metadata.get(place).cloned().unwrap_or_default()),
            ("RESTATE_AUTO_PROVISION", (place == 0).to_string()),
        ]);
    }
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
