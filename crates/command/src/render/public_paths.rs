//! Paths of which a gateway asks no credential (`--public-path`), and the one that the gateway answers itself for load balancers
//! (`--health-path`).

use super::needs::GatewayNeeds;
use super::pattern::PathPattern;
use serde_json::{Value, json};

/// `[METHOD ]PATH`. A path with a slash at its end stands for everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicPath {
    method: Option<String>,
    path: String,
}

impl PublicPath {
    /// Reads `[METHOD ]PATH`.
    ///
    /// # Errors
    /// It is something else; the sentence says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (Some(method.to_owned()), path),
            None => (None, text),
        };
        let named = method.as_ref().is_none_or(|method| method.bytes().all(|byte| byte.is_ascii_uppercase()));
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#{}%\\;*".contains(&byte);
        if !named || !path.starts_with('/') || path == "/" || path.contains("//") || !path.bytes().all(plain) {
            return Err(
                "write a path such as /healthz, with a slash at its end for everything below it (/assets/), or a \
                        method and a path such as 'GET /status'"
                    .to_owned(),
            );
        }
        Ok(Self { method, path: path.to_owned() })
    }

    /// How the option has it.
    pub(crate) fn text(&self) -> String {
        self.method.iter().chain([&self.path]).cloned().collect::<Vec<_>>().join(" ")
    }

    /// The `match` of a rule or of a route in Envoy.
    pub(crate) fn matches(&self) -> Value {
        let path = if self.path.ends_with('/') { "prefix" } else { "path" };
        let Some(method) = &self.method else { return json!({path: self.path}) };
        let methods = if method == "GET" { "GET|HEAD" } else { method };
        json!({path: self.path, "headers": [{"name": ":method", "string_match": {"safe_regex": {"regex": methods}}}]})
    }

    /// Whether a path can fit this one and a template of the policy.
    fn overlaps(&self, template: &str) -> bool {
        let own = PathPattern::new(&self.path);
        if !self.path.ends_with('/') {
            return own.overlaps(&PathPattern::new(template));
        }
        let segments = |text: &str| text.split('/').filter(|text| !text.is_empty()).count();
        let length = segments(&self.path);
        let first: Vec<&str> = template.split('/').filter(|text| !text.is_empty()).take(length).collect();
        segments(template) > length && own.overlaps(&PathPattern::new(&first.join("/")))
    }

    fn takes(&self, methods: &[String]) -> bool {
        let same = |method: &String| match self.method.as_deref() {
            None => true,
            Some("GET" | "HEAD") => method == "GET" || method == "HEAD",
            Some(own) => own == method,
        };
        methods.iter().any(same)
    }

    /// Whether the filter answers such requests as the operator of the gateway means it.
    ///
    /// # Errors
    /// A route of the policy that takes keys has such a path, so that it needs the caller; or the policy lets no such request through.
    /// The sentence says what to write.
    pub(crate) fn check(&self, needs: &GatewayNeeds) -> Result<(), String> {
        let routes = || needs.routes.iter().filter(|route| self.overlaps(&route.path) && self.takes(&route.methods));
        if let Some(route) = routes().find(|route| route.keyed) {
            return Err(format!(
                "--public-path {}: the route {} takes keys, and a key belongs to a caller, who is not known without a credential; \
                 name another path, or a method before the path",
                self.text(),
                route.endpoint
            ));
        }
        if needs.forwards_unmatched().is_none() && routes().next().is_none() {
            let target = if needs.closed { ", \"target\": \"SERVICE/HANDLER\"" } else { "" };
            return Err(format!(
                "--public-path {}: the filter answers 404 there, because no route of the policy takes it; add the route \
                 {{\"endpoint\": \"public\", \"path\": \"{}\", \"methods\": [\"{}\"], \"policy\": \"PROHIBITED\"{target}}}",
                self.text(),
                if self.path.ends_with('/') { format!("{}{{name}}", self.path) } else { self.path.clone() },
                self.method.as_deref().unwrap_or("GET"),
            ));
        }
        Ok(())
    }
}

/// The path at which the gateway itself answers that it works.
///
/// # Errors
/// `asked` for a path that the policy or `public` has; the sentence says what to write. Where nothing is asked for and `/healthz` is
/// taken, there is none.
pub(crate) fn health_path(
    asked: Option<&PublicPath>,
    needs: &GatewayNeeds,
    public: &[PublicPath],
) -> Result<Option<String>, String> {
    let usual = PublicPath { method: None, path: "/healthz".to_owned() };
    let path = asked.unwrap_or(&usual);
    let whole = |path: &PublicPath| path.method.is_none() && !path.path.ends_with('/');
    if !whole(path) {
        return Err(format!("--health-path {}: write one path, such as /healthz", path.text()));
    }
    let route = needs.routes.iter().find(|route| path.overlaps(&route.path)).map(|route| &route.endpoint);
    let is_public = public.iter().any(|public| public.overlaps(&path.path));
    match (asked, route, is_public) {
        (_, None, false) => Ok(Some(path.path.clone())),
        (None, ..) => Ok(None),
        (Some(_), Some(endpoint), _) => Err(format!(
            "--health-path {}: the route {endpoint} of the policy takes this path; choose another",
            path.path
        )),
        (Some(_), None, true) => {
            Err(format!("--health-path {0}: --public-path leads {0} to the backend; choose another path", path.path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_with_its_method() {
        let read = |text| PublicPath::parse(text).map(|path| path.matches());
        assert_eq!(read("/healthz").unwrap(), json!({"path": "/healthz"}));
        assert_eq!(read("/assets/").unwrap(), json!({"prefix": "/assets/"}));
        let get = read("GET /status").unwrap();
        assert_eq!(get["headers"][0]["string_match"]["safe_regex"]["regex"], "GET|HEAD");
        for text in ["", "/", "healthz", "get /a", "/a?b", "/a/{b}", "/a%2Fb", "//a", "GET  /a", "/a/*"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_meets_templates() {
        let meets = |path: &str, template: &str| PublicPath::parse(path).unwrap().overlaps(template);
        assert!(meets("/orders", "/orders") && meets("/orders", "/{any}") && !meets("/orders", "/orders/{id}"));
        assert!(meets("/a/", "/a/b") && meets("/a/", "/{x}/b/c") && !meets("/a/", "/a") && !meets("/a/", "/b/a"));
    }
}
