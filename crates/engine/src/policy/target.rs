//! The target of a route in the backend, `Service/handler` or `Service/{object key}/handler`, and its path.

use crate::backend::{BackendKind, restate};
use crate::identity::Identity;
use crate::json::cursor::suggestion;
use crate::percent::{percent_decode, percent_encode};
use crate::policy::path::is_normal;
use crate::provider::{BodyMember, NoMember};
use std::borrow::Cow;

/// The service and the handler for a route's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The service's name.
    pub service: String,
    /// The object key, for keyed services.
    pub object_key: Option<Vec<KeyPiece>>,
    /// The handler's name.
    pub handler: String,
    /// The members of a verified body in the object key. Their values come behind those of the path parameters.
    members: Vec<BodyMember>,
    /// The path's first segments: Restate's own, or none for another backend.
    prefix: &'static str,
    /// The whole path of a target without an object key.
    fixed: String,
}

/// What is called in the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerAddress<'t> {
    /// The service's name
    pub service: &'t str,
    /// The object's key as Restate reads it, for keyed services
    pub object_key: Option<Vec<u8>>,
    /// The handler's name
    pub handler: &'t str,
}

/// A piece of an object key's template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPiece {
    /// Fixed text.
    Literal(String),
    /// The value of the path parameter with this index.
    Parameter(usize),
    /// The value of a path parameter that another parameter follows, or of a member of a body. Its colons are escaped, since
    /// a colon separates the pieces.
    Inner(usize),
    /// The caller's tenant.
    Tenant,
    /// The caller's project.
    Project,
    /// The caller's subject, `{type}:{id}`.
    Subject,
}

/// The names of placeholders for parts of the identity. Path parameters cannot have these names.
pub(crate) const IDENTITY_NAMES: [&str; 3] = ["tenant", "project", "subject"];

/// The longest value of a member of a body, in bytes.
const MAX_MEMBER: usize = 512;

/// Service, object key and handler of a target; `None` if it has another form. A JSON pointer in the object key has slashes of
/// its own.
pub fn target_parts(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let (service, rest) = text.split_once('/')?;
    match rest.rsplit_once('/') {
        Some((key, handler)) => Some((service, Some(key), handler)),
        None => Some((service, None, rest)),
    }
}

