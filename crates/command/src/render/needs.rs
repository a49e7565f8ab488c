//! What a policy asks of the gateway in front of it, read from the document.

use super::pattern::PathPattern;
use crate::lints::backends::Backends;
use crate::stores::{self, StoreUse};
use edge_idempotency_engine::policy::defaults::{BUFFER_MARGIN, GUARD, MAX_BODY_BYTES, WAIT_MS};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeSet;

/// The filter that verifies tokens.
pub(crate) const JWT_FILTER: &str = "envoy.filters.http.jwt_authn";

/// A route, as far as a gateway is concerned.
#[derive(Clone, Debug)]
pub(crate) struct RouteNeeds {
    pub(crate) endpoint: String,
    pub(crate) path: String,
    pub(crate) pattern: PathPattern,
    pub(crate) methods: Vec<String>,
    pub(crate) hosts: Vec<String>,
    /// It verifies deliveries of webhooks
    pub(crate) webhook: bool,
    /// Callers that sign may use it
    pub(crate) signed: bool,
    pub(crate) target: bool,
    /// The index of its backend
    pub(crate) backend: usize,
    /// The filter marks its requests: it writes their path, or their backend is not the default
    pub(crate) marked: bool,
    /// Results can be asked for
    pub(crate) recovery: bool,
    /// Its identity rules are the document's
    pub(crate) shares_identity: bool,
    /// The parameters of the query that reach the target; none if the path is not rewritten, and all of them reach the backend
    pub(crate) query: Option<Vec<String>>,
}

/// A backend, as far as a gateway is concerned.
#[derive(Clone, Debug)]
pub(crate) struct BackendNeeds {
    /// Its name, if the document has several; it is the value of the mark
    pub(crate) name: Option<String>,
    /// `generic` or `restate`
    pub(crate) generic: bool,
    rewrite: bool,
    /// The cluster of the filter's own calls
    pub(crate) cluster: Option<String>,
    /// Some requests for it are marked
    pub(crate) marked: bool,
    /// Requests wait for its results
    pub(crate) waits: bool,
    /// Headers that reach it although it would journal them
    pub(crate) keep_headers: Vec<String>,
}

impl BackendNeeds {
    /// The upstream of its requests, if the document names one. The `cluster` of a generic backend leads to the Restate of its guard.
    pub(crate) fn upstream(&self) -> Option<&str> {
        self.cluster.as_deref().filter(|_| !self.generic).or(self.name.as_deref())
    }
}

/// What a route takes from its document.
struct RouteDefaults<'d> {
    backends: &'d [BackendNeeds],
    mode: Option<String>,
}

/// What a policy asks of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct GatewayNeeds {
    /// The backends, the default first
    pub(crate) backends: Vec<BackendNeeds>,
    /// Every request that may pass is marked
    pub(crate) closed: bool,
    pub(crate) gateway_routes: bool,
    pub(crate) routes: Vec<RouteNeeds>,
    /// Bytes of the longest body that is waited for, and the margin
    pub(crate) buffer: u64,
    pub(crate) wait_ms: u64,
    /// Endpoints whose requests wait for their bodies
    pub(crate) waits: Vec<String>,
    /// Errors of the backend are cleaned, so they wait for their bodies
    pub(crate) cleans_errors: bool,
    /// Variables that hold secrets, in the document's order
    pub(crate) variables: Vec<String>,
    /// Clusters that lookups use, the name of a credential that the gateway adds, and the header for it
    pub(crate) lookups: Vec<LookupNeeds>,
    /// Members of the metadata of jwt_authn that sources read
    pub(crate) tokens: Vec<String>,
    /// Headers in which jwt_authn passes on payloads that sources read
    pub(crate) payloads: Vec<String>,
    /// Filters that own headers which sources read, and these headers
    pub(crate) owners: Vec<(String, Vec<String>)>,
    /// Headers of these that signed callers send themselves
    pub(crate) signed_headers: BTreeSet<String>,
    /// Sources that read other metadata than that of jwt_authn
    pub(crate) other_metadata: BTreeSet<String>,
    /// The header with API keys, if a source reads them
    pub(crate) api_keys: Option<String>,
    /// Paths that no client may call
    pub(crate) reserved: Vec<String>,
    /// Names of secrets that Envoy discovers
    pub(crate) sds: Vec<String>,
    /// The path of operations, and the index of their backend
    pub(crate) operations: Option<(String, usize)>,
    /// A route takes escaped slashes, in a parameter's value or in the key of a recovery path
    pub(crate) encoded_slash: bool,
}

