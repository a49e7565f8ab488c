//! The members of the policy document. A block says all of a member: what it is called, what it may be, what holds without it,
//! who reads it, and what it means. The readers in `document`, the JSON Schema (`schema`) and docs/policy.md are made of the blocks.

use crate::json::cursor::{Issues, JsonCursor, ObjectCursor};

/// An object of the document that has only known members.
pub(crate) struct Object {
    /// The names of its members, in the order of the page
    pub names: &'static [&'static str],
    /// What the schema says of it
    #[cfg(feature = "describe")]
    pub texts: description::ObjectTexts,
}

/// A member of an object; `K` says what its value may be, and how it is read.
pub(crate) struct Member<K> {
    /// Its name
    pub name: &'static str,
    /// Whether the object needs it; the text ends the message about a missing one
    pub required: Option<&'static str>,
    /// What it may be
    pub kind: K,
    /// What the schema says of it
    #[cfg(feature = "describe")]
    pub texts: description::MemberTexts,
}

/// An integer with a default.
pub(crate) struct Integer {
    /// The least value
    pub least: u64,
    /// The greatest value
    pub most: u64,
    /// What holds without it
    pub default: u64,
}

/// An integer without a default.
pub(crate) struct OptionalInteger {
    /// The least value
    pub least: u64,
    /// The greatest value
    pub most: u64,
}

/// `true` or `false`
pub(crate) struct Flag {
    /// What holds without it
    pub default: bool,
}

/// `true` or `false`, and something else without it
pub(crate) struct OptionalFlag {}

/// One of a few words. The type's default holds without it.
pub(crate) struct Choice<T: 'static> {
    /// The words, each with what it means
    pub words: &'static [(&'static str, T)],
}

/// One of a few words, and something else without it
pub(crate) struct OptionalChoice<T: 'static> {
    /// The words, each with what it means
    pub words: &'static [(&'static str, T)],
}

/// A text with a grammar.
pub(crate) struct Text<T> {
    /// Reads the text; the error says what to write
    pub parse: fn(&str) -> Result<T, String>,
}

/// A text with a grammar and a default.
pub(crate) struct TextOr<T> {
    /// Reads the text; the error says what to write
    pub parse: fn(&str) -> Result<T, String>,
    /// What is read without it
    pub default: &'static str,
}

/// A list of texts with a grammar.
pub(crate) struct Texts<T> {
    /// Reads one of the texts; the error says what to write
    pub parse: fn(&str) -> Result<T, String>,
}

/// What its object reads itself: an object, a map, a list, or a text whose grammar depends on other members.
pub(crate) struct Custom {}

impl Object {
    /// A value as this object. Unknown members are issues.
    pub(crate) fn read<'j>(&self, at: &JsonCursor<'j>, issues: &mut Issues) -> Option<ObjectCursor<'j>> {
        at.fields(self.names, issues)
    }
}

impl<K> Member<K> {
    /// The value, if the object has it. A required one that is missing is an issue.
    pub(crate) fn at<'j>(&self, object: &ObjectCursor<'j>, issues: &mut Issues) -> Option<JsonCursor<'j>> {
        match self.required {
            Some(advice) => object.need_or_advise(self.name, advice, issues),
            None => object.get(self.name),
        }
    }
}

impl Member<Integer> {
    /// The value, or its default.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> u64 {
        let given = self.at(object, issues).and_then(|at| at.integer(self.kind.least..=self.kind.most, issues));
        given.unwrap_or(self.kind.default)
    }
}

impl Member<OptionalInteger> {
    /// The value.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> Option<u64> {
        self.at(object, issues)?.integer(self.kind.least..=self.kind.most, issues)
    }
}

impl Member<Flag> {
    /// The value, or its default.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> bool {
        self.at(object, issues).and_then(|at| at.boolean(issues)).unwrap_or(self.kind.default)
    }
}

impl Member<OptionalFlag> {
    /// The value.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> Option<bool> {
        self.at(object, issues)?.boolean(issues)
    }
}

impl<T: Copy + Default> Member<Choice<T>> {
    /// What the word means, or the default.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> T {
        let given = self.at(object, issues).and_then(|at| at.choice(self.kind.words, issues));
        given.unwrap_or_default()
    }
}