impl Target {
    /// Parses a target: for Restate `/restate/{call|send}/{Service}[/{key}]/{handler}`, for another backend
    /// `/{Service}[/{key}]/{handler}`. `parameters`: the names of the path parameters. `one_way`: the response does not wait
    /// for the work, which only Restate offers.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn parse(text: &str, parameters: &[&str], one_way: bool, kind: BackendKind) -> Result<Self, String> {
        let Some((service, key, handler)) = target_parts(text).filter(|(_, key, _)| !key.is_some_and(has_slash)) else {
            return Err("a target is `Service/handler` or `Service/{object key}/handler`".to_owned());
        };
        if !is_name(service) || !is_name(handler) {
            return Err(NAME.to_owned());
        }
        let mut members = Vec::new();
        let object_key = key.map(|key| parse_pieces(key, parameters, &mut members)).transpose()?;
        let prefix = kind.target_prefix(one_way);
        let fixed = match object_key {
            Some(_) => String::new(),
            None => [prefix, "/", service, "/", handler].concat(),
        };
        Ok(Self { service: service.to_owned(), object_key, handler: handler.to_owned(), members, prefix, fixed })
    }

    /// Restate's path of a handler without an object key, for a call of the filter itself.
    pub(crate) fn call_path(service: &str, handler: &str) -> String {
        [restate::CALL, "/", service, "/", handler].concat()
    }

    /// Parses the name of a service.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn parse_service(name: &str) -> Result<String, String> {
        if is_name(name) { Ok(name.to_owned()) } else { Err(NAME.to_owned()) }
    }

    /// Whether the path contains a part of the caller's identity.
    pub fn needs_identity(&self) -> bool {
        self.has(|piece| matches!(piece, KeyPiece::Tenant | KeyPiece::Project | KeyPiece::Subject))
    }

    /// Whether the caller's project is in the object key.
    pub fn needs_project(&self) -> bool {
        self.has(|piece| matches!(piece, KeyPiece::Project))
    }

    /// Whether the caller's subject is in the object key.
    pub fn needs_subject(&self) -> bool {
        self.has(|piece| matches!(piece, KeyPiece::Subject))
    }

    /// Whether the value of the path parameter with this index is in the object key.
    pub(crate) fn uses(&self, parameter: usize) -> bool {
        self.has(|piece| matches!(piece, KeyPiece::Parameter(index) | KeyPiece::Inner(index) if *index == parameter))
    }

    /// The members of a verified body in the object key.
    pub fn members(&self) -> &[BodyMember] {
        &self.members
    }

    /// The values of the members of a body, as `read` finds them.
    ///
    /// # Errors
    /// A member without a value that could stand in a path.
    #[inline(never)]
    pub(crate) fn member_values(
        &self,
        read: impl Fn(&BodyMember) -> Result<Vec<u8>, NoMember>,
    ) -> Result<Vec<Vec<u8>>, (&BodyMember, NoMember)> {
        // As the values of path parameters, but for two slashes side by side: an id may be a URI.
        let is_segment = |part: &[u8]| {
            let mut path = "/".to_owned();
            percent_encode(part, &mut path);
            is_normal(&path)
        };
        let usable = |value: &Vec<u8>| {
            let mut parts = value.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
            value.len() <= MAX_MEMBER && parts.peek().is_some() && parts.all(is_segment)
        };
        let value = |member| read(member).and_then(|value| Some(value).filter(usable).ok_or(NoMember::Unusable));
        self.members.iter().map(|member| value(member).map_err(|why| (member, why))).collect()
    }

    fn has(&self, wanted: impl Fn(&KeyPiece) -> bool) -> bool {
        self.object_key.iter().flatten().any(wanted)
    }

    /// The backend's path, the object key percent-encoded into one segment.
    ///
    /// `values` are the path parameters' values, decoded, and behind them those of the members of a body. `None` if the object key comes out empty, as `.` or as `..`,
    /// which no segment can hold, or if a piece has no value.
    pub fn path(&self, values: &[Vec<u8>], identity: Option<&Identity>) -> Option<Cow<'_, str>> {
        if self.object_key.is_none() {
            return Some(Cow::Borrowed(&self.fixed));
        }
        let key = self.encoded_key(values, identity)?;
        Some(Cow::Owned(format!("{}/{}{key}/{}", self.prefix, self.service, self.handler)))
    }

    /// Which handler is called, and for keyed services of which object. `None` as in [`Target::path`].
    pub fn handler_address(&self, values: &[Vec<u8>], identity: &Identity) -> Option<HandlerAddress<'_>> {
        let object_key = match &self.object_key {
            None => None,
            Some(_) => {
                let encoded = self.encoded_key(values, Some(identity))?;
                Some(percent_decode(encoded.strip_prefix('/')?.as_bytes())?)
            }
        };
        Some(HandlerAddress { service: &self.service, object_key, handler: &self.handler })
    }

    /// A slash and the object key, or nothing if the target has none; `None` as in [`Target::path`].
    fn encoded_key(&self, values: &[Vec<u8>], identity: Option<&Identity>) -> Option<String> {
        let Some(pieces) = &self.object_key else { return Some(String::new()) };
        let mut key = "/".to_owned();
        for piece in pieces {
            match piece {
                KeyPiece::Literal(text) => key.push_str(text),
                KeyPiece::Parameter(index) => percent_encode(values.get(*index)?, &mut key),
                KeyPiece::Inner(index) => percent_encode(&without_colons(values.get(*index)?), &mut key),
                KeyPiece::Tenant => percent_encode(identity?.tenant.as_str().as_bytes(), &mut key),
                KeyPiece::Project => percent_encode(identity?.project.as_str().as_bytes(), &mut key),
                KeyPiece::Subject => percent_encode(identity?.subject.as_str().as_bytes(), &mut key),
            }
        }
        (!matches!(key.as_str(), "/" | "/." | "/..")).then_some(key)
    }
}

const NAME: &str = "service and handler have the form [A-Za-z_][A-Za-z0-9._-]*";

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Whether there is a slash outside of placeholders.
fn has_slash(key: &str) -> bool {
    key.split('{').any(|part| part.split_once('}').map_or(part, |(_, literal)| literal).contains('/'))
}

/// Parses an object key, and adds the members of a body that it names to `members`.
fn parse_pieces(key: &str, parameters: &[&str], members: &mut Vec<BodyMember>) -> Result<Vec<KeyPiece>, String> {
    let mut pieces = Vec::new();
    let mut rest = key;
    while let Some((literal, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| "a `{` is not closed".to_owned())?;
        push_literal(literal, &mut pieces)?;
        pieces.push(match name {
            "tenant" => KeyPiece::Tenant,
            "project" => KeyPiece::Project,
            "subject" => KeyPiece::Subject,
            _ => match (parameters.iter().position(|parameter| *parameter == name), BodyMember::parse(name)) {
                (Some(index), _) => KeyPiece::Parameter(index),
                (None, Some(member)) => {
                    members.push(member?);
                    KeyPiece::Inner(parameters.len() + members.len() - 1)
                }
                (None, None) => {
                    let near = suggestion(name, parameters.iter().copied().chain(IDENTITY_NAMES));
                    return Err(format!(
                        "`{{{name}}}` is neither a parameter of the route's path nor tenant, project or subject{near}"
                    ));
                }
            },
        });
        rest = after;
    }
    push_literal(rest, &mut pieces)?;
    if pieces.is_empty() {
        return Err("the object key is empty".to_owned());
    }
    let is_value = |piece: &KeyPiece| matches!(piece, KeyPiece::Parameter(_) | KeyPiece::Inner(_));
    let last = pieces.iter().rposition(is_value).unwrap_or_default();
    for piece in pieces.iter_mut().take(last) {
        if let KeyPiece::Parameter(index) = *piece {
            *piece = KeyPiece::Inner(index);
        }
    }
    injective(&pieces)?;
    Ok(pieces)
}

