//! Which paths a route takes, and which it makes of them.

use crate::lints::diagnostics::tree::SpannedNode;
use regex_lite::Regex;

/// What a `match` says about the path.
pub(super) enum PathRule {
    /// `prefix`
    Prefix(String),
    /// `path_separated_prefix`
    Segments(String),
    /// `path`
    Exact(String),
    /// `safe_regex`, or a template as a regular expression; the beginning that all its paths have
    Pattern(Regex, String),
    /// What this command cannot read
    Unknown,
}

/// A `match` and its spelling.
pub(super) struct PathMatch {
    rule: PathRule,
    folds: bool,
}

impl PathMatch {
    /// Reads a `match`.
    pub(super) fn of(rule: &SpannedNode) -> Self {
        let text = |name: &str| rule.text_at(&[name]).map(str::to_owned);
        let folds = rule.is_false(&["case_sensitive"]);
        let fold = |text: String| if folds { text.to_ascii_lowercase() } else { text };
        let rule = if let Some(prefix) = text("prefix") {
            PathRule::Prefix(fold(prefix))
        } else if let Some(prefix) = text("path_separated_prefix") {
            PathRule::Segments(fold(prefix))
        } else if let Some(path) = text("path") {
            PathRule::Exact(fold(path))
        } else if let Some(regex) = rule.text_at(&["safe_regex", "regex"]) {
            pattern(regex)
        } else if let Some(template) = rule.text_at(&["path_match_policy", "typed_config", "path_template"]) {
            pattern(&of_template(template))
        } else {
            PathRule::Unknown
        };
        Self { rule, folds }
    }

    fn fold(&self, path: &str) -> String {
        if self.folds { path.to_ascii_lowercase() } else { path.to_owned() }
    }

    /// Whether it takes this path; `None` if nobody can say.
    pub(super) fn takes(&self, path: &str) -> Option<bool> {
        let path = self.fold(path);
        match &self.rule {
            PathRule::Prefix(prefix) => Some(path.starts_with(prefix.as_str())),
            PathRule::Segments(prefix) => {
                Some(path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
            }
            PathRule::Exact(exact) => Some(path == *exact),
            PathRule::Pattern(regex, _) => Some(regex.is_match(&path)),
            PathRule::Unknown => None,
        }
    }

    /// Whether it takes every path that begins so.
    pub(super) fn takes_all(&self, beginning: &str) -> bool {
        let beginning = self.fold(beginning);
        match &self.rule {
            PathRule::Prefix(prefix) => beginning.starts_with(prefix.as_str()),
            PathRule::Segments(prefix) => beginning.starts_with(&format!("{prefix}/")),
            PathRule::Exact(_) | PathRule::Pattern(..) | PathRule::Unknown => false,
        }
    }

    /// Whether it takes a path that begins so. `samples`: paths that do. What this command cannot read may take one.
    pub(super) fn takes_one<'s>(&self, beginning: &str, mut samples: impl Iterator<Item = &'s str>) -> bool {
        let folded = self.fold(beginning);
        match &self.rule {
            PathRule::Prefix(prefix) => overlap(prefix, &folded),
            PathRule::Segments(prefix) => overlap(&format!("{prefix}/"), &folded),
            PathRule::Exact(path) => path.starts_with(&folded),
            PathRule::Pattern(regex, head) => {
                let made = ["x", "x/y", "call/x/y", "send/x/y"].map(|rest| format!("{beginning}{rest}"));
                head.starts_with(&folded)
                    || samples.any(|path| path.starts_with(beginning) && regex.is_match(&self.fold(path)))
                    || made.iter().any(|path| regex.is_match(&self.fold(path)))
            }
            PathRule::Unknown => true,
        }
    }

    /// Whether a path that this match takes can begin with `beginning` after the route has rewritten it.
    pub(super) fn becomes_one(&self, action: &SpannedNode, beginning: &str) -> bool {
        if let Some(prefix) = action.text_at(&["prefix_rewrite"]) {
            return match &self.rule {
                PathRule::Exact(_) => prefix.starts_with(beginning),
                _ => overlap(prefix, beginning),
            };
        }
        if let Some(path) = action.text_at(&["path_rewrite"]) {
            return overlap(literal_head(path, &['%']), beginning);
        }
        if let Some(rewrite) = action.get("regex_rewrite") {
            // The first match is at the beginning of the path, or the path keeps the beginning that the route matches.
            let is_anchored = rewrite.text_at(&["pattern", "regex"]).is_some_and(|regex| regex.starts_with(['^', '/']));
            let head = literal_head(rewrite.text_at(&["substitution"]).unwrap_or_default(), &['\\']);
            return !is_anchored || overlap(head, beginning);
        }
        action.get("path_rewrite_policy").is_some_and(|policy| {
            let template = policy.text_at(&["typed_config", "path_template_rewrite"]).unwrap_or_default();
            overlap(literal_head(template, &['{', '*']), beginning)
        })
    }
}

