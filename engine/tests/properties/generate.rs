//! Policies and requests made of near misses.

use crate::model::{Caller, percent_encoded};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value as Json, json};
use std::fmt;
use testkit::attributes::JsonAttributes;
use testkit::requests::{Line, Request};

/// The policies that a caller's key can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    RequiredA,
    Accepted,
    HandlerInternalC,
    Prohibited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Project,
    Tenant,
    Platform,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(&'static str),
    /// Named by its place: `{p0}`, `{p1}`
    Parameter,
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    Header(&'static str),
    /// The namespace, then the members
    Metadata(Vec<&'static str>),
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
    pub(crate) device: bool,
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
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) methods: Vec<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) webhook: bool,
    pub(crate) scope: Scope,
    pub(crate) shadow: Option<bool>,
    pub(crate) identity: Option<IdentityModel>,
    pub(crate) target: Option<TargetModel>,
    pub(crate) query: Vec<&'static str>,
}

#[derive(Clone)]
pub(crate) struct PolicyModel {
    pub(crate) shadow: bool,
    pub(crate) unmatched: &'static str,
    pub(crate) rewrite: bool,
    pub(crate) identity: IdentityModel,
    pub(crate) keep: Vec<&'static str>,
    pub(crate) routes: Vec<RouteModel>,
}

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

    /// `None` where the object key is no segment.
    pub(crate) fn path(&self, values: &[Vec<u8>], caller: Option<&Caller>) -> Option<String> {
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
        let send = if self.one_way { "/send" } else { "" };
        if self.key.is_empty() {
            return Some(format!("/{}/run{send}", self.service));
        }
        (!["", ".", ".."].contains(&key.as_str())).then(|| format!("/{}/{key}/run{send}", self.service))
    }
}

impl fmt::Debug for PolicyModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policy {}", self.document())
    }
}

impl PolicyModel {
    /// The simplest policy with these routes.
    pub(crate) fn of_routes(routes: Vec<RouteModel>) -> Self {
        let at = |name| Place::Metadata(vec!["jwt_authn", "jwt", name]);
        let source = SourceModel {
            tenant: at("tenant_id"),
            project: Some(at("project_id")),
            subject: at("sub"),
            kind: Some("user"),
        };
        let identity = IdentityModel { sources: vec![source], forward: [None; 3], device: false };
        Self { shadow: false, unmatched: "REJECT", rewrite: false, identity, keep: Vec::new(), routes }
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
                    if let Some(Place::Header(name)) = place {
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

    /// First segments that are the backend's.
    pub(crate) fn services(&self) -> Vec<&'static str> {
        self.routes.iter().filter_map(|route| route.target.as_ref()).map(|target| target.service).collect()
    }

    pub(crate) fn types(&self, identity: &IdentityModel) -> Vec<&'static str> {
        let device = identity.device.then_some("device");
        ["user", "service", "tenant_member", "client", "platform_member"].into_iter().chain(device).collect()
    }

