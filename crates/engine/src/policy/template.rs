//! Templates: the paths of routes, with parameters.

use super::path::segments;
use crate::percent::lenient;
use std::fmt;
use std::sync::Arc;

/// One segment of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplateSegment<'t> {
    /// Fixed text.
    Literal(&'t str),
    /// `{name}`: any one segment.
    Parameter(&'t str),
    /// `key:{name}`: a segment that begins with this text, and goes on.
    Prefixed(&'t str, &'t str),
}

impl<'t> TemplateSegment<'t> {
    /// Reads a segment of a valid template.
    pub(super) fn read(segment: &'t str) -> Self {
        let Some(rest) = segment.strip_suffix('}') else { return Self::Literal(segment) };
        match rest.split_once('{') {
            None => Self::Literal(segment),
            Some(("", name)) => Self::Parameter(name),
            Some((prefix, name)) => Self::Prefixed(prefix, name),
        }
    }

    /// The name of its parameter.
    const fn name(self) -> Option<&'t str> {
        match self {
            Self::Literal(_) => None,
            Self::Parameter(name) | Self::Prefixed(_, name) => Some(name),
        }
    }

    /// The value of its parameter in a segment of a path, empty for a literal; `None` if the segment does not match.
    fn value(self, segment: &str) -> Option<&str> {
        match self {
            Self::Literal(text) => (text == segment).then_some(""),
            Self::Parameter(_) => Some(segment),
            Self::Prefixed(prefix, _) => segment.strip_prefix(prefix).filter(|value| !value.is_empty()),
        }
    }

    /// Its text, or the text in front of its parameter.
    pub(super) const fn text(self) -> Option<&'t str> {
        match self {
            Self::Literal(text) | Self::Prefixed(text, _) => Some(text),
            Self::Parameter(_) => None,
        }
    }

    /// Whether some segment of a path matches both.
    pub(crate) fn meets(self, other: TemplateSegment<'_>) -> bool {
        match (self, other) {
            (Self::Literal(text), other) => other.value(text).is_some(),
            (one, TemplateSegment::Literal(text)) => one.value(text).is_some(),
            (Self::Prefixed(one, _), TemplateSegment::Prefixed(other, _)) => {
                one.starts_with(other) || other.starts_with(one)
            }
            _ => true,
        }
    }

    /// [`TemplateSegment::meets`] for a reader that ignores the case of ASCII letters, and that decodes the texts.
    pub(super) fn meets_leniently(self, other: TemplateSegment<'_>) -> bool {
        let behind = |text: &str, prefix: &str| {
            let mut rest = lenient(text);
            lenient(prefix).all(|byte| rest.next() == Some(byte)).then(|| rest.count())
        };
        match (self, other) {
            (Self::Literal(one), TemplateSegment::Literal(other)) => behind(one, other) == Some(0),
            (Self::Literal(text), TemplateSegment::Prefixed(prefix, _)) => behind(text, prefix) > Some(0),
            (Self::Prefixed(prefix, _), TemplateSegment::Literal(text)) => behind(text, prefix) > Some(0),
            (Self::Prefixed(one, _), TemplateSegment::Prefixed(other, _)) => {
                behind(one, other).is_some() || behind(other, one).is_some()
            }
            _ => true,
        }
    }
}

/// A route's path: `/api/v1/carts/{cart_id}/checkout`, `/api/v1/flags/key:{flag}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Without a slash at the end
    pub(super) text: Arc<str>,
    /// Whether the document writes it with a slash at the end. It takes the same paths then.
    slash: bool,
}

impl Template {
    /// Parses a template. Its literal segments have to be normalised, since request paths are. It may end with a slash.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err("a path begins with a slash".to_owned());
        }
        let (text, slash) = match text.strip_suffix('/') {
            Some(before) if before.len() > 1 => (before, true),
            _ => (text, false),
        };
        if is_plain(text) {
            return Ok(Self { text: text.into(), slash });
        }
        let mut names: Vec<&str> = Vec::new();
        for segment in segments(text) {
            let (prefix, parameter) = match segment.split_once('{') {
                Some((prefix, rest)) => (prefix, rest.strip_suffix('}')),
                None => (segment, None),
            };
            match parameter {
                Some(name) if !is_parameter_name(name) => {
                    return Err(format!("`{{{name}}}`: a parameter's name has the form [a-z][a-z0-9_]*"));
                }
                Some(name) if names.contains(&name) => {
                    return Err(format!("the parameter `{{{name}}}` is in the path twice: rename one of them"));
                }
                _ if prefix.contains('}') || (parameter.is_none() && segment.contains('{')) => {
                    return Err(format!(
                        "`{segment}`: a parameter is a whole segment, or the rest of a segment after fixed text, as in \
                         /{{name}}/ or /key:{{name}}/"
                    ));
                }
                None => check_literal(segment)?,
                Some(name) => names.push(name),
            }
        }
        let literals: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'{' | b'}')).collect();
        match super::path::NormalPath::parse(&literals) {
            Ok(normal) if normal.has_encoded_slash() => {
                Err("%2F is allowed only in the value of a parameter: remove it from the path".to_owned())
            }
            Ok(normal) if normal.as_str().as_bytes() != literals => Err(format!(
                "no request can match this path, because paths are normalised first: write `{}{}`",
                normal_spelling(text),
                if slash { "/" } else { "" }
            )),
            Ok(_) => Ok(Self { text: text.into(), slash }),
            Err(why) => Err(why.detail().to_owned()),
        }
    }

    /// The normalised template: as the document writes it, without a slash at the end.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The segments; none for `/`.
    pub(crate) fn segments(&self) -> impl Iterator<Item = TemplateSegment<'_>> + Clone {
        segments(&self.text).map(TemplateSegment::read)
    }

    /// The names of the parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        // Most templates have none, and this is how to see it at once.
        let text = if self.text.contains('{') { &*self.text } else { "" };
        segments(text).map(TemplateSegment::read).filter_map(TemplateSegment::name)
    }

    /// The first segment, if it is a literal.
    pub fn first_literal(&self) -> Option<&str> {
        match self.segments().next() {
            Some(TemplateSegment::Literal(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether the templates differ in the names of parameters at most.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let unnamed = |segment: TemplateSegment<'_>| (segment.text().map(str::to_owned), segment.name().is_some());
        self.segments().map(unnamed).eq(other.segments().map(unnamed))
    }

    /// Whether some path matches both templates.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.segments().count() == other.segments().count()
            && self.segments().zip(other.segments()).all(|(one, other)| one.meets(other))
    }

    /// The values of the parameters in `path` (normalised, still percent-encoded); `None` if it does not match.
    pub fn values<'p>(&self, path: &'p str) -> Option<Vec<&'p str>> {
        let mut values = Vec::new();
        let mut given = segments(path);
        for segment in self.segments() {
            let value = segment.value(given.next()?)?;
            if segment.name().is_some() {
                values.push(value);
            }
        }
        given.next().is_none().then_some(values)
    }
}

