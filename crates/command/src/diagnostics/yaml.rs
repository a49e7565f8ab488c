//! Reads YAML into a tree with the place of each value.

use crate::lints::diagnostics::tree::{NodeContent, SpannedMember, SpannedNode};
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many values a document can have, those of anchors and their copies among them.
const MAX_NODES: usize = 2_000_000;

/// How deep values can stand in each other: what goes through the tree calls itself for each level.
const MAX_DEPTH: usize = 256;

/// Why a text is no YAML, and the byte where it shows.
#[derive(Debug)]
pub(crate) struct YamlError {
    /// The byte
    pub(crate) at: usize,
    /// The reason
    pub(crate) message: String,
}

/// A collection that is being read.
struct Open {
    start: usize,
    anchor: usize,
    content: NodeContent,
    /// The name of the member whose value comes next
    name: Option<(String, Range<usize>)>,
}

/// Reads the first document of a text.
///
/// # Errors
/// The text is no YAML, is empty, has more than [`MAX_NODES`] values, or more than [`MAX_DEPTH`] of them in each other.
pub(crate) fn read(text: &str) -> Result<SpannedNode, YamlError> {
    let mut parser = Parser::new_from_str(text);
    next(&mut || parser.next_event(), text)
}

/// Reads the documents of a text up to the first that cannot be read.
pub(crate) fn documents(text: &str) -> Vec<SpannedNode> {
    let mut parser = Parser::new_from_str(text);
    let mut events = || parser.next_event();
    std::iter::from_fn(|| next(&mut events, text).ok()).collect()
}

