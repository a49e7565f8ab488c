//! The mapping of a route's answers, because a backend such as Restate answers every success with 200
//! (docs/contract.md section 6).

use super::path::is_normal;
use super::target::is_plain;
use crate::codes::Reason;
use crate::json::cursor::suggestion;
use crate::json::scan::{self, JsonScalar, NotJson, Pointer, PointerResult};
use crate::percent::percent_encode;

/// The longest `Location`, in bytes.
const MAX_LOCATION: usize = 2048;

/// What becomes of a target's answer with status 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerMapping {
    /// The status, as digits
    pub(crate) status: Option<String>,
    /// The header `Location`
    pub(crate) location: Option<LocationTemplate>,
}

/// The template of a `Location`: an absolute path with values from the answer's body and from the request's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocationTemplate(Vec<LocationPiece>);

/// A piece of a [`LocationTemplate`].
#[derive(Debug, Clone, PartialEq, Eq)]
enum LocationPiece {
    /// Fixed text
    Literal(String),
    /// The value of the path parameter with this index
    Parameter(usize),
    /// A value of the answer's JSON body
    Member(Pointer),
}

/// The reason why an answer keeps its status 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmapped {
    /// The gateway keeps the body back.
    KeptBack,
    /// The body is no JSON, or there is no body.
    NotJson,
    /// The body is compressed.
    Encoded,
    /// The body is longer than what is read.
    TooLong,
    /// The body lacks a member of the template.
    MemberMissing,
    /// A member is there twice, or is no string and no integer, or its value makes no path that a client could request.
    MemberUnusable,
}

impl Unmapped {
    /// The reason that metrics have.
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::KeptBack => Reason::AnswerKeptBack,
            Self::NotJson => Reason::AnswerNotJson,
            Self::Encoded => Reason::AnswerEncoded,
            Self::TooLong => Reason::AnswerTooLong,
            Self::MemberMissing => Reason::AnswerMemberMissing,
            Self::MemberUnusable => Reason::AnswerMemberUnusable,
        }
    }
}

impl AnswerMapping {
    /// Whether the answer's body is needed.
    pub(crate) fn reads_body(&self) -> bool {
        self.location.as_ref().is_some_and(|location| location.pointers().next().is_some())
    }
}

impl LocationTemplate {
    /// Parses a template such as `/refunds/{body:/id}`. `parameters`: the names of the path parameters.
    ///
    /// # Errors
    /// A sentence that says what to change.
    #[inline(never)]
    pub(super) fn parse(text: &str, parameters: &[&str]) -> Result<Self, String> {
        let (mut pieces, mut sample, mut rest) = (Vec::new(), String::new(), text);
        loop {
            let (literal, after) = rest.split_once('{').unwrap_or((rest, ""));
            if !literal.bytes().all(|byte| byte == b'/' || is_plain(byte)) {
                return Err(format!("`{literal}`: fixed text in a location may hold only [A-Za-z0-9/._~:@!$&'()*+=-]"));
            }
            sample.push_str(literal);
            if !literal.is_empty() {
                pieces.push(LocationPiece::Literal(literal.to_owned()));
            }
            if literal.len() == rest.len() {
                break;
            }
            let (name, after) = after.split_once('}').ok_or("a `{` is not closed")?;
            sample.push('a');
            pieces.push(match name.strip_prefix("body:") {
                Some(pointer) => LocationPiece::Member(
                    Pointer::parse(pointer, false).filter(|_| !name.contains('{')).ok_or_else(|| {
                        format!("`{{{name}}}`: write a JSON pointer of at most 8 parts after `body:`, such as `/id`")
                    })?,
                ),
                None => {
                    LocationPiece::Parameter(parameters.iter().position(|known| *known == name).ok_or_else(|| {
                        let near = suggestion(name, parameters.iter().copied());
                        format!(
                            "`{{{name}}}` is neither a parameter of the route's path nor `body:` followed by a JSON \
                             pointer{near}"
                        )
                    })?)
                }
            });
            rest = after;
        }
        if sample == "/" || !is_normal(&sample) {
            return Err(
                "a location is a path such as `/refunds/{body:/id}`: it begins with one slash, and no segment is \
                 empty, `.` or `..`"
                    .to_owned(),
            );
        }
        Ok(Self(pieces))
    }

