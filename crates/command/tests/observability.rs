//! The files of deploy/observability/ agree with each other, with the shipped configurations and with the pages. What Prometheus says of
//! them is the subject of the end-to-end test `observability`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::repository;
use serde_json::Value;

fn text(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A file in YAML. The demo's template has places in double braces; each holds its own name here.
fn yaml(path: &str) -> Value {
    let text = text(path).replace("{{LOOKUP_CLUSTERS}}", "");
    let mut parts = text.split("{{");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| filled.push_str(&part.replacen("}}", "", 1)));
    serde_saphyr::from_str(&filled).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

#[test]
fn stats_tags_are_the_same_everywhere() {
    let own = yaml("deploy/observability/envoy-stats-tags.yaml");
    assert!(own["stats_config"]["stats_tags"].as_array().unwrap().len() > 10);
    for path in ["deploy/demo/envoy.yaml", "examples/own-api/envoy.yaml"] {
        assert_eq!(yaml(path)["stats_config"], own["stats_config"], "{path}");
    }
}

#[test]
fn access_logs_are_the_same_everywhere() {
    let own = yaml("deploy/observability/envoy-access-log.yaml");
    let format = own.pointer("/access_log/0/typed_config/log_format").unwrap();
    let filter = &own["http_filters"][0];
    // Without it the member `request_id` could be a client's text.
    let removes = |manager: &Value| {
        let mutations = manager.pointer("/early_header_mutation_extensions/0/typed_config/mutations");
        let mutations = mutations.and_then(Value::as_array).into_iter().flatten();
        mutations.filter_map(|mutation| Some(mutation["remove"].as_str()?.to_owned())).collect::<BTreeSet<_>>()
    };
    assert_eq!(removes(&own), BTreeSet::from(["x-request-id".to_owned()]));
    for path in ["deploy/demo/envoy.yaml", "examples/own-api/envoy.yaml"] {
        let config = yaml(path);
        let manager = config.pointer(MANAGER).unwrap();
        assert_eq!(manager.pointer("/access_log/0/typed_config/log_format"), Some(format), "{path}");
        assert_eq!(&manager["http_filters"][0], filter, "{path}");
        assert!(removes(manager).is_superset(&removes(&own)), "{path} keeps the client's x-request-id");
    }
}

#[test]
fn the_tags_of_spans_are_members_of_the_record() {
    let own = yaml("deploy/observability/envoy-tracing.yaml");
    let page = text("docs/operate.md");
    let tags = own["tracing"]["custom_tags"].as_array().unwrap();
    assert!(tags.len() > 10);
    for tag in tags {
        let name = tag["tag"].as_str().unwrap();
        assert_eq!(tag["value"], format!("%CEL(filter_state['wasm.edge_idempotency'].{name})%"));
        assert!(page.contains(&format!("`{name}`")), "docs/operate.md does not know {name}");
    }
}

/// All rules, recording ones and alerts.
fn rules() -> Vec<Value> {
    let file = yaml("deploy/observability/prometheus-rules.yaml");
    let groups = file["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The alerts by name, several of which can have one name.
fn alerts() -> Vec<(String, Value)> {
    let alerts = rules().into_iter().filter_map(|rule| Some((rule.get("alert")?.as_str()?.to_owned(), rule)));
    alerts.collect()
}

fn alert_names() -> BTreeSet<String> {
    alerts().into_iter().map(|(name, _)| name).collect()
}

/// The headings of a page as GitHub makes anchors of them: lower case, no punctuation, `-` for a space.
fn anchors(page: &str) -> BTreeSet<String> {
    let text = text(page);
    let headings =
        text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_alert_has_what_a_person_needs_at_night() {
    let (page, anchors) = ("docs/operate.md", anchors("docs/operate.md"));
    for (name, alert) in alerts() {
        assert!(name.starts_with("Idempotency"), "{name}");
        let severity = alert.pointer("/labels/severity").and_then(Value::as_str);
        assert!(matches!(severity, Some("critical" | "warning")), "{name}: {severity:?}");
        assert!(alert.get("for").or(alert.get("keep_firing_for")).is_some(), "{name} flaps");
        for annotation in ["summary", "description"] {
            let text = alert["annotations"][annotation].as_str().unwrap_or_default();
            assert!(text.len() > 20, "{name}: {annotation}");
        }
        let runbook = alert["annotations"]["runbook_url"].as_str().unwrap();
        assert_eq!(runbook, format!("{page}#{}", name.to_lowercase()));
        assert!(anchors.contains(&name.to_lowercase()), "{page} has no paragraph {name}");
    }
    let known: BTreeSet<String> = alert_names().iter().map(|name| name.to_lowercase()).collect();
    let stale: Vec<_> = anchors.iter().filter(|a| a.starts_with("idempotency") && !known.contains(*a)).collect();
    assert!(stale.is_empty(), "paragraphs of no alert: {stale:?}");
}

#[test]
fn every_alert_has_a_case_that_fires_and_one_that_stays_quiet() {
    let mut cases: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    let mut fired = BTreeSet::new();
    let files =
        ["deploy/observability/prometheus-rules.test.yaml", "deploy/observability/prometheus-rules-days.test.yaml"]
            .map(yaml);
    for test in files.iter().flat_map(|file| file["tests"].as_array().unwrap()) {
        for case in test["alert_rule_test"].as_array().unwrap() {
            let name = case["alertname"].as_str().unwrap().to_owned();
            let alerts = case.get("exp_alerts").and_then(Value::as_array).into_iter().flatten();
            let labels: Vec<_> = alerts.map(|alert| own_labels(&alert["exp_labels"])).collect();
            cases.entry(name.clone()).or_default().insert(!labels.is_empty());
            fired.extend(labels.into_iter().map(|labels| (name.clone(), labels)));
        }
    }
    let both: BTreeMap<_, _> = alert_names().into_iter().map(|name| (name, BTreeSet::from([false, true]))).collect();
    assert_eq!(cases, both);
    let each: BTreeSet<_> = alerts().into_iter().map(|(name, alert)| (name, own_labels(&alert["labels"]))).collect();
    assert_eq!(fired, each, "each of several rules with one name fires in a case");
}

/// The labels that an alert has of its rule: severity and grain.
fn own_labels(labels: &Value) -> [Option<String>; 2] {
    ["severity", "grain"].map(|name| Some(labels.get(name)?.as_str()?.to_owned()))
}

/// The page says for which grain each alert fires.
#[test]
fn the_table_of_alerts_is_whole() {
    let page = text("docs/operate.md");
    let (_, table) = page.split_once("| alert | severity | fires for |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let listed: Vec<(String, String)> = rows
        .map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let name = cells.next().unwrap().split_once('[').unwrap().1.split_once(']').unwrap().0;
            (name.to_owned(), cells.next().unwrap().to_owned())
        })
        .collect();
    let mut severities: Vec<(String, String)> = Vec::new();
    for (name, alert) in alerts() {
        let severity = alert["labels"]["severity"].as_str().unwrap();
        match severities.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if known.contains(severity) => {}
            Some((_, known)) => *known = format!("{known}, {severity}"),
            None => severities.push((name, severity.to_owned())),
        }
    }
    severities.sort();
    let mut listed_sorted = listed;
    listed_sorted.sort();
    assert_eq!(listed_sorted, severities);
}

#[test]
fn the_dashboard_is_well_formed() {
    let dashboard: Value = serde_json::from_str(&text("deploy/observability/grafana-dashboard.json")).unwrap();
    let variables = dashboard.pointer("/templating/list").unwrap().as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "tenant", "project", "endpoint"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut titles, mut cells) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is there twice");
        assert!(titles.insert(title), "{title} is there twice");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap());
        assert!(x + w <= 24, "{title} is too wide");
        assert!((x..x + w).all(|x| (y..y + h).all(|y| cells.insert((x, y)))), "{title} covers another panel");
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().unwrap().len() > 10, "{title} is not described");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target.pointer("/datasource/uid").unwrap(), "${datasource}", "{title}");
            check_metrics(title, target["expr"].as_str().unwrap());
        }
    }
    for rule in rules() {
        check_metrics("a rule", rule["expr"].as_str().unwrap());
    }
}