/// Events of a parser.
type Events<'e, 't> = dyn FnMut() -> Option<Result<(Event<'t>, Span), ScanError>> + 'e;

fn next(events: &mut Events<'_, '_>, text: &str) -> Result<SpannedNode, YamlError> {
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: BTreeMap<usize, SpannedNode> = BTreeMap::new();
    let mut count = 0;
    while let Some(event) = events() {
        let (event, span) = event.map_err(|error| {
            let at = error.marker().byte_offset().unwrap_or_default().min(text.len());
            YamlError { at, message: format!("not YAML: {}", error.info()) }
        })?;
        let range = bytes(&span, text);
        if open.len() > MAX_DEPTH {
            return Err(YamlError {
                at: range.start,
                message: format!("more than {MAX_DEPTH} values stand in each other"),
            });
        }
        let (done, anchor) = match event {
            Event::Scalar(value, style, anchor, _) => {
                let is_name = open
                    .last()
                    .is_some_and(|parent| parent.name.is_none() && matches!(parent.content, NodeContent::Map(_)));
                let boolean = boolean(&value).filter(|_| !is_name && matches!(style, ScalarStyle::Plain));
                let value = boolean.map_or_else(|| value.into_owned(), |boolean| boolean.to_string());
                (SpannedNode { span: range, content: NodeContent::Scalar(value) }, anchor)
            }
            Event::SequenceStart(_, anchor, ..) => {
                open.push(Open { start: range.start, anchor, content: NodeContent::List(Vec::new()), name: None });
                continue;
            }
            Event::MappingStart(_, anchor, ..) => {
                open.push(Open { start: range.start, anchor, content: NodeContent::Map(Vec::new()), name: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(closed) = open.pop() else { continue };
                (SpannedNode { span: closed.start..range.end, content: closed.content }, closed.anchor)
            }
            Event::Alias(id) => {
                let Some(anchored) = anchors.get(&id) else { continue };
                count += size(anchored);
                (SpannedNode { span: range, content: anchored.content.clone() }, 0)
            }
            _ => continue,
        };
        // The value of an anchor is kept beside the document.
        count += if anchor > 0 { 1 + size(&done) } else { 1 };
        if count > MAX_NODES {
            return Err(YamlError { at: done.span.start, message: "the document is too large".to_owned() });
        }
        if anchor > 0 {
            anchors.insert(anchor, done.clone());
        }
        let Some(parent) = open.last_mut() else { return Ok(done) };
        match (&mut parent.content, parent.name.take()) {
            (NodeContent::List(items), _) => items.push(done),
            (NodeContent::Map(members), Some((name, name_span))) => {
                members.push(SpannedMember { name, name_span, value: done });
            }
            (NodeContent::Map(_), None) => {
                parent.name = Some((done.text().unwrap_or_default().to_owned(), done.span));
            }
            (NodeContent::Scalar(_), _) => {}
        }
    }
    Err(YamlError { at: 0, message: "the file is empty".to_owned() })
}

/// Whether a text that [`read`] has read has further documents behind the first one.
pub(crate) fn has_more(text: &str) -> bool {
    let events = std::iter::from_fn({
        let mut parser = Parser::new_from_str(text);
        move || parser.next_event()
    });
    let starts = events.map_while(Result::ok).filter(|(event, _)| matches!(event, Event::DocumentStart(..)));
    starts.take(2).count() > 1
}

/// A boolean as yaml-cpp, the parser of Envoy, reads it (YAML 1.1): in lower case, in capitals, or with one capital.
fn boolean(text: &str) -> Option<bool> {
    let rest = text.get(1..)?;
    let is_upper = |text: &str| text.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_lower = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
    if !(is_lower(rest) || is_upper(text)) {
        return None;
    }
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" | "on" => Some(true),
        "n" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

fn bytes(span: &Span, text: &str) -> Range<usize> {
    let start = span.start.byte_offset().unwrap_or_default().min(text.len());
    start..span.end.byte_offset().unwrap_or_default().clamp(start, text.len())
}

/// The number of values in a value.
fn size(node: &SpannedNode) -> usize {
    match &node.content {
        NodeContent::Scalar(_) => 1,
        NodeContent::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        NodeContent::Map(members) => 1 + members.iter().map(|member| size(&member.value)).sum::<usize>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_places_whatever_the_style() {
        let text = "a: &x {b: [1, \"zwei\"]}\nc: *x\n\"ä\":\n- d: |\n    line\n  e: ~\n";
        let tree = read(text).unwrap();
        assert_eq!(text.get(tree.pointed("/a/b/1")), Some("\"zwei\""));
        assert_eq!(tree.text_at(&["c"]), None);
        assert_eq!(tree.at(&["c", "b"]).map(|list| list.items().len()), Some(2));
        assert_eq!(text.get(tree.pointed("/ä/0/e")), Some("~"));
        assert_eq!(tree.get("ä").unwrap().items()[0].text_at(&["d"]), Some("line\n"));
        assert_eq!(text.get(tree.pointed("/ä")), Some("\"ä\""));
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        assert!(read("a: [1, 2").is_err());
        assert!(read("").unwrap_err().message.contains("empty"));
        assert_eq!(read("{\"a\": {\"bC\": 1}}").unwrap().text_at(&["a", "b_c"]), Some("1"));
    }

    #[test]
    fn booleans_are_those_of_yaml_cpp() {
        let tree = read("a: [y, Yes, TRUE, On, 'yes', yEs, n, OFF]\ny: no\n").unwrap();
        let read: Vec<_> = tree.get("a").unwrap().items().iter().filter_map(SpannedNode::text).collect();
        assert_eq!(read, ["true", "true", "true", "true", "yes", "yEs", "false", "false"]);
        assert_eq!(tree.text_at(&["y"]), Some("false"));
    }

    #[test]
    fn values_that_stand_too_deep_are_an_error() {
        for (opening, closing) in [("- ", ""), ("[", "]"), ("{a: ", "}")] {
            let text = opening.repeat(100_000) + "x" + &closing.repeat(100_000);
            assert!(read(&text).is_err(), "{opening}");
        }
    }

    /// The value of each anchor is kept, so it counts as often as anchors stand around it.
    #[test]
    fn anchors_around_anchors_do_not_fill_the_memory() {
        let open: String = (0..100).map(|number| format!("&a{number} [")).collect();
        let text = format!("{open}{}{}", vec!["x"; 30_000].join(", "), "]".repeat(100));
        assert!(read(&text).is_err_and(|error| error.message.contains("too large")));
    }

    #[test]
    fn aliases_of_aliases_do_not_fill_the_memory() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let list = vec![format!("*a{}", level - 1); 10].join(", ");
            text += &format!("a{level}: &a{level} [{list}]\n");
        }
        assert!(read(&text).unwrap_err().message.contains("too large"));
    }
}
