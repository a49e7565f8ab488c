//! The gateway: Envoy with JWT authentication and the filter, configured from `deploy/demo/envoy.yaml`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::dynamic_module;
use crate::http::Request;
use crate::ports::loopback_url;
use crate::private;
use crate::process::Process;
use crate::tokens::ISSUER;
use crate::tools::Filter;

const TEMPLATE: &str = include_str!("../../../deploy/demo/envoy.yaml");
const LOOKUPS: &str = include_str!("../../../deploy/demo/lookups.yaml");
/// Compiling the module takes a second or two on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// What the template leaves open.
#[derive(Clone, Debug)]
pub struct EnvoyOptions {
    /// The program.
    pub program: PathBuf,
    /// Where configuration and logs go. It has to exist.
    pub run_dir: PathBuf,
    /// The filter's module, and so its host.
    pub filter: Filter,
    /// The policy document, as it stands: it need not be valid.
    pub policy: String,
    /// The key set that verifies tokens, as one line.
    pub jwks: String,
    /// Whether a request to `/api/` without a token is refused by Envoy (401), or let through without identity. A token
    /// that does not verify is refused either way.
    pub require_token: bool,
    /// Where the gateway sends what it forwards.
    pub backend: SocketAddr,
    /// The gateway's port.
    pub gateway_port: u16,
    /// The admin interface's port.
    pub admin_port: u16,
    /// Worker threads; a WebAssembly module has a VM in each.
    pub concurrency: u32,
    /// Variables of Envoy's environment. A WebAssembly module sees those that the template lists.
    pub environment: Vec<(String, String)>,
    /// What the filter looks webhooks up in; without, the gateway has no such clusters.
    pub stores: Option<Stores>,
}

/// Where webhooks are looked up, and as whom. The credentials go into files that Envoy watches.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The registry, cluster `unkey`.
    pub unkey: SocketAddr,
    /// Its root key.
    pub unkey_root_key: String,
    /// The secret store, cluster `openbao`.
    pub openbao: SocketAddr,
    /// A token that reads it; without one its file names none.
    pub openbao_token: Option<String>,
}

/// A running Envoy.
pub struct Envoy {
    /// The process; its log is Envoy's own.
    pub process: Process,
    options: EnvoyOptions,
    config: PathBuf,
}

impl Envoy {
    /// Starts Envoy and waits until it takes requests. If it refuses its configuration, the error holds the end of its log.
    pub async fn start(options: EnvoyOptions) -> Result<Self> {
        let config = configuration(&options.run_dir);
        fs::write(&config, render(&options)).with_context(|| format!("cannot write {}", config.display()))?;
        Self::start_with(options, &config).await
    }

    /// As [`Envoy::start`], with a configuration that was rendered and changed: it listens on the ports of `options`.
    pub async fn start_with(options: EnvoyOptions, config: &Path) -> Result<Self> {
        let used = match options.filter {
            Filter::Wasm(_) => config.to_owned(),
            Filter::DynamicModule(_) => dynamic_module::adapt_file(config)?,
        };
        if let Some(stores) = &options.stores {
            write_credential(&options.run_dir, UNKEY_ROOT_KEY, Some(&stores.unkey_root_key))?;
            write_credential(&options.run_dir, OPENBAO_TOKEN, stores.openbao_token.as_deref())?;
        }
        let mut command = Command::new(&options.program);
        command.envs(options.environment.iter().map(|(name, value)| (name, value)));
        command.arg("--config-path").arg(used).args(["--concurrency", &options.concurrency.to_string()]);
        // Several may run on one machine; the log's lines begin with time and level.
        let level = format!("{}:info", options.filter.component());
        command.args(["--disable-hot-restart", "--log-level", "warning", "--component-log-level", &level]);
        let process = Process::spawn("Envoy", &mut command, &options.run_dir.join("envoy.log"))?;
        let mut envoy = Self { process, options, config: config.to_owned() };
        envoy.ready().await?;
        Ok(envoy)
    }

    /// Waits until it takes requests.
    pub async fn ready(&mut self) -> Result<()> {
        let admin_url = self.admin_url();
        self.process
            .ready(READY, async || {
                let reply = Request::get("/ready").send(&admin_url).await?;
                ensure!(reply.status == 200, "/ready says {}", reply.text().trim());
                Ok(())
            })
            .await
    }

    /// Kills it as a crash would, then starts it again as it was started.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        *self = Self::start_with(self.options.clone(), &self.config.clone()).await?;
        Ok(())
    }

    /// What it was started with.
    pub fn options(&self) -> &EnvoyOptions {
        &self.options
    }

    /// Where clients send their requests.
    pub fn gateway_url(&self) -> String {
        loopback_url(self.options.gateway_port)
    }

    /// Envoy's admin interface.
    pub fn admin_url(&self) -> String {
        loopback_url(self.options.admin_port)
    }

    /// Another token for the cluster `openbao`. Envoy takes it up soon, without a restart.
    pub fn rotate_openbao_token(&self, token: &str) -> Result<()> {
        write_credential(&self.options.run_dir, OPENBAO_TOKEN, Some(token))
    }

    /// The access log, a line for each request. Envoy writes it with a delay.
    pub fn access_log(&self) -> PathBuf {
        access_log(&self.options.run_dir)
    }
}

