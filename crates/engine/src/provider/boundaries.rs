//! The boundaries between the parts of a signed text. Someone who has seen a delivery can move the boundaries (for
//! example between the timestamp and the body) and send the new parts: the same signature fits them. So a signed text
//! must have one division into parts only, or its key has to be a digest of the whole text (`docs/decisions/0006`).
//!
//! The end of a part is known in these cases:
//!
//! - A timestamp: no beginning and no end of a valid date is another valid date. A number has a fixed count of digits,
//!   since one digit fewer or more is outside of the window, and it has no leading zero.
//! - A method: it contains neither `:` nor `/`, so it ends where a URL or a path begins.
//! - A body that is a JSON object or array, at the end of a text: no proper suffix of it is another one. In a suffix,
//!   the last closing bracket has no opening bracket, or is inside a string that has no end. Behind a URL the body may also be
//!   empty, if the URL does not end in a closing bracket: then no suffix of the URL is such a body.
//! - A header: it must not contain the first byte of the literal text after it, or the last byte of the literal text
//!   before it.

use super::identifier::{IdentifierPlace, IdentifierSource};
use super::scheme::{Boundaries, Scheme};
use super::template::TemplatePart;
use super::{Delivery, VerifyError};
use crate::headers::is_token_byte;
use crate::json::cursor::Issues;
use crate::json::lex::skip_space;
use crate::json::scan;

/// Characters that no host accepts in a header or a URL.
const LINE_ENDS: [char; 3] = ['\n', '\r', '\0'];

/// Two parts without a known boundary between them.
pub(super) type AmbiguousParts<'t> = (&'t TemplatePart, &'t TemplatePart);