/// The value with `%` and `:` percent-encoded.
fn without_colons(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'%' => out.extend(b"%25"),
            b':' => out.extend(b"%3A"),
            other => out.push(*other),
        }
    }
    out
}

/// Checks that different values give different object keys, also after the backend has decoded them. The value of a parameter
/// that no other value follows can be any text. The values of other parameters and of members of a body, and the parts of an
/// identity, contain no colon, except for a subject, which contains exactly one.
fn injective(pieces: &[KeyPiece]) -> Result<(), String> {
    let separated = |pair: &[KeyPiece]| pair.iter().any(|piece| matches!(piece, KeyPiece::Literal(_)));
    let colons = |piece: &KeyPiece| !matches!(piece, KeyPiece::Literal(text) if !text.contains(':'));
    let inner = pieces.get(1..pieces.len().saturating_sub(1)).unwrap_or_default();
    if !pieces.windows(2).all(separated) || !inner.iter().all(colons) {
        return Err(
            "put a `:` between the placeholders of an object key: without it different values give the same key"
                .to_owned(),
        );
    }
    let mut parameter_seen = false;
    let mut identity_after = false;
    for piece in pieces {
        match piece {
            KeyPiece::Parameter(_) | KeyPiece::Inner(_) if identity_after => {
                return Err("tenant, project and subject cannot stand between two parameters of an object key: \
                            one tenant could name another's object. Put them first"
                    .to_owned());
            }
            KeyPiece::Parameter(_) | KeyPiece::Inner(_) => parameter_seen = true,
            KeyPiece::Literal(_) => {}
            KeyPiece::Tenant | KeyPiece::Project | KeyPiece::Subject => identity_after = parameter_seen,
        }
    }
    Ok(())
}

/// Whether a character may stand in fixed text. It needs no escape in a segment of a path.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~-:@!$&'()*+=".contains(&byte)
}

