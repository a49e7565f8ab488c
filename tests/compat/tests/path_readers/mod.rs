//! A backend must not choose another route than the filter. Each line of `lines.json` goes through the filter in a real Envoy, and
//! what the upstream got goes, byte for byte, to five real backends with the routes of `routes.json`: FastAPI on uvicorn, Express,
//! Spring Boot on Tomcat, Go's ServeMux and nginx. Each of them answers with the route that it chose and the parameters that it
//! read. All routes forward the subject in a header of their own, which shows whose rules the filter applied.

pub(crate) mod backends;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Received, Seen, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use harness::tools::repository;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::path_readers::backends::{Backend, Reading};

/// The shipped connection manager, and one that leaves paths as clients wrote them. Both keep escaped slashes, since the filter is
/// to be tried.
const SHIPPED: &str = "shipped";
const AS_WRITTEN: &str = "as written";
/// A header of this name and a route's, with `-` for `.`, says that the route's rules were applied.
const APPLIED: &str = "x-applied-";
/// In the place of a route: no route has the path, and the document says to forward it.
const NOTHING: &str = "nothing";
/// Headers with the parameters as the filter read them begin so.
const PARAMETERS: &str = "x-path-";

/// A route of `routes.json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Route {
    name: String,
    method: String,
    path: String,
    policy: Option<String>,
    #[serde(default)]
    encoded_slash: bool,
}

/// A line of `lines.json`.
#[derive(Clone, Debug, Deserialize)]
struct PathLine {
    #[serde(default = "post")]
    method: String,
    target: String,
    /// A header line
    header: Option<(String, String)>,
    /// What the filter does with it: the name of a route, `nothing` or `refused`
    filter: String,
    /// What is special about it, for the page
    about: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    let lines: Vec<PathLine> = serde_json::from_str(include_str!("lines.json"))?;
    let mut tests: Vec<Test<PathReadersSetup>> = Vec::new();
    for listener in [SHIPPED, AS_WRITTEN] {
        for line in &lines {
            let (name, line) = (format!("{listener}: {} {}", line.method, line.target), line.clone());
            tests.push(Test::new(name, move |setup: &PathReadersSetup| setup.agrees(listener, &line)));
        }
    }
    tests.push(Test::new("the page has what was measured", move |setup| page::check(setup, &lines)));
    Ok(vec![sharing(PathReadersSetup::start, tests)])
}

/// The routes that every backend has.
pub(crate) fn routes() -> Result<Vec<Route>> {
    Ok(serde_json::from_str(include_str!("routes.json"))?)
}

struct PathReadersSetup {
    gateway: TestGateway,
    backends: Vec<Backend>,
    token: String,
    /// What the backends said about each request.
    known: Mutex<BTreeMap<String, Arc<Vec<Reading>>>>,
}

impl PathReadersSetup {
    fn start() -> Result<Self> {
        let routes = routes()?;
        let starting = backends::spawn(&routes)?;
        let policy = policy(&routes);
        let listener = |changes: &[Change]| ListenerSpec { policy: policy.clone(), changes: changes.to_vec() };
        let listeners = [
            (SHIPPED.to_owned(), listener(&[Change::EveryPath, Change::EscapedSlashes])),
            (AS_WRITTEN.to_owned(), listener(&[Change::EveryPath, Change::PathsAsWritten])),
        ];
        let gateway = TestGateway::start(&listeners)?;
        let token = gateway.user_token()?;
        Ok(Self { gateway, backends: backends::ready(starting)?, token, known: Mutex::default() })
    }

    /// Sends a line without a key and with one.
    fn agrees(&self, listener: &str, line: &PathLine) -> Result<()> {
        let mut request = Request::new(&line.method, line.target.as_str()).bearer(&self.token);
        if let Some((name, value)) = &line.header {
            request = request.header(name, value.as_str());
        }
        let keyed = request.clone().header("idempotency-key", "k-1");
        for (request, is_keyed) in [(request, false), (keyed, true)] {
            let seen = self.gateway.http1(listener, &request)?;
            self.is_as_told(line, &seen, is_keyed).context(if is_keyed { "with a key" } else { "without a key" })?;
        }
        Ok(())
    }