/// Where a provider of jwt_authn leaves what it has verified.
#[derive(Clone, Debug)]
pub(crate) struct TokenPlaces {
    /// The provider's name
    pub(crate) key: String,
    /// The name of the metadata with the claims
    pub(crate) metadata: Option<String>,
    /// The header with the payload
    pub(crate) header: Option<String>,
}

/// A store that the filter asks.
#[derive(Clone, Debug)]
pub(crate) struct LookupNeeds {
    pub(crate) cluster: String,
    /// The credential that the gateway adds, if the policy has none: its name, the header, and what stands before it there
    pub(crate) credential: Option<(&'static str, &'static str, &'static str)>,
}

impl GatewayNeeds {
    /// Reads a document that is a policy.
    pub(crate) fn of(document: &Value) -> Self {
        let flag =
            |at: Option<&Value>, name| at.and_then(|at| at.get(name)).and_then(Value::as_bool).unwrap_or_default();
        let declared = Backends::<Value>::deserialize(document);
        let declared: Vec<_> = declared.iter().flat_map(Backends::iter).collect();
        let mut backends: Vec<BackendNeeds> = declared
            .iter()
            .map(|backend| BackendNeeds {
                name: backend.name.map(str::to_owned),
                generic: text_at(backend.value, "/kind").is_some_and(|kind| kind == "generic"),
                rewrite: flag(Some(backend.value), "rewrite_path"),
                cluster: text_at(backend.value, "/cluster"),
                marked: false,
                waits: false,
                keep_headers: strings(backend.value.get("keep_headers")),
            })
            .collect();
        let operations = declared.iter().enumerate();
        let operations =
            operations.filter_map(|(index, own)| Some((text_at(own.value, "/operations/path")?, index))).next();
        let first = declared.first().map(|backend| backend.value);
        let restate = declared.iter().zip(&backends).filter(|(_, needs)| !needs.generic).map(|(own, _)| own.value);
        let guard = restate.clone().find_map(|backend| backend.get("guard"));
        let has_restate = restate.count() > 0;
        let signed: BTreeSet<String> =
            members(document, "/callers").flat_map(|caller| strings(caller.get("routes"))).collect();
        let defaults = RouteDefaults { backends: &backends, mode: text_at(document, "/mode") };
        let listed = document.get("routes").and_then(Value::as_array);
        let routes: Vec<RouteNeeds> =
            listed.into_iter().flatten().map(|route| RouteNeeds::of(route, &signed, &defaults)).collect();
        let bodies =
            listed.into_iter().flatten().filter_map(|route| route.get("max_body_bytes").and_then(Value::as_u64));
        let charset = |at: &Value| at.get("key").map(|key| text_at(key, "/charset"));
        let visible =
            |route: &Value| charset(route).or_else(|| charset(document)).flatten().is_some_and(|set| set == "visible");
        let slashes = |(route, needs): (&Value, &RouteNeeds)| {
            flag(Some(route), "encoded_slash") || (needs.recovery && visible(route))
        };
        let encoded_slash = listed.into_iter().flatten().zip(&routes).any(slashes);
        let waits_for_answers =
            |route: &Value| text_at(route, "/answer/location").is_some_and(|path| path.contains("{body:"));
        let default =
            listed.into_iter().flatten().any(|route| route.get("max_body_bytes").is_none() || waits_for_answers(route));
        let longest = bodies.chain(default.then_some(MAX_BODY_BYTES)).max().unwrap_or(MAX_BODY_BYTES);
        let unmatched = text_at(document, "/unmatched").unwrap_or_else(|| "REJECT".to_owned());
        let guard = guard.map(|guard| text_at(guard, "/service").unwrap_or_else(|| GUARD.to_owned()));
        let own = ["/restate", "/dev.restate."].into_iter().filter(|_| has_restate).map(str::to_owned);
        let reserved: Vec<String> = own
            .chain(guard.map(|service| format!("/{service}")))
            .chain(strings(first.and_then(|backend| backend.get("reserved_paths"))))
            .collect();
        let waits = listed
            .into_iter()
            .flatten()
            .filter(|route| waits(route, &signed))
            .filter_map(|route| text_at(route, "/endpoint"));
        let waits = waits.collect();
        let of_document = document.pointer("/answers/clean_errors").and_then(Value::as_bool);
        let mut variables = Vec::new();
        collect_variables(document, &mut variables);
        let sources: Vec<&Value> = std::iter::once(document)
            .chain(listed.into_iter().flatten())
            .filter_map(|at| at.pointer("/identity/sources")?.as_array())
            .flatten()
            .collect();
        let wait_ms = document.pointer("/recovery/wait_ms").and_then(Value::as_u64).unwrap_or(WAIT_MS);
        let mark_all = flag(Some(document), "mark_all");
        for (index, backend) in backends.iter_mut().enumerate() {
            let own = || routes.iter().filter(|route| route.backend == index);
            let has_operations = operations.as_ref().is_some_and(|(_, backend)| *backend == index);
            // A request for a stored result is marked, too.
            backend.marked = mark_all || has_operations || own().any(|route| route.marked || route.target);
            backend.waits = wait_ms > 0 && (has_operations || own().any(|route| route.recovery));
        }
        let mut needs = Self {
            closed: mark_all || unmatched == "REJECT" && !routes.is_empty() && routes.iter().all(|route| route.marked),
            backends,
            gateway_routes: flag(Some(document), "gateway_routes"),
            routes,
            buffer: longest + BUFFER_MARGIN,
            wait_ms,
            waits,
            cleans_errors: of_document.unwrap_or(has_restate)
                || listed.into_iter().flatten().any(|route| flag(Some(route), "clean_errors")),
            variables,
            lookups: lookups(document),
            tokens: Vec::new(),
            payloads: Vec::new(),
            owners: Vec::new(),
            signed_headers: signed_headers(document),
            other_metadata: BTreeSet::new(),
            api_keys: None,
            reserved,
            sds: secrets_of_sds(document),
            operations,
            encoded_slash,
        };
        sources.into_iter().for_each(|source| needs.take_source(source));
        needs
    }

