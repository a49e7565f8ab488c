//! Policies made of near misses.

use super::documents::{
    BackendModel, IdentityModel, KeyRulesModel, Kind, Place, PolicyModel, RouteModel, ScopeModel, Segment, SourceModel,
    TargetModel,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(super) const HEADERS: [&str; 6] =
    ["x-tenant-id", "x-project-id", "x-subject", "x-auth-tenant", "x-auth-project", "x-auth-subject"];
/// Headers with payloads; other sources read the second one as it is.
pub(super) const PAYLOADS: [&str; 2] = ["x-jwt-payload", "x-auth-subject"];
pub(super) const NAMESPACES: [[&str; 2]; 3] = [["jwt_authn", "jwt"], ["jwt_authn", "partner"], ["ext.authz", "who"]];

/// Where a source reads its parts.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Headers,
    Payload(&'static str),
    Metadata([&'static str; 2]),
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        2 => Just(Origin::Headers),
        3 => prop_oneof![4 => Just(PAYLOADS[0]), 1 => Just(PAYLOADS[1])].prop_map(Origin::Payload),
        4 => select(NAMESPACES.to_vec()).prop_map(Origin::Metadata),
    ]
}

impl Origin {
    /// A header, a claim or a member of the metadata.
    fn at(self, names: &[&'static str]) -> Place {
        match self {
            Self::Headers => Place::Header(names[0]),
            Self::Payload(header) => Place::Claim(header, names.to_vec()),
            Self::Metadata(namespace) => Place::Metadata([&namespace, names].concat()),
        }
    }
}

fn place(origin: Origin) -> BoxedStrategy<Place> {
    match origin {
        Origin::Headers => select(HEADERS.to_vec()).prop_map(Place::Header).boxed(),
        Origin::Payload(_) | Origin::Metadata(_) => {
            select(vec![&["tenant_id"][..], &["project_id"], &["sub"], &["claims", "sub"], &["a.b"]])
                .prop_map(move |names| origin.at(names))
                .boxed()
        }
    }
}

/// The place of a tenant or a project.
fn place_or_constant(origin: Origin) -> BoxedStrategy<Place> {
    prop_oneof![5 => place(origin), 1 => select(vec!["acme", "main"]).prop_map(Place::Constant)].boxed()
}

fn source() -> impl Strategy<Value = SourceModel> {
    origin().prop_flat_map(|origin| {
        let kind = option::of(select(vec!["user", "service", "device"]));
        let subject = prop_oneof![
            5 => (place(origin), kind),
            1 => select(vec!["service:worker", "user:a%3Ab", "client:acme"]).prop_map(|text| (Place::Constant(text), None)),
        ];
        (place_or_constant(origin), option::weighted(0.8, place_or_constant(origin)), subject)
            .prop_map(|(tenant, project, (subject, kind))| SourceModel { tenant, project, subject, kind })
            .prop_filter("a source reads a part of the request", |source| {
                let places = [Some(&source.tenant), source.project.as_ref(), Some(&source.subject)];
                places.into_iter().flatten().any(|place| !matches!(place, Place::Constant(_)))
            })
    })
}

/// A source as people write them, rather than any.
fn likely_source() -> impl Strategy<Value = SourceModel> {
    (origin(), any::<bool>(), any::<bool>()).prop_map(|(origin, auth, typed)| {
        if !matches!(origin, Origin::Headers) {
            let at = |name: &'static str| origin.at(&[name]);
            let kind = typed.then_some("user");
            return SourceModel { tenant: at("tenant_id"), project: Some(at("project_id")), subject: at("sub"), kind };
        }
        let at = |name: &'static str, other: &'static str| Place::Header(if auth { name } else { other });
        SourceModel {
            tenant: at("x-auth-tenant", "x-tenant-id"),
            project: Some(at("x-auth-project", "x-project-id")),
            subject: at("x-auth-subject", "x-subject"),
            kind: typed.then_some("client"),
        }
    })
}

fn identity() -> impl Strategy<Value = IdentityModel> {
    let sources = vec(prop_oneof![3 => likely_source().boxed(), 1 => source().boxed()], 1..4);
    let forward = prop_oneof![
        Just([None, None, None]),
        Just([Some("x-tenant-id"), Some("x-project-id"), Some("x-subject")]),
        Just([Some("x-auth-subject"), None, Some("x-who")]),
        Just([None, Some("x-tenant-id"), Some("x-auth-tenant")]),
    ];
    (sources, forward).prop_map(|(sources, forward)| IdentityModel { sources, forward })
}

fn segment() -> impl Strategy<Value = Segment> {
    prop_oneof![
        2 => Just(Segment::Parameter),
        1 => select(vec!["x", "x.", "key:", "a", "%C3%A9"]).prop_map(Segment::Prefixed),
        5 => select(vec!["a", "b", "v1", "x.y", "~", "a:b", "c%3Ad", "...", "%C3%A9"]).prop_map(Segment::Literal),
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
    let scope =
        prop_oneof![4 => Just(ScopeModel::Project), 1 => Just(ScopeModel::Tenant), 1 => Just(ScopeModel::Platform)];
    let query = prop_oneof![2 => Just(vec![]), 1 => Just(vec!["page", "page_token"])];
    let either = |one, other| prop_oneof![Just(one), Just(other)];
    let collision = (either("enforce", "observe"), either("raw", "json"));
    let collision = option::of(collision.prop_map(|(mode, fingerprint)| [mode, fingerprint]));
    let keys = (any::<bool>(), prop::bool::weighted(0.3)).prop_map(|(visible, named)| KeyRulesModel { visible, named });
    let flags = (collision, any::<bool>(), prop_oneof![3 => Just(false), 1 => Just(true)], 0_usize..2);
    let rules = (option::weighted(0.3, keys), flags);
    let rest = (option::weighted(0.3, any::<bool>()), option::weighted(0.2, identity()), query, rules);
    (vec(segment(), 0..4), hosts, methods, kinds, scope, rest).prop_flat_map(
        |(
            path,
            hosts,
            methods,
            (kind, webhook),
            scope,
            (shadow, identity, query, (keys, (collision, in_flight, shares_keys, backend))),
        )| {
            let parameters = path.iter().filter(|segment| !matches!(segment, Segment::Literal(_))).count();
            let takes_keys = matches!(kind, Kind::RequiredA | Kind::Accepted) && !webhook;
            target(parameters, scope == ScopeModel::Project).prop_map(move |target| RouteModel {
                shares_keys: shares_keys
                    && takes_keys
                    && !target.as_ref().is_some_and(|target| target.key.contains(&"subject")),
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
                keys: keys.filter(|_| takes_keys),
                collision: collision.filter(|_| takes_keys),
                in_flight: in_flight && takes_keys,
                encoded_slash: false,
                backend,
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
    let simple = route().prop_map(|route| RouteModel {
        target: None,
        collision: None,
        in_flight: false,
        query: Vec::new(),
        identity: None,
        backend: 0,
        ..route
    });
    vec(simple, 2..8)
}

/// Gives sources a project where without one they could serve no route that uses them, or no source could serve a route.
fn mend(identity: &mut IdentityModel, users: &[&RouteModel]) {
    let needs = |route: &RouteModel| {
        let target = route.target.as_ref();
        matches!(route.kind, Kind::RequiredA | Kind::Accepted) || target.is_some_and(TargetModel::needs_identity)
    };
    let of_clients = || users.iter().filter(|route| !route.webhook);
    let wider = of_clients().any(|route| route.scope != ScopeModel::Project);
    let narrow = of_clients().any(|route| route.scope == ScopeModel::Project && needs(route));
    let all_lack = identity.sources.iter().all(|source| source.project.is_none());
    for (index, source) in identity.sources.iter_mut().enumerate() {
        if source.project.is_none() && narrow && (!wider || (all_lack && index == 0)) {
            source.project = Some(Place::Constant("main"));
        }
    }
}

fn backend() -> impl Strategy<Value = BackendModel> {
    let keep = prop_oneof![3 => Just(vec![]), 1 => Just(vec!["authorization", "origin"]), 1 => Just(vec!["cookie", "x-hook-token"])];
    let likely = prop_oneof![3 => Just(true), 1 => Just(false)];
    let reserved = option::weighted(0.3, select(vec!["/b", "/v1", "/Svc"]));
    (likely, any::<bool>(), keep, reserved).prop_map(|(restate, rewrite, keep, reserved)| BackendModel {
        restate,
        rewrite,
        keep,
        reserved,
    })
}

/// One backend, without a name or with one, or two.
fn backends() -> impl Strategy<Value = (Vec<BackendModel>, Option<[&'static str; 2]>)> {
    let names = select(vec![["api", "restate"], ["restate", "api"], ["b", "a"]]);
    prop_oneof![
        2 => backend().prop_map(|one| (vec![one], None)),
        1 => (backend(), names.clone()).prop_map(|(one, names)| (vec![one], Some(names))),
        4 => (backend(), backend(), names).prop_map(|(one, other, names)| (vec![one, other], Some(names))),
    ]
}

/// Whether a backend closes a route's path, or the service of its target.
fn is_reserved(route: &RouteModel, backend: &BackendModel) -> bool {
    let reserved = backend.reserved.map(|path| &path[1..]);
    matches!(route.path.first(), Some(Segment::Literal(first)) if Some(*first) == reserved)
        || route.target.as_ref().is_some_and(|target| Some(target.service) == reserved)
}

/// Makes a route one that a policy with these backends and the routes before it can have; `None` if it cannot.
fn fitted(mut route: RouteModel, backends: &[BackendModel], routes: &[RouteModel]) -> Option<RouteModel> {
    route.backend = route.backend.min(backends.len() - 1);
    let backend = &backends[route.backend];
    if is_reserved(&route, backend) || routes.iter().any(|other| conflict(&route, other)) {
        return None;
    }
    route.endpoint = format!("r{}", routes.len());
    if !backend.rewrite || route.target.is_none() {
        route.query.clear();
        route.collision = None;
    }
    route.in_flight &= backend.restate && route.target.is_some();
    if let Some(target) = &mut route.target {
        // Methods share the target's results, and only Restate takes one-way requests.
        let mut writing = 0;
        route.methods.retain(|method| {
            writing += usize::from(!["GET", "HEAD"].contains(method));
            ["GET", "HEAD"].contains(method) || writing == 1
        });
        target.one_way &= backend.restate;
    }
    if let Some(mut identity) = route.identity.take() {
        mend(&mut identity, &[&route]);
        route.identity = Some(identity);
    }
    Some(route)
}

/// A policy that compiles.
pub(crate) fn policy() -> impl Strategy<Value = PolicyModel> {
    let unmatched = select(vec!["REJECT", "PROHIBITED", "HANDLER_INTERNAL_C"]);
    let likely = || prop_oneof![3 => Just(true), 1 => Just(false)];
    let modes = (likely().prop_map(|enforce| !enforce), likely());
    let keys = (any::<bool>(), prop::bool::weighted(0.3)).prop_map(|(visible, named)| KeyRulesModel { visible, named });
    let rules = (keys, any::<bool>(), any::<[bool; 2]>(), any::<bool>());
    (modes, unmatched, backends(), identity(), rules, vec(route(), 1..7)).prop_map(
        |((shadow, gateway_routes), unmatched, (mut backends, names), mut identity, rules, generated)| {
            let (keys, parameters, [future_keys, key_copies], mark_all) = rules;
            // A policy has a route.
            let of_first = generated[0].backend.min(backends.len() - 1);
            backends[of_first].reserved =
                backends[of_first].reserved.filter(|_| !is_reserved(&generated[0], &backends[of_first]));
            let mut routes: Vec<RouteModel> = Vec::new();
            for route in generated {
                routes.extend(fitted(route, &backends, &routes));
            }
            let users: Vec<&RouteModel> = routes.iter().filter(|route| route.identity.is_none()).collect();
            mend(&mut identity, &users);
            PolicyModel {
                shadow,
                gateway_routes,
                mark_all,
                unmatched: if backends[0].rewrite { "REJECT" } else { unmatched },
                backends,
                names,
                identity,
                keys,
                parameters,
                future_keys,
                key_copies,
                routes,
            }
        },
    )
}