impl<T: Copy> Member<OptionalChoice<T>> {
    /// What the word means.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> Option<T> {
        self.at(object, issues)?.choice(self.kind.words, issues)
    }
}

impl<T> Member<Text<T>> {
    /// The value.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> Option<T> {
        self.at(object, issues)?.parse(issues, self.kind.parse)
    }

    /// The value; `Some(None)` without it, and `None` if it is invalid.
    pub(crate) fn read_if_given(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> Option<Option<T>> {
        self.at(object, issues).map_or(Some(None), |at| at.parse(issues, self.kind.parse).map(Some))
    }
}

impl<T> Member<TextOr<T>> {
    /// The value, or its default. `None` if the value is invalid.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> Option<T> {
        match self.at(object, issues) {
            Some(at) => at.parse(issues, self.kind.parse),
            None => (self.kind.parse)(self.kind.default).ok(),
        }
    }
}

impl<T> Member<Texts<T>> {
    /// The values. Those that are invalid are left out.
    pub(crate) fn read(&self, object: &ObjectCursor<'_>, issues: &mut Issues) -> Option<Vec<T>> {
        self.at(object, issues)?.list(issues, self.kind.parse)
    }
}

/// What blocks say to people and tools.
#[cfg(feature = "describe")]
pub(crate) mod description {
    use super::{
        Choice, Custom, Flag, Integer, Member, OptionalChoice, OptionalFlag, OptionalInteger, Text, TextOr, Texts,
    };
    use crate::json::to_text;

