//! Recovery paths, `{path}/by-idempotency-key/{key}[/output]` (docs/contract.md section 6): parses them and finds their
//! route.

use crate::backend::restate;
use crate::percent::{percent_decode, percent_encode};
use crate::policy::path::{NormalPath, PATH, PathError};
use crate::policy::template::{Template, TemplateSegment};

/// The segment between a route's path and the key.
#[cfg_attr(not(feature = "needs"), allow(unreachable_pub, reason = "only what describes policies hands it on"))]
pub const SEGMENT: &str = "by-idempotency-key";

/// The last segment of a recovery path that does not wait for the result.
#[cfg_attr(not(feature = "needs"), allow(unreachable_pub, reason = "only what describes policies hands it on"))]
pub const OUTPUT: &str = "output";

/// Whether the response waits for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "needs", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Wait {
    /// It waits, at most for the policy's `recovery_wait_ms`.
    Attach,
    /// It does not wait.
    Output,
}

impl Wait {
    /// Restate's path of the result of an invocation.
    pub(crate) fn result_path(self, invocation: &str) -> String {
        restate::result_path(self == Self::Attach, invocation)
    }
}

/// A path that has the form of a recovery path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryPath<'r> {
    /// The path of the route; empty for `/`.
    pub base: &'r str,
    /// The key, still percent-encoded.
    pub key: &'r str,
    /// Whether to wait for the result.
    pub wait: Wait,
}

impl<'r> RecoveryPath<'r> {
    /// Parses a normalised path; `None` if it has another form.
    pub fn parse(path: &'r str) -> Option<Self> {
        let base_of = |rest: &'r str| rest.strip_suffix(SEGMENT)?.strip_suffix('/');
        let (rest, last) = path.rsplit_once('/')?;
        if last == OUTPUT
            && let Some((rest, key)) = rest.rsplit_once('/')
            && let Some(base) = base_of(rest)
        {
            return Some(Self { base, key, wait: Wait::Output });
        }
        Some(Self { base: base_of(rest)?, key: last, wait: Wait::Attach })
    }
}

/// Normalises the path of a request. As [`NormalPath::parse`], but the key of a recovery path may also contain `%5C`, and begin
/// or end with `%2F` or have several of them in a row; then [`NormalPath::needs_visible_key`] is the error of such a path.
///
/// # Errors
/// [`PathError`], as [`NormalPath::parse`].
pub(crate) fn request_path(path: &[u8]) -> Result<NormalPath<'_>, PathError> {
    NormalPath::parse(path).or_else(|why| match why {
        PathError::Backslash | PathError::DotSegment => with_visible_key(path, why).ok_or(why),
        _ => Err(why),
    })
}

/// Parses a recovery path by its key and the rest of it; `None` if it is none, or if programs could read the key as dot segments.
fn with_visible_key(path: &[u8], why: PathError) -> Option<NormalPath<'_>> {
    let RecoveryPath { base, key, wait } = RecoveryPath::parse(std::str::from_utf8(path).ok()?)?;
    let is_plain = |byte: u8| byte == b'%' || PATH.has(byte);
    let decoded = percent_decode(key.as_bytes())?;
    let has_dots = decoded.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| matches!(part, b"." | b".."));
    if has_dots || !decoded.iter().all(u8::is_ascii_graphic) || !key.bytes().all(is_plain) {
        return None;
    }
    let before_key = [base, "/", SEGMENT].concat();
    let before_key = NormalPath::parse(before_key.as_bytes()).ok()?;
    let mut text = before_key.as_str().to_owned() + "/";
    percent_encode(&decoded, &mut text);
    if wait == Wait::Output {
        text.push('/');
        text.push_str(OUTPUT);
    }
    Some(NormalPath::of_visible_key(text, before_key.has_encoded_slash(), why))
}

/// Whether a template contains [`SEGMENT`] as a literal. A template with a parameter there, be it behind a text, needs no
/// check: a literal segment takes precedence over a parameter.
pub(crate) fn spells_out(template: &Template) -> bool {
    template.segments().any(|segment| segment == TemplateSegment::Literal(SEGMENT))
}

/// Whether some path matches both `template`, which contains [`SEGMENT`], and a recovery path of `base`.
pub(crate) fn shadows(base: &Template, template: &Template) -> bool {
    let key = TemplateSegment::Parameter("");
    let attach = [TemplateSegment::Literal(SEGMENT), key];
    let output = [TemplateSegment::Literal(SEGMENT), key, TemplateSegment::Literal(OUTPUT)];
    [attach.as_slice(), output.as_slice()].into_iter().any(|suffix| {
        let recovery = base.segments().chain(suffix.iter().copied());
        recovery.clone().count() == template.segments().count()
            && template.segments().nth(base.segments().count()) == Some(TemplateSegment::Literal(SEGMENT))
            && recovery.zip(template.segments()).all(|(one, other)| one.meets(other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_paths_are_read_from_their_end() {
        let parsed = |path| {
            let recovery_path = RecoveryPath::parse(path)?;
            Some((recovery_path.base, recovery_path.key, recovery_path.wait))
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
    fn the_key_of_a_recovery_path_may_have_escapes_that_others_may_not() {
        for (path, expected) in [
            ("/a/by-idempotency-key/a%5Cb", Some("/a/by-idempotency-key/a%5Cb")),
            ("/a/./by-idempotency-key/a%5cb/output", Some("/a/by-idempotency-key/a%5Cb/output")),
            ("/by-idempotency-key/%2Fab%2F%2Fc%2F", Some("/by-idempotency-key/%2Fab%2F%2Fc%2F")),
            ("/a/by-idempotency-key/%2fx:%3By", Some("/a/by-idempotency-key/%2Fx%3A%3By")),
            ("/a/by-idempotency-key/%2F%252F", Some("/a/by-idempotency-key/%2F%252F")),
            ("/a%5Cb/by-idempotency-key/k", None),
            ("/a/by-idempotency-key/a%5Cb/c", None),
            ("/a/by-idempotency-key/a\\b", None),
            ("/a/by-idempotency-key/a%5C;b", None),
            ("/a/by-idempotency-key/a%5C%00", None),
            ("/a/by-idempotency-key/a%5C%C3%A9", None),
            ("/a/by-idempotency-key/%2F%2E%2E%2Fb", None),
            ("/a/by-idempotency-key/a%5C..", None),
            ("/a/by-idempotency-key/a%5C%", None),
            ("/a/x%2F%2Fy/by-idempotency-key/a%5Cb", None),
        ] {
            let found = request_path(path.as_bytes());
            assert!(NormalPath::parse(path.as_bytes()).is_err(), "{path}");
            assert_eq!(found.as_ref().map(NormalPath::as_str).ok(), expected, "{path}");
            assert!(found.is_err() || found.is_ok_and(|path| path.needs_visible_key().is_some()), "{path}");
        }
        let usual = request_path(b"/a/by-idempotency-key/a%2Fb").unwrap();
        assert_eq!((usual.needs_visible_key(), usual.has_encoded_slash()), (None, true));
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
            ("/key:{a}", "/key:b/by-idempotency-key/{c}", true),
            ("/key:{a}", "/b/by-idempotency-key/{c}", false),
            ("/key:{a}", "/{b}/by-idempotency-key/c:{d}", true),
            ("/a", "/a/by-{b}/{c}", false),
        ] {
            assert_eq!(shadows(&template(base), &template(other)), expected, "{base} {other}");
        }
    }
}
