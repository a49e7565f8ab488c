//! Where the parts of a signed text end. Whoever has seen a delivery may cut its signed text into other parts and send
//! those: the signature fits them too. So a signed text has to fall apart in one way only, or its key has to be made of
//! the whole of it (`docs/decisions/0006`).
//!
//! What tells where a part ends:
//!
//! - A timestamp: no text in front of a valid date is another valid date, and no end of one. Digits are as many as the
//!   time has, since one digit fewer or more is outside the window; a zero does not stand in front.
//! - A method: no byte of a URL's `://`, and no `/`, is one of a method.
//! - A body that is a JSON object or array, at the end of a text: no end of such a text is another one. The bracket that
//!   closes the whole has none that opens it there, or stands inside a string that is never closed.
//! - A header: it does not hold the first byte of the literal text behind it, or the last of that before it. A header
//!   that does is believed only with a body that is a JSON object or array, where that alone tells the parts apart; and
//!   one that does not only if no such body begins later, behind another such literal text.

use super::identifier::Source;
use super::json;
use super::scheme::{Place, Scheme};
use super::template::Part;
use super::{Delivery, Refused};
use crate::headers::is_token_byte;
use crate::json::lex::skip_space;
use crate::policy::decode::Issues;

/// What no host lets into a header or a URL.
const LINE_ENDS: [char; 3] = ['\n', '\r', '\0'];

/// How a file says that the parts of a template are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundaries {
    /// By the timestamp
    Timestamp,
    /// By the body, which has to be a JSON object or array
    JsonBody,
    /// Not at all: keys are made of the whole signed text
    Absent,
}

/// Two parts of which nobody can say where the first ends.
pub(super) type Blurred<'t> = (&'t Part, &'t Part);

impl Scheme {
    /// Finds out how the parts of the template are told apart; what is wrong with that goes to `issues`. `identifiers`
    /// are the places of those that deliveries of this scheme have.
    #[inline(never)]
    pub(super) fn settle<'p>(
        &mut self,
        pointer: &str,
        identifiers: impl Iterator<Item = &'p Place>,
        issues: &mut Issues,
    ) {
        let at = |member: &str| format!("{pointer}/{member}");
        let template: Vec<&Part> = self.template.iter().collect();
        if self.boundaries == Some(Boundaries::Absent) {
            let without_form: Vec<&Part> = template.into_iter().filter(|part| **part != Part::SortedForm).collect();
            let url_is_known =
                self.body_hash.is_some() && self.ends(&without_form, false).is_ok_and(|ends| ends.is_empty());
            for (index, place) in identifiers.enumerate() {
                let fits = match &place.source {
                    Source::Form(_) => place.signed,
                    Source::Json { .. } => url_is_known,
                    Source::Header(_) => url_is_known && !place.signed,
                };
                if !fits {
                    let message = format!(
                        "with `none` a key is made of the whole signed text: identifier {index} has to be in the signed form, \
                         or in JSON or a header beside a `body_hash`"
                    );
                    issues.add(at("boundaries"), message);
                }
            }
            return;
        }
        if self.boundaries == Some(Boundaries::JsonBody) && !self.template.contains(&Part::Body) {
            issues.add(at("boundaries"), "`json_body` needs `{body}` in the template");
            return;
        }
        match (self.boundaries, self.side_by_side(), self.ends(&template, self.boundaries == Some(Boundaries::JsonBody))) {
            (None, Some((left, right)), _) => issues.add(
                at("template"),
                format!(
                    "`{left}` and `{right}` stand side by side: say with `boundaries` what tells where one ends \
                     (`timestamp`, `json_body`), or `none`: then keys are made of the whole signed text"
                ),
            ),
            (None, None, Err((left, right))) => issues.add(
                at("template"),
                format!(
                    "`{left}` can hold `{right}`, so that one signature fits several deliveries: say with `boundaries` what \
                     tells where it ends (`json_body`), or `none`: then keys are made of the whole signed text"
                ),
            ),
            (Some(_), _, Err((left, right))) => {
                issues.add(at("boundaries"), format!("this does not tell where `{left}` ends and `{right}` begins"));
            }
            (_, _, Ok(ends)) => self.ends = ends,
        }
    }

    /// The parts that stand side by side although one could be taken for a piece of the other, where the file does not
    /// say how they are told apart.
    pub(super) fn side_by_side(&self) -> Option<Blurred<'_>> {
        let mut pairs = self.template.iter().zip(self.template.iter().skip(1));
        pairs.find(|(left, right)| {
            let literal = [left, right].iter().any(|part| matches!(part, Part::Literal(_)));
            !literal && !ends_before(left, right)
        })
    }

    /// Which bytes which parts must not hold, so that `template` falls apart in one way only; or else two parts that
    /// cannot be told apart.
    pub(super) fn ends<'t>(&self, template: &[&'t Part], json_body: bool) -> Result<Vec<(usize, u8)>, Blurred<'t>> {
        let (mut from, mut to) = (0, template.len());
        let mut ends = Vec::new();
        while let Some([first, middle @ .., last]) = template.get(from..to) {
            let (second, before) = match middle {
                [] => (*last, *first),
                [one] => (*one, *one),
                [second, .., before] => (*second, *before),
            };
            if self.is_known(first) || ends_before(first, second) {
                from += 1;
            } else if self.is_known(last) || begins_behind(before, last) || (json_body && **last == Part::Body) {
                to -= 1;
            } else if let (true, Some(byte)) = (is_header(first), first_byte(second)) {
                ends.push((from, byte));
                from += 1;
            } else if let (true, Some(byte)) = (is_header(last), last_byte(before)) {
                to -= 1;
                ends.push((to, byte));
            } else {
                return Err((first, second));
            }
        }
        Ok(ends)
    }

    /// Whether a part has one length in front of, and behind, whatever else.
    fn is_known(&self, part: &Part) -> bool {
        matches!(part, Part::Literal(_)) || self.is_timestamp(part)
    }

    /// Whether a part of a delivery is one that the template can tell from its neighbours.
    pub(super) fn check_part(&self, index: usize, part: &Part, text: &[u8], body: &[u8]) -> Result<(), Refused> {
        let fits = match part {
            Part::Method => text.iter().copied().all(is_token_byte),
            _ if self.boundaries.is_some() && self.is_timestamp(part) => !matches!(text, [b'0', _, ..]),
            _ => true,
        };
        let mut ends = self.ends.iter().filter(|(at, byte)| *at == index && text.contains(byte));
        if fits && (ends.next().is_none() || self.is_told_by_body(body)) {
            Ok(())
        } else {
            Err(Refused::MalformedHeader)
        }
    }

    /// Whether the body alone tells where it begins, and all other parts where they end.
    fn is_told_by_body(&self, body: &[u8]) -> bool {
        let template: Vec<&Part> = self.template.iter().collect();
        let alone = self.ends(&template, true).is_ok_and(|ends| ends.is_empty());
        alone && self.before_body().is_some() && is_json(body)
    }

    /// The text of the template in front of the body.
    fn before_body(&self) -> Option<&str> {
        let mut pairs = self.template.iter().zip(self.template.iter().skip(1));
        match pairs.find(|(_, part)| **part == Part::Body)? {
            (Part::Literal(text), _) => Some(text),
            _ => None,
        }
    }

    /// Whether the body is one that tells where it begins, where nothing else does, and none that could begin later
    /// otherwise.
    pub(super) fn check_boundaries(&self, delivery: &Delivery<'_>) -> Result<(), Refused> {
        let needs_json = match self.boundaries {
            Some(Boundaries::JsonBody) => true,
            _ if self.ends.is_empty() || is_json(delivery.body) => false,
            _ => self.before_body().is_some_and(|text| has_json_behind(delivery.body, text.as_bytes())),
        };
        if needs_json && !is_json(delivery.body) { Err(Refused::BodyNotJson) } else { Ok(()) }
    }
}