    /// The policy document.
    pub(crate) fn document(&self) -> Json {
        let mode = |shadow: bool| if shadow { "shadow" } else { "enforce" };
        let routes: Vec<Json> = self.routes.iter().map(route_document).collect();
        json!({
            "version": 1,
            "mode": mode(self.shadow),
            "unmatched": self.unmatched,
            "allow_inline_secrets": true,
            "identity": identity_document(&self.identity),
            "backend": {"rewrite_path": self.rewrite, "keep_headers": self.keep},
            "routes": routes,
            "webhooks": {
                "subject": "service:hooks",
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
        })
    }
}

fn place_document(place: &Place) -> Json {
    match place {
        Place::Header(name) => json!(name),
        // The first two steps are the source's namespace.
        Place::Metadata(steps) if steps.len() == 3 => json!(steps[2]),
        Place::Metadata(steps) => json!(steps[2..]),
    }
}

fn identity_document(identity: &IdentityModel) -> Json {
    let sources = identity.sources.iter().enumerate().map(|(index, source)| {
        let mut subject = json!({"field": place_document(&source.subject)});
        source.kind.inspect(|kind| subject["type"] = json!(kind));
        let mut document =
            json!({"name": format!("s{index}"), "tenant": place_document(&source.tenant), "subject": subject});
        source.project.as_ref().inspect(|place| document["project"] = place_document(place));
        match &source.tenant {
            Place::Header(_) => document["headers_owned_by"] = json!("ext_authz"),
            Place::Metadata(steps) => document["metadata"] = json!(steps[..2]),
        }
        document
    });
    let names = ["tenant", "project", "subject"].into_iter().zip(identity.forward);
    let forward: Map<String, Json> =
        names.filter_map(|(name, header)| Some((name.to_owned(), json!(header?)))).collect();
    let types: &[&str] = if identity.device { &["device"] } else { &[] };
    json!({"sources": sources.collect::<Vec<_>>(), "forward": forward, "subject_types": types})
}

pub(crate) fn template(route: &RouteModel) -> String {
    let mut parameters = 0;
    let segments = route.path.iter().map(|segment| match segment {
        Segment::Literal(text) => (*text).to_owned(),
        Segment::Parameter => {
            parameters += 1;
            format!("{{p{}}}", parameters - 1)
        }
    });
    format!("/{}", segments.collect::<Vec<_>>().join("/"))
}

fn route_document(route: &RouteModel) -> Json {
    let policy = match route.kind {
        Kind::RequiredA if route.webhook => "REQUIRED_B",
        Kind::RequiredA => "REQUIRED_A",
        Kind::Accepted => "ACCEPTED",
        Kind::HandlerInternalC => "HANDLER_INTERNAL_C",
        Kind::Prohibited => "PROHIBITED",
    };
    let scope = match route.scope {
        Scope::Project => "project",
        Scope::Tenant => "tenant",
        Scope::Platform => "platform",
    };
    let mut document = json!({
        "endpoint": route.endpoint,
        "path": template(route),
        "methods": route.methods,
        "policy": policy,
        "scope": scope,
        "query": route.query,
        "hosts": route.hosts,
        // Routes of one path, which the model has, would be recovered at one place.
        "recovery": false,
    });
    if route.webhook {
        document["webhook"] = json!({"id": HOOK.0, "provider": HOOK.1});
    }
    route.shadow.inspect(|shadow| document["mode"] = json!(if *shadow { "shadow" } else { "enforce" }));
    route.identity.as_ref().inspect(|identity| document["identity"] = identity_document(identity));
    if let Some(target) = &route.target {
        document["target"] = json!(target.text());
        document["one_way"] = json!(target.one_way);
    }
    document
}

// Policies.

const HEADERS: [&str; 6] =
    ["x-tenant-id", "x-project-id", "x-subject", "x-auth-tenant", "x-auth-project", "x-auth-subject"];
const NAMESPACES: [[&str; 2]; 3] = [["jwt_authn", "jwt"], ["jwt_authn", "partner"], ["ext.authz", "who"]];

fn place(namespace: Option<[&'static str; 2]>) -> BoxedStrategy<Place> {
    match namespace {
        None => select(HEADERS.to_vec()).prop_map(Place::Header).boxed(),
        Some([first, second]) => {
            select(vec![vec!["tenant_id"], vec!["project_id"], vec!["sub"], vec!["claims", "sub"], vec!["a.b"]])
                .prop_map(move |members| Place::Metadata([first, second].into_iter().chain(members).collect()))
                .boxed()
        }
    }
}

fn source() -> impl Strategy<Value = SourceModel> {
    let namespace = option::weighted(0.6, select(NAMESPACES.to_vec()));
    namespace.prop_flat_map(|namespace| {
        let kind = option::of(select(vec!["user", "service", "device"]));
        (place(namespace), option::weighted(0.8, place(namespace)), place(namespace), kind)
            .prop_map(|(tenant, project, subject, kind)| SourceModel { tenant, project, subject, kind })
    })
}

/// A source as people write them, rather than any.
fn likely_source() -> impl Strategy<Value = SourceModel> {
    let metadata = (select(NAMESPACES.to_vec()), any::<bool>()).prop_map(|([first, second], typed)| {
        let at = |name: &'static str| Place::Metadata(vec![first, second, name]);
        let kind = typed.then_some("user");
        SourceModel { tenant: at("tenant_id"), project: Some(at("project_id")), subject: at("sub"), kind }
    });
    let headers = (any::<bool>(), any::<bool>()).prop_map(|(auth, typed)| {
        let at = |name: &'static str, other: &'static str| Place::Header(if auth { name } else { other });
        SourceModel {
            tenant: at("x-auth-tenant", "x-tenant-id"),
            project: Some(at("x-auth-project", "x-project-id")),
            subject: at("x-auth-subject", "x-subject"),
            kind: typed.then_some("client"),
        }
    });
    prop_oneof![metadata, headers]
}

fn identity() -> impl Strategy<Value = IdentityModel> {
    let sources = vec(prop_oneof![3 => likely_source().boxed(), 1 => source().boxed()], 1..4);
    let forward = prop_oneof![
        Just([None, None, None]),
        Just([Some("x-tenant-id"), Some("x-project-id"), Some("x-subject")]),
        Just([Some("x-auth-subject"), None, Some("x-who")]),
        Just([None, Some("x-tenant-id"), Some("x-auth-tenant")]),
    ];
    (sources, forward, any::<bool>()).prop_map(|(sources, forward, device)| IdentityModel { sources, forward, device })
}

fn segment() -> impl Strategy<Value = Segment> {
    prop_oneof![
        2 => Just(Segment::Parameter),
        5 => select(vec!["a", "b", "v1", "x.y", "~", "a:b", "a%3Ab", "...", "%C3%A9"]).prop_map(Segment::Literal),
    ]
}

fn target(parameters: usize, project: bool) -> BoxedStrategy<Option<TargetModel>> {
    let mut keys: Vec<Vec<&'static str>> =
        vec![vec![], vec!["main"], vec!["tenant", ":x"], vec!["subject"], vec!["x:", "subject", ":", "tenant"]];
    if project {
        keys.push(vec!["tenant", ":", "project", ":", "subject"]);
    }
    if parameters > 0 {
        keys.extend([vec!["p0"], vec!["tenant", ":", "p0"], vec!["p0", ":", "subject"]]);
    }
    if parameters > 1 {
        keys.extend([vec!["tenant", ":", "p0", ":", "p1"], vec!["p1", ":x:", "p0"]]);
    }
    let target = (select(vec!["Svc", "Obj", "_x"]), select(keys), any::<bool>());
    option::weighted(0.6, target.prop_map(|(service, key, one_way)| TargetModel { service, key, one_way })).boxed()
}

fn route() -> impl Strategy<Value = RouteModel> {
    let hosts = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec!["api.example.com"]),
        1 => Just(vec!["*.example.com"]),
        1 => Just(vec!["*.b.example.com", "api.example.com", "[::1]"]),
    ];
    let methods = prop_oneof![
        4 => Just(vec!["POST"]),
        1 => Just(vec!["GET"]),
        1 => Just(vec!["PUT", "POST", "OPTIONS"]),
        1 => Just(vec!["GET", "HEAD", "POST"]),
    ];
    let kinds = prop_oneof![
        4 => Just((Kind::RequiredA, false)),
        3 => Just((Kind::Accepted, false)),
        2 => Just((Kind::HandlerInternalC, false)),
        2 => Just((Kind::Prohibited, false)),
        1 => Just((Kind::RequiredA, true)),
        1 => Just((Kind::Accepted, true)),
        1 => Just((Kind::HandlerInternalC, true)),
    ];
    let scope = prop_oneof![4 => Just(Scope::Project), 1 => Just(Scope::Tenant), 1 => Just(Scope::Platform)];
    let query = prop_oneof![2 => Just(vec![]), 1 => Just(vec!["page", "page_token"])];
    let rest = (option::weighted(0.3, any::<bool>()), option::weighted(0.2, identity()), query);
    (vec(segment(), 0..4), hosts, methods, kinds, scope, rest).prop_flat_map(
        |(path, hosts, methods, (kind, webhook), scope, (shadow, identity, query))| {
            let parameters = path.iter().filter(|segment| **segment == Segment::Parameter).count();
            target(parameters, scope == Scope::Project).prop_map(move |target| RouteModel {
                endpoint: String::new(),
                path: path.clone(),
                hosts: hosts.clone(),
                methods: methods.clone(),
                kind,
                webhook,
                scope,
                shadow,
                identity: identity.clone(),
                target,
                query: query.clone(),
            })
        },
    )
}

