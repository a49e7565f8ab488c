//! Lints of the gateway around the filter: an Envoy configuration in YAML or JSON.
//!
//! | module | subject |
//! |---|---|
//! | `reading` | how Envoy reads a file: members that stand twice, wrapped messages |
//! | `find` | where the filter is, also where ECDS reads it from a file |
//! | `plugin` | the filter's own configuration |
//! | `dynamic_module` | the filter as a dynamic module, and the metadata that it is handed |
//! | `manager` | the connection manager and the listener |
//! | `hosts` | virtual hosts that do not fit the hosts of the policy's routes |
//! | `callers` | who is calling: tokens, and headers that name the caller |
//! | `buffers` | limits that are smaller than the bodies that the filter waits for |
//! | `table` | routes and clusters |
//! | `route` | what one route says: headers that it asks for, clusters that it leads to |
//! | `endpoints` | clusters that lead to the same place |
//! | `paths` | which paths a route takes |
//! | `again` | requests that reach the backend a second time |
//! | `resources` | the same, by resources of Kubernetes |
//! | `cors` | what scripts in browsers may send and read |
//! | `ways` | ways to the backend that do not pass the filter |
//! | `needs` | what the policy needs of a gateway |

mod again;
mod backends;
mod buffers;
mod callers;
mod cors;
mod dynamic_module;
mod endpoints;
mod find;
mod hosts;
mod manager;
mod mark;
mod needs;
mod paths;
mod plugin;
mod reading;
mod resources;
mod route;
mod table;
mod ways;

use crate::diagnostics::yaml;
use crate::lint::gateway_list::{ENVOY_DISABLED, ENVOY_NO_FILTER, NOT_YAML};
use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::tree::{SpannedMember, SpannedNode};
use crate::lints::diagnostics::{CheckedFile, Finding};
use crate::lints::list::{MISSING_VARIABLE, NOT_SEEN};
use crate::lints::{CheckedPolicy, KnownGateway, Variables, check_policy};
use find::FoundPlugin;
use needs::CheckedNeeds;
use std::ops::Range;
use std::path::Path;

/// Findings in one file of a gateway.
#[derive(Debug, Default)]
struct GatewayFindings(Vec<Finding>);

impl GatewayFindings {
    fn add(&mut self, lint: &'static Lint, span: Range<usize>, message: impl Into<String>) {
        let (severity, help) = (lint.severity, lint.instead.to_owned());
        self.0.push(Finding { lint, severity, pointer: None, span, message: message.into(), help });
    }

    /// As [`GatewayFindings::add`], with lines to write in the place of what the lint says.
    fn helped(&mut self, lint: &'static Lint, span: Range<usize>, message: impl Into<String>, help: String) {
        self.add(lint, span, message);
        if let Some(finding) = self.0.last_mut() {
            finding.help = help;
        }
    }

    /// Adds a finding at a member, or where it should be.
    fn at_member(
        &mut self,
        lint: &'static Lint,
        member: Option<&SpannedMember>,
        parent: &Range<usize>,
        message: impl Into<String>,
    ) {
        self.add(lint, member.map_or(parent.clone(), member_span), message);
    }
}

/// The bytes to underline for a member: a scalar with its name, of another value the name.
fn member_span(member: &SpannedMember) -> Range<usize> {
    match member.value.text() {
        Some(_) => member.name_span.start..member.value.span.end,
        None => member.name_span.clone(),
    }
}