    /// What the schema says of an object.
    pub(crate) struct ObjectTexts {
        /// The name of its definition
        pub definition: &'static str,
        /// Its title; empty for a small object, which has no section on the page
        pub title: &'static str,
        /// Its description
        pub text: &'static str,
        /// More members of its schema, as a JSON object; empty if there are none
        pub schema: &'static str,
        /// Its members
        pub members: &'static [&'static dyn Described],
    }

    /// What the schema says of a member, besides what its kind says.
    pub(crate) struct MemberTexts {
        /// Its title; empty if its object has one
        pub title: &'static str,
        /// Its description; empty if its object has one
        pub text: &'static str,
        /// More members of its schema, as a JSON object; empty if there are none
        pub schema: &'static str,
    }

    /// What several members refer to: a definition that is no object of its own.
    pub(crate) struct Grammar {
        /// The name of the definition
        pub definition: &'static str,
        /// Its title
        pub title: &'static str,
        /// Its description
        pub text: &'static str,
        /// Its schema, as a JSON object
        pub schema: fn() -> String,
    }

    /// A member of whatever kind.
    pub(crate) trait Described {
        /// Its name
        fn name(&self) -> &'static str;
        /// Whether its object needs it
        fn is_required(&self) -> bool;
        /// Its schema
        fn schema(&self) -> String;
    }

    /// What a kind of member says of its values.
    trait Kind {
        /// Members of the schema, each with a comma behind it
        fn schema(&self) -> String;
    }

    impl<K: Kind> Described for Member<K> {
        fn name(&self) -> &'static str {
            self.name
        }

        fn is_required(&self) -> bool {
            self.required.is_some()
        }

        fn schema(&self) -> String {
            join(self.texts.title, self.texts.text, &self.kind.schema(), self.texts.schema)
        }
    }

    impl Kind for Integer {
        fn schema(&self) -> String {
            format!("{} \"default\": {},", integer(self.least, self.most), self.default)
        }
    }

    impl Kind for OptionalInteger {
        fn schema(&self) -> String {
            integer(self.least, self.most)
        }
    }

    fn integer(least: u64, most: u64) -> String {
        format!(r#""type": "integer", "minimum": {least}, "maximum": {most},"#)
    }

    impl Kind for Flag {
        fn schema(&self) -> String {
            format!(r#""type": "boolean", "default": {},"#, self.default)
        }
    }

    impl Kind for OptionalFlag {
        fn schema(&self) -> String {
            r#""type": "boolean","#.to_owned()
        }
    }

    impl<T: Default + PartialEq> Kind for Choice<T> {
        fn schema(&self) -> String {
            let default = self.words.iter().find(|(_, value)| *value == T::default());
            let default = default.map(|(word, _)| format!(" \"default\": \"{word}\",")).unwrap_or_default();
            words(self.words) + &default
        }
    }

    impl<T> Kind for OptionalChoice<T> {
        fn schema(&self) -> String {
            words(self.words)
        }
    }

    fn words<T>(words: &[(&str, T)]) -> String {
        format!("\"enum\": {},", to_text(&words.iter().map(|(word, _)| *word).collect::<Vec<_>>()))
    }

    impl<T> Kind for Text<T> {
        fn schema(&self) -> String {
            String::new()
        }
    }

    impl<T> Kind for TextOr<T> {
        fn schema(&self) -> String {
            format!("\"default\": {},", to_text(&self.default))
        }
    }

    impl<T> Kind for Texts<T> {
        fn schema(&self) -> String {
            String::new()
        }
    }

    impl Kind for Custom {
        fn schema(&self) -> String {
            String::new()
        }
    }

    /// An object of JSON: title and description, unless they are empty, then `own`, whose members end with commas, then the members of
    /// `more`.
    pub(crate) fn join(title: &str, text: &str, own: &str, more: &str) -> String {
        let text = text.trim();
        let said = |name: &str, text: &str| {
            if text.is_empty() { String::new() } else { format!("\"{name}\": {},", to_text(&text)) }
        };
        let more = more.trim().strip_prefix('{').and_then(|more| more.strip_suffix('}')).unwrap_or_default();
        let members = [&said("title", title), &said("description", text), own, more].concat();
        format!("{{{}}}", members.trim_end_matches(','))
    }
}

/// Makes an object and its members of their blocks, in a module with the object's name.
///
/// The first block is the object's: a text for the page, the module, the name of the definition in the schema, the title, then `also`
/// with members that other objects have, too, and `schema` with what else the JSON Schema says. A member's block is a text for the
/// page, the constant, the kind, the name in the document, the title, then `required` with what ends the message about a missing
/// member, and `schema`. What the object of a member says need not be said again at the member.
macro_rules! members {
    (@required) => {
        None
    };
    (@required $advice:expr) => {
        Some($advice)
    };
    (
        $(#[doc = $object_text:literal])*
        $object:ident = $definition:literal $(, $object_title:literal)? $(, also [$($shared:path),* $(,)?])?
        $(, schema $object_schema:literal)?;
        $(
            $(#[doc = $text:literal])*
            $member:ident: $kind:ident $(<$of:ty>)? { $($fields:tt)* } = $name:literal $(, $title:literal)?
            $(, required $advice:expr)? $(, schema $schema:literal)?;
        )*
    ) => {
        #[doc = concat!("The members of `", $definition, "`.")]
        #[allow(clippy::module_inception, reason = "an object has the name of its room")]
        pub(crate) mod $object {
            #[allow(unused_imports, reason = "what the blocks name")]
            use super::*;
            use $crate::policy::members::{Member, Object};

            $(
                #[doc = concat!("`", $name, "`")]
                pub(crate) const $member: Member<$kind $(<$of>)?> = Member {
                    name: $name,
                    required: $crate::policy::members::members!(@required $($advice)?),
                    kind: $kind { $($fields)* },
                    #[cfg(feature = "describe")]
                    texts: $crate::policy::members::description::MemberTexts {
                        title: concat!("" $(, $title)?),
                        text: concat!("" $(, $text)*),
                        schema: concat!("" $(, $schema)?),
                    },
                };
            )*

            /// The object itself.
            #[allow(dead_code, reason = "members that stand in other objects only have none of their own")]
            pub(crate) const OBJECT: Object = Object {
                names: &[$($member.name,)* $($($shared.name,)*)?],
                #[cfg(feature = "describe")]
                texts: $crate::policy::members::description::ObjectTexts {
                    definition: $definition,
                    title: concat!("" $(, $object_title)?),
                    text: concat!("" $(, $object_text)*),
                    schema: concat!("" $(, $object_schema)?),
                    members: &[$(&$member,)* $($(&$shared,)*)?],
                },
            };
        }
    };
}
pub(crate) use members;