/// Whether an end of `body` that stands behind `literal` is a JSON object or array.
fn has_json_behind(body: &[u8], literal: &[u8]) -> bool {
    let starts = body.windows(literal.len().max(1)).enumerate().filter(|(_, part)| *part == literal);
    starts.filter_map(|(at, _)| body.get(at + literal.len()..)).any(is_json)
}

/// Whether no byte of a part can be the first of the one behind it.
fn ends_before(left: &Part, right: &Part) -> bool {
    match (left, right) {
        (Part::Method, Part::Url | Part::HubspotUrl | Part::Path) => true,
        (Part::Method, Part::Literal(text)) => text.bytes().next().is_some_and(|byte| !is_token_byte(byte)),
        (Part::Header(_) | Part::Id | Part::Url | Part::HubspotUrl | Part::Path, Part::Literal(text)) => {
            text.starts_with(LINE_ENDS)
        }
        _ => false,
    }
}

/// Whether no byte of a part can be the last of the one before it.
fn begins_behind(left: &Part, right: &Part) -> bool {
    match (left, right) {
        (Part::Literal(text), Part::Header(_) | Part::Id | Part::Url | Part::HubspotUrl | Part::Path) => {
            text.ends_with(LINE_ENDS)
        }
        _ => false,
    }
}

/// Whether what a part may hold is for the sender to keep to.
const fn is_header(part: &Part) -> bool {
    matches!(part, Part::Header(_) | Part::Id | Part::Method)
}

fn first_byte(part: &Part) -> Option<u8> {
    if let Part::Literal(text) = part { text.bytes().next() } else { None }
}

fn last_byte(part: &Part) -> Option<u8> {
    if let Part::Literal(text) = part { text.bytes().next_back() } else { None }
}

/// Whether a text is one JSON object or array.
fn is_json(text: &[u8]) -> bool {
    matches!(skip_space(text), [b'{' | b'[', ..]) && json::find(text, &[]).is_ok()
}
