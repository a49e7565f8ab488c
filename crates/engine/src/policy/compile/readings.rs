//! Paths that a backend's router could read as other paths than the filter: texts that differ in letter case or in escapes
//! only, and values of parameters that contain escaped slashes (docs/contract.md section 2).

use super::Compiler;
use crate::backend::Backend;
use crate::policy::document::RouteDocument;
use crate::policy::route_table::RouteTable;
use crate::policy::template::TemplateSegment;
use crate::policy::text_index::TextIndex;
use crate::policy::{CLOSED, Route, SERVICES, path};

impl Compiler<'_> {
    /// Reports a text of the path that was inserted last which stands in the place of another route's, and differs from it in
    /// letter case or in escapes only.
    #[inline(never)]
    pub(super) fn check_alike(&mut self, index: usize, table: &mut RouteTable, earlier: &[(usize, Route)]) {
        let Some((text, other)) = table.take_alike() else { return };
        let has_other = |segment: TemplateSegment<'_>| segment.text() == Some(other.as_str());
        let first = earlier.iter().find(|(_, route)| route.template.segments().any(has_other));
        let of_first = first.map_or_else(String::new, |(index, route)| {
            format!(" in `{}`, {} of /routes/{index},", route.template, route.endpoint)
        });
        let message = format!(
            "`{text}` differs from `{other}`{of_first} only in letter case or in escapes, and many routers do not tell \
             the two apart: write both in the same way"
        );
        self.issues.add(format!("/routes/{index}/path"), message);
    }

    /// Reports routes with `encoded_slash` whose decoded paths could be those of other routes, or closed to clients.
    #[inline(never)]
    pub(super) fn encoded_slashes(
        &mut self,
        routes: &[(usize, Route)],
        backends: &[Backend],
        closed_services: &TextIndex,
    ) {
        let documents = || self.document.routes.iter().map(|(_, declared)| declared).zip(routes);
        let mut found = Vec::new();
        for (declared, (index, route)) in documents().filter(|(_, (_, route))| route.encoded_slash) {
            let at = format!("/routes/{index}/encoded_slash");
            let Some(first) = route.template.parameters().next() else {
                found.push((
                    at,
                    "the path has no parameter whose value could contain a slash: remove `encoded_slash`".to_owned(),
                ));
                continue;
            };
            let own: Vec<TemplateSegment<'_>> = route.template.segments().collect();
            let meets = |(other_declared, (_, other)): &(&RouteDocument<'_>, &(usize, Route))| {
                !other.template.is_same(&route.template)
                    && hosts_meet(&declared.hosts, &other_declared.hosts)
                    && other.methods.iter().any(|method| route.methods.contains(method))
                    && Spans { other_spans: other.encoded_slash, goes_on: false, is_exact: false }
                        .found(&own, &other.template.segments().collect::<Vec<_>>())
            };
            if let Some((_, (other_index, other))) = documents().find(meets) {
                let message = format!(
                    "with %2F in `{{{first}}}` a backend that decodes paths before it routes reads `{}`, {} of /routes/{other_index}, \
                     whose rules the filter would not apply: choose another path for one of the two, or remove `encoded_slash`",
                    other.template, other.endpoint
                );
                found.push((at, message));
                continue;
            }
            let below = Spans { other_spans: false, goes_on: true, is_exact: false };
            let reserved =
                backends.get(route.backend).map(|backend| backend.reserved_paths.as_slice()).unwrap_or_default();
            let reserved = reserved.iter().find(|closed| {
                let closed: Vec<TemplateSegment<'_>> = path::segments(closed).map(TemplateSegment::Literal).collect();
                below.found(&own, &closed)
            });
            let below = Spans { is_exact: self.backend_of(declared).abilities().tells_case_apart, ..below };
            let services = closed_services.texts(SERVICES + route.backend).filter(|(service, number)| {
                // A route whose first segment is such a service has an issue of its own.
                (*number != CLOSED || route.template.first_literal() != Some(*service))
                    && below.found(&own, &[TemplateSegment::Literal(service)])
            });
            let service = services.map(|(service, _)| service).min().map(|service| format!("/{service}"));
            if let Some(closed) = reserved.or(service.as_ref()) {
                let message = format!(
                    "with %2F in `{{{first}}}` a backend that decodes paths before it routes reads a path below `{closed}`, which is \
                     closed to clients: choose another path, or remove `encoded_slash`"
                );
                found.push((at, message));
            }
        }
        found.into_iter().for_each(|(at, message)| self.issues.add(at, message));
    }
}

