//! What `edge-idempotency render envoy` writes: a real Envoy takes it, for every policy that the project ships.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::runner::{Group, Test, sharing};
use harness::tools::{Filter, built, repository};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut tests = Vec::new();
    for path in policies()? {
        let name = path.strip_prefix(repository()).context("a policy's name")?.with_extension("").display().to_string();
        tests.push(Test::new(format!("validates::{name}"), move |setup: &RenderSetup| setup.validates(&path, &[])));
    }
    let demo = repository().join("deploy/demo/policy.json");
    let ecds = demo.clone();
    tests.push(Test::new("the filter's file for discovery validates", move |setup: &RenderSetup| {
        setup.discovers(&ecds)
    }));
    let block = demo.clone();
    tests.push(Test::new("the filter alone is the bootstrap's", move |setup: &RenderSetup| setup.filter_alone(&block)));
    tests.push(Test::new("TLS upstreams and fetched keys validate", move |setup: &RenderSetup| {
        setup.validates(&demo, &TLS)
    }));
    let keys = repository().join("policies/examples/api-keys.json");
    for service in ["grpcs://authz.example.com:9191", "https://127.0.0.1:9191/check"] {
        let keys = keys.clone();
        tests.push(Test::new(format!("validates::--ext-authz {service}"), move |setup: &RenderSetup| {
            let browsers = ["--cors-origin", "https://app.example.com", "--health-path", "/ready", "--profile", "acp"];
            setup.validates(&keys, &[&["--ext-authz", service][..], &browsers].concat())
        }));
    }
    Ok(vec![sharing(RenderSetup::start, tests)])
}

const TLS: [&str; 8] = [
    "--upstream",
    "backend=https://restate.example.com",
    "--upstream",
    "unkey=https://api.unkey.com",
    "--upstream",
    "openbao=https://127.0.0.1:8200",
    "--jwt-keys",
    "https://login.example.com/keys",
];

/// Every policy document that the project ships.
pub(crate) fn policies() -> Result<Vec<PathBuf>> {
    let root = repository();
    let mut paths: Vec<PathBuf> = ["policies/minimal.json", "policies/reference.json", "deploy/demo/policy.json"]
        .iter()
        .map(|path| root.join(path))
        .collect();
    for entry in fs::read_dir(root.join("policies/examples"))? {
        paths.push(entry?.path());
    }
    paths.sort();
    ensure!(paths.len() > 20, "policies/examples has fewer documents than it had: {}", paths.len());
    Ok(paths)
}

/// The command, and files that configurations name.
struct RenderSetup {
    command: PathBuf,
    directory: TempDir,
}

impl RenderSetup {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let keys = harness::tokens::Signer::generate().jwks();
        fs::write(directory.path().join("jwks.json"), keys)?;
        fs::write(directory.path().join("ca.pem"), CERTIFICATE)?;
        for name in ["unkey-root-key", "openbao-token"] {
            fs::write(directory.path().join(format!("{name}.json")), json!({"resources": []}).to_string())?;
        }
        Ok(Self { command: built("EDGE_CLI", "edge-idempotency")?, directory })
    }

    /// What `render envoy` writes for a policy.
    fn render(&self, policy: &Path, own: &[&str]) -> Result<String> {
        let document: Value = serde_json::from_str(&fs::read_to_string(policy)?)?;
        let mut command = Command::new(&self.command);
        let module = tools()?.filter;
        command.args(["render", "envoy", "--policy"]).arg(policy).arg("--module").arg(module.path());
        if let Filter::DynamicModule(_) = module {
            command.arg("--dynamic-module");
        }
        command
            .arg("--credentials")
            .arg(self.directory.path())
            .arg("--ca-file")
            .arg(self.directory.path().join("ca.pem"));
        command.args(own);
        let given = |option: &str| own.contains(&option);
        if !given("--upstream") {
            for (port, name) in upstream_names(&document).iter().enumerate() {
                command.args(["--upstream", &format!("{name}=http://127.0.0.1:{}", port + 1)]);
            }
        }
        let keys = self.directory.path().join("jwks.json").display().to_string();
        for key in tokens(&document) {
            command.args(["--jwt-issuer", &format!("{key}=https://{key}.example.com")]);
            if !given("--jwt-keys") {
                command.args(["--jwt-keys", &format!("{key}={keys}")]);
            }
        }
        let output = command.output().with_context(|| format!("cannot run {}", self.command.display()))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn validates(&self, policy: &Path, own: &[&str]) -> Result<()> {
        self.takes(&self.render(policy, own)?, policy)
    }

    /// Envoy validates a configuration, the module and the policy included.
    fn takes(&self, config: &str, policy: &Path) -> Result<()> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile_in(self.directory.path())?;
        fs::write(file.path(), config)?;
        let mut command = Command::new(tools()?.envoy);
        command.args(["--mode", "validate", "--log-level", "warning", "--config-path"]).arg(file.path());
        let document: Value = serde_json::from_str(&fs::read_to_string(policy)?)?;
        command.envs(variables(&document).into_iter().map(|name| (name, "0123456789abcdef0123456789abcdef")));
        let output = command.output().context("cannot run Envoy")?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && !log.contains("deprecated"), "{log}\n{config}");
        Ok(())
    }

    /// The bootstrap that reads the filter's file, and the file itself.
    fn discovers(&self, policy: &Path) -> Result<()> {
        let file = self.directory.path().join("filter.yaml");
        let path = file.display().to_string();
        let resource = self.render(policy, &["--ecds", &path, "--filter-only"])?;
        fs::write(&file, &resource)?;
        let bootstrap = self.render(policy, &["--ecds", &path])?;
        ensure!(!bootstrap.contains("\"routes\""), "the bootstrap holds the filter's configuration");
        self.takes(&bootstrap, policy)?;
        let resource: Value = serde_saphyr::from_str(&resource)?;
        let found = resource.pointer("/resources/0/typed_config").context("no typed_config")?;
        ensure!(*found == filter(&self.render(policy, &[])?)?, "{found} is not the bootstrap's");
        Ok(())
    }

    fn filter_alone(&self, policy: &Path) -> Result<()> {
        let list: Value = serde_saphyr::from_str(&self.render(policy, &["--filter-only"])?)?;
        let found = list.as_array().and_then(|list| list.last()?.get("typed_config")).context("no entry")?;
        ensure!(*found == filter(&self.render(policy, &[])?)?, "{found} is not the bootstrap's");
        let document = ["/config/configuration/value", "/filter_config/value"]
            .iter()
            .find_map(|place| found.pointer(place)?.as_str())
            .context("no document")?;
        ensure!(document.trim_end() == fs::read_to_string(policy)?.trim_end(), "the policy is another one: {document}");
        Ok(())
    }
}

