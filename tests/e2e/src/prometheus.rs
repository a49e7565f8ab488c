//! A Prometheus that scrapes one Envoy every second and evaluates rules as often.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use harness::http::Request;
use harness::ports::{free, loopback, loopback_url};
use harness::process::Process;
use harness::tools::repository;
use serde_json::Value;

use crate::runner::{runtime, until};

/// The job that the rules name.
pub const JOB: &str = "edge-idempotency";
/// A busy machine may need long to open an empty database.
const READY: Duration = Duration::from_secs(60);
/// Between two questions whether something is so.
const POLL: Duration = Duration::from_millis(100);

/// The programs of Debian's package `prometheus`.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `EDGE_PROMETHEUS`, else `.tools/bin/prometheus`.
    pub prometheus: PathBuf,
    /// `EDGE_PROMTOOL`, else `.tools/bin/promtool`.
    pub promtool: PathBuf,
}

impl Programs {
    /// Finds both; `None` if one of them is not there.
    pub fn find() -> Option<Self> {
        let find = |variable: &str, default: &str| {
            let path = env::var_os(variable).map_or_else(|| repository().join(default), PathBuf::from);
            path.is_file().then_some(path)
        };
        Some(Self {
            prometheus: find("EDGE_PROMETHEUS", ".tools/bin/prometheus")?,
            promtool: find("EDGE_PROMTOOL", ".tools/bin/promtool")?,
        })
    }

    /// Runs promtool in a directory, and gives what it prints. An error holds the same.
    pub fn promtool(&self, directory: &Path, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.promtool).args(arguments).current_dir(directory).output()?;
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "promtool {} failed:\n{text}", arguments.join(" "));
        Ok(text)
    }
}

/// One element of a query's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its labels, the metric's name as `__name__`.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// A running Prometheus.
pub struct Prometheus {
    _process: Process,
    url: String,
}

impl Prometheus {
    /// Starts it with the text of a file of rules; `admin` is `host:port` of Envoy's admin interface. Its data goes to
    /// `directory`.
    pub fn start(programs: &Programs, directory: &Path, admin: &str, rules: &str) -> Result<Self> {
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yaml]\nscrape_configs:\n\
             - {{job_name: {JOB}, metrics_path: /stats/prometheus, static_configs: [{{targets: [\"{admin}\"]}}]}}\n"
        );
        fs::write(directory.join("rules.yaml"), rules)?;
        fs::write(directory.join("prometheus.yml"), config)?;
        let port = free()?;
        let mut command = Command::new(&programs.prometheus);
        command.arg(format!("--config.file={}", directory.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address={}", loopback(port)));
        command.current_dir(directory);
        let mut process = Process::spawn("Prometheus", &mut command, &directory.join("prometheus.log"))?;
        let url = loopback_url(port);
        runtime()?.block_on(process.ready(READY, async || {
            let reply = Request::get("/-/ready").send(&url).await?;
            ensure!(reply.status == 200, "/-/ready says {}", reply.text().trim());
            Ok(())
        }))?;
        Ok(Self { _process: process, url })
    }

    /// The result of an instant query. A scalar is one sample without labels.
    pub fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        let data = self.ask("/api/v1/query", &[("query", expression)])?;
        let result = data.get("result").context("no result")?;
        if data.get("resultType").is_some_and(|kind| kind == "scalar") {
            return Ok(vec![Sample { labels: BTreeMap::new(), value: number(result)? }]);
        }
        let element = |element: &Value| {
            let labels = serde_json::from_value(element.get("metric").context("no labels")?.clone())?;
            Ok(Sample { labels, value: number(element.get("value").context("no value")?)? })
        };
        result.as_array().context("no list")?.iter().map(element).collect()
    }

    /// Asks until it is so.
    pub fn until(&self, what: &str, so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        until(what, POLL, || so(self))
    }

    fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let request =
            Request::post(path).header("content-type", "application/x-www-form-urlencoded").body(pairs.join("&"));
        let reply = runtime()?.block_on(request.send(&self.url))?;
        ensure!(reply.status == 200, "{parameters:?}: {}", reply.text());
        Ok(reply.json().get("data").context("no data")?.clone())
    }
}

/// The number of a pair of time and text.
fn number(pair: &Value) -> Result<f64> {
    let text = pair.get(1).and_then(Value::as_str).context("no text of a number")?;
    text.parse().with_context(|| format!("no number: {text}"))
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