    fn take_source(&mut self, source: &Value) {
        if let Some(header) = text_at(source, "/unkey/header") {
            self.api_keys = Some(header);
            return;
        }
        if let Some(owner) = text_at(source, "/headers_owned_by") {
            let payload = text_at(source, "/payload_header");
            if let Some(header) =
                payload.clone().filter(|header| owner == JWT_FILTER && !self.payloads.contains(header))
            {
                self.payloads.push(header);
            }
            let place = match self.owners.iter().position(|(name, _)| *name == owner) {
                Some(place) => place,
                None => {
                    self.owners.push((owner, Vec::new()));
                    self.owners.len() - 1
                }
            };
            if let Some((_, headers)) = self.owners.get_mut(place) {
                let fields = ["/tenant", "/project", "/subject", "/subject/field"].iter();
                let names = match payload {
                    Some(header) => vec![header],
                    None => fields.filter_map(|at| text_at(source, at)).collect(),
                };
                for name in names {
                    if !headers.contains(&name) {
                        headers.push(name);
                    }
                }
            }
            return;
        }
        let metadata = strings(source.get("metadata"));
        match metadata.split_first() {
            Some((filter, rest)) if filter == JWT_FILTER => {
                let key = rest.first().cloned().unwrap_or_default();
                if !self.tokens.contains(&key) {
                    self.tokens.push(key);
                }
            }
            Some((filter, _)) => drop(self.other_metadata.insert(filter.clone())),
            None => {}
        }
    }

