//! Who the caller is, and what the request needs besides: signatures, identity, stores, the body.

use super::{Found, Step, Told};
use crate::explain::explanations;
use edge_idempotency_engine::exchange::TraceEvent;
use edge_idempotency_engine::problem::{Code, Problem, Reason};
use serde_json::Value;

impl Told<'_> {
    /// Who has signed the request.
    fn sender(&self) -> String {
        match (self.exchange.signer(self.policy), self.exchange.provider_name()) {
            (Some(caller), _) => format!("the signed caller `{caller}`"),
            (None, Some(provider)) => format!("provider `{provider}`"),
            (None, None) => "the webhook".to_owned(),
        }
    }

    /// The signature of a webhook's delivery, or of a signed caller.
    pub(super) fn signature_step(&self, found: &Found<'_>) -> Step {
        let who = self.sender();
        let step = match found.problem {
            Some(problem) => self.refused_delivery(found, problem),
            None if found.has(|event| matches!(event, TraceEvent::Verified)) => {
                Step::new(found.step, format!("The signature of {who} fits."))
            }
            None => Step::new(found.step, format!("The signature of {who} is not verified yet.")),
        };
        let meaning = step.details.clone();
        Step { details: lookups(found), ..step }.with(meaning)
    }

    /// A delivery or a signed request that is refused, with the reason that the sender is not told.
    pub(super) fn refused_delivery(&self, found: &Found<'_>, problem: &Problem) -> Step {
        let (who, code) = (self.sender(), problem.code.name());
        let reason = self.exchange.reason().map(Reason::name);
        let text = match reason {
            Some(reason) => format!("Refused ({who}): {code}, reason {reason}."),
            None => format!("Refused ({who}): {code}."),
        };
        Step::new(found.step, text).with(reason.and_then(|reason| explanations::of_reason(code, reason)))
    }

    pub(super) fn identity_step(&self, found: &Found<'_>, hints: &mut Vec<String>) -> Step {
        if self.route.is_some_and(|route| route.webhook.is_some())
            && let Some(identity) = found.identity()
        {
            let (tenant, project) = (identity.tenant.as_str(), identity.project.as_str());
            let subject = identity.subject.as_str();
            return Step::new(
                found.step,
                format!("The webhook's binding gives tenant {tenant}, project {project}, subject {subject}."),
            );
        }
        let problem = found.problem;
        let counting = self.sources.iter().find(|source| source.counts());
        let text = match (problem, found.identity(), counting) {
            (Some(problem), ..) => problem.detail.clone().into_owned(),
            (None, Some(identity), Some(source)) => format!(
                "Source `{}` gives tenant {}, project {}, subject {}.",
                source.name(),
                identity.tenant.as_str(),
                identity.project.as_str(),
                identity.subject.as_str()
            ),
            (None, Some(identity), None) => format!(
                "The caller has tenant {}, project {}, subject {}.",
                identity.tenant.as_str(),
                identity.project.as_str(),
                identity.subject.as_str()
            ),
            (None, None, Some(source)) => {
                format!("Source `{}` has values; this request needs no identity.", source.name())
            }
            (None, None, None) => "No source has a value; this request needs no identity.".to_owned(),
        };
        let mut step = Step::new(found.step, text);
        step.details.extend(self.sources.iter().flat_map(|source| {
            source
                .to_string()
                .lines()
                .map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned())
                .collect::<Vec<_>>()
        }));
        if let Some(problem) = problem {
            let metadata = self.sources.iter().any(crate::explain::sources::SourceView::reads_metadata);
            if problem.code == Code::IdentityMissing && counting.is_none() && metadata && !self.request.has_metadata() {
                hints.push(
                    "The request as described has no token: give the caller's token or its claims with --jwt, or the gateway's \
                     metadata in a request document."
                        .to_owned(),
                );
            }
            let asks_registry = self.sources.iter().any(crate::explain::sources::SourceView::reads_api_keys);
            if problem.code == Code::DependencyUnavailable && asks_registry && !self.request.has_lookups {
                hints.push(
                    "`explain` asks nobody whose an API key is: give what Unkey says of it in a request document, as `\"lookups\": \
                     {\"api_keys\": {KEY: {\"identity\": {\"externalId\": …}}}}`."
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
                    "subject_type" => "does not begin with a type, `[a-z][a-z0-9_]*` and a colon",
                    other => other,
                };
                format!("The {} of source `{}` {why} ({place}).", part.member, part.source)
            }));
        }
        step
    }

    /// What Restate and the guard were asked before the request goes on.
    pub(super) fn stores_step(&self, found: &Found<'_>) -> Step {
        let text = match found.problem {
            Some(problem) => problem.detail.clone().into_owned(),
            None => "What had to be asked before the request goes on was answered.".to_owned(),
        };
        Step::new(found.step, text).with(lookups(found))
    }

    /// The body, which is why the request is refused, or which names what a delivery is for.
    pub(super) fn body_step(&self, found: &Found<'_>) -> Step {
        let told = found.find(|event| match event {
            TraceEvent::Members(_) => Some("The target is made of the body.".to_owned()),
            TraceEvent::Acknowledged(detail) => Some(format!("ACKNOWLEDGED HERE. {detail}")),
            _ => None,
        });
        let text = found.problem.map(|problem| problem.detail.clone().into_owned()).or(told).unwrap_or_default();
        let members = found.find(|event| if let TraceEvent::Members(members) = event { Some(members) } else { None });
        let values =
            members.into_iter().flatten().map(|(name, value)| format!("{name} is {}", String::from_utf8_lossy(value)));
        let size = format!("the body has {} bytes", self.request.body.len());
        Step::new(found.step, text).with(values.chain(members.is_none().then_some(size)))
    }
}

/// Who was asked in a step, and what came of it.
fn lookups(found: &Found<'_>) -> Vec<String> {
    let told = found.events.iter().filter_map(|event| match event {
        TraceEvent::Lookup { store, result } => {
            Some(format!("asked {store}: {result} (from `lookups` of the request document, or made up)"))
        }
        _ => None,
    });
    told.collect()
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
