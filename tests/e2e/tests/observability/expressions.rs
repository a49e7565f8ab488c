//! Every expression of the dashboard and of the rules gives data.

use anyhow::{Context as _, Result, bail, ensure};
use e2e::prometheus::{Prometheus, Sample};
use e2e::runner::Test;
use serde_json::Value;

use super::documents::{dashboard, operations, rules};
use super::setup::ObservabilitySetup;

/// Metrics that cannot have data here, and why. One that has data after all does not belong here.
const WITHOUT_DATA: [(&str, &str); 4] = [
    ("code=\"internal_error\"", "the filter has no fault that a request can cause"),
    ("_total_.+", "the gateway has the stats_tags, so no name has labels in it"),
    ("_update_rejected", "the gateway has one configuration, and gets it at its start"),
    ("idempotency_bridge_", "the gateway is Envoy, and only KrakenD has the bridge"),
];

/// As long as a range of the rules may be here: all of the run.
const RANGE: &str = "[10m]";
const OFFSET: &str = " offset 2s";

pub(crate) fn tests() -> Vec<Test<ObservabilitySetup>> {
    vec![
        Test::new("every expression of the dashboard gives data", every_panel),
        Test::new("every recording rule gives data", every_record),
        Test::new("every side of every alert gives data", every_alert),
        Test::new("every expression of docs/operate.md gives data", every_documented),
    ]
}

/// An expression of the dashboard, with all tenants, projects and endpoints, as Grafana would ask it.
fn substituted(expression: &str) -> Result<String> {
    let mut text = expression.to_owned();
    for (variable, value) in
        [("$__rate_interval", "10m"), ("$__range", "10m"), ("$tenant", ".*"), ("$project", ".*"), ("$endpoint", ".*")]
    {
        text = text.replace(variable, value);
    }
    ensure!(!text.contains('$'), "a variable that is not known here: {text}");
    Ok(text)
}

/// The rules as this test's Prometheus gets them, as JSON: hastened, without thresholds of counts, and the records that are conditions
/// have 0 where they would have nothing.
pub(crate) fn rules_of_a_short_run(rules: &str) -> Result<String> {
    // Not `>= 0`: a ratio of nothing is NaN, and so is each average over a time in which it was asked.
    let text = hastened(rules)?.replace(">= 20", "> 0").replace("\n  interval: 2m", "");
    let mut file: Value = serde_saphyr::from_str(&text)?;
    let groups = file.get_mut("groups").and_then(Value::as_array_mut).context("no groups")?;
    let lists = groups.iter_mut().filter_map(|group| group.get_mut("rules")?.as_array_mut());
    for rule in lists.flatten() {
        let name = rule.get("record").and_then(Value::as_str).unwrap_or_default();
        let is_condition = [":dropped1h", ":risen15m", ":failing5m", ":projects"].iter().any(|end| name.ends_with(end));
        if let Some(expression) = rule.get_mut("expr").filter(|_| is_condition) {
            *expression = with_booleans(expression.as_str().context("no expression")?).into();
        }
    }
    Ok(file.to_string())
}

/// An expression, or all rules, with ranges of ten minutes and offsets of seconds: nobody waits a day for this test.
pub(crate) fn hastened(rules: &str) -> Result<String> {
    let mut text = rules.to_owned();
    for range in ["[5m]", "[10m]", "[15m]", "[1h]", "[1d]"] {
        text = text.replace(range, RANGE);
    }
    text = text.replace(" offset 1h", OFFSET);
    let rest = text.replace(RANGE, "").replace(OFFSET, "");
    let other = rest.lines().find(|line| line.contains("[1") || line.contains("[5") || line.contains(" offset "));
    ensure!(other.is_none(), "a range that is not known here: {other:?}");
    Ok(text)
}

fn every_panel(setup: &ObservabilitySetup) -> Result<()> {
    let queries = dashboard()?;
    ensure!(queries.len() > 20, "only {} queries", queries.len());
    each_gives_data(&setup.prometheus, queries.into_iter().map(|query| (query.panel, query.expression)), |text| {
        substituted(text)
    })
}

fn every_record(setup: &ObservabilitySetup) -> Result<()> {
    let rules = rules()?;
    let records = rules.iter().filter_map(|rule| rule.get("record")?.as_str());
    let records: Vec<(String, String)> = records.map(|name| (name.to_owned(), name.to_owned())).collect();
    ensure!(records.len() > 10, "only {} records", records.len());
    each_gives_data(&setup.prometheus, records, |text| Ok(text.to_owned()))
}

fn every_alert(setup: &ObservabilitySetup) -> Result<()> {
    let mut sides = Vec::new();
    for rule in rules()? {
        let Some(alert) = rule.get("alert").and_then(Value::as_str) else { continue };
        let expression = rule.get("expr").and_then(Value::as_str).context("an alert without an expression")?;
        // What stands behind `unless` has to give data by itself.
        for side in expression.split("unless") {
            let side = side.trim();
            let side = side.strip_prefix("on (").and_then(|side| side.split_once(')')).map_or(side, |(_, side)| side);
            sides.push((alert.to_owned(), side.to_owned()));
        }
    }
    ensure!(sides.len() > 10, "only {} expressions", sides.len());
    each_gives_data(&setup.prometheus, sides, |text| Ok(with_booleans(&hastened(text)?)))
}

fn every_documented(setup: &ObservabilitySetup) -> Result<()> {
    let expressions = operations()?;
    ensure!(expressions.len() > 15, "only {} expressions", expressions.len());
    let named = expressions.into_iter().map(|expression| ("docs/operate.md".to_owned(), expression));
    each_gives_data(&setup.prometheus, named, |text| Ok(with_booleans(&hastened(text)?)))
}

/// The expression with comparisons that give 0 or 1, and do not drop what is not so.
fn with_booleans(expression: &str) -> String {
    let mut text = expression.split_whitespace().collect::<Vec<_>>().join(" ");
    for operator in ["==", "<=", ">=", "<", ">"] {
        text = text.replace(&format!(" {operator} "), &format!(" {operator} bool "));
    }
    text
}

/// Asks each expression until it gives data; those of [`WITHOUT_DATA`] must give none.
fn each_gives_data(
    prometheus: &Prometheus,
    expressions: impl IntoIterator<Item = (String, String)>,
    prepare: impl Fn(&str) -> Result<String>,
) -> Result<()> {
    let mut wrong = Vec::new();
    for (name, expression) in expressions {
        let prepared = prepare(&expression)?;
        let excepted = WITHOUT_DATA.iter().find(|(metric, _)| expression.contains(metric));
        let data = |prometheus: &Prometheus| Ok(has_data(&prometheus.query(&prepared)?));
        match excepted {
            Some((metric, why)) if data(prometheus)? => {
                wrong.push(format!("{name}: {metric} has data, although \"{why}\""));
            }
            Some(_) => {}
            None => {
                if let Err(error) = prometheus.until(&format!("{name}: {prepared}"), data) {
                    wrong.push(format!("{error:#}"));
                }
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

fn has_data(samples: &[Sample]) -> bool {
    samples.iter().any(|sample| sample.value.is_finite())
}
