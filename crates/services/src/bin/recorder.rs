//! Keeps the answers of an API that knows nothing of idempotency keys.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use edge_idempotency_services::program::{register, terminated};
use edge_idempotency_services::recorder::{Setup, Upstream, read, serve, written};

/// Stands between the gateway and an API that knows nothing of idempotency keys: Restate keeps the API's answers.
///
/// Only the gateway may reach `--listen`, and only Restate `--service`. docs/backends.md says how to deploy it.
#[derive(Parser)]
#[command(name = "recorder", version)]
struct Options {
    /// The API: `http://HOST:PORT`. For several, or other limits, write `--config`.
    #[arg(long, required_unless_present = "config", conflicts_with = "config")]
    upstream: Option<String>,
    /// A file with the APIs: `{"upstreams": {"orders": {"url": "http://127.0.0.1:8000"}}}`.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Prints the file for `--config` with all members and their values, and ends.
    #[arg(long)]
    show_config: bool,
    /// Where the gateway calls it.
    #[arg(long, default_value = "127.0.0.1:9100")]
    listen: SocketAddr,
    /// Where Restate calls it (HTTP/2 without TLS).
    #[arg(long, default_value = "127.0.0.1:9101")]
    service: SocketAddr,
    /// Where it has `/metrics`, and `/upstreams` for `check --live`.
    #[arg(long, default_value = "127.0.0.1:9102")]
    status: SocketAddr,
    /// Restate's ingress. For a cluster the addresses of several nodes, with commas between them: if one fails, the next is asked.
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:8080")]
    restate: Vec<String>,
    /// Restate's admin interface: the service registers itself there at each start.
    #[arg(long)]
    admin: Option<String>,
    /// The URL under which Restate reaches `--service`, if it is another one.
    #[arg(long)]
    advertise: Option<String>,
    /// How long Restate keeps answers.
    #[arg(long, default_value = "24h", value_parser = humantime::parse_duration)]
    retention: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let upstreams = match (&options.config, &options.upstream) {
        (Some(file), _) => {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            read(&text).with_context(|| format!("{} is no file of a recorder", file.display()))?
        }
        (None, upstream) => {
            let url = upstream.as_deref().unwrap_or_default();
            BTreeMap::from([("api".to_owned(), Upstream::at(url).context("--upstream")?)])
        }
    };
    if options.show_config {
        println!("{}", written(&upstreams));
        return Ok(());
    }
    let Options { listen, service, status, restate, admin, advertise, retention, .. } = options;
    let ends = terminated()?;
    let setup = Setup { upstreams, listen, service, status, restate, retention };
    let listens = async || {
        println!("Recorder listens on {listen}; retention {}", humantime::format_duration(retention));
        let endpoint = advertise.unwrap_or_else(|| format!("http://{service}"));
        register(admin.as_deref(), &endpoint).await
    };
    serve(setup, listens, ends).await
}
