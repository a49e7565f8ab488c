//! Reads a JSON document and collects its problems, each with its JSON pointer (RFC 6901), so that one start reports
//! all of them.
//!
//! Every worker compiles this code at start, so it is kept small: most generic functions are thin wrappers around
//! functions that are not generic.

use crate::json::Json;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

/// One problem of a policy document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The JSON pointer of the problem; empty for the whole document.
    pub pointer: String,
    /// What is wrong and what to write instead, in one line.
    pub message: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = if self.pointer.is_empty() { "(document)" } else { &self.pointer };
        write!(f, "{}: {}", one_line(pointer), self.message)
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub struct Issues(pub Vec<Issue>);

impl Issues {
    /// Adds a problem.
    #[inline(never)]
    pub fn add<'t>(&mut self, pointer: impl Into<Cow<'t, str>>, message: impl Into<Cow<'t, str>>) {
        self.push(pointer.into(), message.into());
    }

    #[inline(never)]
    fn push(&mut self, pointer: Cow<'_, str>, message: Cow<'_, str>) {
        self.0.push(Issue { pointer: pointer.into_owned(), message: one_line(&message) });
    }
}

/// Escapes control characters, so that a document cannot forge log lines.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.push(char);
        }
    }
    line
}

/// A value and its JSON pointer.
#[derive(Debug, Clone)]
pub struct JsonCursor<'j> {
    json: &'j Json<'j>,
    /// The JSON pointer of the value; empty below [`JsonCursor::root_without_pointers`].
    pub pointer: String,
    has_pointers: bool,
}

/// An object and its JSON pointer.
#[derive(Debug, Clone)]
pub struct ObjectCursor<'j> {
    members: &'j [(Cow<'j, str>, Json<'j>)],
    /// The JSON pointer of the object; empty below [`JsonCursor::root_without_pointers`].
    pub pointer: String,
    has_pointers: bool,
}

impl<'j> JsonCursor<'j> {
    /// The document's root.
    pub const fn root(json: &'j Json<'j>) -> Self {
        Self { json, pointer: String::new(), has_pointers: true }
    }

    /// The root of a document that is read for the first time. Only problems need pointers, and to make those of 10,000
    /// routes takes longer than to read the routes. So a document is read without them, and read again from
    /// [`JsonCursor::root`] if it has problems.
    pub const fn root_without_pointers(json: &'j Json<'j>) -> Self {
        Self { json, pointer: String::new(), has_pointers: false }
    }

    /// The value itself.
    pub const fn json(&self) -> &'j Json<'j> {
        self.json
    }

    fn unexpected<T>(&self, wanted: &str, issues: &mut Issues) -> Option<T> {
        self.refuse(format!("expected {wanted}, found {}", self.json.kind()), issues);
        None
    }

    #[inline(never)]
    fn refuse(&self, message: String, issues: &mut Issues) {
        issues.add(&self.pointer, message);
    }

