//! Recovery paths, `{path}/by-idempotency-key/{key}[/output]`: which route's stored result a path asks for (docs/contract.md
//! section 6).

use super::routes::{Template, TemplateSegment};
use super::{Policy, Route};

/// Stands between a route's path and a key.
pub const SEGMENT: &str = "by-idempotency-key";

/// What follows a key where the answer is to come at once.
const OUTPUT: &str = "output";

/// How long an answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until there is a result, within the policy's bound.
    Attach,
    /// Not at all.
    Output,
}

/// A path that has the form of a recovery path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryPath<'r> {
    /// The path of the route; empty for `/`.
    pub base: &'r str,
    /// The key, still escaped.
    pub key: &'r str,
    /// How long to wait.
    pub wait: Wait,
}

impl<'r> RecoveryPath<'r> {
    /// Takes a normalised path apart; `None` if it has another form.
    pub fn parse(path: &'r str) -> Option<Self> {
        let behind = |rest: &'r str| rest.strip_suffix(SEGMENT)?.strip_suffix('/');
        let (rest, last) = path.rsplit_once('/')?;
        if last == OUTPUT
            && let Some((rest, key)) = rest.rsplit_once('/')
            && let Some(base) = behind(rest)
        {
            return Some(Self { base, key, wait: Wait::Output });
        }
        Some(Self { base: behind(rest)?, key: last, wait: Wait::Attach })
    }
}

impl Policy {
    /// The recoverable route that a recovery path belongs to, and the values of its path's parameters, still escaped.
    /// `endpoint` is the one that the gateway's route names, if it does.
    pub fn recovered<'r>(
        &self,
        authority: &str,
        endpoint: Option<&[u8]>,
        asked: &RecoveryPath<'r>,
    ) -> Option<(&Route, Vec<&'r str>)> {
        let (routes, values) = match endpoint {
            Some(endpoint) => {
                let id = self.endpoints.get(std::str::from_utf8(endpoint).ok()?)?;
                let template = &self.routes.get(*id)?.template;
                let fixed = || template.parameters().next().is_none().then(Vec::new);
                (std::slice::from_ref(id), template.values(asked.base).or_else(fixed)?)
            }
            None => {
                let found = self.table.find(authority, asked.base)?;
                (found.routes, found.values)
            }
        };
        let route = routes.iter().filter_map(|id| self.routes.get(*id)).find(|route| route.recovery.is_some())?;
        Some((route, values))
    }
}

/// Whether [`SEGMENT`] stands in a template. One with a parameter in its place is never shadowed: a literal segment
/// outranks a parameter.
pub(super) fn spells_out(template: &Template) -> bool {
    template.segments().iter().any(|segment| matches!(segment, TemplateSegment::Literal(text) if text == SEGMENT))
}

/// Whether some path fits both a `template` that spells out recovery paths and a recovery path of `base`.
pub(super) fn shadows(base: &Template, template: &Template) -> bool {
    let literal = |text: &str| TemplateSegment::Literal(text.to_owned());
    let key = TemplateSegment::Parameter(String::new());
    let attach = [literal(SEGMENT), key.clone()];
    let output = [literal(SEGMENT), key, literal(OUTPUT)];
    [attach.as_slice(), output.as_slice()].into_iter().any(|suffix| {
        let recovery: Vec<&TemplateSegment> = base.segments().iter().chain(suffix).collect();
        recovery.len() == template.segments().len()
            && template.segments().get(base.segments().len()) == Some(&literal(SEGMENT))
            && recovery.into_iter().zip(template.segments()).all(|pair| match pair {
                (TemplateSegment::Literal(one), TemplateSegment::Literal(other)) => one == other,
                _ => true,
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_paths_are_read_from_their_end() {
        let parsed = |path| {
            let asked = RecoveryPath::parse(path)?;
            Some((asked.base, asked.key, asked.wait))
        };
        for (path, expected) in [
            ("/a/by-idempotency-key/k", Some(("/a", "k", Wait::Attach))),
            ("/a/by-idempotency-key/k/output", Some(("/a", "k", Wait::Output))),
            ("/by-idempotency-key/k", Some(("", "k", Wait::Attach))),
            ("/a/by-idempotency-key/output", Some(("/a", "output", Wait::Attach))),
            ("/a/by-idempotency-key/output/output", Some(("/a", "output", Wait::Output))),
            ("/a/by-idempotency-key/by-idempotency-key/output", Some(("/a", "by-idempotency-key", Wait::Output))),
            ("/a/b%2Fc/by-idempotency-key/%3A", Some(("/a/b%2Fc", "%3A", Wait::Attach))),
            ("/a/by-idempotency-key", None),
            ("/a/x-by-idempotency-key/k", None),
            ("/a/by-idempotency-key/k/outputs", None),
            ("/a/by-idempotency-key/k/l/output", None),
            ("/", None),
        ] {
            assert_eq!(parsed(path), expected, "{path}");
        }
    }

    #[test]
    fn a_template_is_shadowed_where_one_path_fits_both() {
        let template = |path: &str| Template::parse(path).unwrap();
        for (base, other, expected) in [
            ("/a", "/a/by-idempotency-key/{k}", true),
            ("/a", "/a/by-idempotency-key/k", true),
            ("/a", "/a/{b}/{c}", false),
            ("/a", "/{x}/by-idempotency-key/{y}/{z}", true),
            ("/a", "/a/by-idempotency-key/{k}/output", true),
            ("/a", "/a/by-idempotency-key/{k}/status", false),
            ("/a", "/a/by-idempotency-key", false),
            ("/a", "/a/b/{c}", false),
            ("/{a}", "/b/by-idempotency-key/{d}", true),
            ("/a", "/b/by-idempotency-key/{d}", false),
            ("/", "/by-idempotency-key/{c}", true),
        ] {
            assert_eq!(shadows(&template(base), &template(other)), expected, "{base} {other}");
        }
    }
}