/// Checks a file that is an Envoy configuration. `variable` gives the variables of this command's environment. Files that it
/// reads the filter from come behind it.
pub(crate) fn check_file(mut source: SourceText, path: &Path, variable: Variables) -> Vec<CheckedFile> {
    let mut findings = GatewayFindings::default();
    let mut tree = match yaml::read(&source.text) {
        Ok(tree) => tree,
        Err(error) => {
            source.hide(source.suspects(&[
                "secret",
                "token",
                "root_key",
                "inline_string",
                "inline_bytes",
                "key_values",
            ]));
            findings.add(&NOT_YAML, error.at..error.at, error.message);
            return vec![CheckedFile { source, findings: findings.0, summary: None }];
        }
    };
    source.hide(secrets(&tree));
    reading::duplicates(&tree, &mut findings);
    reading::unwrap_structs(&mut tree);
    let mut others = Vec::new();
    let mut summaries = Vec::new();
    let mut all_needs = Vec::new();
    let mut found = find::filters(&tree, path);
    if found.plugins.is_empty() && found.missing.is_empty() {
        let message = if yaml::has_more(&source.text) {
            "no filter of this project is in the first document of the file, and Envoy reads no other one"
        } else {
            "no filter of this project is in the file"
        };
        findings.add(&ENVOY_NO_FILTER, tree.span.clone(), message);
    }
    if found.missing.is_empty() && found.filtered.is_empty() {
        for plugin in &found.plugins {
            findings.add(&NOT_SEEN, plugin.span.clone(), "the gateway around the filter is not in this file");
        }
    }
    for (span, message) in std::mem::take(&mut found.missing) {
        findings.add(&ENVOY_NO_FILTER, span, message);
    }
    for plugin in &mut found.plugins {
        let is_dynamic_module = plugin.is_dynamic_module();
        let policy = match plugin.discovered.take() {
            None => one(&mut source, plugin, plugin.config, variable, &mut findings.0),
            Some(mut other) => {
                let mut its_findings = GatewayFindings::default();
                other.source.hide(secrets(&other.tree));
                reading::duplicates(&other.tree, &mut its_findings);
                let config = find::plugin_config(&other.tree, Some(&other.name));
                let policy = config
                    .and_then(|config| one(&mut other.source, plugin, Some(config), variable, &mut its_findings.0));
                let summary = policy.as_ref().map(|(_, summary)| summary.clone());
                others.push(CheckedFile { source: other.source, findings: its_findings.0, summary });
                policy.map(|(needs, _)| (needs, String::new()))
            }
        };
        around(&tree, plugin, is_dynamic_module, policy.as_ref().map(|(needs, _)| needs), &mut findings);
        if let Some((needs, summary)) = policy {
            all_needs.push(needs);
            summaries.extend(Some(summary).filter(|summary| !summary.is_empty()));
        }
    }
    ways::check(&tree, &found, &all_needs, &mut findings);
    yaml::documents(&source.text).iter().for_each(|document| resources::check(document, &mut findings));
    reading::distinct(&mut findings);
    let summary = (!summaries.is_empty()).then(|| summaries.join("; "));
    let mut files = vec![CheckedFile { source, findings: findings.0, summary }];
    files.extend(others);
    files
}

/// The bytes of secrets in a configuration of Envoy: texts in the file, and values of variables.
fn secrets(tree: &SpannedNode) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    tree.scalars_of(&["inline_string", "inlineString", "inline_bytes", "inlineBytes"], &mut found);
    variables(tree, &mut found);
    found
}

fn variables(node: &SpannedNode, found: &mut Vec<Range<usize>>) {
    if let Some(values) = node.at(&["environment_variables", "key_values"]) {
        found.extend(values.members().iter().map(|member| member.value.span.clone()));
    }
    node.members().iter().map(|member| &member.value).chain(node.items()).for_each(|child| variables(child, found));
}

/// Checks the filter's own configuration, and the policy in it. What the policy needs of the gateway, and its summary; `None`
/// if it does not start.
fn one(
    source: &mut SourceText,
    found: &FoundPlugin<'_>,
    config: Option<&SpannedNode>,
    variable: Variables,
    findings: &mut Vec<Finding>,
) -> Option<(CheckedNeeds, String)> {
    let mut own = GatewayFindings::default();
    let parent = found.span.clone();
    let scalar = config.and_then(|config| plugin::policy_scalar(config, &mut own));
    let mut result = None;
    if let Some(scalar) = scalar {
        let text = scalar.text().unwrap_or_default();
        let document = SourceText::new(source.name.clone(), text.as_bytes());
        let checked: CheckedPolicy = check_policy(&document, text.as_bytes(), variable, KnownGateway::Envoy);
        let read = checked.policy.as_ref().map(|policy| (CheckedNeeds::of(policy), policy.summary()));
        let mut located = checked.locate_in(&document, source, scalar);
        // The gateway's own settings are looked at below.
        located.retain(|finding| ![NOT_SEEN.name, MISSING_VARIABLE.name].contains(&finding.lint.name));
        own.0.append(&mut located);
        result = read;
    }
    if let Some(config) = config {
        let needs = result.as_ref().map(|(needs, _)| needs);
        if find::is_dynamic_module(config) {
            dynamic_module::check(config, &parent, &mut own);
        } else {
            plugin::check(config, &parent, needs, &mut own);
        }
    }
    findings.append(&mut own.0);
    result
}

/// Checks what stands around the filter.
fn around(
    tree: &SpannedNode,
    found: &FoundPlugin<'_>,
    is_dynamic_module: bool,
    needs: Option<&CheckedNeeds>,
    findings: &mut GatewayFindings,
) {
    if found.wrapped {
        let message = "another extension decides for each request whether the filter runs";
        findings.add(&ENVOY_DISABLED, found.span.clone(), message);
    }
    if let Some(chain) = &found.chain {
        manager::check(chain, is_dynamic_module, needs, findings);
        if is_dynamic_module {
            dynamic_module::around(tree, chain, needs, findings);
        }
        table::check(tree, chain, needs, findings);
        if let Some(needs) = needs {
            hosts::check(chain, needs, findings);
            callers::check(chain, needs, findings);
            cors::check(chain, needs, findings);
            buffers::check(chain, needs, findings);
        }
    }
    again::clusters(tree, findings);
    if let Some(needs) = needs {
        table::clusters(tree, needs, findings);
    }
}