    /// The value as an object whose members are all among `known`.
    #[inline(never)]
    pub fn fields(&self, known: &[&str], issues: &mut Issues) -> Option<ObjectCursor<'j>> {
        let fields = self.map(issues)?;
        for (name, _) in fields.members {
            if !known.contains(&&**name) {
                let hint = match nearest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the known members are {}", quoted(known)),
                };
                issues.add(child(&self.pointer, name), format!("unknown member `{name}`; {hint}"));
            }
        }
        Some(fields)
    }

    /// The value as an object with any member names.
    #[inline(never)]
    pub fn map(&self, issues: &mut Issues) -> Option<ObjectCursor<'j>> {
        match self.json {
            Json::Object(members) => {
                Some(ObjectCursor { members, pointer: self.pointer.clone(), has_pointers: self.has_pointers })
            }
            _ => self.unexpected("an object", issues),
        }
    }

    /// The value as a string.
    #[inline(never)]
    pub fn text(&self, issues: &mut Issues) -> Option<&'j str> {
        match self.json {
            Json::String(text) => Some(text),
            _ => self.unexpected("a string", issues),
        }
    }

    /// The value as a string that `parse` accepts; `parse` says what to change.
    pub fn parse<T>(&self, issues: &mut Issues, parse: impl Fn(&'j str) -> Result<T, String>) -> Option<T> {
        self.parse_with(issues, &parse)
    }

    #[inline(never)]
    fn parse_with<T>(&self, issues: &mut Issues, parse: &dyn Fn(&'j str) -> Result<T, String>) -> Option<T> {
        match parse(self.text(issues)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.refuse(message, issues);
                None
            }
        }
    }

    /// The value as one of a few words.
    pub fn choice<T: Copy>(&self, words: &[(&str, T)], issues: &mut Issues) -> Option<T> {
        let index = self.choice_of(&mut words.iter().map(|(word, _)| *word), issues)?;
        words.get(index).map(|(_, value)| *value)
    }

    /// The index of the value among a few words.
    #[inline(never)]
    fn choice_of(&self, words: &mut dyn Iterator<Item = &str>, issues: &mut Issues) -> Option<usize> {
        let text = self.text(issues)?;
        let words: Vec<&str> = words.collect();
        let found = words.iter().position(|word| *word == text);
        if found.is_none() {
            let near = nearest(text, &words).map(did_you_mean).unwrap_or_default();
            self.refuse(format!("expected one of {}, found `{text}`{near}", quoted(&words)), issues);
        }
        found
    }

    /// The value as `true` or `false`.
    #[inline(never)]
    pub fn boolean(&self, issues: &mut Issues) -> Option<bool> {
        match self.json {
            Json::Bool(value) => Some(*value),
            _ => self.unexpected("true or false", issues),
        }
    }

    /// The value as an integer within bounds.
    #[inline(never)]
    pub fn integer(&self, bounds: RangeInclusive<u64>, issues: &mut Issues) -> Option<u64> {
        match self.json {
            Json::Number(_) => {
                let value = self.json.integer().filter(|value| bounds.contains(value));
                if value.is_some() {
                    return value;
                }
                self.refuse(format!("expected an integer from {} to {}", bounds.start(), bounds.end()), issues);
                None
            }
            _ => self.unexpected("an integer", issues),
        }
    }

    /// The value's items.
    #[inline(never)]
    pub fn items(&self, issues: &mut Issues) -> Option<Vec<JsonCursor<'j>>> {
        match self.json {
            Json::Array(items) => {
                let has_pointers = self.has_pointers;
                let pointer = |index| if has_pointers { format!("{}/{index}", self.pointer) } else { String::new() };
                let items = items.iter().enumerate();
                Some(items.map(|(index, json)| JsonCursor { json, pointer: pointer(index), has_pointers }).collect())
            }
            _ => self.unexpected("an array", issues),
        }
    }

    /// The value as an array of strings that `parse` accepts. The others are left out, with an issue each.
    pub fn list<T>(&self, issues: &mut Issues, parse: impl Fn(&'j str) -> Result<T, String>) -> Option<Vec<T>> {
        self.list_with(issues, &parse)
    }

    #[inline(never)]
    fn list_with<T>(&self, issues: &mut Issues, parse: &dyn Fn(&'j str) -> Result<T, String>) -> Option<Vec<T>> {
        let mut list = Vec::new();
        for item in self.items(issues)? {
            list.extend(item.parse_with(issues, parse));
        }
        Some(list)
    }

    /// Whether the value is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self.json, Json::Null)
    }

    /// Whether the value is an object.
    pub const fn is_object(&self) -> bool {
        matches!(self.json, Json::Object(_))
    }

    /// Whether the value is a string.
    pub const fn is_text(&self) -> bool {
        matches!(self.json, Json::String(_))
    }

    /// Whether the value is an array.
    pub const fn is_array(&self) -> bool {
        matches!(self.json, Json::Array(_))
    }
}

impl<'j> ObjectCursor<'j> {
    /// The same object, or an empty one if it has only members out of `read`. To look for many absent members in an empty
    /// object takes next to no time.
    pub fn besides(self, read: &[&str]) -> Self {
        let has_others = self.members.iter().any(|(name, _)| !read.contains(&&**name));
        Self { members: if has_others { self.members } else { &[] }, ..self }
    }