/// Whether two routes take the same requests: the same template but for names, a host and a method in common.
pub(crate) fn conflict(one: &RouteModel, other: &RouteModel) -> bool {
    let hosts = |route: &RouteModel| if route.hosts.is_empty() { vec![""] } else { route.hosts.clone() };
    let methods = |route: &RouteModel| {
        let mut methods = route.methods.clone();
        methods.extend(route.methods.contains(&"GET").then_some("HEAD"));
        methods
    };
    one.path == other.path
        && hosts(one).iter().any(|host| hosts(other).contains(host))
        && methods(one).iter().any(|method| methods(other).contains(method))
}

/// Routes of which some conflict.
pub(crate) fn routes() -> impl Strategy<Value = Vec<RouteModel>> {
    let simple = route().prop_map(|route| RouteModel { target: None, query: Vec::new(), ..route });
    vec(simple, 2..8)
}

/// A policy that compiles.
pub(crate) fn policy() -> impl Strategy<Value = PolicyModel> {
    let unmatched = select(vec!["REJECT", "PROHIBITED", "HANDLER_INTERNAL_C"]);
    let keep = prop_oneof![3 => Just(vec![]), 1 => Just(vec!["authorization", "x-restate-trace"])];
    let shadow = prop_oneof![3 => Just(false), 1 => Just(true)];
    (shadow, unmatched, any::<bool>(), identity(), keep, vec(route(), 1..7)).prop_map(
        |(shadow, unmatched, rewrite, identity, keep, generated)| {
            let mut routes: Vec<RouteModel> = Vec::new();
            for mut route in generated {
                if routes.iter().any(|other| conflict(&route, other)) {
                    continue;
                }
                route.endpoint = format!("r{}", routes.len());
                if !rewrite || route.target.is_none() {
                    route.query.clear();
                }
                routes.push(route);
            }
            PolicyModel {
                shadow,
                unmatched: if rewrite { "REJECT" } else { unmatched },
                rewrite,
                identity,
                keep,
                routes,
            }
        },
    )
}

