//! A route's path template as a regular expression, and which of two templates the filter asks first (docs/contract.md,
//! section 4).

/// One segment of a path template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PatternSegment {
    /// `{name}`
    Any { name: String },
    /// `prefix{name}`; the longer prefix is asked first
    After { length: usize, prefix: String },
    /// a literal
    Exactly(String),
}

/// A path template of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern(Vec<PatternSegment>);

impl PathPattern {
    /// The pattern of a template that the policy has, which is well formed therefore.
    pub(crate) fn new(template: &str) -> Self {
        let segment = |text: &str| match text.split_once('{') {
            Some(("", name)) => PatternSegment::Any { name: name.trim_end_matches('}').to_owned() },
            Some((prefix, _)) => PatternSegment::After { length: prefix.len(), prefix: prefix.to_owned() },
            None => PatternSegment::Exactly(text.to_owned()),
        };
        Self(template.split('/').filter(|text| !text.is_empty()).map(segment).collect())
    }

    /// Whether a path can fit both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        use PatternSegment::{After, Any, Exactly};
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|pair| match pair {
                (Any { .. }, _) | (_, Any { .. }) => true,
                (Exactly(one), Exactly(two)) => one == two,
                (After { prefix, .. }, Exactly(text)) | (Exactly(text), After { prefix, .. }) => {
                    text.starts_with(prefix)
                }
                (After { prefix: one, .. }, After { prefix: two, .. }) => one.starts_with(two) || two.starts_with(one),
            })
    }

    /// Greater for the pattern that the filter asks first.
    pub(crate) fn rank(&self) -> Vec<usize> {
        let rank = |segment: &PatternSegment| match segment {
            PatternSegment::Any { .. } => 0,
            PatternSegment::After { length, .. } => *length,
            PatternSegment::Exactly(_) => usize::MAX,
        };
        self.0.iter().map(rank).collect()
    }

    /// A regular expression (RE2) that has to fit the whole path. `plain` keeps percent-encoded bytes out of parameters, so that
    /// no other spelling of a literal fits one. `webhook` asks of `{provider}` and `{webhook_id}` what the filter asks of them
    /// (docs/contract.md, section 5).
    pub(crate) fn regex(&self, plain: bool, webhook: bool) -> String {
        let value = if plain { "[^/%]+" } else { "[^/]+" };
        let segments = self.0.iter().map(|segment| match segment {
            PatternSegment::Any { name } => match name.as_str() {
                "provider" if webhook => "/[a-z0-9_]+".to_owned(),
                "webhook_id" if webhook => "/[A-Za-z0-9_-]+".to_owned(),
                _ => format!("/{value}"),
            },
            PatternSegment::After { prefix, .. } => format!("/{}{value}", literal(prefix)),
            PatternSegment::Exactly(text) => format!("/{}", literal(text)),
        });
        let path: String = segments.collect();
        if path.is_empty() { "/".to_owned() } else { format!("{path}/?") }
    }
}

/// A text as a regular expression that fits it alone.
pub(crate) fn literal(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if "\\.+*?()|[]{}^$".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_asks_literals_first() {
        let rank = |template: &str| PathPattern::new(template).rank();
        assert!(rank("/a/b/{x}") > rank("/a/{x}/c"));
        assert!(rank("/a/key:{x}") > rank("/a/{x}") && rank("/a/key:{x}") < rank("/a/b"));
    }

    #[test]
    fn patterns_overlap_where_a_path_fits_both() {
        let overlap = |one: &str, two: &str| PathPattern::new(one).overlaps(&PathPattern::new(two));
        assert!(overlap("/hooks/{provider}/{id}", "/hooks/admin/{x}"));
        assert!(overlap("/a/key:{x}", "/a/key:1") && !overlap("/a/key:{x}", "/a/k"));
        assert!(!overlap("/a/{x}", "/a/{x}/b") && !overlap("/a", "/b"));
    }

    #[test]
    fn regular_expressions_escape_literals() {
        assert_eq!(PathPattern::new("/v1.0/{x}/a").regex(false, false), r"/v1\.0/[^/]+/a/?");
        assert_eq!(PathPattern::new("/v1/{x}").regex(true, false), "/v1/[^/%]+/?");
        assert_eq!(PathPattern::new("/").regex(true, false), "/");
    }
}
