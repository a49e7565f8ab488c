//! What `check` says of a policy document: why the filter does not start with it, and what starts and does not do what was meant. Nothing
//! here reads a file or the network. The command and the playground say the same by it.
//!
//! | module | subject |
//! |---|---|
//! | `diagnostics` | findings, their places in a text, and how people are shown them |
//! | `list` | name, severity and texts of every lint of a policy document |
//! | `view` | a policy as lints see it |
//! | `catalogue` | the provider files, with their notes |
//! | `start` | what the engine itself says: errors, warnings |
//! | `secrets` | weak secrets, without their values |
//! | `routes` | one route, or two of them |
//! | `subjects` | callers that share keys |
//! | `retention` | how long results, claims and keys live |
//! | `webhooks` | bindings and their providers |
//! | `horizons` | for how long providers try again |

pub mod catalogue;
pub mod diagnostics;
mod horizons;
pub mod list;
mod retention;
mod routes;
mod secrets;
mod start;
mod subjects;
pub mod view;
mod webhooks;

use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::source::{EmbeddedText, SourceText};
use crate::lints::diagnostics::tree::SpannedNode;
use crate::lints::diagnostics::{CheckedFile, Finding, json};
use crate::lints::list::{NOT_JSON, WRONG_SECRET};
use edge_idempotency_engine::Policy;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use view::PolicyView;

/// A finding in a policy document that has only its JSON pointer yet.
#[derive(Debug)]
pub struct PolicyFinding {
    lint: &'static Lint,
    pointer: String,
    /// The bytes, where something is known that the pointer cannot say
    span: Option<Range<usize>>,
    message: String,
    help: String,
}

impl PolicyFinding {
    /// A finding of a lint. `help`: what to write instead; empty if the message says it.
    pub fn new(
        lint: &'static Lint,
        pointer: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (pointer, message, help) = (pointer.into(), message.into(), help.into());
        Self { lint, pointer, span: None, message, help }
    }
}

/// What was found in a policy document.
pub struct CheckedPolicy {
    findings: Vec<PolicyFinding>,
    /// The policy, if the filter would start with it
    pub policy: Option<Policy>,
    tree: Option<SpannedNode>,
}

/// Members of a policy document whose text is a secret.
const SECRETS: [&str; 4] = ["secrets", "secret", "root_key", "token"];

/// How secrets of providers and stores begin. A text that begins so is hidden wherever it stands.
const BEGINNINGS: [&str; 9] =
    ["whsec_", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "shpss_", "ghp_", "hvs.", "-----BEGIN"];

/// The length from which a secret is taken out of messages: a shorter one is a word that messages have anyway.
const MIN_SECRET: usize = 6;

/// What the engine says about a member that it does not know.
const UNKNOWN_MEMBER: &str = "unknown member";

/// What is known of the gateway that a policy document is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KnownGateway {
    /// The document stands in a configuration of Envoy.
    Envoy,
    /// Nothing but what the document says.
    None,
}

/// Checks a policy document. `variable` gives the variables of this command's environment.
pub fn check_policy(document: &SourceText, bytes: &[u8], variable: Variables, gateway: KnownGateway) -> CheckedPolicy {
    let tree = |policy: bool, pointers: bool| if policy || pointers { json::read(&document.text) } else { None };
    match Policy::from_json(bytes) {
        Err(errors) => {
            let findings = start::errors(document, &errors.0);
            let is_json = findings.iter().all(|finding| finding.lint.name != NOT_JSON.name);
            CheckedPolicy { findings, policy: None, tree: tree(false, is_json) }
        }
        Ok(mut policy) => {
            let perhaps_krakend = gateway == KnownGateway::None && policy.needs().gateway_routes;
            let mut findings = start::warnings(&mut policy, variable, perhaps_krakend);
            let document = serde_json::from_slice(bytes).unwrap_or_default();
            let view = PolicyView { policy: &policy, document: &document };
            routes::check(view, &mut findings);
            subjects::check(view, &mut findings);
            retention::check(view, &mut findings);
            webhooks::check(view, variable, &mut findings);
            one_of_a_kind(&mut findings);
            CheckedPolicy { findings, policy: Some(policy), tree: tree(true, true) }
        }
    }
}

/// Leaves the last of several findings of a lint at one place: the lint's own message is about more than the engine's.
fn one_of_a_kind(findings: &mut Vec<PolicyFinding>) {
    let places: Vec<_> = findings.iter().map(|finding| (finding.lint.name, finding.pointer.clone())).collect();
    let last: BTreeMap<_, _> = places.iter().enumerate().map(|(index, place)| (place, index)).collect();
    let mut index = 0;
    findings.retain(|finding| {
        let keeps = finding.lint.name != WRONG_SECRET.name
            || places.get(index).and_then(|place| last.get(place)) == Some(&index);
        index += 1;
        keeps
    });
}

