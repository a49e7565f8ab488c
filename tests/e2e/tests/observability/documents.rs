//! The files of deploy/observability/, as promtool and this test read them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use e2e::prometheus::Programs;
use e2e::runner::Test;
use harness::tools::repository;
use serde_json::Value;

/// `deploy/observability/`.
fn directory() -> PathBuf {
    repository().join("deploy/observability")
}

/// The text of one of its files.
pub(crate) fn text(name: &str) -> Result<String> {
    let path = directory().join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// All rules, recording ones and alerts, in their order.
pub(crate) fn rules() -> Result<Vec<Value>> {
    let file: Value = serde_saphyr::from_str(&text("prometheus-rules.yaml")?)?;
    let groups = file.get("groups").and_then(Value::as_array).context("no groups")?;
    let lists = groups.iter().filter_map(|group| group.get("rules")?.as_array());
    Ok(lists.flatten().cloned().collect())
}

/// A panel of the dashboard, and the expression of one of its queries.
pub(crate) struct Query {
    pub(crate) panel: String,
    pub(crate) expression: String,
}

/// Every query of the dashboard, as it is written there.
pub(crate) fn dashboard() -> Result<Vec<Query>> {
    let file: Value = serde_json::from_str(&text("grafana-dashboard.json")?)?;
    let panels = file.get("panels").and_then(Value::as_array).context("no panels")?;
    let mut queries = Vec::new();
    for panel in panels {
        let member = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        for target in panel.get("targets").and_then(Value::as_array).into_iter().flatten() {
            member(target, "legendFormat").context("a query without a legend")?;
            queries.push(Query {
                panel: member(panel, "title").context("a panel without a title")?,
                expression: member(target, "expr").context("a query without an expression")?,
            });
        }
    }
    Ok(queries)
}

/// The expressions of docs/operate.md: those of the table, and those that the paragraphs of the alerts `ask`.
pub(crate) fn operations() -> Result<Vec<String>> {
    let page = fs::read_to_string(repository().join("docs/operate.md"))?;
    let asked = |line: &str| Some(line.trim().strip_prefix("$ ask '")?.strip_suffix('\'')?.to_owned());
    let listed = |line: &str| {
        let (_, expression) = line.strip_prefix("| ")?.split_once(" | `")?;
        let (expression, _) = expression.split_once('`')?;
        expression.contains("[5m]").then(|| expression.replace("\\|", "|"))
    };
    Ok(page.lines().filter_map(|line| asked(line).or_else(|| listed(line))).collect())
}

pub(crate) fn tests() -> Vec<Test<Programs>> {
    let promtool = |name: &str, arguments: &'static [&'static str]| {
        Test::new(name, move |programs: &Programs| programs.promtool(&directory(), arguments).map(drop))
    };
    vec![
        promtool("promtool: the rules are valid", &["check", "rules", "prometheus-rules.yaml"]),
        promtool("promtool: alerts fire and stay quiet", &["test", "rules", "prometheus-rules.test.yaml"]),
        promtool(
            "promtool: alerts that compare with the day before",
            &["test", "rules", "prometheus-rules-days.test.yaml"],
        ),
        promtool("promtool: the configuration is valid", &["check", "config", "prometheus.yml"]),
    ]
}
