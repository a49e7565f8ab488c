//! The text that a signature covers, as a template: `{timestamp}.{body}`.

use crate::json::scan::Pointer;
use std::fmt;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplatePart {
    /// Fixed text
    Literal(String),
    /// `{body}`: the body's bytes
    Body,
    /// `{timestamp}`: the timestamp, as it was sent
    Timestamp,
    /// `{id}`: the first identifier, where that is a header
    Id,
    /// `{method}`
    Method,
    /// `{url}`: the public URL
    Url,
    /// `{hubspot_url}`: the public URL with a few escapes decoded
    HubspotUrl,
    /// `{path}`: the public URL's path and query
    Path,
    /// `{sorted_form}`: names and values of a form body, decoded and sorted; nothing for other bodies
    SortedForm,
    /// `{header:Name}`
    Header(String),
    /// `{json:/pointer}`; `{json?:/pointer}` is empty if the value is absent
    Json {
        /// The text of the pointer
        pointer: String,
        /// The place
        place: Pointer,
        /// Whether it may be missing
        optional: bool,
    },
}

impl fmt::Display for TemplatePart {
    /// The part in the syntax of templates.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Body => f.write_str("{body}"),
            Self::Timestamp => f.write_str("{timestamp}"),
            Self::Id => f.write_str("{id}"),
            Self::Method => f.write_str("{method}"),
            Self::Url => f.write_str("{url}"),
            Self::HubspotUrl => f.write_str("{hubspot_url}"),
            Self::Path => f.write_str("{path}"),
            Self::SortedForm => f.write_str("{sorted_form}"),
            Self::Header(name) => write!(f, "{{header:{name}}}"),
            Self::Json { pointer, optional, .. } => write!(f, "{{json{}:{pointer}}}", if *optional { "?" } else { "" }),
        }
    }
}

/// Parses a template; the error says what to change.
pub(super) fn parse(template: &str) -> Result<Vec<TemplatePart>, String> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal.to_owned()));
        }
        let (name, after) = after.split_once('}').ok_or("a `{` of the template has no `}`")?;
        parts.push(part(name)?);
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(TemplatePart::Literal(rest.to_owned()));
    }
    if parts.iter().all(|part| matches!(part, TemplatePart::Literal(_))) {
        return Err("the template names no part of the delivery, so it would sign nothing".to_owned());
    }
    Ok(parts)
}

fn part(name: &str) -> Result<TemplatePart, String> {
    Ok(match name {
        "body" => TemplatePart::Body,
        "timestamp" => TemplatePart::Timestamp,
        "id" => TemplatePart::Id,
        "method" => TemplatePart::Method,
        "url" => TemplatePart::Url,
        "hubspot_url" => TemplatePart::HubspotUrl,
        "path" => TemplatePart::Path,
        "sorted_form" => TemplatePart::SortedForm,
        _ => match name.split_once(':') {
            Some(("header", header)) => TemplatePart::Header(super::members::header_name(header)?),
            Some((kind @ ("json" | "json?"), pointer)) => TemplatePart::Json {
                pointer: pointer.to_owned(),
                place: super::members::pointer(pointer, true)?,
                optional: kind == "json?",
            },
            _ => {
                return Err(format!(
                    "`{{{name}}}` is not one of {{body}}, {{timestamp}}, {{id}}, {{method}}, {{url}}, {{hubspot_url}}, \
                     {{path}}, {{sorted_form}}, {{header:Name}}, {{json:/pointer}}, {{json?:/pointer}}"
                ));
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_taken_apart() {
        let literal = |text: &str| TemplatePart::Literal(text.to_owned());
        assert_eq!(
            parse("v0:{timestamp}:{body}").unwrap(),
            [literal("v0:"), TemplatePart::Timestamp, literal(":"), TemplatePart::Body]
        );
        assert_eq!(parse("{header:X-Id}}").unwrap(), [TemplatePart::Header("x-id".to_owned()), literal("}")]);
        for bad in ["", "text", "{body", "{}", "{bodY}", "{header:}", "{header:a b}", "{json:id}", "{json:/~}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