/// Whether one of two beginnings is a beginning of the other, so that a path can have both.
fn overlap(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The text before the first of some characters.
fn literal_head<'t>(text: &'t str, ends: &[char]) -> &'t str {
    text.split(ends).next().unwrap_or_default()
}

/// A regular expression as Envoy uses it: for the whole path.
fn pattern(regex: &str) -> PathRule {
    let plain = regex.strip_prefix('^').unwrap_or(regex);
    let meta = ['\\', '.', '[', '(', '{', '*', '+', '?', '|', '$', '^'];
    let mut head = literal_head(plain, &meta).to_owned();
    // The last character may be left out, or another one be in its place.
    if plain.get(head.len()..).is_some_and(|rest| rest.starts_with(['*', '?', '{', '|'])) {
        head.pop();
    }
    if plain.contains('|') {
        head.clear();
    }
    Regex::new(&format!("^(?:{regex})$")).map_or(PathRule::Unknown, |regex| PathRule::Pattern(regex, head))
}

/// A template of Envoy (`/api/*/{name}/{rest=**}`) as a regular expression.
fn of_template(template: &str) -> String {
    let segment = |segment: &str| -> String {
        let inner = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}'));
        let written = match inner.map(|inner| inner.split_once('=')) {
            Some(Some((_, pattern))) => pattern,
            Some(None) => "*",
            None => segment,
        };
        match written {
            "**" => ".*".to_owned(),
            "*" => "[^/]+".to_owned(),
            other if other.contains("**") => ".*".to_owned(),
            other => regex_lite::escape(other).replace("\\*", "[^/]*"),
        }
    };
    template.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::yaml;

    fn of(rule: &str) -> PathMatch {
        PathMatch::of(&yaml::read(rule).unwrap())
    }

    #[test]
    fn a_route_takes_a_path_of_the_backend_or_not() {
        let samples = ["/restate/call/Orders/create".to_owned()];
        for (rule, takes) in [
            ("{prefix: /}", true),
            ("{prefix: /api/}", false),
            ("{prefix: /restate/call/}", true),
            ("{prefix: /RESTATE/, case_sensitive: no}", true),
            ("{prefix: /RESTATE/}", false),
            ("{path_separated_prefix: /restate}", true),
            ("{path_separated_prefix: /rest}", false),
            ("{path: /restate/call/A/b}", true),
            ("{path: /orders}", false),
            ("{safe_regex: {regex: '.*'}}", true),
            ("{safe_regex: {regex: '/(api|restate)/.*'}}", true),
            ("{safe_regex: {regex: '/restate/call/Orders/.*'}}", true),
            ("{safe_regex: {regex: '/restate/health'}}", true),
            ("{safe_regex: {regex: '/webhooks/[^/]+/[^/]+'}}", false),
            ("{safe_regex: {regex: '['}}", true),
            ("{path_match_policy: {typed_config: {path_template: '/**'}}}", true),
            ("{path_match_policy: {typed_config: {path_template: '/api/{a=*}/{rest=**}'}}}", false),
            ("{path_match_policy: {name: other}}", true),
        ] {
            assert_eq!(of(rule).takes_one("/restate/", samples.iter().map(String::as_str)), takes, "{rule}");
        }
    }

    #[test]
    fn a_route_makes_a_path_of_the_backend_or_not() {
        for (action, becomes) in [
            ("{cluster: a}", false),
            ("{prefix_rewrite: /restate/}", true),
            ("{prefix_rewrite: /}", true),
            ("{prefix_rewrite: /v2/}", false),
            ("{regex_rewrite: {pattern: {regex: '^/pub/(.*)$'}, substitution: '/\\1'}}", true),
            ("{regex_rewrite: {pattern: {regex: '^/pub/(.*)$'}, substitution: '/v2/\\1'}}", false),
            ("{path_rewrite_policy: {typed_config: {path_template_rewrite: '/{a}'}}}", true),
        ] {
            let action_node = yaml::read(action).unwrap();
            assert_eq!(of("{prefix: /pub/}").becomes_one(&action_node, "/restate/"), becomes, "{action}");
        }
    }
}
