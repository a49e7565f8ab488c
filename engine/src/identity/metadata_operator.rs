//! Metadata as Envoy's operator `%DYNAMIC_METADATA(…)%` gives it. A native module can read no nested metadata by itself; there the
//! filter `set_filter_state` hands over one object, with a member for each operator (docs/native.md).

/// Whether the operator finds a member by this text: `:` stands between its segments, `)` and `%` end it, its pattern takes no line
/// breaks, and it does not look into lists.
pub(super) fn is_expressible(segment: &str) -> bool {
    let is_index = segment.bytes().all(|byte| byte.is_ascii_digit());
    !is_index && !segment.chars().any(|char| ":)%".contains(char) || char.is_control())
}

#[cfg(test)]
mod tests {
    use crate::identity::MetadataPath;

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