/// Whether some host is one of both lists. An empty list is all hosts.
fn hosts_meet(one: &[String], other: &[String]) -> bool {
    let covers =
        |wide: &str, host: &str| wide == host || wide.strip_prefix('*').is_some_and(|suffix| host.ends_with(suffix));
    one.is_empty()
        || other.is_empty()
        || one.iter().any(|one| other.iter().any(|other| covers(one, other) || covers(other, one)))
}

/// How another path is compared with a template whose parameters may contain slashes.
#[derive(Clone, Copy)]
struct Spans {
    /// Whether parameters of the other path may contain slashes, too
    other_spans: bool,
    /// Whether the other path goes on with any segments
    goes_on: bool,
    /// Whether texts are compared byte for byte, and not as a reader that ignores letter case and decodes them
    is_exact: bool,
}

impl Spans {
    /// Whether a path of `own` with an escaped slash, once it is decoded, is a path of `other`.
    fn found(self, own: &[TemplateSegment<'_>], other: &[TemplateSegment<'_>]) -> bool {
        self.found_from(Walk { segments: own, goes_on: false }, Walk { segments: other, goes_on: false }, false)
    }

    /// `has_slash`: whether `own` has an escaped slash already.
    fn found_from(self, own: Walk<'_>, other: Walk<'_>, has_slash: bool) -> bool {
        let rest_of_value = TemplateSegment::Parameter("");
        let is_parameter = |segment: &TemplateSegment<'_>| !matches!(segment, TemplateSegment::Literal(_));
        match (own.segments, other.segments) {
            ([], []) => has_slash,
            ([], _) => false,
            (own, []) => self.goes_on && (has_slash || own.iter().any(is_parameter)),
            ([first, own_rest @ ..], [other_first, other_rest @ ..]) => {
                let own_text = if own.goes_on { rest_of_value } else { *first };
                let other_text = if other.goes_on { rest_of_value } else { *other_first };
                let meets =
                    if self.is_exact { own_text.meets(other_text) } else { own_text.meets_leniently(other_text) };
                meets
                    && (self.found_from(own.next(own_rest), other.next(other_rest), has_slash)
                        || is_parameter(first) && self.found_from(own.stays(), other.next(other_rest), true)
                        || self.other_spans
                            && is_parameter(other_first)
                            && self.found_from(own.next(own_rest), other.stays(), has_slash))
            }
        }
    }
}

/// A place in a path.
#[derive(Clone, Copy)]
struct Walk<'s> {
    segments: &'s [TemplateSegment<'s>],
    /// Whether the first segment is a parameter that goes on behind a slash
    goes_on: bool,
}