// Requests.

/// Values of `Idempotency-Key`: keys, and what is nearly one.
pub(crate) fn key_value() -> BoxedStrategy<Vec<u8>> {
    let pieces = [
        "a",
        "Z9",
        "t-",
        "T-",
        "-",
        ".",
        "_",
        "~",
        "\"",
        "\"",
        "\\",
        "\\\"",
        ",",
        ";",
        "; ",
        "=",
        "a=1",
        "b",
        "?1",
        "1.5",
        ":aGk=:",
        "*",
        " ",
        "\t",
        "%41",
        "é",
        "\u{1}",
        "t-acme:shop:user:u1:",
    ];
    let raw = "[A-Za-z0-9._~-]{1,12}";
    let parameters = "(; ?[a-z*][a-z0-9_.*-]{0,3}(=(-?[0-9]{1,3}(\\.[0-9]{1,4})?|\\?[012]|\"[a,;]{0,2}\"|:[a-z=]{0,3}:?|[A-Z*][a-z/:]{0,2}))?){0,2}";
    let soup = vec(
        prop_oneof![8 => select(pieces.to_vec()).prop_map(|text| text.as_bytes().to_vec()), 1 => vec(any::<u8>(), 1..3)],
        0..7,
    );
    prop_oneof![
        5 => raw.prop_map(String::into_bytes),
        2 => (raw, parameters).prop_map(|(key, rest)| format!("\"{key}\"{rest}").into_bytes()),
        1 => "[ \t]{0,2}\"?[ \t]?t-[a-z:]{0,20}\"?[ \t]?".prop_map(String::into_bytes),
        1 => (250_usize..260, any::<bool>()).prop_map(|(length, quoted)| {
            let key = "k".repeat(length);
            if quoted { format!("\"{key}\"").into_bytes() } else { key.into_bytes() }
        }),
        4 => soup.prop_map(|pieces| pieces.concat()),
    ]
    .boxed()
}

