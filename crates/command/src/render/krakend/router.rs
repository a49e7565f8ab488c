//! Which paths KrakenD's router (gin) does not bring to their endpoint, and the endpoints that have to be added for them.
//! `krakend/internal/routes` has the rule and its reasons; a test holds the two together.

use super::paths::anonymous;
use std::collections::{BTreeMap, BTreeSet};

/// More endpoints than this in place of one are not what an operator wants to read.
const MOST: usize = 200;

/// An endpoint of one method: its path, and the path of the policy that it serves, as a whole or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) path: String,
    /// The path of the policy
    pub(super) of: String,
}

/// An endpoint that has to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) path: String,
    /// The number of the endpoint whose requests these are
    pub(super) owner: usize,
    /// The path of the endpoint that would take them
    pub(super) behind: String,
}

/// The endpoints without which some paths would be lost.
///
/// # Errors
/// Two paths of which one keeps too many requests from the other.
pub(super) fn added(endpoints: &[Served]) -> Result<Vec<Added>, (String, String)> {
    let (mut all, mut added) = (endpoints.to_vec(), Vec::new());
    loop {
        let lost = lost(&all);
        let Some(first) = lost.first() else { return Ok(added) };
        if added.len() + lost.len() > MOST {
            let owner = endpoints.get(first.owner).map(|owner| owner.path.clone()).unwrap_or_default();
            return Err((owner, first.behind.clone()));
        }
        for one in lost {
            let of = endpoints.get(one.owner).map(|owner| owner.of.clone()).unwrap_or_default();
            all.push(Served { path: one.path.clone(), of });
            added.push(one);
        }
    }
}

fn lost(endpoints: &[Served]) -> Vec<Added> {
    let (mut tree, mut served) = (Node::default(), Node::default());
    let mut of: BTreeMap<String, usize> = BTreeMap::new();
    for (number, endpoint) in endpoints.iter().enumerate() {
        tree.add(&segments(&endpoint.path), number);
        if let std::collections::btree_map::Entry::Vacant(vacant) = of.entry(anonymous(&endpoint.of)) {
            vacant.insert(number);
            served.add(&segments(&endpoint.of), number);
        }
    }
    let path_of = |number: usize| endpoints.get(number).map(|one| one.path.as_str()).unwrap_or_default();
    let mut begins = Vec::new();
    tree.paths(&mut Vec::new(), &mut begins);
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for begin in &begins {
        for own in of.values().filter_map(|number| endpoints.get(*number)) {
            let Some(path) = meet(begin, &segments(&own.of)) else { continue };
            let text = format!("/{}", path.join("/"));
            let Found::Endpoint(owner) = served.find(&path, true) else { continue };
            let behind = match tree.find(&path, false) {
                Found::GivesUp(through) => through,
                Found::Endpoint(other)
                    if endpoints.get(other).map(|one| of.get(&anonymous(&one.of))) != Some(Some(&owner)) =>
                {
                    other
                }
                _ => continue,
            };
            if known.insert(anonymous(&text)) {
                found.push(Added { path: text, owner, behind: path_of(behind).to_owned() });
            }
        }
    }
    found.sort_by(|one, two| one.path.cmp(&two.path));
    found
}

fn segments(path: &str) -> Vec<&str> {
    path.trim_start_matches('/').split('/').collect()
}

/// Whether a segment is a parameter, which takes every text. KrakenD has none behind a text.
fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{')
}

/// The path that begins as both do, and goes on as the second.
fn meet<'p>(begin: &[&'p str], path: &[&'p str]) -> Option<Vec<&'p str>> {
    let rest = path.get(begin.len()..)?;
    let met: Option<Vec<&str>> = begin.iter().zip(path).map(|(one, two)| meet_segments(one, two)).collect();
    met.map(|met| [met.as_slice(), rest].concat())
}

fn meet_segments<'p>(one: &'p str, two: &'p str) -> Option<&'p str> {
    match (is_parameter(one), is_parameter(two)) {
        (false, false) => (one == two).then_some(one),
        (false, true) => (!one.is_empty()).then_some(one),
        (true, false) => (!two.is_empty()).then_some(two),
        (true, true) => Some(one),
    }
}

/// A segment of gin's tree.
#[derive(Debug, Default)]
struct Node<'p> {
    texts: BTreeMap<&'p str, Node<'p>>,
    parameter: Option<(&'p str, Box<Node<'p>>)>,
    endpoint: Option<usize>,
    /// An endpoint that goes through here
    through: usize,
    by_parameter: bool,
}