impl<'s> Walk<'s> {
    const fn next(self, segments: &'s [TemplateSegment<'s>]) -> Self {
        Self { segments, goes_on: false }
    }

    const fn stays(self) -> Self {
        Self { goes_on: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Template;

    #[test]
    fn a_value_with_slashes_is_another_path_or_not() {
        for (own, other, other_spans, goes_on, expected) in [
            ("/v1/invoices/{id}", "/v1/invoices/{id}/pay", false, false, true),
            ("/v1/invoices/{id}", "/v1/invoices/{id}/{action}", false, false, true),
            ("/v1/invoices/{id}", "/v1/invoices/a/b/c", false, false, true),
            ("/v1/invoices/{id}", "/v1/invoices/new", false, false, false),
            ("/v1/invoices/{id}", "/v1/invoices", false, false, false),
            ("/v1/invoices/{id}", "/v1/orders/{id}/pay", false, false, false),
            ("/v1/invoices/{id}/pay", "/v1/invoices/{id}/{action}", false, false, false),
            ("/v1/invoices/{id}/pay", "/v1/invoices/{id}/{line}/pay", false, false, true),
            ("/v1/invoices/{id}/pay", "/v1/invoices/{id}/{line}/void", false, false, false),
            ("/hooks/{name}", "/hooks/stripe/{webhook_id}", false, false, true),
            ("/files/key:{name}", "/files/key:a/b", false, false, true),
            ("/files/key:{name}", "/files/{a}/b", false, false, true),
            ("/files/key:{name}", "/files/kex:{a}/b", false, false, false),
            ("/files/key:{name}", "/files/key:/b", false, false, false),
            ("/{a}/{b}", "/a/b/c", false, false, true),
            ("/p/{x}/b", "/p/a/{y}", false, false, false),
            ("/p/{x}/b", "/p/a/{y}", true, false, true),
            ("/{a}", "/restate", false, true, true),
            ("/{a}", "/restate/call", false, true, true),
            ("/v1/{a}", "/restate", false, true, false),
            ("/v1/{a}/x", "/v1/internal", false, true, true),
            ("/v1/{a}", "/v1/internal/x", false, true, true),
            ("/v1/internal/x", "/v1/internal", false, true, false),
        ] {
            let (own, other) = (Template::parse(own).unwrap(), Template::parse(other).unwrap());
            let (one, two): (Vec<_>, Vec<_>) = (own.segments().collect(), other.segments().collect());
            for is_exact in [false, true] {
                let spans = Spans { other_spans, goes_on, is_exact };
                assert_eq!(spans.found(&one, &two), expected, "{own} {other}");
            }
        }
    }

    #[test]
    fn a_lenient_reader_finds_texts_in_another_spelling() {
        for (own, other, expected) in [
            ("/Files/{name}", "/files/a/b", true),
            ("/files/{name}/x", "/files/{a}/b/X", true),
            ("/files/{name}", "/fil%3As/a/b", false),
            ("/fil:s/{name}", "/fil%3As/a/b", true),
            ("/files/KEY:{name}", "/files/key:a/b", true),
            ("/files/KEY:{name}", "/files/key:/b", false),
            ("/files/KEY:{name}", "/files/key:a{x}/b", true),
            ("/files/KEY:a{name}", "/files/key:b{x}/b", false),
        ] {
            let (own, other) = (Template::parse(own).unwrap(), Template::parse(other).unwrap());
            let (one, two): (Vec<_>, Vec<_>) = (own.segments().collect(), other.segments().collect());
            let found = |is_exact| Spans { other_spans: false, goes_on: false, is_exact }.found(&one, &two);
            assert_eq!((found(false), found(true)), (expected, false), "{own} {other}");
        }
    }

    #[test]
    fn hosts_meet_where_one_request_fits_both() {
        let hosts = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        for (one, other, expected) in [
            (&[][..], &["a.example.com"][..], true),
            (&["a.example.com"], &["b.example.com"], false),
            (&["a.example.com", "b.example.com"], &["b.example.com"], true),
            (&["*.example.com"], &["b.example.com"], true),
            (&["*.example.com"], &["*.eu.example.com"], true),
            (&["*.example.com"], &["example.com"], false),
        ] {
            assert_eq!(hosts_meet(&hosts(one), &hosts(other)), expected, "{one:?} {other:?}");
            assert_eq!(hosts_meet(&hosts(other), &hosts(one)), expected, "{other:?} {one:?}");
        }
    }
}
