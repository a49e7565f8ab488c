//! The configuration that the demo ships, with the few changes a test needs.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use edge_idempotency_demo::envoy::{EnvoyOptions, render};
use serde_json::{Value, json};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
const CLUSTER: &str = "/static_resources/clusters/0";
const FILTER: &str = "edge-idempotency";

/// An Envoy configuration as data.
#[derive(Clone, Debug)]
pub struct Config(Value);

impl Config {
    /// The shipped configuration, rendered.
    pub fn shipped(options: &EnvoyOptions) -> Result<Self> {
        let text = render(options);
        Ok(Self(serde_saphyr::from_str(&text).context("the rendered configuration")?))
    }

    /// Writes it as JSON, which leaves no question of which type a value has.
    pub fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.0.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn at(&mut self, pointer: &str) -> Result<&mut Value> {
        self.0.pointer_mut(pointer).with_context(|| format!("the shipped configuration has no {pointer}"))
    }

    fn list(&mut self, pointer: &str) -> Result<&mut Vec<Value>> {
        self.at(pointer)?.as_array_mut().with_context(|| format!("{pointer} is no list"))
    }

    fn set(&mut self, pointer: &str, name: &str, value: Value) -> Result<()> {
        self.at(pointer)?
            .as_object_mut()
            .with_context(|| format!("{pointer} is no object"))?
            .insert(name.into(), value);
        Ok(())
    }

    /// Paths reach the filter as clients wrote them.
    pub fn leave_paths(&mut self) -> Result<()> {
        self.set(MANAGER, "normalize_path", json!(false))?;
        self.set(MANAGER, "merge_slashes", json!(false))
    }

    /// Trailers pass over HTTP/1.1, which Envoy drops by default.
    pub fn pass_trailers(&mut self) -> Result<()> {
        let enabled = json!({"enable_trailers": true});
        self.set(MANAGER, "http_protocol_options", enabled.clone())?;
        let options = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http_protocol_options": enabled},
        }});
        self.set(CLUSTER, "typed_extension_protocol_options", options)
    }

    /// Authentication and the public route cover every path, not only those below `/api/`.
    pub fn cover_every_path(&mut self) -> Result<()> {
        let everything = json!({"prefix": "/"});
        self.set(&format!("{MANAGER}/http_filters/0/typed_config/rules/0"), "match", everything.clone())?;
        self.set(&format!("{MANAGER}/route_config/virtual_hosts/0/routes/1"), "match", everything)
    }

    /// Puts a filter right before ours.
    pub fn filter_before_ours(&mut self, filter: Value) -> Result<()> {
        let filters = self.list(&format!("{MANAGER}/http_filters"))?;
        let ours = filters.iter().position(|filter| filter.get("name").is_some_and(|name| name == FILTER));
        filters.insert(ours.context("our filter is not in the shipped configuration")?, filter);
        Ok(())
    }

    /// Puts a route before all others.
    pub fn route_first(&mut self, route: Value) -> Result<()> {
        self.list(&format!("{MANAGER}/route_config/virtual_hosts/0/routes"))?.insert(0, route);
        Ok(())
    }
}