/// A template with its literal texts as normalised paths have them, for an error message.
#[inline(never)]
fn normal_spelling(template: &str) -> String {
    let text = |text: &str| {
        let path = format!("/{text}");
        let normal = super::path::NormalPath::parse(path.as_bytes()).ok();
        normal.and_then(|normal| normal.as_str().strip_prefix('/').map(str::to_owned)).unwrap_or(path)
    };
    let mut normal = String::new();
    for segment in segments(template).map(TemplateSegment::read) {
        normal.push('/');
        match segment {
            TemplateSegment::Literal(literal) => normal.push_str(&text(literal)),
            TemplateSegment::Parameter(name) => normal.push_str(&format!("{{{name}}}")),
            TemplateSegment::Prefixed(prefix, name) => normal.push_str(&format!("{}{{{name}}}", text(prefix))),
        }
    }
    if normal.is_empty() { "/".to_owned() } else { normal }
}

/// Whether a path is a template without parameters that is normalised, and has no character with a meaning in a template:
/// most templates are, and need no other check.
fn is_plain(path: &str) -> bool {
    path.starts_with('/')
        && super::path::already_normal(path.as_bytes()).is_some()
        && !path.bytes().any(|byte| matches!(byte, b':' | b'*'))
}

/// Checks a segment without a parameter. Other routers' ways to write a parameter are refused: here they would be literals,
/// and no request would match them.
fn check_literal(segment: &str) -> Result<(), String> {
    let name = segment.strip_prefix(':').or_else(|| segment.strip_prefix('<')?.strip_suffix('>'));
    if let Some(name) = name.filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
    {
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        return Err(format!("`{segment}`: a parameter is written `{{{}}}`", name.to_ascii_lowercase()));
    }
    if !segment.is_empty() && segment.bytes().all(|byte| byte == b'*') {
        return Err(format!(
            "`{segment}`: a path has no wildcards: write a parameter such as `{{name}}` for one segment"
        ));
    }
    Ok(())
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        f.write_str(if self.slash { "/" } else { "" })
    }
}

fn is_parameter_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_meet_where_one_path_fits_both() {
        for (one, other, expected) in [
            ("/key:{a}", "/key:b", true),
            ("/key:{a}", "/key:", false),
            ("/key:{a}", "/kex:b", false),
            ("/key:{a}", "/key:x{b}", true),
            ("/key:{a}", "/kex:{b}", false),
            ("/key:{a}", "/{b}", true),
            ("/a", "/a", true),
            ("/a", "/b", false),
        ] {
            let (one, other) = (Template::parse(one).unwrap(), Template::parse(other).unwrap());
            assert_eq!((one.meets(&other), other.meets(&one)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn templates_that_nothing_can_match_are_refused() {
        for bad in [
            "",
            "a",
            "/a//b",
            "/a//",
            "/./a",
            "/%61",
            "/a%3a",
            "/a%2Fb",
            "/a;b",
            "/{a}b",
            "/a{b}c",
            "/{a}{b}",
            "/a}{b}",
            "/a{",
            "/a}",
            "/{a",
            "/{}",
            "/a{}",
            "/{A}",
            "/{a}/{a}",
            "/{a}/b{a}",
            "/a b",
            "/%{a1}",
            "/%2{f}",
            "/%C3%A{a}",
            "/a%2F{b}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
        for fine in [
            "/",
            "/a",
            "/{a}",
            "/a/{b}/c/{d_1}",
            "/a:b",
            "/a%3Ab",
            "/.well-known/x",
            "/a{b}",
            "/a:{b}/%3A{c}",
            "/a/",
            "/a/{b}/",
        ] {
            assert_eq!(Template::parse(fine).unwrap().to_string(), fine);
        }
    }
}