impl Scheme {
    /// Computes the boundaries of the template's parts, and adds ambiguous ones to `issues`. `identifiers` are the
    /// places of the identifiers in deliveries of this scheme.
    #[inline(never)]
    pub(super) fn compute_boundaries<'p>(
        &mut self,
        pointer: &str,
        identifiers: impl Iterator<Item = &'p IdentifierPlace>,
        issues: &mut Issues,
    ) {
        let at = |member: &str| format!("{pointer}/{member}");
        let template: Vec<&TemplatePart> = self.template.iter().collect();
        if self.boundaries == Some(Boundaries::Absent) {
            let without_form: Vec<&TemplatePart> =
                template.into_iter().filter(|part| **part != TemplatePart::SortedForm).collect();
            let url_is_known = self.body_hash.is_some()
                && self.forbidden_bytes(&without_form, false).is_ok_and(|ends| ends.is_empty());
            for (index, place) in identifiers.enumerate() {
                let fits = match &place.source {
                    IdentifierSource::Form(_) => place.signed,
                    IdentifierSource::Json { .. } => url_is_known,
                    IdentifierSource::Header(_) => url_is_known && !place.signed,
                };
                if !fits {
                    let message = format!(
                        "with `none`, keys are made of the whole signed text: identifier {index} has to be in the signed \
                         form, or with a `body_hash` in JSON or a header"
                    );
                    issues.add(at("boundaries"), message);
                }
            }
            return;
        }
        if self.boundaries == Some(Boundaries::JsonBody) && !self.template.contains(&TemplatePart::Body) {
            issues.add(at("boundaries"), "`json_body` needs `{body}` in the template");
            return;
        }
        let forbidden_bytes = self.forbidden_bytes(&template, self.boundaries == Some(Boundaries::JsonBody));
        match (self.boundaries, self.side_by_side(), forbidden_bytes) {
            (None, Some((left, right)), _) => issues.add(
                at("template"),
                format!(
                    "`{left}` and `{right}` stand side by side: write into `boundaries` what shows where the first one \
                     ends (`timestamp`, `json_body`), or write `none`, with which keys are made of the whole signed text"
                ),
            ),
            (None, None, Err((left, right))) => issues.add(
                at("template"),
                format!(
                    "`{left}` can hold `{right}`, so one signature fits several deliveries: write into `boundaries` what \
                     shows where it ends (`json_body`), or write `none`, with which keys are made of the whole signed \
                     text"
                ),
            ),
            (Some(_), _, Err((left, right))) => {
                issues.add(at("boundaries"), format!("this value does not show where `{left}` ends and `{right}` begins: \
                                                      choose another one"));
            }
            (_, _, Ok(bytes)) => self.forbidden_bytes = bytes,
        }
    }

    /// The first two neighbours without literal text between them whose boundary is not known.
    pub(super) fn side_by_side(&self) -> Option<AmbiguousParts<'_>> {
        let mut pairs = self.template.iter().zip(self.template.iter().skip(1));
        pairs.find(|(left, right)| {
            let literal = [left, right].iter().any(|part| matches!(part, TemplatePart::Literal(_)));
            !literal && !cannot_contain_start_of(left, right)
        })
    }

    /// The bytes that parts of `template` must not contain, each with the index of the part, so that there is one
    /// division only. `Err`: two parts that cannot be separated.
    pub(super) fn forbidden_bytes<'t>(
        &self,
        template: &[&'t TemplatePart],
        json_body: bool,
    ) -> Result<Vec<(usize, u8)>, AmbiguousParts<'t>> {
        let (mut from, mut to) = (0, template.len());
        let mut ends = Vec::new();
        while let Some([first, middle @ .., last]) = template.get(from..to) {
            let (second, before) = match middle {
                [] => (*last, *first),
                [one] => (*one, *one),
                [second, .., before] => (*second, *before),
            };
            if self.is_known(first) || cannot_contain_start_of(first, second) {
                from += 1;
            } else if self.is_known(last)
                || cannot_contain_end_of(before, last)
                || (json_body && **last == TemplatePart::Body)
            {
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

    /// Whether a part has a fixed length.
    fn is_known(&self, part: &TemplatePart) -> bool {
        matches!(part, TemplatePart::Literal(_)) || self.is_timestamp(part)
    }

    /// Checks that a part of a delivery can be separated from its neighbours.
    pub(super) fn check_part(&self, index: usize, part: &TemplatePart, text: &[u8]) -> Result<(), VerifyError> {
        let fits = match part {
            TemplatePart::Method => text.iter().copied().all(is_token_byte),
            _ if self.boundaries.is_some() && self.is_timestamp(part) => !matches!(text, [b'0', _, ..]),
            _ => true,
        };
        let mut ends = self.forbidden_bytes.iter().filter(|(at, byte)| *at == index && text.contains(byte));
        if fits && ends.next().is_none() { Ok(()) } else { Err(VerifyError::MalformedHeader) }
    }

    /// Checks that the body is JSON where the boundaries need that.
    pub(super) fn check_boundaries(&self, delivery: &Delivery<'_>) -> Result<(), VerifyError> {
        if self.boundaries != Some(Boundaries::JsonBody) || is_json(delivery.body.bytes()) {
            return Ok(());
        }
        let is_between = delivery.body.is_empty()
            && self.has_url_before_body()
            && !matches!(delivery.url.trim_ascii_end(), [.., b'}' | b']']);
        if is_between { Ok(()) } else { Err(VerifyError::BodyNotJson) }
    }

    fn has_url_before_body(&self) -> bool {
        let mut pairs = self.template.iter().zip(self.template.iter().skip(1));
        let is_url = |part: &TemplatePart| matches!(part, TemplatePart::Url | TemplatePart::HubspotUrl);
        pairs.any(|(before, part)| *part == TemplatePart::Body && is_url(before))
    }
}

/// Whether the left part cannot contain the first byte of the right part.
fn cannot_contain_start_of(left: &TemplatePart, right: &TemplatePart) -> bool {
    match (left, right) {
        (TemplatePart::Method, TemplatePart::Url | TemplatePart::HubspotUrl | TemplatePart::Path) => true,
        (TemplatePart::Method, TemplatePart::Literal(text)) => {
            text.bytes().next().is_some_and(|byte| !is_token_byte(byte))
        }
        (
            TemplatePart::Header(_)
            | TemplatePart::Id
            | TemplatePart::Url
            | TemplatePart::HubspotUrl
            | TemplatePart::Path,
            TemplatePart::Literal(text),
        ) => text.starts_with(LINE_ENDS),
        _ => false,
    }
}

/// Whether the right part cannot contain the last byte of the left part.
fn cannot_contain_end_of(left: &TemplatePart, right: &TemplatePart) -> bool {
    match (left, right) {
        (
            TemplatePart::Literal(text),
            TemplatePart::Header(_)
            | TemplatePart::Id
            | TemplatePart::Url
            | TemplatePart::HubspotUrl
            | TemplatePart::Path,
        ) => text.ends_with(LINE_ENDS),
        _ => false,
    }
}

/// Whether the sender chooses the content of a part, so that it has to be checked.
const fn is_header(part: &TemplatePart) -> bool {
    matches!(part, TemplatePart::Header(_) | TemplatePart::Id | TemplatePart::Method)
}

fn first_byte(part: &TemplatePart) -> Option<u8> {
    if let TemplatePart::Literal(text) = part { text.bytes().next() } else { None }
}

fn last_byte(part: &TemplatePart) -> Option<u8> {
    if let TemplatePart::Literal(text) = part { text.bytes().next_back() } else { None }
}

/// Whether a text is one JSON object or array.
fn is_json(text: &[u8]) -> bool {
    matches!(skip_space(text), [b'{' | b'[', ..]) && scan::find(text, &[]).is_ok()
}