/// Tenants, projects and subjects, and what is nearly one.
fn identity_text() -> BoxedStrategy<String> {
    let odd = [
        "",
        ".",
        "..",
        "_tenant",
        "_platform",
        "a,b",
        "a\0b",
        "a\u{7f}",
        "user:",
        ":u",
        "User:u",
        "robot:r",
        "user:a:b",
        "é",
        "t-acme",
        "service:hooks",
        "device:d9",
    ];
    prop_oneof![
        2 => "[A-Za-z0-9._~:%@ -]{1,8}",
        3 => select(odd.to_vec()).prop_map(str::to_owned),
        1 => (60_usize..70).prop_map(|length| "x".repeat(length)),
        1 => (190_usize..205).prop_map(|length| format!("user:{}", "x".repeat(length))),
    ]
    .boxed()
}

/// Mostly a value that fits its place.
fn tenant_text() -> BoxedStrategy<String> {
    prop_oneof![8 => select(vec!["acme", "Acme", "shop", "..."]).prop_map(str::to_owned), 1 => identity_text()].boxed()
}

fn subject_text() -> BoxedStrategy<String> {
    prop_oneof![8 => select(vec!["user:u1", "u1", "client:a b", "user:u:1", "service:hooks"]).prop_map(str::to_owned), 1 => identity_text()].boxed()
}

/// A claim: mostly text, but any type of JSON.
fn claim(text: BoxedStrategy<String>) -> impl Strategy<Value = Json> {
    let odd = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1_234_567),
        // Printable as the eight bytes of a double.
        json!(f64::from_le_bytes(*b"acme-inc")),
        json!(9_007_199_254_740_993_u64),
        json!([]),
        json!(["acme"]),
        json!([null]),
        json!({}),
        json!({"sub": "u1"}),
    ];
    prop_oneof![20 => text.prop_map(Json::from), 1 => select(odd)]
}

fn metadata() -> impl Strategy<Value = Json> {
    let often = |text| option::weighted(0.95, claim(text));
    let nested = option::weighted(0.3, claim(subject_text()));
    let claims = (often(tenant_text()), often(tenant_text()), often(subject_text()), nested);
    let namespace = claims.prop_map(|(tenant, project, subject, nested)| {
        let members = [("tenant_id", tenant), ("project_id", project), ("sub", subject)];
        let given = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let mut object: Map<String, Json> = given.collect();
        if let Some(nested) = nested {
            object.insert("claims".to_owned(), json!({"sub": nested}));
            object.insert("a.b".to_owned(), nested);
        }
        Json::Object(object)
    });
    vec(option::weighted(0.6, namespace), NAMESPACES.len()).prop_map(|namespaces| {
        let mut metadata = json!({});
        for ([first, second], found) in NAMESPACES.into_iter().zip(namespaces) {
            if let Some(found) = found {
                metadata[first][second] = found;
            }
        }
        metadata
    })
}

const OTHER_HEADERS: [&str; 15] = [
    "authorization",
    "cookie",
    "x-api-key",
    "origin",
    "access-control-request-method",
    "x-restate-id",
    "x-restate-trace",
    "x-edge-idempotency",
    "x-http-method-override",
    "x-method-override",
    "x-who",
    "x-custom",
    "content-type",
    "x-hook-token",
    "idempotency-keys",
];

