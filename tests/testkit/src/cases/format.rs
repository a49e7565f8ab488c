//! Case files as they are written: every member is known, or the file is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{Case, CaseFile, Client, StartErrors, Text, workspace};
use crate::http::{Headers, Message};

type CaseLines = Vec<(String, Text)>;
type Variables = BTreeMap<String, String>;

/// Where jwt_authn leaves a token's claims, and the name they have there.
const JWT: (&str, &str) = ("envoy.filters.http.jwt_authn", "jwt");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    about: String,
    policy: Option<Value>,
    policy_file: Option<String>,
    /// The VM's environment variables.
    #[serde(default)]
    environment: Variables,
    /// What the stores hold, for cases that do not say.
    lookups: Option<Value>,
    /// The claims of cases that do not say.
    claims: Option<Map<String, Value>>,
    /// The request of cases that do not say.
    request: Option<RawRequest>,
    #[serde(default)]
    cases: Vec<RawCase>,
    #[serde(default)]
    start_errors: Vec<RawStartErrors>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: String,
    /// Changes to the file's policy (RFC 7396).
    #[serde(default = "nothing")]
    policy_patch: Value,
    /// The clock, in seconds since 1970-01-01 UTC.
    now_unix: Option<u64>,
    /// What the stores hold: changes to what the file says (RFC 7396), or `null` for stores that cannot be reached.
    #[serde(default = "nothing")]
    lookups: Value,
    request: Option<RawRequest>,
    /// `null`: none, whatever the file says
    #[serde(default, deserialize_with = "said")]
    claims: Option<Option<Map<String, Value>>>,
    #[serde(default)]
    metadata: BTreeMap<String, Map<String, Value>>,
    #[serde(default)]
    route_metadata: BTreeMap<String, Map<String, Value>>,
    #[serde(deserialize_with = "stated")]
    upstream: Option<RawUpstream>,
    #[serde(default)]
    response: RawResponse,
    /// Left out: the upstream's 200.
    client: Option<RawClient>,
    /// The series that count the exchange
    metrics: Option<Vec<String>>,
    /// The record for logs; `{}` for none
    record: Option<Map<String, Value>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRequest {
    method: String,
    path: Text,
    authority: Option<String>,
    #[serde(default)]
    headers: CaseLines,
    #[serde(default)]
    body: Text,
    trailers: Option<CaseLines>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUpstream {
    method: Option<String>,
    path: Option<Text>,
    authority: Option<String>,
    headers: CaseLines,
    body: Option<Text>,
    #[serde(default)]
    trailers: CaseLines,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawResponse {
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: CaseLines,
    #[serde(default)]
    body: Text,
    trailers: Option<CaseLines>,
}

impl Default for RawResponse {
    fn default() -> Self {
        Self { status: ok(), headers: Vec::new(), body: Text::default(), trailers: None }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClient {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, Option<Text>>,
    problem: Option<Map<String, Value>>,
    body: Option<Text>,
    trailers: Option<CaseLines>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStartErrors {
    name: String,
    policy: Option<Value>,
    policy_text: Option<Text>,
    #[serde(default = "nothing")]
    policy_patch: Value,
    errors: Vec<String>,
}

const fn ok() -> u16 {
    200
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

/// A member that has to be there, be it `null`.
fn stated<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// A member that may be left out, and says something else if it is `null`.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl File {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    pub(super) fn finish(self, name: &str) -> Result<CaseFile, String> {
        let policy = match (self.policy, self.policy_file) {
            (Some(policy), None) => Some(policy),
            (None, Some(file)) => Some(read_policy(&file)?),
            (None, None) => None,
            (Some(_), Some(_)) => return Err("it has `policy` and `policy_file`".to_owned()),
        };
        if self.cases.is_empty() && self.start_errors.is_empty() {
            return Err("it has no cases".to_owned());
        }
        let mut names = BTreeSet::new();
        let all = self.cases.iter().map(|case| &case.name).chain(self.start_errors.iter().map(|case| &case.name));
        if let Some(twice) = all.into_iter().find(|name| !names.insert((*name).clone())) {
            return Err(format!("two cases are named {twice:?}"));
        }
        let told = |name: &str, error: String| format!("{name:?}: {error}");
        let cases = self.cases.into_iter().map(|mut case| {
            let name = case.name.clone();
            case.claims.get_or_insert_with(|| self.claims.clone());
            case.request = case.request.or_else(|| self.request.clone());
            case.finish(policy.as_ref(), &self.environment, self.lookups.as_ref()).map_err(|error| told(&name, error))
        });
        let cases = cases.collect::<Result<_, _>>()?;
        let start_errors = self.start_errors.into_iter().map(|case| {
            let name = case.name.clone();
            case.finish(policy.as_ref(), &self.environment).map_err(|error| told(&name, error))
        });
        let start_errors = start_errors.collect::<Result<_, _>>()?;
        Ok(CaseFile { name: name.to_owned(), about: self.about, cases, start_errors })
    }
}

impl RawCase {
    fn finish(self, policy: Option<&Value>, environment: &Variables, lookups: Option<&Value>) -> Result<Case, String> {
        let policy = policy.ok_or("its file has no policy")?;
        let sent = self.request.ok_or("neither it nor its file has a request")?;
        let authority = sent.authority.unwrap_or_else(|| "api.example.com".to_owned());
        let request = message(
            head(&sent.method, &authority, sent.path.clone(), sent.headers)?,
            sent.body,
            sent.trailers.map(lines).transpose()?,
        );
        let upstream = self.upstream.map(|upstream| {
            let method = upstream.method.as_deref().unwrap_or(&sent.method);
            let authority = upstream.authority.as_deref().unwrap_or(&authority);
            let path = upstream.path.unwrap_or_else(|| sent.path.clone());
            let body = upstream.body.unwrap_or_else(|| Text(request.body.clone()));
            let trailers = Some(lines(upstream.trailers)?);
            Ok::<_, String>(message(head(method, authority, path, upstream.headers)?, body, trailers))
        });
        let mut response = Headers::from([(":status", self.response.status.to_string())]);
        extend(&mut response, self.response.headers)?;
        let mut metadata = namespaces(self.metadata);
        if let Some(claims) = self.claims.flatten() {
            let claims = Value::Object(Map::from_iter([(JWT.1.to_owned(), Value::Object(claims))]));
            if metadata.insert(JWT.0.to_owned(), claims).is_some() {
                return Err(format!("it has `claims` and metadata under {}", JWT.0));
            }
        }
        let client = match self.client {
            None if upstream.is_none() => return Err("it forwards nothing, and says nothing of the client".to_owned()),
            client => client.unwrap_or(RawClient { status: ok(), ..RawClient::default() }),
        };
        if client.problem.is_some() && client.body.is_some() {
            return Err("its client gets a problem and a body".to_owned());
        }
        Ok(Case {
            name: self.name,
            policy: patched(policy, &self.policy_patch),
            environment: environment.clone(),
            now_unix_ms: self.now_unix.map(|seconds| seconds * 1000),
            request,
            lookups: stores(lookups, &self.lookups),
            metadata,
            route_metadata: namespaces(self.route_metadata),
            response: message(response, self.response.body, self.response.trailers.map(lines).transpose()?),
            upstream: upstream.transpose()?,
            client: Client {
                status: client.status,
                headers: client.headers.into_iter().map(|(name, value)| (name, value.map(|text| text.0))).collect(),
                problem: client.problem,
                body: client.body.map(|text| text.0),
                trailers: client.trailers.map(lines).transpose()?,
            },
            metrics: self.metrics,
            record: self.record,
        })
    }
}

impl RawStartErrors {
    fn finish(self, base: Option<&Value>, environment: &Variables) -> Result<StartErrors, String> {
        let policy = match (&self.policy, self.policy_text, base) {
            (Some(policy), None, _) => patched(policy, &self.policy_patch),
            (None, Some(text), _) => text.0,
            (None, None, Some(base)) => patched(base, &self.policy_patch),
            (None, None, None) => return Err("neither it nor its file has a policy".to_owned()),
            (Some(_), Some(_), _) => return Err("it has `policy` and `policy_text`".to_owned()),
        };
        if self.errors.is_empty() {
            return Err("it has no errors".to_owned());
        }
        Ok(StartErrors { name: self.name, policy, environment: environment.clone(), pointers: self.errors })
    }
}

fn read_policy(file: &str) -> Result<Value, String> {
    let text = std::fs::read_to_string(workspace().join(file)).map_err(|error| format!("{file}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{file}: {error}"))
}

/// The document with a merge patch applied (RFC 7396), as JSON text.
fn patched(document: &Value, patch: &Value) -> Vec<u8> {
    let mut document = document.clone();
    merge(&mut document, patch);
    document.to_string().into_bytes()
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, change) in patch {
        if change.is_null() {
            target.shift_remove(name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// What the stores hold by the file, with a case's changes.
fn stores(file: Option<&Value>, changes: &Value) -> Option<Value> {
    if changes.is_null() {
        return None;
    }
    let mut stores = file.cloned();
    if changes != &nothing() {
        merge(stores.get_or_insert_with(nothing), changes);
    }
    stores
}

fn namespaces(namespaces: BTreeMap<String, Map<String, Value>>) -> Map<String, Value> {
    namespaces.into_iter().map(|(name, members)| (name, Value::Object(members))).collect()
}

fn head(method: &str, authority: &str, path: Text, headers: CaseLines) -> Result<Headers, String> {
    let mut head = Headers::from([(":method", method), (":scheme", "https"), (":authority", authority)]);
    head.add(":path", path.0);
    extend(&mut head, headers)?;
    Ok(head)
}

fn lines(lines: CaseLines) -> Result<Headers, String> {
    let mut headers = Headers::new();
    extend(&mut headers, lines)?;
    Ok(headers)
}

fn extend(headers: &mut Headers, lines: CaseLines) -> Result<(), String> {
    for (name, value) in lines {
        if name.is_empty() || name.starts_with(':') {
            return Err(format!("{name:?} is no name for a header line"));
        }
        headers.add(&name, value.0);
    }
    Ok(())
}

fn message(headers: Headers, body: Text, trailers: Option<Headers>) -> Message {
    Message { headers, body: body.0, trailers, complete: true }
}