    fn is_as_told(&self, line: &PathLine, seen: &Seen, is_keyed: bool) -> Result<()> {
        let Some(received) = seen.received.first() else {
            let code = seen.reply.json().get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_as_told = match line.filter.as_str() {
                // Envoy itself refuses some of them, without a problem document.
                "refused" => seen.reply.status == 400 && ["path_ambiguous", ""].contains(&code.as_str()),
                "closed" => code == "not_found",
                // The rules of the route were applied: it wants a signature, no key, or one.
                "hooks.stripe" => code == "webhook_signature_invalid",
                _ if is_keyed => code == "idempotency_key_prohibited",
                _ => code == "idempotency_key_required",
            };
            ensure!(is_as_told, "{} {code}, for {}", seen.reply.status, line.filter);
            return Ok(());
        };
        ensure!(seen.received.len() == 1, "the upstream got several requests\n{}", seen.upstream());
        let applied = applied(received)?;
        // First the point of all this: no backend reads something else.
        let readings = self.readings(received)?;
        for (backend, reading) in self.backends.iter().zip(readings.iter()) {
            let Reading::Route { name, values } = reading else { continue };
            ensure!(*name == applied, "{} chose {name}, and the filter applied {applied}\n{received}", backend.name);
            let read = parameters(received);
            ensure!(*values == read, "{} read {values:?}, and the filter {read:?}\n{received}", backend.name);
        }
        ensure!(applied == line.filter, "the filter applied {applied}\n{received}");
        Ok(())
    }
}

impl PathReadersSetup {
    /// What the backends make of what the upstream got. None of them looks at the key, so each is asked once for both requests.
    fn readings(&self, received: &Received) -> Result<Arc<Vec<Reading>>> {
        let mut received = received.clone();
        received.headers.retain(|(name, _)| name != "idempotency-key");
        let what = received.to_string();
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&what) {
            return Ok(Arc::clone(known));
        }
        let readings = self.backends.iter().map(|backend| backend.ask_again(&received)).collect::<Result<Vec<_>>>()?;
        let readings = Arc::new(readings);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(what, Arc::clone(&readings));
        Ok(readings)
    }
}

/// The route whose rules the filter applied.
fn applied(received: &Received) -> Result<String> {
    let mut found = received.headers.iter().filter_map(|(name, _)| name.strip_prefix(APPLIED));
    match (found.next(), found.next()) {
        (Some(name), None) => Ok(name.replacen('-', ".", 1)),
        _ => bail!("no header tells which route's rules were applied\n{received}"),
    }
}

/// The parameters as the filter read them.
fn parameters(received: &Received) -> BTreeMap<String, String> {
    let named = received.headers.iter().filter_map(|(name, value)| Some((name.strip_prefix(PARAMETERS)?, value)));
    named.map(|(name, value)| (name.replace('-', "_"), String::from_utf8_lossy(&decoded(value)).into_owned())).collect()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *byte == b'%') {
            Some(escaped) => {
                out.push(escaped);
                rest = after.get(2..).unwrap_or_default();
            }
            None => out.push(*byte),
        }
    }
    out
}

/// The policy of the routes: what no route declares is forwarded, which is the worst case.
fn policy(routes: &[Route]) -> String {
    let identity = |name: &str| {
        json!({
            "sources": [tokens::source()],
            "forward": {"subject": format!("{APPLIED}{}", name.replace('.', "-"))},
        })
    };
    let declared = routes.iter().filter_map(|route| {
        let policy = route.policy.as_deref()?;
        let mut declared = json!({
            "endpoint": route.name, "methods": [route.method], "path": route.path, "policy": policy,
            "identity": identity(&route.name), "encoded_slash": route.encoded_slash,
        });
        if policy == "REQUIRED_B" {
            declared.as_object_mut()?.insert("webhook".to_owned(), json!({"provider": "stripe"}));
        }
        Some(declared)
    });
    json!({
        "version": 1,
        "unmatched": "HANDLER_INTERNAL_C",
        "identity": identity(NOTHING),
        "parameter_headers": PARAMETERS,
        "backend": {"kind": "generic", "reserved_paths": ["/internal"]},
        "routes": declared.collect::<Vec<_>>(),
        "allow_inline_secrets": true,
        "webhooks": {"static": {"wh_01234567": {
            "tenant": "acme", "project": "shop", "provider": "stripe", "secrets": ["whsec_0123456789abcdef0123456789abcdef"],
        }}},
    })
    .to_string()
}

/// `EDGE_PATH_READERS`, else `.tools/path-readers`: a directory for each backend.
pub(crate) fn installed() -> PathBuf {
    std::env::var_os("EDGE_PATH_READERS").map_or_else(|| repository().join(".tools/path-readers"), PathBuf::from)
}

/// A file beside this one.
fn beside(name: &str) -> Result<PathBuf> {
    let path = repository().join("tests/compat/tests/path_readers").join(name);
    fs::canonicalize(&path).with_context(|| format!("{} is not there", path.display()))
}