    /// What the gateway's jwt_authn has to leave, and where. One name of metadata and one header are those of the same token.
    pub(crate) fn token_places(&self) -> Vec<TokenPlaces> {
        let metadata = |key: &String| TokenPlaces { key: key.clone(), metadata: Some(key.clone()), header: None };
        let header = |key: &String| TokenPlaces { key: key.clone(), metadata: None, header: Some(key.clone()) };
        match (self.tokens.as_slice(), self.payloads.as_slice()) {
            ([key], [payload]) => vec![TokenPlaces { header: Some(payload.clone()), ..metadata(key) }],
            (tokens, payloads) => tokens.iter().map(metadata).chain(payloads.iter().map(header)).collect(),
        }
    }

    /// Filters that own headers which sources read, and those of the headers that no provider of tokens sets.
    pub(crate) fn owners_without_payloads(&self) -> Vec<(&str, Vec<&String>)> {
        let owners = self.owners.iter().map(|(owner, headers)| {
            let others = headers.iter().filter(|header| owner != JWT_FILTER || !self.payloads.contains(header));
            (owner.as_str(), others.collect::<Vec<_>>())
        });
        owners.filter(|(_, headers)| !headers.is_empty()).collect()
    }

    /// Headers that sources read and that nobody else sends: a gateway removes them from what clients send.
    pub(crate) fn removable_headers(&self) -> Vec<String> {
        let all = self.owners.iter().flat_map(|(_, headers)| headers);
        all.filter(|name| !self.signed_headers.contains(&name.to_ascii_lowercase())).cloned().collect()
    }

    /// What a gateway cannot tell apart: `jwt_authn` reads every bearer token, and refuses those that are API keys.
    ///
    /// # Errors
    /// API keys and tokens come in one header; the sentence says what to write.
    pub(crate) fn check_api_keys(&self) -> Result<(), String> {
        let is_bearer = self.api_keys.as_ref().is_some_and(|header| header.eq_ignore_ascii_case("authorization"));
        if is_bearer && !self.token_places().is_empty() {
            return Err("jwt_authn reads tokens in `authorization`, and refuses API keys there: name another header for API keys, such \
                        as `x-api-key`"
                .to_owned());
        }
        Ok(())
    }

    /// Whether the filter marks requests.
    pub(crate) fn marks(&self) -> bool {
        self.backends.iter().any(|backend| backend.marked)
    }

    /// Whether a backend is an API that deduplicates by itself.
    pub(crate) fn has_generic(&self) -> bool {
        self.backends.iter().any(|backend| backend.generic)
    }

    /// The backends in words.
    pub(crate) fn described(&self) -> &'static str {
        match (self.has_generic(), self.backends.iter().all(|backend| backend.generic)) {
            (true, true) => "an API of your own",
            (true, false) => "Restate and an API of your own",
            (false, _) => "Restate",
        }
    }

    /// What the gateway does with paths that contain escaped slashes.
    pub(crate) fn escaped_slashes(&self) -> &'static str {
        if self.encoded_slash { "KEEP_UNCHANGED" } else { "REJECT_REQUEST" }
    }

    /// Whether requests wait for results.
    pub(crate) fn waits_for_results(&self) -> bool {
        self.backends.iter().any(|backend| backend.waits)
    }

    /// The clusters that the policy names.
    pub(crate) fn clusters(&self) -> BTreeSet<&str> {
        let lookups = self.lookups.iter().map(|lookup| lookup.cluster.as_str());
        self.backends.iter().filter_map(|backend| backend.cluster.as_deref()).chain(lookups).collect()
    }
}

