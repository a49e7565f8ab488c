//! Paths into dynamic metadata, as Envoy names them: in a property, and in its operator `%DYNAMIC_METADATA(…)%`. A native module can
//! read no nested metadata by itself; there the filter `set_filter_state` hands over one object, with a member for each operator
//! (docs/native.md).

/// A path into dynamic metadata: the filter's namespace, then the members down to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPath {
    segments: Vec<String>,
    joined: String,
    /// The member of [`MetadataJson`](super::MetadataJson) in which the value is, and how many segments name it
    member: (String, usize),
}

impl MetadataPath {
    /// Takes the namespace and the members. A segment contains no NUL, since the policy document refuses it.
    pub fn new(segments: Vec<String>) -> Self {
        let expressed = segments.iter().take_while(|segment| is_expressible(segment)).count();
        let member = segments.iter().take(expressed).map(String::as_str).collect::<Vec<_>>().join(":");
        Self { joined: segments.join("\0"), member: (member, expressed), segments }
    }

    /// The argument of Envoy's operator `%DYNAMIC_METADATA(…)%` for the longest beginning of this path that it can express, and the
    /// segments that are left to follow inside its value. `None` if it cannot even express the namespace.
    pub fn operator(&self) -> Option<(&str, &[String])> {
        let (name, expressed) = &self.member;
        self.segments.get(*expressed..).filter(|_| *expressed > 0).map(|rest| (name.as_str(), rest))
    }

    /// The namespace, then the members.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The namespace and the members, joined by NUL, which no segment holds.
    pub fn joined(&self) -> &str {
        &self.joined
    }
}

/// Whether the operator finds a member by this text: `:` stands between its segments, `)` and `%` end it, its pattern takes no line
/// breaks, and it does not look into lists.
fn is_expressible(segment: &str) -> bool {
    let is_index = segment.bytes().all(|byte| byte.is_ascii_digit());
    !is_index && !segment.chars().any(|char| ":)%".contains(char) || char.is_control())
}

#[cfg(test)]
mod tests {
    use super::MetadataPath;

    #[test]
    fn the_operator_takes_what_it_can_express() {
        for (segments, operator, rest) in [
            (&["jwt_authn", "jwt", "sub"][..], "jwt_authn:jwt:sub", 0),
            (&["ns", "a b.é/{c}\\\"", "*"], "ns:a b.é/{c}\\\":*", 0),
            (&["ns", "https://example.com/tenant", "id"], "ns", 2),
            (&["ns", "jwt", "a)b"], "ns:jwt", 1),
            (&["ns", "jwt", "100%", "x"], "ns:jwt", 2),
            (&["ns", "a\nb"], "ns", 1),
            (&["ns", "jwt", "roles", "0"], "ns:jwt:roles", 1),
            (&["ns", "jwt", ""], "ns:jwt", 1),
        ] {
            let path = MetadataPath::new(segments.iter().map(|&segment| segment.to_owned()).collect());
            let (found, left) = path.operator().unwrap();
            assert_eq!((found, left.len()), (operator, rest), "{segments:?}");
        }
        assert_eq!(MetadataPath::new(vec!["a:b".to_owned(), "c".to_owned()]).operator(), None);
    }
}
