//! What `check` and `openapi check` look for beside the policy document, and the list of all lints.
//!
//! | module | subject |
//! |---|---|
//! | `gateway_list` | name, severity and texts of every lint of the gateway around a policy |
//! | `live_list` | the same for what `check --live` asks |
//! | `openapi_list` | the same for an OpenAPI description beside the policy |
//! | `gateway` | Envoy's configuration |
//! | `openapi` | an OpenAPI description |
//! | `page` | the page of all lints, docs/lints.md |

pub(crate) mod gateway;
mod gateway_list;
mod live_list;
pub(crate) mod openapi;
mod openapi_list;
pub(crate) mod page;

use crate::lints::PolicyFinding;
use crate::lints::diagnostics::lint::{Lint, UNREAD};
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::{CheckedFile, Finding};
use crate::lints::list;

/// Whether `--allow` takes a lint: what keeps the filter from starting stays an error.
pub(crate) fn can_be_allowed(lint: &Lint) -> bool {
    !list::ALWAYS.contains(&lint.name)
}

/// All lints: those of policy documents first.
pub(crate) fn lints() -> impl Iterator<Item = &'static Lint> {
    list::LINTS.iter().chain(gateway_list::LINTS).chain(live_list::LINTS).chain(openapi_list::LINTS)
}

/// A lint by its name. A name that no list has is a mistake in this program, which a test would see.
fn lint(name: &str) -> &'static Lint {
    lints().find(|lint| lint.name == name).unwrap_or(&list::UNNAMED)
}

/// A finding of any lint, in a policy document. `help`: what to write instead; empty if the message says it.
pub(crate) fn policy_finding(
    name: &str,
    pointer: impl Into<String>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> PolicyFinding {
    PolicyFinding::of(lint(name), pointer, message, help)
}

/// What is told about a file that cannot be read. `message` says why.
pub(crate) fn unread_file(name: String, message: String) -> CheckedFile {
    let lint = lint(UNREAD);
    let finding =
        Finding { lint, severity: lint.severity, pointer: None, span: 0..0, message, help: lint.instead.to_owned() };
    CheckedFile { source: SourceText::new(name, b""), findings: vec![finding], summary: None }
}