/// Reads variables of an environment.
pub type Variables = fn(&str) -> Option<Vec<u8>>;

impl CheckedPolicy {
    /// The bytes of secrets in `document`: values of members that hold secrets, values of members that nobody knows, which
    /// can be a slip in such a name, and what looks like a secret. Where the document is no JSON, lines that may have one.
    fn secrets(&self, document: &SourceText) -> Vec<Range<usize>> {
        let Some(tree) = &self.tree else {
            return document.suspects(&[&SECRETS[..], &BEGINNINGS[..]].concat());
        };
        let mut found = Vec::new();
        tree.scalars_of(&SECRETS, &mut found);
        let unknown = self.findings.iter().filter(|finding| finding.message.starts_with(UNKNOWN_MEMBER));
        for member in unknown.filter_map(|finding| tree.pointed_member(&finding.pointer)) {
            member.value.scalars(&mut found);
        }
        tree.visit(&mut |node| {
            if node.text().is_some_and(|text| BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))) {
                found.push(node.span.clone());
            }
        });
        found
    }

    /// Takes secrets of `document` out of the messages: the engine repeats what it does not know.
    fn conceal(&mut self, document: &SourceText, secrets: &[Range<usize>]) {
        let texts: Vec<&str> = secrets
            .iter()
            .filter_map(|span| document.text.get(span.clone()))
            .map(|text| text.trim_matches('"'))
            .filter(|text| text.len() >= MIN_SECRET)
            .collect();
        for finding in &mut self.findings {
            for text in texts.iter().filter(|text| finding.message.contains(**text)).collect::<Vec<_>>() {
                finding.message = finding.message.replace(text, "***");
            }
        }
    }

    /// The file of the document, whose secrets are hidden, with the findings.
    fn in_file(mut self, mut source: SourceText) -> CheckedFile {
        let secrets = self.secrets(&source);
        self.conceal(&source, &secrets);
        source.hide(secrets);
        CheckedFile { findings: self.locate(), source, summary: None }
    }

    /// The findings with their places in `document`.
    fn locate(self) -> Vec<Finding> {
        let tree = self.tree.as_ref();
        let place = |finding: &PolicyFinding| {
            let tree = tree?;
            let is_unknown = finding.message.starts_with(UNKNOWN_MEMBER);
            let name = tree.pointed_member(&finding.pointer).filter(|_| is_unknown);
            Some(name.map_or_else(|| tree.pointed(&finding.pointer), |member| member.name_span.clone()))
        };
        let span = |finding: &PolicyFinding| finding.span.clone().or_else(|| place(finding)).unwrap_or(0..0);
        self.findings.iter().map(|finding| finding.at(span(finding))).collect()
    }

    /// The findings with their places in a file that holds the document in its scalar `scalar`.
    pub fn locate_in(mut self, document: &SourceText, file: &mut SourceText, scalar: &SpannedNode) -> Vec<Finding> {
        let embedded = EmbeddedText::find(file, scalar.span.start, &document.text);
        let whole = file.first_line(&scalar.span);
        let secrets = self.secrets(document);
        self.conceal(document, &secrets);
        match &embedded {
            Some(embedded) => file.hide(secrets.iter().map(|span| embedded.span(span))),
            None if secrets.is_empty() => {}
            None => file.hide([scalar.span.clone()]),
        }
        let mut located = self.locate();
        for finding in &mut located {
            finding.span = embedded.as_ref().map_or(whole.clone(), |embedded| embedded.span(&finding.span));
        }
        located
    }
}

impl PolicyFinding {
    fn at(&self, span: Range<usize>) -> Finding {
        Finding {
            lint: self.lint,
            severity: self.lint.severity,
            pointer: Some(self.pointer.clone()),
            span,
            message: self.message.clone(),
            help: self.help.clone(),
        }
    }
}

/// Checks a file that is a policy document. `more` gives further findings about a policy that starts.
pub fn check_file(
    source: SourceText,
    bytes: &[u8],
    variable: Variables,
    more: impl FnOnce(&Policy, &Value) -> Vec<PolicyFinding>,
) -> CheckedFile {
    let mut checked = check_policy(&source, bytes, variable, KnownGateway::None);
    if let (Some(policy), Ok(document)) = (&checked.policy, serde_json::from_slice(bytes)) {
        checked.findings.extend(more(policy, &document));
    }
    let summary = checked.policy.as_ref().map(Policy::summary);
    CheckedFile { summary, ..checked.in_file(source) }
}