/// A name with some of its dashes as underscores.
fn spelled(name: &str, noise: u8) -> Vec<u8> {
    let mut bits = noise;
    name.bytes()
        .map(|byte| match byte {
            b'-' => {
                bits = bits.rotate_left(1);
                if bits & 1 == 1 { b'_' } else { b'-' }
            }
            other => other,
        })
        .collect()
}

/// Lines of any kind, in plain and in other spellings.
fn odd_lines(most: usize) -> BoxedStrategy<Vec<Line>> {
    let noise = || prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    let key = (noise(), key_value()).prop_map(|(noise, value)| (spelled("idempotency-key", noise), value));
    let identity = (select(HEADERS.to_vec()), noise(), identity_text())
        .prop_map(|(name, noise, value)| (spelled(name, noise), value.into_bytes()));
    let other = (select(OTHER_HEADERS.to_vec()), noise(), "[a-z ]{0,5}")
        .prop_map(|(name, noise, value)| (spelled(name, noise), value.into_bytes()));
    vec(prop_oneof![1 => key, 2 => identity, 4 => other], 0..most).boxed()
}

/// Header lines in any order: often one key, often a whole identity, and odd ones between them.
fn lines() -> BoxedStrategy<Vec<Line>> {
    let key =
        option::weighted(0.7, key_value()).prop_map(|value| value.map(|value| (b"idempotency-key".to_vec(), value)));
    let whole =
        (any::<bool>(), tenant_text(), tenant_text(), subject_text()).prop_map(|(auth, tenant, project, subject)| {
            let names = if auth {
                ["x-auth-tenant", "x-auth-project", "x-auth-subject"]
            } else {
                ["x-tenant-id", "x-project-id", "x-subject"]
            };
            let lines = names.into_iter().zip([tenant, project, subject]);
            lines.map(|(name, value)| (name.into(), value.into_bytes())).collect::<Vec<Line>>()
        });
    let token =
        any::<bool>().prop_map(|given| given.then(|| (b"x-hook-token".to_vec(), HOOK_TOKEN.as_bytes().to_vec())));
    let odd = prop_oneof![1 => Just(Vec::new()), 1 => odd_lines(6)];
    (key, option::of(whole), token, odd)
        .prop_map(|(key, whole, token, odd)| {
            let mut lines: Vec<Line> = whole.unwrap_or_default();
            lines.extend(key);
            lines.extend(token);
            lines.extend(odd);
            lines
        })
        .prop_shuffle()
        .boxed()
}

/// Other spellings of a path that are the same path, or ambiguous: escapes, empty and dot segments, a trailing slash.
pub(crate) fn respelled(path: &str, noise: &[u8], only_same: bool) -> String {
    let mut out = String::new();
    let mut noise = noise.iter().copied().chain(std::iter::repeat(255));
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let change = noise.next().unwrap_or(255);
        if byte == b'%' {
            // An escape stays one; its digits in the other case.
            let digits = String::from_utf8_lossy(&rest[..2]).into_owned();
            out += &format!("%{}", if change < 128 { digits.to_ascii_lowercase() } else { digits });
            rest = &rest[2..];
            continue;
        }
        match (change, byte) {
            (0..=20, b'/') => out.push_str("//"),
            (21..=35, b'/') => out.push_str("/./"),
            (36..=50, b'/') => out.push_str("/zz/../"),
            (51..=60, b'/') => out.push_str("/%2e/"),
            (61..=70, b'/') => out.push_str("/z/%2E%2e/"),
            (0..=5, _) if !only_same => out.push_str(["%2F", "%5C", ";", "\\", "%00", "%zz"][usize::from(change)]),
            (6..=60, _) if percent_encoded(&[byte]).len() == 1 => out += &format!("%{byte:02X}"),
            (61..=80, _) if percent_encoded(&[byte]).len() == 1 => out += &format!("%{byte:02x}"),
            _ => out.push(char::from(byte)),
        }
    }
    match noise.next().unwrap_or(255) {
        0..=40 => out.push('/'),
        41..=50 => out.push_str("/."),
        _ => {}
    }
    out
}

