//! Paths as KrakenD's router can serve them.

use std::collections::{BTreeMap, BTreeSet};

/// A template of the policy as KrakenD can serve it: a parameter behind a text stands for the whole segment, and so does a text with a
/// colon or a star, with which parameters begin in KrakenD's router.
pub(super) fn krakend_path(template: &str) -> String {
    let segment = |text: &str| match text.find('{') {
        Some(at) => text.get(at..).unwrap_or(text).to_owned(),
        None if text.contains([':', '*']) => "{segment}".to_owned(),
        None => text.to_owned(),
    };
    template.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// A path without the names of its parameters: the router tells no more apart.
pub(super) fn anonymous(path: &str) -> String {
    let segment = |text: &str| if text.starts_with('{') { "{}".to_owned() } else { text.to_owned() };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Names of parameters. KrakenD's router takes one name for a parameter in all paths that are alike up to it, and KrakenD ends at its
/// start if there are two. The bridge reads values from the client's own path, so the names mean nothing.
#[derive(Debug, Default)]
pub(super) struct ParameterNames(BTreeMap<String, String>);

impl ParameterNames {
    /// The path with the names that earlier paths gave to the same parameters.
    pub(super) fn unify(&mut self, path: &str) -> String {
        let (mut made, mut prefix) = (Vec::new(), String::new());
        let mut used: BTreeSet<String> = BTreeSet::new();
        for segment in path.split('/') {
            let Some(own) = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) else {
                prefix = format!("{prefix}/{segment}");
                made.push(segment.to_owned());
                continue;
            };
            let mut name = own.to_owned();
            while used.contains(&name) {
                name.push_str("_2");
            }
            prefix.push_str("/{}");
            let name = self.0.entry(prefix.clone()).or_insert(name);
            used.insert(name.clone());
            made.push(format!("{{{name}}}"));
        }
        made.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_has_one_name_in_all_paths_that_are_alike_up_to_it() {
        let mut names = ParameterNames::default();
        for (path, wanted) in [
            ("/orders/{id}", "/orders/{id}"),
            ("/orders/{order_id}/cancel", "/orders/{id}/cancel"),
            ("/orders/{order_id}/lines/{id}", "/orders/{id}/lines/{id_2}"),
            ("/orders/{x}/lines/{y}/split", "/orders/{id}/lines/{id_2}/split"),
            ("/carts/{order_id}/", "/carts/{order_id}/"),
            ("/", "/"),
        ] {
            assert_eq!(names.unify(path), wanted);
        }
    }

    #[test]
    fn a_parameter_behind_a_text_stands_for_the_whole_segment() {
        assert_eq!(krakend_path("/a/key:{key}/b"), "/a/{key}/b");
        assert_eq!(krakend_path("/orders:batch/st*r/c"), "/{segment}/{segment}/c");
        assert_eq!(anonymous("/a/{key}/b"), anonymous("/a/{id}/b"));
    }
}