/// What gin finds for a path.
enum Found {
    Endpoint(usize),
    /// Nothing, and it does not go back from here: an endpoint that goes through there
    GivesUp(usize),
    Nothing,
}

impl<'p> Node<'p> {
    fn add(&mut self, rest: &[&'p str], number: usize) {
        let Some((segment, rest)) = rest.split_first() else {
            self.endpoint = Some(number);
            return;
        };
        let by_parameter = is_parameter(segment);
        let node = || Node { through: number, by_parameter, ..Node::default() };
        if by_parameter {
            self.parameter.get_or_insert_with(|| (segment, Box::new(node()))).1.add(rest, number);
        } else {
            self.texts.entry(segment).or_insert_with(node).add(rest, number);
        }
    }

    /// The paths of all nodes.
    fn paths(&self, path: &mut Vec<&'p str>, all: &mut Vec<Vec<&'p str>>) {
        all.push(path.clone());
        let texts = self.texts.iter().map(|(segment, node)| (*segment, node));
        for (segment, node) in texts.chain(self.parameter.iter().map(|(segment, node)| (*segment, &**node))) {
            path.push(segment);
            node.paths(path, all);
            path.pop();
        }
    }

    /// What gin finds, or with `back` what it would find if it always went back.
    fn find(&self, path: &[&str], back: bool) -> Found {
        let Some((segment, rest)) = path.split_first() else {
            return match self.endpoint {
                Some(number) => Found::Endpoint(number),
                None if !back && (self.by_parameter || self.texts.contains_key("")) => Found::GivesUp(self.through),
                None => Found::Nothing,
            };
        };
        if !back && self.by_parameter && self.texts.is_empty() && self.parameter.is_none() {
            return Found::GivesUp(self.through);
        }
        let parameter = self.parameter.iter().filter(|_| !segment.is_empty()).map(|(_, node)| &**node);
        for node in self.texts.get(segment).into_iter().chain(parameter) {
            match node.find(rest, back) {
                Found::Nothing => {}
                found => return found,
            }
        }
        if !back && segment.is_empty() && rest.is_empty() { Found::GivesUp(self.through) } else { Found::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Sets of endpoints and what they need besides, as the bridge's Go code has it, which is held against gin.
    #[test]
    fn the_endpoints_that_are_added_are_those_with_which_gin_finds_all() {
        type Added = Vec<(String, String)>;
        let sets: Vec<(Vec<String>, Added)> =
            serde_json::from_str(include_str!("../../../../../krakend/internal/routes/testdata/added.json")).unwrap();
        assert!(sets.len() > 50);
        for (paths, wanted) in sets {
            let endpoints: Vec<Served> =
                paths.iter().map(|path| Served { path: path.clone(), of: path.clone() }).collect();
            let added = added(&endpoints).unwrap();
            let added: BTreeSet<(String, &str)> =
                added.iter().map(|one| (anonymous(&one.path), paths[one.owner].as_str())).collect();
            let wanted = wanted.iter().map(|(path, of)| (anonymous(path), of.as_str())).collect();
            assert_eq!(added, wanted, "{}", Value::from(paths.clone()));
        }
    }

    #[test]
    fn too_many_are_refused_with_two_paths() {
        // The second takes a text of its own from each of the others.
        let paths = (0..=MOST).map(|at| format!("/{{tenant}}/t{at}")).chain(["/a/{id}/b".to_owned()]);
        let endpoints: Vec<Served> = paths.map(|path| Served { path: path.clone(), of: path }).collect();
        let (loser, taker) = added(&endpoints).unwrap_err();
        assert_eq!((loser.as_str(), taker.as_str()), ("/{tenant}/t0", "/a/{id}/b"));
    }
}
