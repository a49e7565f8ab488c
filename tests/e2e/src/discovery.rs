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
    /// Variables that the VM of a WebAssembly module sees.
    environment: Vec<String>,
}

impl Discovery {
    /// A file that is not there yet.
    pub const fn new(path: PathBuf, filter: Filter) -> Self {
        Self { path, filter, environment: Vec::new() }
    }

    /// As this one, with one more variable that the VM of a WebAssembly module sees.
    #[must_use]
    pub fn listing(&self, variable: &str) -> Self {
        let mut listing = self.clone();
        listing.environment.push(variable.to_owned());
        listing
    }

    /// As this one, with another module.
    #[must_use]
    pub fn loading(&self, module: PathBuf) -> Self {
        Self { filter: self.filter.at(module), ..self.clone() }
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
        let vm = place(&mut resources, &format!("{config}/vm_config"))?.as_object_mut().context("a VM")?;
        vm.insert("environment_variables".to_owned(), json!({"host_env_keys": self.environment}));
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