    /// A member that may be absent.
    #[inline(never)]
    pub fn get(&self, name: &str) -> Option<JsonCursor<'j>> {
        let (_, json) = self.members.iter().find(|(member, _)| member == name)?;
        Some(self.member(name, json))
    }

    fn member(&self, name: &str, json: &'j Json<'j>) -> JsonCursor<'j> {
        let pointer = if self.has_pointers { child(&self.pointer, name) } else { String::new() };
        JsonCursor { json, pointer, has_pointers: self.has_pointers }
    }

    /// A required member.
    pub fn need(&self, name: &str, issues: &mut Issues) -> Option<JsonCursor<'j>> {
        self.need_or_advise(name, "", issues)
    }

    /// A required member; `advice` ends the message about a missing one and says what to write.
    #[inline(never)]
    pub fn need_or_advise(&self, name: &str, advice: &str, issues: &mut Issues) -> Option<JsonCursor<'j>> {
        let found = self.get(name);
        if found.is_none() {
            issues.add(self.pointer.clone(), format!("the member `{name}` is missing{advice}"));
        }
        found
    }

    /// An optional member, as a string that `parse` accepts ([`JsonCursor::parse`]).
    pub fn parse<T>(&self, name: &str, issues: &mut Issues, parse: impl Fn(&'j str) -> Result<T, String>) -> Option<T> {
        self.parse_with(name, issues, &parse)
    }

    #[inline(never)]
    fn parse_with<T>(
        &self,
        name: &str,
        issues: &mut Issues,
        parse: &dyn Fn(&'j str) -> Result<T, String>,
    ) -> Option<T> {
        self.get(name)?.parse_with(issues, parse)
    }

    /// A required member, as a string that `parse` accepts ([`JsonCursor::parse`]).
    pub fn need_parse<T>(
        &self,
        name: &str,
        issues: &mut Issues,
        parse: impl Fn(&'j str) -> Result<T, String>,
    ) -> Option<T> {
        self.need_parse_with(name, issues, &parse)
    }

    #[inline(never)]
    fn need_parse_with<T>(
        &self,
        name: &str,
        issues: &mut Issues,
        parse: &dyn Fn(&'j str) -> Result<T, String>,
    ) -> Option<T> {
        self.need(name, issues)?.parse_with(issues, parse)
    }

    /// An optional member, as one of a few words ([`JsonCursor::choice`]).
    #[inline(never)]
    pub fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)], issues: &mut Issues) -> Option<T> {
        self.get(name)?.choice(words, issues)
    }

    /// An optional member, as `true` or `false`.
    #[inline(never)]
    pub fn boolean(&self, name: &str, issues: &mut Issues) -> Option<bool> {
        self.get(name)?.boolean(issues)
    }

    /// An optional member, as an integer within bounds.
    #[inline(never)]
    pub fn integer(&self, name: &str, bounds: RangeInclusive<u64>, issues: &mut Issues) -> Option<u64> {
        self.get(name)?.integer(bounds, issues)
    }

    /// An optional member, as an array of strings that `parse` accepts ([`JsonCursor::list`]).
    pub fn list<T>(
        &self,
        name: &str,
        issues: &mut Issues,
        parse: impl Fn(&'j str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        self.list_of(name, issues, &parse)
    }

    #[inline(never)]
    fn list_of<T>(
        &self,
        name: &str,
        issues: &mut Issues,
        parse: &dyn Fn(&'j str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        self.get(name)?.list_with(issues, parse)
    }

    /// All members, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&'j str, JsonCursor<'j>)> + '_ {
        self.members.iter().map(|(name, json)| (&**name, self.member(name, json)))
    }
}

/// The pointer of a member (RFC 6901 section 3).
#[inline(never)]
pub(crate) fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn quoted(words: &[&str]) -> String {
    format!("`{}`", words.join("`, `"))
}

/// The end of a message about an unknown word: `; did you mean …?`, or nothing if no known word is near.
pub(crate) fn suggestion<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    suggestion_of(word, &mut known.into_iter())
}

#[inline(never)]
fn suggestion_of(word: &str, known: &mut dyn Iterator<Item = &str>) -> String {
    let known: Vec<&str> = known.collect();
    nearest(word, &known).map(did_you_mean).unwrap_or_default()
}

fn did_you_mean(near: &str) -> String {
    format!("; did you mean `{near}`?")
}

/// The known name that is at most two edits away, if any. The case of ASCII letters is no difference.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let bound = 2.min(name.chars().count() / 2);
    let folded = name.to_ascii_lowercase();
    let mut nearest = None;
    for known in known {
        let near = (distance(&folded, &known.to_ascii_lowercase()), *known);
        if near.0 <= bound && nearest.is_none_or(|best| near < best) {
            nearest = Some(near);
        }
    }
    nearest.map(|(_, known)| known)
}

/// Levenshtein's distance.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.chars().count()).collect();
    for (at, one) in left.chars().enumerate() {
        let mut diagonal = at;
        let mut previous = at + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(right.chars()) {
            let best = (diagonal + usize::from(one != other)).min(*cell + 1).min(previous + 1);
            diagonal = std::mem::replace(cell, best);
            previous = best;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_noted_with_its_pointer() {
        let json =
            Json::parse(br#"{"mdoe": 1, "zzzzz": 1, "a/b~": {"x": []}, "n": 7, "w": "z", "l": ["ok", 3, "no"]}"#)
                .unwrap();
        let mut issues = Issues::default();
        let root = JsonCursor::root(&json).fields(&["mode", "a/b~", "n", "w", "l"], &mut issues).unwrap();
        root.need("mode", &mut issues);
        root.get("a/b~").unwrap().map(&mut issues).unwrap().get("x").unwrap().text(&mut issues);
        root.get("n").unwrap().integer(0..=5, &mut issues);
        root.get("w").unwrap().choice(&[("x", 1), ("y", 2)], &mut issues);
        let list = root
            .get("l")
            .unwrap()
            .list(&mut issues, |text| if text == "ok" { Ok(text) } else { Err("not ok".to_owned()) });
        assert_eq!(list, Some(vec!["ok"]));
        let seen: Vec<String> = issues.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            [
                "/mdoe: unknown member `mdoe`; did you mean `mode`?",
                "/zzzzz: unknown member `zzzzz`; the known members are `mode`, `a/b~`, `n`, `w`, `l`",
                "(document): the member `mode` is missing",
                "/a~1b~0/x: expected a string, found an array",
                "/n: expected an integer from 0 to 5",
                "/w: expected one of `x`, `y`, found `z`",
                "/l/1: expected a string, found a number",
                "/l/2: not ok",
            ]
        );
    }

    #[test]
    fn distances_are_levenshtein_s() {
        for (left, right, far) in [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "abc", 0), ("mdoe", "mode", 2)] {
            assert_eq!(distance(left, right), far, "{left} {right}");
        }
    }
}
