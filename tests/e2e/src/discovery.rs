//! The filter's configuration from a file that is replaced while Envoy runs, as `docs/gateways.md` has it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use harness::dynamic_module::adapt;
use harness::tools::Filter;
use serde_json::{Value, json};

const DOCUMENTED: &str = include_str!("../../../docs/gateways.md");

/// Such a file.
#[derive(Clone, Debug)]
pub struct Discovery {
    path: PathBuf,
    filter: Filter,
}

impl Discovery {
    /// A file that is not there yet.
    pub const fn new(path: PathBuf, filter: Filter) -> Self {
        Self { path, filter }
    }

    /// What stands in the place of the filter. Its type is that of the WebAssembly module until Envoy starts.
    pub fn filter(&self) -> Result<Value> {
        let mut filter = documented(0)?;
        *place(&mut filter, "/config_discovery/config_source/path_config_source/path")? = json!(self.path);
        Ok(filter)
    }

    /// Puts a policy into force: written beside the file, and moved into its place.
    pub fn put(&self, policy: &str) -> Result<()> {
        let mut resources = documented(1)?;
        let config = "/resources/0/typed_config/config";
        *place(&mut resources, &format!("{config}/vm_config/code/local/filename"))? = json!(self.filter.path());
        *place(&mut resources, &format!("{config}/configuration/value"))? = json!(policy);
        if let Filter::DynamicModule(_) = self.filter {
            adapt(&mut resources);
        }
        let new = self.path.with_extension("new");
        // JSON is YAML, and leaves no question of which type a value has.
        fs::write(&new, resources.to_string())?;
        fs::rename(&new, &self.path).context("the file cannot be moved")
    }
}

/// One of the documented YAML blocks.
fn documented(number: usize) -> Result<Value> {
    let block = DOCUMENTED.split("```yaml\n").nth(number + 1).and_then(|rest| rest.split("```").next());
    serde_saphyr::from_str(block.context("docs/gateways.md has no such block")?).context("a block of docs/gateways.md")
}

fn place<'v>(value: &'v mut Value, pointer: &str) -> Result<&'v mut Value> {
    value.pointer_mut(pointer).with_context(|| format!("docs/gateways.md has no {pointer}"))
}
