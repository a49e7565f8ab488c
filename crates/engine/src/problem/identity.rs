//! The problem of a caller whose identity is missing, invalid or reserved (docs/contract.md section 8). Its document says
//! which part it is. Where the policy looked for it is for the operator. What was found there is told to nobody (invariant I6).

use super::challenge::{Credential, challenges, words};
use super::{Code, Problem};
use crate::identity::{IdentityError, IdentityFinding, IdentityPart, IdentityPlace, IdentityRefusal};
use serde::Serialize;
use std::fmt::Write as _;

/// One part of an identity that is missing or wrong, as the operator sees it. It has no value of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProblem {
    /// The name of the identity source, or of the signed caller
    pub source: String,
    /// `tenant`, `project` or `subject`
    pub member: &'static str,
    /// The header that holds it
    pub header: Option<String>,
    /// The path of the metadata that holds it
    pub metadata: Option<Vec<String>>,
    /// `missing` or `invalid`
    pub problem: &'static str,
    /// The fault in more detail
    pub reason: &'static str,
}

/// One part of an identity that is missing or wrong, as the caller sees it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct PartProblem {
    member: &'static str,
    problem: &'static str,
}

impl IdentityProblem {
    fn of(finding: &IdentityFinding<'_>) -> Self {
        let (header, metadata) = match finding.place {
            Some(IdentityPlace::Header(name)) => (Some(name.clone()), None),
            Some(IdentityPlace::Claim(claim)) => (Some(claim.header().to_owned()), None),
            Some(IdentityPlace::Metadata(path)) => (None, Some(path.segments().to_vec())),
            Some(IdentityPlace::Key(member)) => (Some(member.header.clone()), None),
            Some(IdentityPlace::Constant(_)) | None => (None, None),
        };
        Self {
            source: finding.source.to_owned(),
            member: finding.part.name(),
            header,
            metadata,
            problem: finding.fault.name(),
            reason: finding.fault.reason(),
        }
    }
}

impl Problem {
    /// The parts of the caller's identity that are missing or wrong, for logs: `{source}.{part}: {reason}`, joined by a
    /// comma and a space. It has no value of the request. `None` for other problems.
    pub(crate) fn identity_reasons(&self) -> Option<String> {
        let mut reasons = String::new();
        for part in &self.identity {
            let separator = if reasons.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(reasons, "{separator}{}.{}: {}", part.source, part.member, part.reason);
        }
        (!reasons.is_empty()).then_some(reasons)
    }

    /// The parts of the caller's identity that are missing or wrong, each once.
    pub(super) fn parts(&self) -> Vec<PartProblem> {
        let mut parts: Vec<PartProblem> = Vec::new();
        for part in &self.identity {
            if !parts.iter().any(|known| known.member == part.member) {
                parts.push(PartProblem { member: part.member, problem: part.problem });
            }
        }
        parts
    }

    /// The caller's identity is missing, invalid or reserved. The document says which part it is, and which credentials name one.
    #[inline(never)]
    pub fn identity(why: &IdentityRefusal<'_>) -> Self {
        let findings = why.findings();
        let credentials = || why.sources().iter().map(Credential::of);
        let (code, detail) = match why.error {
            IdentityError::Missing(part) => (
                Code::IdentityMissing,
                format!("The request's credentials name no {part}. Send {} with a {part}.", words(credentials())),
            ),
            IdentityError::Invalid(part) => {
                let form = match part {
                    IdentityPart::Subject => {
                        "one string of at most 200 bytes (percent-encoded) without control characters, of a known type"
                    }
                    IdentityPart::Tenant | IdentityPart::Project => {
                        "one string of 1 to 63 of A-Z a-z 0-9 . _ ~ - that does not begin with _"
                    }
                };
                (
                    Code::IdentityInvalid,
                    format!("The {part} in the request's credentials is malformed or ambiguous: it has to be {form}."),
                )
            }
            IdentityError::Reserved => (
                Code::IdentityReserved,
                "The subject in the request's credentials cannot be used. Authenticate as another subject.".to_owned(),
            ),
        };
        Self {
            identity: findings.iter().map(IdentityProblem::of).collect(),
            challenge: Some(challenges(credentials()).into()),
            ..Self::new(code, detail)
        }
    }
}