    /// Whether values come from the request's path.
    pub(crate) fn reads_path(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, LocationPiece::Parameter(_)))
    }

    /// The path for an answer with this body. `values` are the path parameters' values, decoded.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn path(&self, values: &[Vec<u8>], body: &[u8]) -> Result<String, Unmapped> {
        let pointers: Vec<&Pointer> = self.pointers().collect();
        let found = if pointers.is_empty() { Ok(Vec::new()) } else { scan::find(body, &pointers) };
        let mut found = found.map_err(|NotJson| Unmapped::NotJson)?.into_iter();
        let mut path = String::new();
        for piece in &self.0 {
            let before = path.len();
            match piece {
                LocationPiece::Literal(text) => path.push_str(text),
                LocationPiece::Parameter(index) => {
                    percent_encode(values.get(*index).map(Vec::as_slice).unwrap_or_default(), &mut path);
                }
                LocationPiece::Member(_) => match found.next() {
                    Some(PointerResult::Value(JsonScalar::Text(text))) => {
                        let text = text.decode();
                        percent_encode(std::str::from_utf8(&text).unwrap_or_default().as_bytes(), &mut path);
                    }
                    Some(PointerResult::Value(JsonScalar::Number(number))) if is_integer(number) => {
                        percent_encode(number, &mut path);
                    }
                    Some(PointerResult::Missing) => return Err(Unmapped::MemberMissing),
                    _ => return Err(Unmapped::MemberUnusable),
                },
            }
            if path.len() == before {
                return Err(Unmapped::MemberUnusable);
            }
        }
        // A client that follows a path of another form would be refused.
        if path.len() <= MAX_LOCATION && is_normal(&path) { Ok(path) } else { Err(Unmapped::MemberUnusable) }
    }

    fn pointers(&self) -> impl Iterator<Item = &Pointer> {
        self.0.iter().filter_map(|piece| match piece {
            LocationPiece::Member(pointer) => Some(pointer),
            LocationPiece::Literal(_) | LocationPiece::Parameter(_) => None,
        })
    }
}

/// Whether a JSON number was written without a fraction and an exponent.
fn is_integer(number: &[u8]) -> bool {
    number.strip_prefix(b"-").unwrap_or(number).iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percent::percent_decode;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the member's text is, it is one segment that says the same, or the answer passes as it came.
        #[test]
        fn a_value_never_leaves_its_segment(id in "[a-z./%?#;:\\\\ é\u{0}\u{1f600}-]{0,6}|.{0,20}") {
            let body = serde_json::json!({ "id": id }).to_string();
            if let Ok(path) = path("/r/{body:/id}/x", &body) {
                let segments: Vec<&str> = path.split('/').collect();
                prop_assert_eq!((segments.len(), segments[0], segments[1], segments[3]), (4, "", "r", "x"));
                prop_assert_eq!(percent_decode(segments[2].as_bytes()), Some(id.into_bytes()));
                prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }

    fn path(template: &str, body: &str) -> Result<String, Unmapped> {
        let template = LocationTemplate::parse(template, &["cart_id"]).unwrap();
        template.path(&["a/b é%".as_bytes().to_vec()], body.as_bytes())
    }

    #[test]
    fn values_are_encoded_into_their_segments() {
        for (template, body, expected) in [
            ("/refunds/{body:/id}", r#"{"id":"re_1"}"#, "/refunds/re_1"),
            ("/refunds/{body:/id}", r#"{"id":9007199254740993}"#, "/refunds/9007199254740993"),
            ("/refunds/{body:/id}", r#"{"id":"a/b?c#d%:é\u00e9 "}"#, "/refunds/a%2Fb%3Fc%23d%25%3A%C3%A9%C3%A9%20"),
            ("/refunds/re-{body:/n}.json", r#"{"n":-7}"#, "/refunds/re--7.json"),
            ("/{body:/a/0/b~1c}/{body:/d}", r#"{"d":"x","a":[{"b/c":"y"}]}"#, "/y/x"),
            ("/carts/{cart_id}/orders/{body:/id}", r#"{"id":"1"}"#, "/carts/a%2Fb%20%C3%A9%25/orders/1"),
            ("/carts/{cart_id}", "no body is read", "/carts/a%2Fb%20%C3%A9%25"),
            ("/last", "", "/last"),
        ] {
            assert_eq!(path(template, body).as_deref(), Ok(expected), "{template} {body}");
        }
    }

    #[test]
    fn what_makes_no_segment_leaves_the_answer_as_it_is() {
        use Unmapped::{MemberMissing, MemberUnusable, NotJson};
        for (template, body, why) in [
            ("/r/{body:/id}", "", NotJson),
            ("/r/{body:/id}", r#"{"id":"a"} x"#, NotJson),
            ("/r/{body:/id}", r#"{"ID":"a"}"#, MemberMissing),
            ("/r/{body:/id}", r#"["a"]"#, MemberMissing),
            ("/r/{body:/id}", r#"{"id":null}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":true}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":{}}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":1.0}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":1e3}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":"a","id":"a"}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":""}"#, MemberUnusable),
            ("/r/re-{body:/id}", r#"{"id":""}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":"."}"#, MemberUnusable),
            ("/r/.{body:/id}", r#"{"id":"."}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":"a/../b"}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":"a\\b"}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":"\u0000"}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":"a\n"}"#, MemberUnusable),
            ("/r/{body:/id}", r#"{"id":"\ud800"}"#, MemberUnusable),
        ] {
            assert_eq!(path(template, body), Err(why), "{template} {body}");
        }
        let long = |length| path("/r/{body:/id}", &format!("{{\"id\":\"{}\"}}", "a".repeat(length)));
        assert!(long(MAX_LOCATION - 3).is_ok() && long(MAX_LOCATION - 2) == Err(MemberUnusable));
    }
}
