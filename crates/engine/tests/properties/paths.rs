//! Paths have one spelling, and it decides which route a request meets.

use super::exchange::compiled;
use super::generate::{self, PolicyModel, RouteModel, conflict, policy, respelled, routes};
use super::{cases, model};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::NormalPath;
use edge_idempotency_engine::policy::{RequestUrl, RouteLookup};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::collections::BTreeSet;

/// Paths made of what paths are argued about.
fn troublesome() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "/",
        "/",
        "//",
        ".",
        "..",
        "/.",
        "/..",
        "/../",
        "%2e",
        "%2E%2e",
        "%2f",
        "%2F",
        "%5c",
        "%5C",
        "\\",
        ";",
        "%3b",
        "%00",
        "%",
        "%4",
        "%zz",
        "%41",
        "%61",
        "%7e",
        "%7E",
        "%25",
        "%2541",
        "a",
        "Z",
        "-",
        "_",
        "~",
        ":",
        "@",
        "!$&'()*+,=",
        "|",
        "\"",
        "{",
        "}",
        "é",
        "%C3%A9",
        " ",
        "#",
        "\t",
        "\u{7f}",
        "^",
        "`",
        "<",
        "restate",
    ];
    let piece = prop_oneof![12 => select(pieces.to_vec()).prop_map(|text| text.as_bytes().to_vec()), 1 => vec(any::<u8>(), 1..3)];
    (prop_oneof![9 => Just("/"), 1 => Just("")], vec(piece, 0..10))
        .prop_map(|(start, pieces)| [start.as_bytes(), &pieces.concat()].concat())
}

/// RFC 3986 section 3.3, without the semicolon, and every escape in upper case and necessary.
fn is_clean(path: &str) -> bool {
    let pattern = r"^/$|^(?:/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%(?:[0-9A-F]{2}))+)+$";
    let needless =
        regex::Regex::new("%(?:[01][0-9A-F]|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AEF]|5C)").unwrap();
    regex::Regex::new(pattern).unwrap().is_match(path) && !needless.is_match(path)
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn normalising_is_what_the_model_says(path in troublesome()) {
        let found = NormalPath::parse(&path).ok();
        prop_assert_eq!(found.as_ref().map(|path| path.as_str().to_owned()), model::normalised(&path));
        let Some(found) = found else { return Ok(()) };
        let text = found.as_str();
        prop_assert!(is_clean(text), "{text}");
        prop_assert!(!text.split('/').any(|segment| [".", ".."].contains(&segment)), "{text}");
        prop_assert_eq!(found.has_encoded_slash(), text.contains("%2F"));
        // Idempotent: there is nothing left to do.
        let again = NormalPath::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(again.as_str(), text);
        prop_assert_eq!(again.has_encoded_slash(), found.has_encoded_slash());
        prop_assert_eq!(found.with_slashes(), model::with_slashes(&path).unwrap());
        let again = NormalPath::parse(found.with_slashes().as_bytes());
        prop_assert_eq!(again.as_ref(), Ok(&found));
    }

    /// Escapes of unreserved characters, empty and dot segments and a trailing slash lead nowhere else.
    #[test]
    fn other_spellings_of_a_path_are_that_path(path in troublesome(), noise in vec(any::<u8>(), 0..40)) {
        if let Ok(path) = NormalPath::parse(&path) {
            let spelling = respelled(path.as_str(), &noise, true);
            let found = NormalPath::parse(spelling.as_bytes()).map(|found| found.as_str().to_owned());
            prop_assert_eq!(found, Ok(path.as_str().to_owned()), "{}", spelling);
        }
    }
}

fn endpoint_of<'p>(
    policy: &'p Policy,
    authority: &str,
    path: &str,
    method: &str,
) -> Result<(&'p str, Vec<String>), BTreeSet<String>> {
    match policy
        .declared(RequestUrl { authority, path: &NormalPath::parse(path.as_bytes()).unwrap() }, method.as_bytes())
    {
        RouteLookup::Route(route, values) => Ok((&route.endpoint, values.into_iter().map(str::to_owned).collect())),
        RouteLookup::OtherMethods(routes) => {
            Err(routes.into_iter().flat_map(|route| route.methods.iter().cloned()).collect())
        }
        RouteLookup::Nothing => Err(BTreeSet::new()),
        RouteLookup::OtherReading => Err(BTreeSet::from(["another reading".to_owned()])),
    }
}

