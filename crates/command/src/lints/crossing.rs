//! Path templates that fit the same paths, where neither is the narrower one: `/a/{x}/c` and `/a/b/{y}`. The filter has a
//! rule (docs/contract.md section 4: from left to right a literal, then the longer prefix, then `{name}`), but a reader of
//! the document may not know it.

use super::PolicyFinding;
use super::view::PolicyView;
use edge_idempotency_engine::policy::needs::RouteNeeds;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How many pairs are told, and how many pairs of segments are compared for them.
const MAX_NOTES: usize = 100;
const MAX_STEPS: usize = 2_000_000;

/// One segment of a template. The order is from what takes precedence to what does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum TemplateSegment<'t> {
    Literal(&'t str),
    Prefix(&'t str),
    Parameter,
}

impl<'t> TemplateSegment<'t> {
    fn parse(text: &'t str) -> Self {
        match text.split_once('{') {
            None => Self::Literal(text),
            Some(("", _)) => Self::Parameter,
            Some((prefix, _)) => Self::Prefix(prefix),
        }
    }

    /// A text that both fit.
    fn common(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (Self::Literal(one), Self::Literal(other)) => (one == other).then(|| (*one).to_owned()),
            (Self::Literal(literal), Self::Prefix(prefix)) | (Self::Prefix(prefix), Self::Literal(literal)) => {
                literal.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|_| (*literal).to_owned())
            }
            (Self::Literal(literal), Self::Parameter) | (Self::Parameter, Self::Literal(literal)) => {
                Some((*literal).to_owned())
            }
            (Self::Prefix(one), Self::Prefix(other)) => {
                let (long, short) = if one.len() >= other.len() { (one, other) } else { (other, one) };
                long.starts_with(short).then(|| format!("{long}1"))
            }
            (Self::Prefix(prefix), Self::Parameter) | (Self::Parameter, Self::Prefix(prefix)) => {
                Some(format!("{prefix}1"))
            }
            (Self::Parameter, Self::Parameter) => Some("1".to_owned()),
        }
    }

    /// `Less` if this one takes precedence.
    fn precedence(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Prefix(one), Self::Prefix(other)) => other.len().cmp(&one.len()),
            (Self::Literal(_), Self::Literal(_)) => Ordering::Equal,
            _ => self.cmp(other),
        }
    }
}

/// A node of the tree of all templates.
#[derive(Debug, Default)]
struct TemplateNode<'t> {
    children: BTreeMap<TemplateSegment<'t>, TemplateNode<'t>>,
    /// The routes whose templates end here
    routes: Vec<usize>,
}

/// The walk over pairs of nodes.
struct Crossings<'d, 'f> {
    routes: &'d [RouteNeeds],
    findings: &'f mut Vec<PolicyFinding>,
    notes: usize,
    steps: usize,
}

/// Who takes precedence so far: at the first segment that differs, and whether a later one says the opposite.
#[derive(Debug, Clone, Copy)]
struct Precedence {
    first: Ordering,
    crosses: bool,
}

impl Precedence {
    fn with(self, next: Ordering) -> Self {
        match (self.first, next) {
            (first, Ordering::Equal) => Self { first, ..self },
            (Ordering::Equal, next) => Self { first: next, ..self },
            (first, next) => Self { first, crosses: self.crosses || first != next },
        }
    }
}

pub(super) fn check(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    let routes = policy.needs().routes.as_slice();
    let mut root = TemplateNode::default();
    for (index, route) in routes.iter().enumerate() {
        let mut node = &mut root;
        for segment in route.path.trim_end_matches('/').split('/').skip(1) {
            node = node.children.entry(TemplateSegment::parse(segment)).or_default();
        }
        node.routes.push(index);
    }
    let mut walk = Crossings { routes, findings, notes: 0, steps: 0 };
    walk.pair(&root, &root, Precedence { first: Ordering::Equal, crosses: false }, &mut Vec::new());
}