/// The configuration of the filter in a bootstrap. It stands last before the router.
fn filter(bootstrap: &str) -> Result<Value> {
    let config: Value = serde_saphyr::from_str(bootstrap)?;
    let filters = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";
    let filters = config.pointer(filters).and_then(Value::as_array).context("no filters")?;
    let ours = filters.iter().rev().nth(1).context("the last filter but the router")?;
    ensure!(ours.get("name").is_some_and(|name| name == "edge-idempotency"), "{ours}");
    Ok(ours.get("typed_config").context("no typed_config")?.clone())
}

/// The upstreams that a policy needs: the cluster of each backend, or its name, and those of lookups.
pub(crate) fn upstream_names(document: &Value) -> Vec<String> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let named = document.get("backends").and_then(Value::as_object).into_iter().flatten();
    let named = named.map(|(name, backend)| backend.get("cluster").and_then(Value::as_str).unwrap_or(name).to_owned());
    let only =
        document.get("backends").is_none().then(|| text("/backend/cluster").unwrap_or_else(|| "backend".to_owned()));
    let stores = ["/webhooks/unkey/cluster", "/webhooks/openbao/cluster"];
    let sources = document.pointer("/identity/sources").and_then(Value::as_array).into_iter().flatten();
    let registries = sources.filter_map(|source| source.pointer("/unkey/cluster")?.as_str().map(str::to_owned));
    only.into_iter().chain(named).chain(stores.into_iter().filter_map(text)).chain(registries).collect()
}

/// The members of jwt_authn's metadata that a policy reads.
fn tokens(document: &Value) -> Vec<String> {
    let mut keys = Vec::new();
    walk(document, &mut |value| {
        let list = value.get("metadata").and_then(Value::as_array).map(Vec::as_slice);
        if let Some([Value::String(filter), Value::String(key), ..]) = list
            && filter == "envoy.filters.http.jwt_authn"
            && !keys.contains(key)
        {
            keys.push(key.clone());
        }
    });
    keys
}

/// The variables that a policy names.
fn variables(document: &Value) -> Vec<String> {
    let mut names = Vec::new();
    walk(document, &mut |value| names.extend(value.get("env").and_then(Value::as_str).map(str::to_owned)));
    names
}

fn walk(value: &Value, visit: &mut impl FnMut(&Value)) {
    visit(value);
    match value {
        Value::Array(list) => list.iter().for_each(|value| walk(value, visit)),
        Value::Object(members) => members.values().for_each(|value| walk(value, visit)),
        _ => {}
    }
}

/// An authority that nobody uses: Envoy reads the file.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBjDCCATOgAwIBAgIUcwC5hc4Sur3qM6zeR51dt7fouHYwCgYIKoZIzj0EAwIw
GzEZMBcGA1UEAwwQYSB0ZXN0IG9mIHJlbmRlcjAgFw0yNjExMjIxMjA5MzlaGA8y
MTI2MTAyOTEyMDkzOVowGzEZMBcGA1UEAwwQYSB0ZXN0IG9mIHJlbmRlcjBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABG4P2CxqAYpk0nidmnmrFfOsI3ryb/jtCv9x
F53e9v3p+5P62vIiiUCskQJgpLTSa6EvCkyFbpvY+cUCUPoXMPijUzBRMB0GA1Ud
DgQWBBTDy6WzgnNe0AZr0rLgkT9lsMN+aTAfBgNVHSMEGDAWgBTDy6WzgnNe0AZr
0rLgkT9lsMN+aTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIDSP
XmaY1PmL6gWlp4QTuoLp0NhWVacnqXA1oS51pAE3AiAqtpj8pE+FqxAWh3aHvZxO
bobGs7DFUHxDWCIYrbo5uQ==
-----END CERTIFICATE-----
";
