//! JSON and YAML with the place of each value.

use std::ops::Range;

/// A value of a document and its bytes.
#[derive(Debug, Clone)]
pub struct SpannedNode {
    /// The bytes of the value
    pub span: Range<usize>,
    /// What it holds
    pub content: NodeContent,
}

/// What a value of a document holds.
#[derive(Debug, Clone)]
pub enum NodeContent {
    /// A text, a number, a boolean or null, as it is written, without quotes and escapes
    Scalar(String),
    /// An array
    List(Vec<SpannedNode>),
    /// An object
    Map(Vec<SpannedMember>),
}

/// A member of an object.
#[derive(Debug, Clone)]
pub struct SpannedMember {
    /// Its name
    pub name: String,
    /// The bytes of the name
    pub name_span: Range<usize>,
    /// Its value
    pub value: SpannedNode,
}

impl SpannedNode {
    /// The members of an object; none of another value.
    pub fn members(&self) -> &[SpannedMember] {
        match &self.content {
            NodeContent::Map(members) => members,
            _ => &[],
        }
    }

    /// The items of an array; none of another value.
    pub fn items(&self) -> &[SpannedNode] {
        match &self.content {
            NodeContent::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The member with this name of a protobuf message in JSON or YAML. Envoy takes `normalize_path` and `normalizePath`
    /// (the JSON mapping of Protocol Buffers), and the last one of several. `<<` merges another mapping (YAML 1.1).
    pub fn member(&self, name: &str) -> Option<&SpannedMember> {
        let members = self.members();
        members.iter().rev().find(|member| is_name(&member.name, name)).or_else(|| {
            let merged = members.iter().filter(|member| member.name == "<<");
            merged
                .flat_map(|member| std::iter::once(&member.value).chain(member.value.items()))
                .find_map(|map| map.members().iter().find(|member| is_name(&member.name, name)))
        })
    }

    /// The value of the member with this name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        Some(&self.member(name)?.value)
    }

    /// The value behind several names.
    pub fn at(&self, names: &[&str]) -> Option<&Self> {
        names.iter().try_fold(self, |node, name| node.get(name))
    }

    /// The text behind several names.
    pub fn text_at(&self, names: &[&str]) -> Option<&str> {
        self.at(names)?.text()
    }

    /// Calls `visit` with this value and each value below it, those above first.
    pub fn visit<'t>(&'t self, visit: &mut dyn FnMut(&'t Self)) {
        visit(self);
        self.members().iter().for_each(|member| member.value.visit(visit));
        self.items().iter().for_each(|item| item.visit(visit));
    }

    /// Whether the boolean behind several names is true. Envoy takes a text, too, where it expects a boolean;
    /// [`super::yaml::read`] has read the booleans of YAML.
    pub fn is_true(&self, names: &[&str]) -> bool {
        self.is_one_of(names, &["true", "t", "yes", "y", "1"])
    }

    /// Whether the boolean behind several names is false, and is there.
    pub fn is_false(&self, names: &[&str]) -> bool {
        self.is_one_of(names, &["false", "f", "no", "n", "0"])
    }

    fn is_one_of(&self, names: &[&str], words: &[&str]) -> bool {
        self.text_at(names).is_some_and(|text| words.iter().any(|word| text.eq_ignore_ascii_case(word)))
    }

    /// Whether it is an `Any` with a message of this name, or of one that ends so.
    pub fn is_type(&self, message: &str) -> bool {
        self.text_at(&["@type"]).is_some_and(|name| name.rsplit(['/', '.']).next() == Some(message))
    }

    /// The bytes of all scalars below members with one of these names, however deep. What `env` names is a variable, which
    /// is no secret.
    pub fn scalars_of(&self, names: &[&str], found: &mut Vec<Range<usize>>) {
        for member in self.members() {
            if names.contains(&member.name.as_str()) {
                member.value.scalars(found);
            } else {
                member.value.scalars_of(names, found);
            }
        }
        self.items().iter().for_each(|item| item.scalars_of(names, found));
    }

    /// The bytes of all scalars, but for those of members with the name `env`.
    pub fn scalars(&self, found: &mut Vec<Range<usize>>) {
        match &self.content {
            NodeContent::Scalar(_) => found.push(self.span.clone()),
            NodeContent::List(items) => items.iter().for_each(|item| item.scalars(found)),
            NodeContent::Map(members) => {
                let shown = |member: &&SpannedMember| member.name == "env" && member.value.text().is_some();
                members.iter().filter(|member| !shown(member)).for_each(|member| member.value.scalars(found));
            }
        }
    }

    /// The member that a JSON pointer points to.
    pub fn pointed_member(&self, pointer: &str) -> Option<&SpannedMember> {
        let (parent, name) = pointer.rsplit_once('/')?;
        let name = name.replace("~1", "/").replace("~0", "~");
        let mut node = self;
        for token in parent.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            node = match &node.content {
                NodeContent::Scalar(_) => return None,
                NodeContent::List(items) => items.get(token.parse::<usize>().ok()?)?,
                NodeContent::Map(members) => &members.iter().find(|member| member.name == token)?.value,
            };
        }
        node.members().iter().find(|member| member.name == name)
    }

    /// The bytes to underline for a JSON pointer (RFC 6901): a scalar itself, of an object or an array its name. If there
    /// is no such value, the nearest one above.
    pub fn pointed(&self, pointer: &str) -> Range<usize> {
        let (mut node, mut span) = (self, self.span.clone());
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let next = match &node.content {
                NodeContent::Scalar(_) => None,
                NodeContent::List(items) => {
                    token.parse().ok().and_then(|index: usize| items.get(index)).map(|item| (item, item.span.clone()))
                }
                NodeContent::Map(members) => {
                    let member = members.iter().find(|member| member.name == token);
                    member.map(|member| match member.value.content {
                        NodeContent::Scalar(_) => (&member.value, member.value.span.clone()),
                        _ => (&member.value, member.name_span.clone()),
                    })
                }
            };
            let Some((found, its_span)) = next else { break };
            (node, span) = (found, its_span);
        }
        span
    }
}

/// Compares the names of a protobuf field.
fn is_name(written: &str, name: &str) -> bool {
    written == name
        || written
            .bytes()
            .filter(|byte| *byte != b'_')
            .map(|byte| byte.to_ascii_lowercase())
            .eq(name.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase()))
}
