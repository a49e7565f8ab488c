//! What `check` looks for beside the policy document, and the list of all lints.
//!
//! | module | subject |
//! |---|---|
//! | `gateway_list` | name, severity and texts of every lint of the gateway around a policy |
//! | `live_list` | the same for what `check --live` asks |
//! | `openapi_list` | the same for an OpenAPI description beside the policy |
//! | `gateway` | Envoy's configuration |
//! | `openapi` | an OpenAPI description |
//! | `profile` | a protocol's profile beside the policy |
//! | `page` | the page of all lints, docs/lints.md |

pub(crate) mod gateway;
mod gateway_list;
pub(crate) mod live_list;
pub(crate) mod openapi;
mod openapi_list;
pub(crate) mod page;
pub(crate) mod profile;

use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::{CheckedFile, Finding};
use crate::lints::list;

/// What no `--allow` takes, whatever is checked.
static ALWAYS: [&Lint; 6] = [
    &list::UNREAD_FILE,
    &list::NOT_JSON,
    &list::START_ERROR,
    &gateway_list::NOT_YAML,
    &gateway_list::ENVOY_NO_FILTER,
    &openapi_list::NOT_OPENAPI,
];

/// Whether `--allow` takes a lint: what keeps the filter from starting stays an error.
pub(crate) fn can_be_allowed(lint: &Lint) -> bool {
    !ALWAYS.iter().any(|always| always.name == lint.name)
}

/// All lints: those of policy documents first.
pub(crate) fn lints() -> impl Iterator<Item = &'static Lint> {
    [list::LINTS, gateway_list::LINTS, live_list::LINTS, openapi_list::LINTS].into_iter().flatten().copied()
}

/// What is told about a file that cannot be read. `message` says why.
pub(crate) fn unread_file(name: String, message: String) -> CheckedFile {
    let lint = &list::UNREAD_FILE;
    let finding =
        Finding { lint, severity: lint.severity, pointer: None, span: 0..0, message, help: lint.instead.to_owned() };
    CheckedFile { source: SourceText::new(name, b""), findings: vec![finding], summary: None }
}