/// Values of path parameters.
fn parameter_value() -> BoxedStrategy<String> {
    prop_oneof![
        3 => "[a-z0-9]{1,3}",
        2 => select(vec!["a%2Fb", "%2F", "a:b", ":", "%25", "x%20y", "..%2F", "%C3%A9", "%3A", "a%253A", "%FF", "%7B", "...", "~"]).prop_map(str::to_owned),
    ]
    .boxed()
}

/// A path, a method and a host, often those of a route.
fn place_of_call(policy: &PolicyModel) -> BoxedStrategy<(String, &'static str, &'static str)> {
    const HOSTS: [&str; 16] = [
        "api.example.com",
        "API.Example.com:8443",
        "x.example.com",
        "a.b.example.com.",
        "example.com",
        "[::1]:80",
        "[::1",
        "",
        "other",
        "api.example.com:443",
        "api.example.com:x",
        "api.example.com:",
        "api.example.com:80:80",
        "api.example.com:65536",
        "u@api.example.com",
        "X.example.com",
    ];
    let routes = policy.routes.clone();
    let any_method = || select(vec!["GET", "HEAD", "POST", "post", "OPTIONS", "DELETE", ""]);
    let any_host = || select(HOSTS.to_vec());
    let others = (option::weighted(0.1, any_method()), option::weighted(0.3, any_host()));
    let to_route = (any::<Index>(), any::<Index>(), vec(parameter_value(), 4), others).prop_map(
        move |(index, place, values, (method, host))| {
            let route = index.get(&routes);
            let mut values = values.into_iter();
            let segments = route.path.iter().map(|segment| match segment {
                Segment::Literal(text) => (*text).to_owned(),
                Segment::Parameter => values.next().unwrap(),
            });
            let path = format!("/{}", segments.collect::<Vec<_>>().join("/"));
            let own_host = match route.hosts.first().copied() {
                Some("*.example.com") => "x.example.com",
                Some("*.b.example.com") => "a.b.example.com",
                other => other.unwrap_or("api.example.com"),
            };
            (path, method.unwrap_or_else(|| *place.get(&route.methods)), host.unwrap_or(own_host))
        },
    );
    let paths = ["/restate/health", "/restate", "/Svc/run", "/Obj/x/run", "/svc", "/", "/nothing", "/%2F"];
    let elsewhere = (select(paths.to_vec()).prop_map(str::to_owned), any_method(), any_host());
    prop_oneof![10 => to_route, 1 => elsewhere].boxed()
}

/// A request that has a chance to lead somewhere.
pub(crate) fn request(policy: &PolicyModel) -> BoxedStrategy<Request> {
    let noise = prop_oneof![3 => Just(Vec::new()), 1 => vec(any::<u8>(), 0..24)];
    let queries = ["", "page=2", "x=1&page=2&page%5Ftoken=a%26b", "pa%67e=3&%zz=1", "?", "delay=1h", "page+token=1"];
    let query = option::of(select(queries.to_vec()));
    let odd = [json!("nope"), json!(7), json!("")];
    let endpoints: Vec<Json> = policy.routes.iter().map(|route| json!(route.endpoint)).chain(odd).collect();
    let endpoint = option::weighted(0.1, select(endpoints));
    (place_of_call(policy), noise, query, endpoint, lines(), odd_lines(5), metadata())
        .prop_map(|((path, method, authority), noise, query, endpoint, lines, trailers, metadata)| {
            let path = respelled(&path, &noise, false);
            let target = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
            let mut headers: Vec<Line> =
                [(":authority", authority), (":path", &target), (":method", method), (":scheme", "https")]
                    .map(|(name, value)| (name.into(), value.into()))
                    .to_vec();
            headers.extend(lines);
            let attributes = JsonAttributes { metadata, endpoint };
            Request { headers, trailers, attributes, ..Request::default() }
        })
        .boxed()
}

/// A policy and a request for it.
pub(crate) fn exchange() -> impl Strategy<Value = (PolicyModel, Request)> {
    policy().prop_flat_map(|policy| {
        let request = request(&policy);
        (Just(policy), request)
    })
}