fn model_endpoint<'p>(
    policy: &'p PolicyModel,
    authority: &str,
    path: &str,
    method: &str,
) -> Result<(&'p str, Vec<String>), BTreeSet<String>> {
    match model::declared(policy, authority, path, path, method) {
        model::Declared::Route(route, values) => Ok((&route.endpoint, values.into_iter().map(str::to_owned).collect())),
        model::Declared::OtherMethods(routes) => {
            Err(routes.into_iter().flat_map(model::methods).map(str::to_owned).collect())
        }
        model::Declared::Nothing => Err(BTreeSet::new()),
        model::Declared::OtherReading => Err(BTreeSet::from(["another reading".to_owned()])),
    }
}

proptest! {
    #![proptest_config(cases(150))]

    /// The table finds what a search from end to end finds.
    #[test]
    fn routes_are_found_as_by_searching(policy in policy(), segments in vec(vec(select(vec!["a", "b", "v1", "x.y", "x.", "xa", "key:", "key:a", "key:%2Fa", "KEY:a", "key%3Aa", "A", "V1", "x%2Ey", "%C3%A9", "%C3%A9a", "~", "...", "other", "a%2Fb"]), 0..4), 20)) {
        let compiled = compiled(&policy);
        for segments in segments {
            let path = model::normalised(format!("/{}", segments.join("/")).as_bytes()).unwrap();
            for authority in ["api.example.com", "api.example.com:443", "x.b.example.com", "X.example.com", "X.Example.COM.", "example.com", "[::1]", ""] {
                for method in ["POST", "GET", "HEAD", "DELETE"] {
                    let found = endpoint_of(&compiled, authority, &path, method);
                    prop_assert_eq!(found, model_endpoint(&policy, authority, &path, method), "{} {} {}", method, authority, path);
                }
            }
        }
    }

    /// A path that leads to a route does so in every spelling, and to the same values.
    #[test]
    fn every_spelling_of_a_path_meets_the_same_route(
        (policy, index) in (policy(), any::<Index>()),
        values in vec(select(vec!["x", "a%2Fb", "%C3%BC", ":", "~~"]), 4),
        noise in vec(vec(any::<u8>(), 0..40), 8),
    ) {
        let compiled = compiled(&policy);
        let route = index.get(&policy.routes);
        let mut values = values.into_iter();
        let segments = route.path.iter().map(|segment| match segment {
            generate::Segment::Literal(text) => (*text).to_owned(),
            generate::Segment::Parameter => values.next().unwrap().to_owned(),
            generate::Segment::Prefixed(prefix) => format!("{prefix}{}", values.next().unwrap()),
        });
        let path = format!("/{}", segments.collect::<Vec<_>>().join("/"));
        let host = route.hosts.first().map_or("any", |host| host.trim_start_matches("*."));
        let host = if route.hosts.first().is_some_and(|host| host.starts_with('*')) { format!("x.{host}") } else { host.to_owned() };
        let expected = endpoint_of(&compiled, &host, &path, route.methods[0]);
        // A route with a prefix, or with other methods, may take precedence; the path is declared in any case.
        prop_assert_ne!(&expected, &Err(BTreeSet::new()), "{} {}", host, path);
        for noise in noise {
            let spelling = respelled(&path, &noise, true);
            let normal = NormalPath::parse(spelling.as_bytes()).unwrap();
            prop_assert_eq!(&endpoint_of(&compiled, &host, normal.as_str(), route.methods[0]), &expected, "{}", spelling);
        }
    }

    /// Routes that take the same requests are a start failure that names both; others are none.
    #[test]
    fn conflicting_routes_are_found_in_pairs(mut routes in routes()) {
        for (index, route) in routes.iter_mut().enumerate() {
            route.endpoint = format!("r{index}");
        }
        let pairs = |later: usize, route: &RouteModel| {
            let earlier = routes.iter().take(later).enumerate().filter(|(_, earlier)| conflict(route, earlier));
            earlier.map(move |(earlier, _)| (later, earlier)).collect::<Vec<_>>()
        };
        let expected: BTreeSet<(usize, usize)> = routes.iter().enumerate().flat_map(|(later, route)| pairs(later, route)).collect();
        let document = PolicyModel::of_routes(routes.clone()).document().to_string();
        let errors = Policy::from_json(document.as_bytes()).err().map(|errors| errors.0).unwrap_or_default();
        let named = |text: &str| text.strip_prefix("/routes/").and_then(|rest| rest.split('/').next()?.parse().ok());
        let found: Vec<(usize, usize)> = errors
            .iter()
            .map(|error| (named(&error.pointer).unwrap(), named(error.message.rsplit(' ').next().unwrap()).unwrap()))
            .collect();
        prop_assert_eq!(found.len(), expected.len(), "{:?}", errors);
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}