#[test]
fn rules_name_only_results_of_lookups_that_there_are() {
    let page = text("docs/operate.md") + &text("docs/webhooks.md");
    let mut seen = BTreeSet::new();
    for rule in rules() {
        for matcher in rule["expr"].as_str().unwrap().split("result").skip(1) {
            let results = matcher.split('"').nth(1).unwrap_or_default();
            seen.extend(results.split('|').map(str::to_owned));
        }
    }
    assert!(seen.len() > 5, "{seen:?}");
    let unknown: Vec<_> = seen.iter().filter(|result| !page.contains(&format!("`{result}`"))).collect();
    assert!(unknown.is_empty(), "no page knows these results: {unknown:?}");
}

/// Every metric of the filter in an expression is in the page of all metrics; the dashboard asks for it by tenant, project and endpoint, if
/// it has them.
fn check_metrics(place: &str, expression: &str) {
    // The contract has those of the bridge for KrakenD.
    let page = text("docs/operate.md") + &text("docs/contract.md");
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let metric = |word: &&str| {
        ["idempotency_", "transport_translation_", "handler_internal_"].iter().any(|start| word.starts_with(start))
    };
    // Between quotes are values of labels.
    let names = expression.split('"').step_by(2).flat_map(|part| part.split(|c| !word(c)));
    for name in names.filter(metric).filter(|name| !name.ends_with('_')) {
        let name = name.trim_end_matches("_bucket");
        assert!(
            page.contains(&format!("`{name}`")),
            "{place}: neither docs/operate.md nor docs/contract.md knows {name}"
        );
        let without = "idempotency_series_folded_total";
        let every = r#"tenant=~"$tenant",project=~"$project",endpoint=~"$endpoint""#;
        if place != "a rule" && name != without {
            let (plain, bucket) = (format!("{name}{{{every}"), format!("{name}_bucket{{{every}"));
            let is_so = expression.contains(&plain) || expression.contains(&bucket);
            assert!(is_so, "{place}: {name} is asked without the variables");
        }
    }
}
