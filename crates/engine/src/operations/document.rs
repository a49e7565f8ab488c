//! The `operations` object of a `backend`.

use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::document::Secret;
use crate::policy::document::secrets::{Live, read_secret, read_secrets};
use crate::policy::members::{Custom, Text, members};
use crate::policy::template::Template;

members! {
    /// For `restate` with `rewrite_path`: callers can ask for the answer of an earlier request, also one without a key, by its operation
    /// id. Every id that clients see then has a tag that fits this caller alone. The caller is who `/identity` of the document says.
    operations = "operations", "Operations";

    /// The path of operations; `{operation_id}` is its last segment. `GET {path}` waits as long as `/recovery_wait_ms` says, `GET
    /// {path}/output` does not. No route can have such a path.
    PATH: Text<String> { parse: parse_path } = "path", "Path", required "",
        schema r#"{"type": "string", "pattern": "^(?:/(?!\\.{1,2}(?:/|$)|:[A-Za-z_]|\\*+(?:/|$))(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%(?![01][0-9A-F]|2F|5C|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AEF])[0-9A-F]{2})+)+/\\{operation_id\\}$", "examples": ["/operations/{operation_id}"]}"#;

    /// The secret of the tags, or a list: the first one makes tags, every one verifies them. Remove an old one when the operations with its
    /// tags have expired. Use 32 random bytes.
    SECRET: Custom {} = "secret", "Secret", required "",
        schema r##"{"if": {"type": "array"}, "then": {"$ref": "#/$defs/secrets"}, "else": {"$ref": "#/$defs/secret"}, "examples": [{"env": "OPERATIONS_SECRET"}, [{"env": "OPERATIONS_SECRET"}, {"env": "OPERATIONS_SECRET_PREVIOUS"}]]}"##;
}

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
    pub(crate) fn read(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Self> {
        let fields = operations::OBJECT.read(at, issues)?;
        let prefix = operations::PATH.read(&fields, issues);
        let secret = operations::SECRET.at(&fields, issues)?;
        let secrets = if secret.is_array() {
            read_secrets(&secret, inline, Live::Refused, issues)
        } else {
            read_secret(&secret, inline, Live::Refused, issues).into_iter().collect()
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