impl Crossings<'_, '_> {
    fn pair(&mut self, one: &TemplateNode<'_>, other: &TemplateNode<'_>, so_far: Precedence, path: &mut Vec<String>) {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.notes >= MAX_NOTES {
            return;
        }
        if so_far.crosses {
            for first in &one.routes {
                other.routes.iter().for_each(|second| self.note(*first, *second, so_far.first, path));
            }
        }
        let same = std::ptr::eq(one, other);
        for (segment, child) in &one.children {
            // A literal meets itself, and what is no literal; another literal it does not meet.
            let candidates = other.children.get_key_value(segment).into_iter().chain(
                other.children.iter().rev().take_while(|(found, _)| !matches!(found, TemplateSegment::Literal(_))),
            );
            let mut seen_itself = false;
            for (found, partner) in candidates {
                let is_itself = found == segment;
                // Each pair of one node's children once.
                if (is_itself && std::mem::replace(&mut seen_itself, true)) || (same && found < segment) {
                    continue;
                }
                self.child(segment, child, found, partner, so_far, path);
            }
            if !same && !matches!(segment, TemplateSegment::Literal(_)) {
                for (found, partner) in &other.children {
                    if !matches!(found, TemplateSegment::Literal(_)) {
                        break;
                    }
                    self.child(segment, child, found, partner, so_far, path);
                }
            }
        }
    }

    fn child(
        &mut self,
        segment: &TemplateSegment<'_>,
        child: &TemplateNode<'_>,
        found: &TemplateSegment<'_>,
        partner: &TemplateNode<'_>,
        so_far: Precedence,
        path: &mut Vec<String>,
    ) {
        let Some(common) = segment.common(found) else { return };
        path.push(common);
        self.pair(child, partner, so_far.with(segment.precedence(found)), path);
        path.pop();
    }

    fn note(&mut self, one: usize, other: usize, first: Ordering, path: &[String]) {
        let (winner, loser) = if first == Ordering::Less { (one, other) } else { (other, one) };
        let (Some(wins), Some(loses)) = (self.routes.get(winner), self.routes.get(loser)) else { return };
        let meet = wins.hosts.is_empty() == loses.hosts.is_empty()
            && (wins.hosts.is_empty() || wins.hosts.iter().any(|host| loses.hosts.contains(host)));
        if !meet || self.notes >= MAX_NOTES {
            return;
        }
        self.notes += 1;
        let path = path.join("/");
        self.findings.push(PolicyFinding::new(
            "crossing-templates",
            format!("/routes/{loser}/path"),
            format!(
                "`/{path}` fits `{}` of `{}` (/routes/{winner}), too, and goes to `{}`: the first segment that differs decides, \
                 and a literal there takes precedence",
                wins.path, wins.endpoint, wins.endpoint
            ),
            "",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_idempotency_engine::Policy;

    fn notes(paths: &[&str]) -> Vec<String> {
        let routes: Vec<serde_json::Value> = paths
            .iter()
            .enumerate()
            .map(|(index, path)| serde_json::json!({"endpoint": format!("e{index}"), "path": path, "policy": "PROHIBITED"}))
            .collect();
        let document = serde_json::json!({"version": 1, "backend": {"kind": "generic"}, "routes": routes});
        let policy = Policy::from_json(document.to_string().as_bytes()).unwrap();
        let mut findings = Vec::new();
        check(PolicyView { policy: &policy, document: &document }, &mut findings);
        findings.into_iter().map(|finding| format!("{} {}", finding.pointer, finding.message)).collect()
    }

    #[test]
    fn templates_cross_if_each_is_narrower_somewhere() {
        for (paths, loser, path, winner) in [
            (["/a/{x}/c", "/a/b/{y}"], 0, "/a/b/c", "e1"),
            (["/a/b/{y}", "/a/{x}/c"], 1, "/a/b/c", "e0"),
            (["/{x}/k:{y}", "/p:{x}/{y}"], 0, "/p:1/k:1", "e1"),
            (["/{x}/b/{z}/d", "/a/{y}/c/{w}"], 0, "/a/b/c/d", "e1"),
            (["/kk{x}/{y}", "/k{x}/b"], 1, "/kk1/b", "e0"),
        ] {
            let told = notes(&paths);
            assert_eq!(told.len(), 1, "{paths:?}: {told:?}");
            assert!(told[0].starts_with(&format!("/routes/{loser}/path `{path}` fits")), "{told:?}");
            assert!(told[0].contains(&format!("goes to `{winner}`")), "{told:?}");
        }
    }

    #[test]
    fn a_narrower_template_does_not_cross() {
        for paths in [
            ["/a/{x}", "/a/b"],
            ["/a/{x}/c", "/a/b/d"],
            ["/a/{x}/c", "/a/{y}/{z}"],
            ["/a/b/c", "/a/{x}/{y}"],
            ["/{x}/b/c", "/a/{y}"],
        ] {
            assert!(notes(&paths).is_empty(), "{paths:?}");
        }
    }
}
