//! Paths into dynamic metadata. A dynamic module can read no nested metadata by itself; there the
//! filter `set_filter_state` hands over a whole namespace, by Envoy's operator `%DYNAMIC_METADATA(…)%` (docs/gateways.md).

/// A path into dynamic metadata: the filter's namespace, then the members down to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPath {
    segments: Vec<String>,
}

impl MetadataPath {
    /// Takes the namespace and the members.
    pub const fn new(segments: Vec<String>) -> Self {
        Self { segments }
    }

    /// The namespace, then the members.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The namespace; empty without one.
    pub fn namespace(&self) -> &str {
        self.segments.first().map(String::as_str).unwrap_or_default()
    }

    /// Whether Envoy's operator can name the namespace: `:` would end its name, `)` and `%` the operator, and its pattern takes no line
    /// breaks.
    pub fn has_operator(&self) -> bool {
        let namespace = self.namespace();
        !namespace.is_empty() && !namespace.chars().any(|char| ":)%".contains(char) || char.is_control())
    }
}

#[cfg(test)]
mod tests {
    use super::MetadataPath;

    #[test]
    fn the_operator_names_most_namespaces() {
        let path = |namespace: &str| MetadataPath::new(vec![namespace.to_owned(), "a:b".to_owned(), "0".to_owned()]);
        for namespace in ["jwt_authn", "a b.é/{c}\\\"", "*", "0"] {
            assert!(path(namespace).has_operator(), "{namespace}");
            assert_eq!(path(namespace).namespace(), namespace);
        }
        for namespace in ["", "a:b", "a)b", "100%", "a\nb"] {
            assert!(!path(namespace).has_operator(), "{namespace}");
        }
    }
}
