//! Errors of five frameworks pass a generic backend as they are: what each of them says to a request reaches the client byte for byte,
//! although the errors have paths (`instance`, `path`, `instancePath`, the name of a file) that `clean_errors` is about.
//!
//! Each request goes through the filter first, to learn what the backend gets. The real framework is asked with exactly that, and what it
//! says, as it stands on the wire, is the upstream's answer to the same request the second time.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{ADDED_TO_REPLIES, TestGateway, is_added};
use e2e::raw::{Reply, Request};
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use serde_json::json;

use crate::path_readers::{
    self,
    backends::{self, Backend},
};

/// A listener with the default for its kind of backend.
const AS_SHIPPED: &str = "as shipped";

struct Row {
    framework: &'static str,
    name: &'static str,
    method: &'static str,
    path: &'static str,
    body: &'static str,
    status: u16,
    /// What the error has to hold, so that the row is about what it says.
    holds: &'static [&'static str],
}

const fn get(
    framework: &'static str,
    name: &'static str,
    path: &'static str,
    status: u16,
    holds: &'static [&'static str],
) -> Row {
    Row { framework, name, method: "GET", path, body: "", status, holds }
}

const fn post(framework: &'static str, name: &'static str, body: &'static str, holds: &'static [&'static str]) -> Row {
    Row { framework, name, method: "POST", path: "/users", body, status: 422, holds }
}

const ROWS: [Row; 12] = [
    post("FastAPI", "validation", r#"{"age": "/var/log/old"}"#, &[r#""loc":["body","name"]"#, "/var/log/old"]),
    get(
        "FastAPI",
        "a problem document",
        "/users/42",
        404,
        &[r#""instance":"/users/42""#, "GET /users/42: no such user", "file:///etc"],
    ),
    get("FastAPI", "no such path", "/srv/nothing", 404, &[r#"{"detail":"Not Found"}"#]),
    get("Spring Boot", "no such path", "/users/42", 404, &[r#""path":"/users/42""#, r#""timestamp":"#]),
    Row {
        status: 404,
        ..post("Spring Boot", "no such path to post to", "{}", &[r#""path":"/users""#, r#""error":"Not Found""#])
    },
    post(
        "Express",
        "validation by ajv",
        r#"{"address": {"street": 7}}"#,
        &[r#""instancePath":"/address/street""#, "schemaPath"],
    ),
    get("Express", "a handler that throws", "/users/42", 500, &["GET /users/42: no such user", "express.js"]),
    get("Express", "no such path", "/var/nothing", 404, &["Cannot GET /var/nothing"]),
    get("Go ServeMux", "an error in text", "/users/42", 404, &["GET /users/42: no such user (/srv/users.go:42)\n"]),
    get("Go ServeMux", "no such path", "/opt/nothing", 404, &["404 page not found\n"]),
    get("nginx", "no such path", "/users/42", 404, &["<center>nginx"]),
    Row { status: 405, ..get("nginx", "a method that is not allowed", "/v1/reports", 405, &["405 Not Allowed"]) },
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = ROWS.iter().map(|row| {
        Test::new(format!("{}: {}", row.framework, row.name), move |setup: &FrameworkErrorsSetup| setup.passes(row))
    });
    Ok(vec![sharing(FrameworkErrorsSetup::start, tests.collect())])
}

struct FrameworkErrorsSetup {
    gateway: TestGateway,
    backends: Vec<Backend>,
    token: String,
}

impl FrameworkErrorsSetup {
    fn start() -> Result<Self> {
        let starting = backends::spawn(&path_readers::routes()?)?;
        let policy = json!({
            "version": 1,
            "unmatched": "HANDLER_INTERNAL_C",
            "identity": {"sources": [tokens::source()]},
            "backend": {"kind": "generic"},
            "routes": [{"endpoint": "users.create", "path": "/users", "policy": "ACCEPTED"}],
        });
        let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
        let gateway = TestGateway::start(&[(AS_SHIPPED.to_owned(), listener)])?;
        let token = gateway.user_token()?;
        Ok(Self { gateway, backends: backends::ready(starting)?, token })
    }

    /// What the framework says when it is asked directly, and what of it reaches the client. None if it is not installed.
    fn both(&self, row: &Row, key: Option<&str>) -> Result<Option<(Reply, Reply)>> {
        let Some(backend) = self.backends.iter().find(|backend| backend.name == row.framework) else {
            return Ok(None);
        };
        let mut request = Request::new(row.method, row.path).bearer(&self.token).header("accept", "application/json");
        if row.method == "POST" {
            request = request.header("content-type", "application/json").body(row.body);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let seen = self.gateway.http1(AS_SHIPPED, &request)?;
        let received = seen.received.first().with_context(|| format!("the upstream got nothing: {:?}", seen.reply))?;
        let said = backend.answer_to(received)?;
        let text = String::from_utf8_lossy(&said.body).into_owned();
        ensure!(said.status == row.status, "{} says {} {text}", row.framework, said.status);
        for part in row.holds {
            ensure!(text.contains(part), "{} says {text}, without {part}", row.framework);
        }
        // How the body is framed is between Envoy and the upstream; chunks stay chunks.
        let own = |name: &str| !["connection", "content-length", "keep-alive"].contains(&name);
        let headers = said.headers.iter().filter(|(name, _)| own(name)).cloned().collect();
        let answer = Answer { status: said.status, headers, body: said.body.clone(), trailers: said.trailers.clone() };
        let reply = self.gateway.http1_answered(AS_SHIPPED, &request, &answer)?.reply;
        Ok(Some((said, reply)))
    }

    fn passes(&self, row: &Row) -> Result<()> {
        let key = (row.method == "POST").then_some("k-1");
        for key in [None, key] {
            let Some((said, reply)) = self.both(row, key)? else { continue };
            ensure!(reply.status == said.status, "the client gets {} and not {}", reply.status, said.status);
            ensure!(
                reply.body == said.body && reply.trailers == said.trailers,
                "the client gets {:?}\nand not {:?}",
                String::from_utf8_lossy(&reply.body),
                String::from_utf8_lossy(&said.body)
            );
            let (headers, expected) = (lines(&reply), lines(&said));
            ensure!(headers == expected, "the client gets {headers:?}\nand not {expected:?}");
        }
        Ok(())
    }
}

/// The headers, but for what Envoy itself adds to every answer. Envoy writes the lines of one name as one (`vary`), which means the same.
fn lines(reply: &Reply) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::<String, String>::new();
    let own = reply.headers.iter().filter(|(name, _)| name != "keep-alive" && !is_added(&ADDED_TO_REPLIES, name));
    for (name, value) in own {
        let value = value.escape_ascii().to_string();
        joined.entry(name.clone()).and_modify(|text| *text += &format!(",{value}")).or_insert(value);
    }
    joined
}