impl RouteNeeds {
    fn of(route: &Value, signed: &BTreeSet<String>, defaults: &RouteDefaults<'_>) -> Self {
        let endpoint = text_at(route, "/endpoint").unwrap_or_default();
        let path = text_at(route, "/path").unwrap_or_default();
        let methods = match route.get("methods") {
            Some(list) => strings(Some(list)),
            None => vec!["POST".to_owned()],
        };
        let target = route.get("target").is_some();
        let keyed = matches!(text_at(route, "/policy").as_deref(), Some("REQUIRED_A" | "ACCEPTED"));
        let webhook = route.get("webhook").is_some();
        let asked = route.get("recovery").and_then(Value::as_bool).unwrap_or(true);
        let mode = text_at(route, "/mode").or_else(|| defaults.mode.clone());
        let name = text_at(route, "/backend");
        let backend = defaults.backends.iter().position(|own| name.is_some() && own.name == name).unwrap_or_default();
        let own = defaults.backends.get(backend);
        let recovery = asked
            && keyed
            && target
            && !webhook
            && own.is_some_and(|own| !own.generic)
            && mode.as_deref() != Some("shadow");
        Self {
            pattern: PathPattern::new(&path),
            signed: signed.contains(&endpoint),
            hosts: strings(route.get("hosts")),
            endpoint,
            path,
            methods,
            webhook,
            target,
            marked: backend != 0 || target && own.is_some_and(|own| own.rewrite),
            backend,
            recovery,
            shares_identity: route.get("identity").is_none(),
            query: (target && own.is_some_and(|own| own.rewrite)).then(|| strings(route.get("query"))),
        }
    }
}

/// Whether requests wait for their bodies (docs/contract.md, sections 5 to 7).
fn waits(route: &Value, signed: &BTreeSet<String>) -> bool {
    let is = |name: &str, value: &str| route.get(name).is_some_and(|found| found == value);
    let signs = text_at(route, "/endpoint").is_some_and(|endpoint| signed.contains(&endpoint));
    route.get("webhook").is_some() || signs || is("collision", "enforce") || is("in_flight", "conflict")
}

fn text_at(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn members<'d>(document: &'d Value, pointer: &str) -> impl Iterator<Item = &'d Value> {
    document.pointer(pointer).and_then(Value::as_object).into_iter().flat_map(|object| object.values())
}

/// Every `{"env": NAME}`.
fn collect_variables(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| collect_variables(value, into)),
        Value::Object(object) => match (object.len(), object.get("env")) {
            (1, Some(Value::String(name))) if !into.contains(name) => into.push(name.clone()),
            _ => object.values().for_each(|value| collect_variables(value, into)),
        },
        _ => {}
    }
}

/// Every `{"sds": NAME, …}`.
fn secrets_of_sds(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().flat_map(secrets_of_sds).collect(),
        Value::Object(object) => match object.get("sds") {
            Some(Value::String(name)) => vec![name.clone()],
            _ => object.values().flat_map(secrets_of_sds).collect(),
        },
        _ => Vec::new(),
    }
}

fn lookups(document: &Value) -> Vec<LookupNeeds> {
    let mut needs: Vec<LookupNeeds> = Vec::new();
    for store in stores::of(document) {
        let Some(cluster) = store.cluster().map(str::to_owned) else { continue };
        let credential = match store.used_for {
            StoreUse::Bindings | StoreUse::ApiKeys => ("unkey-root-key", "Authorization", "Bearer "),
            StoreUse::Secrets => ("openbao-token", "X-Vault-Token", ""),
        };
        let credential = store.value.get(store.credential()).is_none().then_some(credential);
        // Two registries can be one, behind one cluster.
        match needs.iter_mut().find(|needs| needs.cluster == cluster) {
            Some(known) => known.credential = known.credential.or(credential),
            None => needs.push(LookupNeeds { cluster, credential }),
        }
    }
    needs
}

/// The headers in the templates of signed callers, in lower case.
fn signed_headers(document: &Value) -> BTreeSet<String> {
    let templates = members(document, "/callers").filter_map(|caller| text_at(caller, "/signature/template"));
    let headers = |template: String| {
        let names = template.split("{header:").skip(1).filter_map(|rest| rest.split_once('}'));
        names.map(|(name, _)| name.to_ascii_lowercase()).collect::<Vec<_>>()
    };
    templates.flat_map(headers).collect()
}
