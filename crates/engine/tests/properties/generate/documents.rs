//! The parts of a policy that the properties vary, and the document that they make.

use crate::properties::model::{CallerModel, percent_encoded};
use serde_json::{Map, Value as Json, json};
use std::fmt;

/// The policies that a caller's key can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    RequiredA,
    Accepted,
    HandlerInternalC,
    Prohibited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeModel {
    Project,
    Tenant,
    Platform,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(&'static str),
    /// Named by its place: `{p0}`, `{p1}`
    Parameter,
    /// The same behind a text
    Prefixed(&'static str),
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    Header(&'static str),
    /// The header with a payload, then the names down to a claim in it
    Claim(&'static str, Vec<&'static str>),
    /// The namespace, then the members
    Metadata(Vec<&'static str>),
    /// A value of the document, for a tenant or a project
    Constant(&'static str),
}

#[derive(Debug, Clone)]
pub(crate) struct SourceModel {
    pub(crate) tenant: Place,
    pub(crate) project: Option<Place>,
    pub(crate) subject: Place,
    pub(crate) kind: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) struct IdentityModel {
    pub(crate) sources: Vec<SourceModel>,
    /// For tenant, project and subject
    pub(crate) forward: [Option<&'static str>; 3],
}

/// A target; pieces of the object key are `tenant`, `project`, `subject`, `p0` … or literal text.
#[derive(Debug, Clone)]
pub(crate) struct TargetModel {
    pub(crate) service: &'static str,
    pub(crate) key: Vec<&'static str>,
    pub(crate) one_way: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct RouteModel {
    pub(crate) endpoint: String,
    pub(crate) path: Vec<Segment>,
    /// Whether the values of parameters may contain escaped slashes
    pub(crate) encoded_slash: bool,
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) methods: Vec<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) webhook: bool,
    pub(crate) scope: ScopeModel,
    pub(crate) shadow: Option<bool>,
    pub(crate) identity: Option<IdentityModel>,
    pub(crate) target: Option<TargetModel>,
    pub(crate) query: Vec<&'static str>,
    /// Whether all callers share the keys; only on routes that take clients' keys
    pub(crate) shares_keys: bool,
    /// The rules for keys, where the route has its own; only on routes that take clients' keys
    pub(crate) keys: Option<KeyRulesModel>,
    /// The mode of collision detection, and the fingerprint
    pub(crate) collision: Option<[&'static str; 2]>,
    /// Whether duplicates of requests under way are refused
    pub(crate) in_flight: bool,
    /// The place of its backend in the policy
    pub(crate) backend: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct BackendModel {
    /// Whether it is Restate
    pub(crate) restate: bool,
    pub(crate) rewrite: bool,
    /// Request headers that it gets although the default removes them
    pub(crate) keep: Vec<&'static str>,
    /// One path, of one segment
    pub(crate) reserved: Option<&'static str>,
}

/// The rules for clients' keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRulesModel {
    /// Whether keys may hold every visible ASCII character except the comma
    pub(crate) visible: bool,
    /// Whether keys may be in [`OWN_KEY`], too
    pub(crate) named: bool,
}

impl KeyRulesModel {
    fn document(self) -> Json {
        let mut rules = json!({"charset": if self.visible { "visible" } else { "unreserved" }});
        if self.named {
            rules["from"] = json!([OWN_KEY]);
        }
        rules
    }
}

#[derive(Clone)]
pub(crate) struct PolicyModel {
    pub(crate) shadow: bool,
    /// The default comes first
    pub(crate) backends: Vec<BackendModel>,
    /// Their names, where the document names them
    pub(crate) names: Option<[&'static str; 2]>,
    /// Whether the gateway's routes may name endpoints
    pub(crate) gateway_routes: bool,
    pub(crate) mark_all: bool,
    pub(crate) unmatched: &'static str,
    pub(crate) identity: IdentityModel,
    pub(crate) keys: KeyRulesModel,
    /// Whether the path's parameters go to the backend as headers that begin with [`PARAMETERS`]
    pub(crate) parameters: bool,
    /// Whether the backend gets the future key in [`FUTURE_KEY`] in shadow mode
    pub(crate) future_keys: bool,
    /// Whether the first backend gets the key in [`KEY_COPY`], too
    pub(crate) key_copies: bool,
    pub(crate) routes: Vec<RouteModel>,
}

/// The header of future keys.
pub(crate) const FUTURE_KEY: &str = "future-key";
/// Where clients may send their keys, too
pub(crate) const OWN_KEY: &str = "own-key";
/// The header of `key_header`.
pub(crate) const KEY_COPY: &str = "x-idempotency-key";

/// The beginning of the headers with path parameters.
pub(crate) const PARAMETERS: &str = "x-path-";

/// The id and the provider of the one webhook that every policy binds; its provider's identifier comes, as GitLab's
/// does, in `Idempotency-Key`.
pub(crate) const HOOK: (&str, &str) = ("wh_01JABCDEF", "in_house");
pub(crate) const HOOK_TOKEN: &str = "hook-token";

impl TargetModel {
    pub(crate) fn needs_identity(&self) -> bool {
        self.key.iter().any(|piece| ["tenant", "project", "subject"].contains(piece))
    }

    pub(crate) fn text(&self) -> String {
        let is_placeholder = |piece: &str| ["tenant", "project", "subject", "p0", "p1"].contains(&piece);
        let key: String = self
            .key
            .iter()
            .map(|piece| if is_placeholder(piece) { format!("{{{piece}}}") } else { (*piece).to_owned() })
            .collect();
        if key.is_empty() { format!("{}/run", self.service) } else { format!("{}/{key}/run", self.service) }
    }

    /// `None` where the object key is no segment. `restate`: in the form of Restate's paths.
    pub(crate) fn path(&self, restate: bool, values: &[Vec<u8>], caller: Option<&CallerModel>) -> Option<String> {
        let key: String = self
            .key
            .iter()
            .map(|piece| match *piece {
                "tenant" => percent_encoded(caller.unwrap().tenant.as_bytes()),
                "project" => percent_encoded(caller.unwrap().project.as_bytes()),
                "subject" => percent_encoded(caller.unwrap().subject.as_bytes()),
                "p0" | "p1" => {
                    let value = &values[usize::from(*piece == "p1")];
                    let is_last = self.key.iter().rfind(|piece| ["p0", "p1"].contains(piece)) == Some(piece);
                    let escaped = regex::bytes::Regex::new("(?-u)[%:]").unwrap();
                    let escape = |found: &regex::bytes::Captures<'_>| percent_encoded(&found[0]).into_bytes();
                    if is_last { percent_encoded(value) } else { percent_encoded(&escaped.replace_all(value, escape)) }
                }
                literal => literal.to_owned(),
            })
            .collect();
        let prefix = match (restate, self.one_way) {
            (false, _) => "",
            (true, false) => "/restate/call",
            (true, true) => "/restate/send",
        };
        if self.key.is_empty() {
            return Some(format!("{prefix}/{}/run", self.service));
        }
        (!["", ".", ".."].contains(&key.as_str())).then(|| format!("{prefix}/{}/{key}/run", self.service))
    }
}

impl fmt::Debug for PolicyModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policy {}", self.document())
    }
}

impl PolicyModel {
    /// Whether some rules have keys in [`OWN_KEY`].
    pub(crate) fn names_keys(&self) -> bool {
        let mut rules = self.routes.iter().filter_map(|route| route.keys);
        self.keys.named || rules.any(|rules| rules.named)
    }

    /// The simplest policy with these routes.
    pub(crate) fn of_routes(routes: Vec<RouteModel>) -> Self {
        let at = |name| Place::Metadata(vec!["jwt_authn", "jwt", name]);
        let source = SourceModel {
            tenant: at("tenant_id"),
            project: Some(at("project_id")),
            subject: at("sub"),
            kind: Some("user"),
        };
        let identity = IdentityModel { sources: vec![source], forward: [None; 3] };
        Self {
            shadow: false,
            backends: vec![BackendModel { restate: true, rewrite: false, keep: Vec::new(), reserved: None }],
            names: None,
            gateway_routes: true,
            mark_all: false,
            unmatched: "REJECT",
            identity,
            keys: KeyRulesModel { visible: false, named: false },
            parameters: false,
            future_keys: false,
            key_copies: false,
            routes,
        }
    }

    fn identities(&self) -> impl Iterator<Item = &IdentityModel> {
        std::iter::once(&self.identity).chain(self.routes.iter().filter_map(|route| route.identity.as_ref()))
    }

    /// Every header that a source reads or that tells the backend who calls.
    pub(crate) fn identity_headers(&self) -> Vec<&'static str> {
        let mut headers: Vec<&'static str> = Vec::new();
        for identity in self.identities() {
            headers.extend(identity.forward.iter().flatten());
            for source in &identity.sources {
                for place in [Some(&source.tenant), source.project.as_ref(), Some(&source.subject)] {
                    if let Some(Place::Header(name) | Place::Claim(name, _)) = place {
                        headers.push(name);
                    }
                }
            }
        }
        headers
    }

    /// Where tenants and projects are read.
    pub(crate) fn tenants_and_projects(&self) -> Vec<&Place> {
        let sources = self.identities().flat_map(|identity| &identity.sources);
        sources.flat_map(|source| [Some(&source.tenant), source.project.as_ref()]).flatten().collect()
    }

    pub(crate) fn hook_headers(&self) -> Vec<&'static str> {
        vec!["x-hook-token"]
    }

    /// The routes of a backend.
    pub(crate) fn routes_of(&self, backend: usize) -> impl Iterator<Item = &RouteModel> {
        self.routes.iter().filter(move |route| route.backend == backend)
    }

    /// First segments that are those of a backend's services.
    pub(crate) fn services(&self, backend: usize) -> Vec<&'static str> {
        self.routes_of(backend).filter_map(|route| route.target.as_ref()).map(|target| target.service).collect()
    }

    /// The policy document.
    pub(crate) fn document(&self) -> Json {
        let mode = |shadow: bool| if shadow { "shadow" } else { "enforce" };
        let routes: Vec<Json> = self.routes.iter().map(|route| route_document(route, self.names)).collect();
        let mut document = json!({
            "version": 1,
            "mode": mode(self.shadow),
            "unmatched": self.unmatched,
            "allow_inline_secrets": true,
            "identity": identity_document(&self.identity),
            "gateway_routes": self.gateway_routes,
            "mark_all": self.mark_all,
            "key": self.keys.document(),
            "routes": routes,
            "webhooks": {
                "static": {
                    HOOK.0: {"tenant": "hook-tenant", "project": "hook-project", "provider": HOOK.1, "secrets": [HOOK_TOKEN]}
                },
                "providers": {
                    HOOK.1: {
                        "schemes": [{"algorithm": "token", "signature": {"header": "x-hook-token"}}],
                        "identifiers": [{"header": "idempotency-key", "signed": false}]
                    }
                }
            }
        });
        if self.future_keys {
            document["shadow_key_header"] = json!(FUTURE_KEY);
        }
        let mut backends = self.backends.iter().map(backend_document).enumerate().map(|(index, mut backend)| {
            if self.key_copies && index == 0 {
                backend["key_header"] = json!(KEY_COPY);
            }
            backend
        });
        if self.parameters {
            document["parameter_headers"] = json!(PARAMETERS);
        }
        match self.names {
            None => document["backend"] = backends.next().unwrap(),
            Some(names) => {
                document["backend"] = json!(names[0]);
                document["backends"] = names.into_iter().map(str::to_owned).zip(backends).collect();
            }
        }
        document
    }
}

fn backend_document(backend: &BackendModel) -> Json {
    json!({
        "kind": if backend.restate { "restate" } else { "generic" },
        "rewrite_path": backend.rewrite,
        "keep_headers": backend.keep,
        "reserved_paths": backend.reserved.as_slice(),
        "cluster": "backend",
        "guard": {},
    })
}

fn place_document(place: &Place) -> Json {
    match place {
        Place::Header(name) => json!(name),
        Place::Claim(_, names) if names.len() == 1 => json!(names[0]),
        Place::Claim(_, names) => json!(names),
        Place::Constant(value) => json!({"value": value}),
        // The first two steps are the source's namespace.
        Place::Metadata(steps) if steps.len() == 3 => json!(steps[2]),
        Place::Metadata(steps) => json!(steps[2..]),
    }
}

fn identity_document(identity: &IdentityModel) -> Json {
    let sources = identity.sources.iter().enumerate().map(|(index, source)| {
        let mut subject = match &source.subject {
            Place::Constant(_) => place_document(&source.subject),
            place => json!({"field": place_document(place)}),
        };
        source.kind.inspect(|kind| subject["type"] = json!(kind));
        let mut document =
            json!({"name": format!("s{index}"), "tenant": place_document(&source.tenant), "subject": subject});
        source.project.as_ref().inspect(|place| document["project"] = place_document(place));
        let places = [Some(&source.tenant), source.project.as_ref(), Some(&source.subject)];
        match places.into_iter().flatten().find(|place| !matches!(place, Place::Constant(_))).unwrap() {
            Place::Metadata(steps) => document["metadata"] = json!(steps[..2]),
            Place::Claim(header, _) => {
                document["headers_owned_by"] = json!("jwt_authn");
                document["payload_header"] = json!(header);
            }
            _ => document["headers_owned_by"] = json!("ext_authz"),
        }
        document
    });
    let names = ["tenant", "project", "subject"].into_iter().zip(identity.forward);
    let forward: Map<String, Json> =
        names.filter_map(|(name, header)| Some((name.to_owned(), json!(header?)))).collect();
    json!({"sources": sources.collect::<Vec<_>>(), "forward": forward})
}

pub(crate) fn template(route: &RouteModel) -> String {
    let mut parameters = 0;
    let mut next = |prefix: &str| {
        parameters += 1;
        format!("{prefix}{{p{}}}", parameters - 1)
    };
    let segments = route.path.iter().map(|segment| match segment {
        Segment::Literal(text) => (*text).to_owned(),
        Segment::Parameter => next(""),
        Segment::Prefixed(prefix) => next(prefix),
    });
    format!("/{}", segments.collect::<Vec<_>>().join("/"))
}

fn route_document(route: &RouteModel, names: Option<[&'static str; 2]>) -> Json {
    let policy = match route.kind {
        Kind::RequiredA if route.webhook => "REQUIRED_B",
        Kind::RequiredA => "REQUIRED_A",
        Kind::Accepted => "ACCEPTED",
        Kind::HandlerInternalC => "HANDLER_INTERNAL_C",
        Kind::Prohibited => "PROHIBITED",
    };
    let scope = match route.scope {
        ScopeModel::Project => "project",
        ScopeModel::Tenant => "tenant",
        ScopeModel::Platform => "platform",
    };
    let mut document = json!({
        "endpoint": route.endpoint,
        "path": template(route),
        "methods": route.methods,
        "policy": policy,
        "scope": scope,
        "subject": if route.shares_keys { "none" } else { "caller" },
        "query": route.query,
        "hosts": route.hosts,
        // Routes of one path, which the model has, would be recovered at one place.
        "recovery": false,
    });
    // The default goes without saying, on some routes.
    let is_said = route.backend != 0 || route.methods.len() > 1;
    names.filter(|_| is_said).inspect(|names| document["backend"] = json!(names[route.backend]));
    route.keys.inspect(|keys| document["key"] = keys.document());
    if route.webhook {
        document["webhook"] = json!({"id": HOOK.0, "provider": HOOK.1});
    }
    route.shadow.inspect(|shadow| document["mode"] = json!(if *shadow { "shadow" } else { "enforce" }));
    route.identity.as_ref().inspect(|identity| document["identity"] = identity_document(identity));
    if route.in_flight {
        document["in_flight"] = json!("conflict");
    }
    if let Some([mode, fingerprint]) = route.collision {
        document["collision"] = json!(mode);
        document["fingerprint"] = json!(fingerprint);
    }
    if let Some(target) = &route.target {
        document["target"] = json!(target.text());
        document["one_way"] = json!(target.one_way);
    }
    document
}