/// Names of credentials, as `deploy/demo/lookups.yaml` has them, and of their files.
const UNKEY_ROOT_KEY: &str = "unkey-root-key";
const OPENBAO_TOKEN: &str = "openbao-token";

fn credential_file(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.json"))
}

/// Envoy notices a file that is moved into place, not one that is written; and does not start without one.
fn write_credential(run_dir: &Path, name: &str, value: Option<&str>) -> Result<()> {
    let path = credential_file(run_dir, name);
    let new = path.with_extension("new");
    let secret = |value| {
        json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            "name": name,
            "generic_secret": {"secret": {"inline_string": value}},
        })
    };
    let resources = json!({"resources": value.map(secret).into_iter().collect::<Vec<_>>()});
    private::write(&new, &resources.to_string())?;
    fs::rename(&new, &path).with_context(|| format!("cannot write {}", path.display()))
}

pub(crate) fn configuration(run_dir: &Path) -> PathBuf {
    run_dir.join("envoy.yaml")
}

fn access_log(run_dir: &Path) -> PathBuf {
    run_dir.join("access.log")
}

/// The configuration as Envoy gets it.
pub fn render(options: &EnvoyOptions) -> String {
    let requirement = if options.require_token {
        "{provider_name: demo}"
    } else {
        "{requires_any: {requirements: [{provider_name: demo}, {allow_missing: {}}]}}"
    };
    fill(
        TEMPLATE,
        &[
            ("GATEWAY_PORT", &options.gateway_port.to_string()),
            ("ADMIN_PORT", &options.admin_port.to_string()),
            ("ACCESS_LOG", &access_log(&options.run_dir).display().to_string()),
            ("ISSUER", ISSUER),
            ("JWKS", &options.jwks),
            ("TOKEN_REQUIREMENT", requirement),
            ("WASM", &options.filter.path().display().to_string()),
            ("POLICY", &options.policy),
            ("BACKEND_ADDRESS", &options.backend.ip().to_string()),
            ("BACKEND_PORT", &options.backend.port().to_string()),
            ("LOOKUP_CLUSTERS", &options.stores.as_ref().map_or_else(String::new, |stores| lookups(options, stores))),
        ],
    )
}

fn lookups(options: &EnvoyOptions, stores: &Stores) -> String {
    let credential = |name| credential_file(&options.run_dir, name).display().to_string();
    fill(
        LOOKUPS,
        &[
            ("UNKEY_ADDRESS", &stores.unkey.ip().to_string()),
            ("UNKEY_PORT", &stores.unkey.port().to_string()),
            ("UNKEY_CREDENTIAL", &credential(UNKEY_ROOT_KEY)),
            ("OPENBAO_ADDRESS", &stores.openbao.ip().to_string()),
            ("OPENBAO_PORT", &stores.openbao.port().to_string()),
            ("OPENBAO_CREDENTIAL", &credential(OPENBAO_TOKEN)),
        ],
    )
}

/// Puts values in the places `{{NAME}}`. A value of several lines takes over the indentation of the line it is put into.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    for line in template.lines() {
        let indent: String = line.chars().take_while(|char| *char == ' ').collect();
        let mut rest = line;
        while let Some((before, name, after)) = placeholder(rest) {
            let value = values.iter().find(|(candidate, _)| *candidate == name).map_or("", |(_, value)| *value);
            filled.push_str(before);
            filled.push_str(&value.replace('\n', &format!("\n{indent}")));
            rest = after;
        }
        filled.push_str(rest);
        filled.push('\n');
    }
    filled
}

