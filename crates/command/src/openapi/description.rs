//! Reads an OpenAPI description, in JSON or YAML.

use crate::diagnostics::yaml;
use crate::lints::diagnostics::json;
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::tree::{NodeContent, SpannedNode};
use serde::de::IgnoredAny;

/// The versions that are read.
const VERSIONS: [&str; 3] = ["3.0", "3.1", "3.2"];

/// Why a text is no description that can be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DescriptionError {
    /// The byte where it shows
    pub(crate) at: usize,
    /// What is wrong
    pub(crate) message: String,
    /// What to write instead
    pub(crate) help: String,
}

impl DescriptionError {
    /// The error with its place, for commands that print one line.
    pub(crate) fn told(&self, source: &SourceText) -> String {
        let place = source.place(self.at);
        format!("{}:{}:{}: {}; {}", source.name, place.line, place.column, self.message, self.help)
    }
}

/// Reads a description: its values, each with its place.
///
/// # Errors
/// The text is neither JSON nor YAML, or it is no OpenAPI description of version 3.0, 3.1 or 3.2.
pub(crate) fn read(source: &SourceText) -> Result<SpannedNode, DescriptionError> {
    let tree = parse(source)?;
    let version = tree.members().iter().find(|member| member.name == "openapi");
    let Some(version) = version else { return Err(other_document(&tree)) };
    let text = version.value.text().unwrap_or_default();
    let is_known = VERSIONS
        .iter()
        .any(|known| text.strip_prefix(known).is_some_and(|patch| patch.is_empty() || patch.starts_with('.')));
    if is_known {
        let paths = tree.members().iter().find(|member| member.name == "paths");
        return match paths.filter(|paths| !matches!(paths.value.content, NodeContent::Map(_))) {
            None => Ok(tree),
            Some(paths) => Err(DescriptionError {
                at: paths.value.span.start,
                message: "`paths` is no object".to_owned(),
                help: "write an object with a member for each path, or `{}`".to_owned(),
            }),
        };
    }
    Err(DescriptionError {
        at: version.value.span.start,
        message: format!("the version of OpenAPI is `{text}`, and this command reads 3.0, 3.1 and 3.2"),
        help: "convert the description to one of these versions, or use a newer release of this command".to_owned(),
    })
}

fn parse(source: &SourceText) -> Result<SpannedNode, DescriptionError> {
    let text = &source.text;
    let syntax_error = |at: usize, message: String| DescriptionError {
        at,
        message,
        help: "correct the text at the place that is underlined".to_owned(),
    };
    if text.trim_start().starts_with('{') {
        match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => {
                if let Some(tree) = json::read(text) {
                    return Ok(tree);
                }
            }
            // A mapping in braces can be YAML; the error of the JSON parser is the one that helps.
            Err(error) => {
                return yaml::read(text)
                    .map_err(|_| syntax_error(source.at(error.line(), error.column()), format!("not JSON: {error}")));
            }
        }
    }
    yaml::read(text).map_err(|error| syntax_error(error.at, error.message))
}

/// What is told about a document that is no OpenAPI description.
fn other_document(tree: &SpannedNode) -> DescriptionError {
    let has = |name: &str| tree.members().iter().find(|member| member.name == name);
    let (member, message, help) = if let Some(member) = has("swagger") {
        let help = "convert it to OpenAPI 3, for example with the npm package swagger2openapi";
        (Some(member), "this is a description in Swagger 2.0", help)
    } else if let Some(member) = has("overlay") {
        (Some(member), "this is an overlay, and no description", "name the description that the overlay is for")
    } else if let Some(member) = has("routes") {
        (
            Some(member),
            "this is a policy document, and no description",
            "write the policy first and the description second",
        )
    } else {
        (
            None,
            "this is no OpenAPI description: it has no member `openapi`",
            "write its version, such as `openapi: 3.1.0`",
        )
    };
    DescriptionError {
        at: member.map_or(tree.span.start, |member| member.name_span.start),
        message: message.to_owned(),
        help: help.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SpannedNode, DescriptionError> {
        super::read(&SourceText::new("a".to_owned(), text.as_bytes()))
    }

    #[test]
    fn three_versions_are_read_in_json_and_in_yaml() {
        for text in [
            "openapi: 3.0.3\npaths: {}\n",
            "openapi: '3.1'\n",
            "openapi: 3.2\n",
            "{\"openapi\": \"3.1.0\"}",
            "{openapi: 3.1.0}",
            "\u{feff}openapi: 3.0.0\n",
        ] {
            assert!(read(text).is_ok(), "{text}: {:?}", read(text));
        }
    }

    #[test]
    fn what_is_no_description_is_named() {
        for (text, at, message) in [
            ("swagger: '2.0'\n", 0, "Swagger 2.0"),
            ("info: {}\noverlay: 1.0.0\n", 9, "an overlay"),
            ("{\"version\": 1, \"routes\": []}", 15, "a policy document"),
            ("openapi: 4.0.0\n", 9, "the version of OpenAPI is `4.0.0`"),
            ("openapi: 3.01\n", 9, "the version of OpenAPI is `3.01`"),
            ("openapi: 3.1.0\npaths: [1, 2]\n", 22, "`paths` is no object"),
            ("a: b\n", 0, "no member `openapi`"),
            ("{\"openapi\": \"3.1.0\",\n \"paths\": [}", 32, "not JSON: expected value at line 2 column 12"),
            ("openapi: [\n", 0, "not YAML"),
            ("", 0, "the file is empty"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(message), "{text}: {error:?}");
            assert!(!error.help.is_empty() && (error.at == at || message == "not YAML"), "{text}: {error:?}");
        }
    }
}
