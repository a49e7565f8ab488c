//! Who the caller is, and what the request needs besides: signatures, identity, stores, the body.

use super::{Decided, Step, StepName};
use crate::explanations;
use edge_idempotency_engine::problem::{Code, Reason};
use serde_json::Value;

const IDENTITY_CODES: [Code; 3] = [Code::IdentityMissing, Code::IdentityInvalid, Code::IdentityReserved];

impl Decided<'_> {
    /// The signature of a webhook's delivery, or of a signed caller.
    pub(super) fn signature_step(&self) -> Option<Step> {
        let is_webhook = self.route.is_some_and(|route| route.webhook.is_some());
        let caller = self.exchange.signer(self.policy);
        if !is_webhook && caller.is_none() {
            return None;
        }
        let provider = self.exchange.provider_name();
        let who = match (caller, provider) {
            (Some(caller), _) => format!("the signed caller `{caller}`"),
            (None, Some(provider)) => format!("provider `{provider}`"),
            (None, None) => "the webhook".to_owned(),
        };
        let codes = [
            Code::SignatureInvalid,
            Code::WebhookUnknown,
            Code::WebhookSignatureInvalid,
            Code::TransportTranslationFailed,
            Code::DependencyUnavailable,
            Code::UnsupportedContentEncoding,
        ];
        let Some(problem) = self.is_refused_by(&codes) else {
            return Some(Step::new(StepName::Signature, format!("The signature of {who} fits.")).with(self.lookups()));
        };
        let code = problem.code.name();
        let reason = self.exchange.reason().map(Reason::name);
        let text = match reason {
            Some(reason) => format!("Refused ({who}): {code}, reason {reason}."),
            None => format!("Refused ({who}): {code}."),
        };
        let meaning = reason.and_then(|reason| explanations::of_reason(code, reason));
        Some(Step::new(StepName::Signature, text).with(self.lookups()).with(meaning))
    }

    pub(super) fn identity_step(&self, hints: &mut Vec<String>) -> Option<Step> {
        let route = self.route;
        if route.is_some_and(|route| route.webhook.is_some()) {
            let identity = self.exchange.identity()?;
            let (tenant, project) = (identity.tenant.as_str(), identity.project.as_str());
            let subject = identity.subject.as_str();
            return Some(Step::new(
                StepName::Identity,
                format!("The webhook's binding gives tenant {tenant}, project {project}, subject {subject}."),
            ));
        }
        if self.sources.is_empty() {
            return None;
        }
        let problem = self.is_refused_by(&IDENTITY_CODES);
        let counting = self.sources.iter().find(|source| source.counts());
        let text = match (problem, self.exchange.identity(), counting) {
            (Some(problem), ..) => problem.detail.clone().into_owned(),
            (None, Some(identity), Some(source)) => format!(
                "Source `{}` gives tenant {}, project {}, subject {}.",
                source.name(),
                identity.tenant.as_str(),
                identity.project.as_str(),
                identity.subject.as_str()
            ),
            (None, None, Some(source)) => {
                format!("Source `{}` has values; this request needs no identity.", source.name())
            }
            (None, ..) => "No source has a value; this request needs no identity.".to_owned(),
        };
        let mut step = Step::new(StepName::Identity, text);
        step.details.extend(self.sources.iter().flat_map(|source| {
            source
                .to_string()
                .lines()
                .map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned())
                .collect::<Vec<_>>()
        }));
        if let Some(problem) = problem {
            let metadata = self.sources.iter().any(crate::sources::SourceView::reads_metadata);
            if problem.code == Code::IdentityMissing && counting.is_none() && metadata && !self.request.has_metadata() {
                hints.push(
                    "The request as described has no token: give the caller's token or its claims with --jwt, or the gateway's \
                     metadata in a request document."
                        .to_owned(),
                );
            }
            // The details above have what is missing.
            hints.extend(problem.identity.iter().filter(|part| part.problem != "missing").map(|part| {
                let place = match (&part.header, &part.metadata) {
                    (Some(header), _) => format!("header {header}"),
                    (None, Some(path)) => format!("metadata {}", path.join(" / ")),
                    (None, None) => "no place: the source has no such member".to_owned(),
                };
                let why = match part.reason {
                    "wrong_type" => "is not one string",
                    "length" => "is too long",
                    "characters" => "has characters that it must not have",
                    "subject_type" => "is of a type that the policy does not have (`subject_types`)",
                    other => other,
                };
                format!("The {} of source `{}` {why} ({place}).", part.member, part.source)
            }));
        }
        Some(step)
    }

    /// What the stores and the backend were asked before the request goes on.
    pub(super) fn stores_step(&self) -> Option<Step> {
        let is_webhook = self.route.is_some_and(|route| route.webhook.is_some());
        let codes =
            [Code::DependencyUnavailable, Code::KeyReused, Code::KeyInFlight, Code::KeyUnknown, Code::OperationUnknown];
        let problem = self.is_refused_by(&codes).filter(|_| !is_webhook);
        let lookups = if is_webhook { Vec::new() } else { self.lookups() };
        if lookups.is_empty() && problem.is_none() {
            return None;
        }
        let text = match problem {
            Some(problem) => problem.detail.clone().into_owned(),
            None => "What had to be asked before the request goes on was answered.".to_owned(),
        };
        Some(Step::new(StepName::Stores, text).with(lookups))
    }

    fn lookups(&self) -> Vec<String> {
        let told = |(store, result): &(&str, &str)| {
            format!("asked {store}: {result} (from `lookups` of the request document, or made up)")
        };
        self.exchange.lookups().iter().map(told).collect()
    }

    /// The body, if it is why the request is refused.
    pub(super) fn body_step(&self, last: Option<StepName>) -> Option<Step> {
        let problem = self.problem.filter(|_| last == Some(StepName::Body))?;
        Some(
            Step::new(StepName::Body, problem.detail.clone())
                .with([format!("the body has {} bytes", self.request.body.len())]),
        )
    }
}

/// The members of an object that are there, as `name: value`.
pub(super) fn pairs(value: &Value) -> Vec<String> {
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}: {text}"),
            other => format!("{name}: {other}"),
        })
        .collect()
}