/// Adds fixed text. It may contain characters that need no escape in a segment, such as the colon that separates
/// values.
fn push_literal(text: &str, pieces: &mut Vec<KeyPiece>) -> Result<(), String> {
    if !text.bytes().all(is_plain) {
        return Err(format!("`{text}`: fixed text in an object key may hold only [A-Za-z0-9._~:@!$&'()*+=-]"));
    }
    if !text.is_empty() {
        pieces.push(KeyPiece::Literal(text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Project, Subject, Tenant};

    fn caller() -> Identity {
        Identity {
            tenant: Tenant::parse(b"acme").unwrap(),
            project: Project::parse(b"shop").unwrap(),
            subject: Subject::new("user", b"a/b").unwrap(),
        }
    }

    #[test]
    fn paths_are_built_with_every_value_in_its_own_segment() {
        let path = |target: &str, values: &[&[u8]]| {
            let target = Target::parse(target, &["cart_id"], false, BackendKind::Generic).unwrap();
            let values: Vec<Vec<u8>> = values.iter().map(|value| value.to_vec()).collect();
            target.path(&values, Some(&caller())).map(Cow::into_owned)
        };
        assert_eq!(path("Refunds/create", &[]).unwrap(), "/Refunds/create");
        assert_eq!(path("Cart/main/checkout", &[]).unwrap(), "/Cart/main/checkout");
        assert_eq!(
            path("Cart/{tenant}:{project}:{cart_id}/checkout", &[b"a/b c:\xff%"]).unwrap(),
            "/Cart/acme:shop:a%2Fb%20c%3A%FF%25/checkout"
        );
        assert_eq!(path("User/{subject}/get", &[]).unwrap(), "/User/user%3Aa%252Fb/get");
        assert_eq!(path("Cart/{cart_id}/get", &[b".."]), None);
        assert_eq!(path("Cart/{cart_id}/get", &[]), None);
    }

    #[test]
    fn paths_of_restate_name_the_way_of_the_call_first() {
        let target = |text: &str, one_way| Target::parse(text, &["cart_id"], one_way, BackendKind::Restate).unwrap();
        let values = ["a/b \u{e9}%".as_bytes().to_vec()];
        let path = |target: &Target| target.path(&values, Some(&caller())).unwrap().into_owned();
        assert_eq!(path(&target("Refunds/create", false)), "/restate/call/Refunds/create");
        assert_eq!(path(&target("Emails/send", true)), "/restate/send/Emails/send");
        let cart = target("Cart/{tenant}:{cart_id}/checkout", false);
        assert_eq!(path(&cart), "/restate/call/Cart/acme:a%2Fb%20%C3%A9%25/checkout");
        let address = cart.handler_address(&values, &caller()).unwrap();
        assert_eq!((address.service, address.handler), ("Cart", "checkout"));
        assert_eq!(address.object_key.unwrap(), "acme:a/b \u{e9}%".as_bytes());
        assert_eq!(cart.handler_address(&[b"\xff".to_vec()], &caller()).unwrap().object_key.unwrap(), b"acme:\xff");
        let other = target("Cart/{cart_id}/checkout", false);
        assert_eq!(other.handler_address(&[b"..".to_vec()], &caller()), None);
        assert_eq!(target("Refunds/create", false).handler_address(&[], &caller()).unwrap().object_key, None);
    }

    #[test]
    fn colons_of_a_parameter_that_another_follows_divide_nothing() {
        let target = Target::parse("Line/{order}:{line}/get", &["order", "line"], false, BackendKind::Generic).unwrap();
        let path =
            |order: &[u8], line: &[u8]| target.path(&[order.to_vec(), line.to_vec()], None).unwrap().into_owned();
        assert_eq!(path(b"7", b"2"), "/Line/7:2/get");
        assert_eq!(path(b"7:2", b"1"), "/Line/7%253A2:1/get");
        assert_eq!(path(b"7", b"2:1"), "/Line/7:2%3A1/get");
        assert_eq!(path(b"7%3A2", b"1"), "/Line/7%25253A2:1/get");
    }

    #[test]
    fn values_of_members_stand_behind_those_of_parameters_and_hold_no_colon() {
        let text = "Line/{order}:{body:/a~1b/0}:x-{form:n}/get";
        assert_eq!(target_parts(text), Some(("Line", Some("{order}:{body:/a~1b/0}:x-{form:n}"), "get")));
        assert_eq!(target_parts("Refunds/create"), Some(("Refunds", None, "create")));
        assert_eq!(target_parts("Refunds"), None);
        let target = Target::parse(text, &["order"], false, BackendKind::Restate).unwrap();
        let names: Vec<&str> = target.members().iter().map(BodyMember::name).collect();
        assert_eq!(names, ["/a~1b/0", "n"]);
        let values = [b"1:2".to_vec(), b"a:%/".to_vec(), b"7".to_vec()];
        assert_eq!(target.path(&values, None).unwrap(), "/restate/call/Line/1%253A2:a%253A%2525%2F:x-7/get");
        assert_eq!(target.path(&values[..2], None), None);
        let read = |member: &BodyMember| if member.name() == "n" { Ok(Vec::new()) } else { Ok(b"a".to_vec()) };
        assert_eq!(target.member_values(read).unwrap_err().1, NoMember::Unusable);
    }

    #[test]
    fn a_key_of_the_identity_needs_one() {
        let target = Target::parse("Cart/{tenant}/get", &[], false, BackendKind::Generic).unwrap();
        assert!(target.needs_identity() && !target.needs_project());
        assert_eq!(target.path(&[], None), None);
    }

    #[test]
    fn object_keys_that_could_merge_tenants_are_refused() {
        let parse = |key: &str| Target::parse(&format!("Cart/{key}/get"), &["a", "b"], false, BackendKind::Generic);
        for bad in ["{tenant}{a}", "{tenant}-{a}", "{a}:{tenant}:{b}", "{a}:{subject}:{tenant}:{b}", "{a}.{tenant}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for fine in ["{tenant}:{a}", "{a}:{tenant}", "{tenant}:{project}:{subject}:{a}:{b}", "cart-{a}", "{a}:x:{b}-y"]
        {
            assert!(parse(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn malformed_targets_are_refused() {
        for bad in [
            "",
            "Refunds",
            "/Refunds/create",
            "Refunds/",
            "a/b/c/d",
            "Re funds/create",
            "Cart//x",
            "Cart/{/x",
            "Cart/{a/x",
            "Cart/{unknown}/x",
            "Cart/a}b/x",
            "Cart/{cart_id}{/x",
            "Cart/%41/x",
            "1a/b",
        ] {
            assert!(Target::parse(bad, &["cart_id"], false, BackendKind::Generic).is_err(), "{bad}");
        }
    }
}
