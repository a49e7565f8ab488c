//! The problem of a caller whose identity is missing, invalid or reserved (docs/contract.md section 8). Its document says
//! which part it is and where the policy looked for it, and never what was found there (invariant I6).

use super::{Code, Problem};
use crate::identity::{IdentityError, IdentityFinding, IdentityPart, IdentityPlace, IdentityRefusal};
use serde::Serialize;
use std::fmt::Write as _;

/// One part of an identity that is missing or wrong, as a member of problem documents. It has no value of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IdentityProblem {
    /// The name of the identity source, or of the signed caller
    pub source: String,
    /// `tenant`, `project` or `subject`
    pub member: &'static str,
    /// The header that holds it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The path of the metadata that holds it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Vec<String>>,
    /// Where it stands in the token's payload in the header, or in what the registry says of the API key there
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// `missing` or `invalid`
    pub problem: &'static str,
    /// The fault in more detail, for logs
    #[serde(skip)]
    pub reason: &'static str,
}

impl IdentityProblem {
    fn of(finding: &IdentityFinding<'_>) -> Self {
        let (header, metadata, pointer) = match finding.place {
            Some(IdentityPlace::Header(name)) => (Some(name.clone()), None, None),
            Some(IdentityPlace::Claim(claim)) => (Some(claim.header().to_owned()), None, Some(claim.pointer())),
            Some(IdentityPlace::Metadata(path)) => (None, Some(path.segments().to_vec()), None),
            Some(IdentityPlace::Key(member)) => (Some(member.header.clone()), None, Some(member.pointer())),
            Some(IdentityPlace::Constant(_)) | None => (None, None, None),
        };
        Self {
            source: finding.source.to_owned(),
            member: finding.part.name(),
            header,
            metadata,
            pointer,
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

    /// The caller's identity is missing, invalid or reserved. The document says which part it is and where the policy
    /// looked for it.
    #[inline(never)]
    pub fn identity(why: &IdentityRefusal<'_>) -> Self {
        let findings = why.findings();
        let looked_at = |part: IdentityPart| {
            findings.iter().find(|finding| finding.part == part).map_or_else(String::new, |finding| {
                match finding.place {
                    Some(place) => format!(" (identity source {}, {place})", finding.source),
                    None => format!(" (identity source {})", finding.source),
                }
            })
        };
        let (code, detail) = match why.error {
            IdentityError::Missing(part) => (
                Code::IdentityMissing,
                format!(
                    "The request's credentials name no {part}{}. Authenticate with credentials that do.",
                    looked_at(part)
                ),
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
                let at = looked_at(part);
                (
                    Code::IdentityInvalid,
                    format!(
                        "The {part} in the request's credentials is malformed or ambiguous{at}: it has to be {form}."
                    ),
                )
            }
            IdentityError::Reserved => (
                Code::IdentityReserved,
                "The subject in the request's credentials is reserved for callers that sign their requests.".to_owned(),
            ),
        };
        Self { identity: findings.iter().map(IdentityProblem::of).collect(), ..Self::new(code, detail) }
    }
}