fn placeholder(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name, after))
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    use super::*;

    pub(crate) fn options(policy: &str, require_token: bool) -> EnvoyOptions {
        EnvoyOptions {
            program: "envoy".into(),
            run_dir: "/run/demo".into(),
            filter: Filter::Wasm("/dist/edge_idempotency.wasm".into()),
            policy: policy.to_owned(),
            jwks: crate::tokens::Signer::generate().jwks(),
            require_token,
            backend: "127.0.0.1:8080".parse().unwrap(),
            gateway_port: 10_000,
            admin_port: 9_901,
            concurrency: 2,
            environment: Vec::new(),
            stores: None,
        }
    }

    fn stores() -> Stores {
        Stores {
            unkey: "127.0.0.1:1".parse().unwrap(),
            unkey_root_key: "unkey_root".to_owned(),
            openbao: "127.0.0.1:2".parse().unwrap(),
            openbao_token: Some("s.token".to_owned()),
        }
    }

    pub(crate) fn read(options: &EnvoyOptions) -> Value {
        serde_saphyr::from_str(&render(options)).unwrap()
    }

    pub(crate) fn manager(config: &Value) -> &Value {
        config.pointer("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config").unwrap()
    }

    #[test]
    fn every_place_is_filled_and_the_filter_stands_last_before_the_router() {
        let options = options("{}", true);
        assert!(!render(&options).contains("{{"));
        let config = read(&options);
        let names: Vec<_> =
            manager(&config)["http_filters"].as_array().unwrap().iter().map(|filter| &filter["name"]).collect();
        let expected = [
            "envoy.filters.http.header_to_metadata",
            "envoy.filters.http.jwt_authn",
            "envoy.filters.http.local_ratelimit",
            "edge-idempotency",
            "envoy.filters.http.router",
        ];
        assert_eq!(names, expected);
        assert_eq!(
            manager(&config).pointer("/http_filters/1/typed_config/providers/demo/local_jwks/inline_string").unwrap(),
            &Value::from(options.jwks.clone())
        );
    }

    /// A list of what may be logged, since no list of what may not is complete.
    #[test]
    fn access_logs_hold_nothing_that_a_client_wrote() {
        const ALLOWED: [&str; 10] = [
            "START_TIME",
            "REQ(:METHOD):7",
            "ROUTE_NAME",
            "RESPONSE_CODE",
            "RESPONSE_CODE_DETAILS",
            "RESPONSE_FLAGS",
            "UPSTREAM_CLUSTER",
            "DYNAMIC_METADATA(access_log:request_id)",
            "DURATION",
            "TYPED_CEL(filter_state['wasm.edge_idempotency'])",
        ];
        let config = read(&options("{}", true));
        let logs = manager(&config)["access_log"].as_array().unwrap();
        assert!(!logs.is_empty());
        for log in logs {
            let format = log.pointer("/typed_config/log_format/json_format").unwrap();
            for (member, operator) in format.as_object().unwrap() {
                let operator = operator.as_str().unwrap().strip_prefix('%').unwrap().strip_suffix('%').unwrap();
                assert!(ALLOWED.contains(&operator), "{member}: %{operator}% is logged");
            }
            let example: Value = serde_saphyr::from_str(include_str!("../../../examples/own-api/envoy.yaml")).unwrap();
            let log = &manager(&example)["access_log"][0];
            assert_eq!(log.pointer("/typed_config/log_format/json_format"), Some(format), "the example's format");
        }
    }

    #[test]
    fn stores_are_clusters_whose_credentials_are_elsewhere() {
        let clusters = |options: &EnvoyOptions| {
            let clusters = read(options).pointer("/static_resources/clusters").unwrap().as_array().unwrap().clone();
            clusters.iter().map(|cluster| cluster["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let mut options = options("{}", true);
        let own = ["backend-requests", "backend-waits", "backend"];
        assert_eq!(clusters(&options), own);
        options.stores = Some(stores());
        assert_eq!(clusters(&options), [&own[..], &["unkey", "openbao"]].concat());
        let rendered = render(&options);
        assert!(!rendered.contains("{{") && rendered.contains("/run/demo/openbao-token.json"));
        assert!(!rendered.contains("unkey_root") && !rendered.contains("s.token"));
    }

    #[test]
    fn the_policy_arrives_byte_for_byte() {
        for policy in [
            include_str!("../../../deploy/demo/policy.json"),
            "{}",
            "",
            "  {\"a\": [\n\n 1]}\n",
            "not json: 'x' \"y\" #z\n- {{POLICY}}",
        ] {
            let config = read(&options(policy, true));
            let value = manager(&config).pointer("/http_filters/3/typed_config/config/configuration/value").unwrap();
            assert_eq!(value.as_str().unwrap().trim_end_matches('\n'), policy.trim_end_matches('\n'));
        }
    }

    #[test]
    fn a_token_can_be_optional() {
        let requires = |required| {
            let config = read(&options("{}", required));
            manager(&config).pointer("/http_filters/1/typed_config/rules/1/requires").unwrap().to_string()
        };
        assert_eq!(requires(true), r#"{"provider_name":"demo"}"#);
        assert!(requires(false).contains("allow_missing"));
    }

    #[test]
    fn a_route_to_the_backends_paths_asks_for_the_filters_header() {
        let config = read(&options("{}", true));
        let routes = manager(&config).pointer("/route_config/virtual_hosts/0/routes").unwrap().as_array().unwrap();
        for route in routes {
            let prefix = route.pointer("/match/prefix").unwrap();
            let public = prefix == "/api/" || prefix == "/webhooks/";
            let marked = route.pointer("/match/headers/0/name").is_some_and(|name| name == "x-edge-idempotency");
            assert!(public ^ marked, "{route}");
        }
    }
}
