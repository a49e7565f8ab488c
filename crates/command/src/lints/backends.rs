//! The backends of a policy document that the engine has accepted: the only one, or several with names.

use serde::Deserialize;
use std::collections::BTreeMap;

/// `backend` and `backends` of a document; `B` is what is read of each backend.
#[derive(Debug, Deserialize)]
pub struct Backends<B> {
    backend: DefaultBackend<B>,
    #[serde(default = "BTreeMap::new")]
    backends: BTreeMap<String, B>,
}

/// `backend` of a document.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum DefaultBackend<B> {
    Named(String),
    Only(B),
}

/// A backend with its place in the document.
#[derive(Debug, Clone)]
pub struct BackendAt<'b, B> {
    /// Its name; `None` if the document has one backend
    pub name: Option<&'b str>,
    /// The JSON pointer of its object
    pub pointer: String,
    /// What was read of it
    pub value: &'b B,
}

impl<B> Backends<B> {
    /// All backends, the default first.
    pub fn iter(&self) -> impl Iterator<Item = BackendAt<'_, B>> {
        let (only, default) = match &self.backend {
            DefaultBackend::Only(value) => (Some(value), None),
            DefaultBackend::Named(name) => (None, Some(name)),
        };
        let only = only.map(|value| BackendAt { name: None, pointer: "/backend".to_owned(), value });
        let is_default = move |name: &String| default == Some(name);
        let first = self.backends.iter().filter(move |(name, _)| is_default(name));
        let others = self.backends.iter().filter(move |(name, _)| !is_default(name));
        let named =
            first.chain(others).map(|(name, value)| BackendAt { name: Some(name), pointer: pointer(name), value });
        only.into_iter().chain(named)
    }

    /// The backend of a route that names this one, or none.
    pub fn of(&self, route: Option<&str>) -> Option<BackendAt<'_, B>> {
        self.iter().find(|backend| route.is_none() || backend.name == route)
    }
}

fn pointer(name: &str) -> String {
    format!("/backends/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(document: Value) -> Vec<(Option<String>, String, Value)> {
        let backends: Backends<Value> = serde_json::from_value(document).unwrap();
        backends.iter().map(|one| (one.name.map(str::to_owned), one.pointer.clone(), one.value.clone())).collect()
    }

    #[test]
    fn the_default_comes_first() {
        assert_eq!(read(json!({"backend": {"kind": "a"}})), [(None, "/backend".to_owned(), json!({"kind": "a"}))]);
        let named = |name: &str| (Some(name.to_owned()), format!("/backends/{name}"), json!(name));
        let document = json!({"backend": "b", "backends": {"a": "a", "b": "b", "c": "c"}});
        assert_eq!(read(document), [named("b"), named("a"), named("c")]);
    }

    #[test]
    fn a_route_has_the_backend_that_it_names_or_the_default() {
        let backends: Backends<Value> =
            serde_json::from_value(json!({"backend": "b", "backends": {"a": 1, "b": 2}})).unwrap();
        let of = |name| backends.of(name).map(|backend| backend.value.clone());
        assert_eq!((of(None), of(Some("a")), of(Some("x"))), (Some(json!(2)), Some(json!(1)), None));
    }
}
