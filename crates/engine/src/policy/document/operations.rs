//! The `operations` object of a `backend`.

use super::Secret;
use super::secrets::{Live, read_secret, read_secrets};
use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::template::Template;

/// An `operations` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperationsDocument {
    /// The path in front of `{operation_id}`, with its last slash
    pub prefix: String,
    /// The secrets, in the order of the document
    pub secrets: Vec<Secret>,
}

impl OperationsDocument {
    /// Reads an `operations` object; `inline`: the document may contain secrets.
    #[inline(never)]
    pub(super) fn read(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Self> {
        let fields = at.fields(&["path", "secret"], issues)?;
        let prefix = fields.need_parse("path", issues, parse_path);
        let secret = fields.need("secret", issues)?;
        let secrets = if secret.is_array() {
            read_secrets(&secret, (inline, Live::Refused), issues)
        } else {
            read_secret(&secret, (inline, Live::Refused), issues).into_iter().collect()
        };
        Some(Self { prefix: prefix?, secrets })
    }
}

/// Parses the path of operations; the result is what stands in front of the operation id.
fn parse_path(text: &str) -> Result<String, String> {
    let template = Template::parse(text)?;
    match text.strip_suffix("/{operation_id}") {
        Some(prefix) if !prefix.is_empty() && template.parameters().count() == 1 => Ok(format!("{prefix}/")),
        _ => {
            Err("write fixed segments, and `{operation_id}` as the last one, as in `/operations/{operation_id}`"
                .to_owned())
        }
    }
}
