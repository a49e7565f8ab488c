//! The judge and the model, shown what they have to find: a fault that nobody sees would make a long run worthless.

use anyhow::{Result, ensure};
use e2e::runner::{Group, Test, separate};
use e2e::wire::Message;

use super::api::Listener;
use super::backends::Backend;
use super::case::{Case, CaseLine};
use super::client::{CaseOutcome, End};
use super::model::{self, ModelAnswer, Reach};
use super::upstream::Record;
use super::{generate, judge, reading};

/// A test's body.
type Check = fn() -> Result<()>;

/// The tests.
pub(crate) fn group() -> Group {
    let tests: [(&str, Check); 4] = [
        ("a sound request is found sound", sound),
        ("every planted fault is found", faults),
        ("paths and hosts are read as docs/security.md says", readings),
        ("a case depends on seed and number alone", reproducible),
    ];
    let test = |(name, body): (&str, Check)| Test::new(format!("adversary's own checks: {name}"), move |()| body());
    separate(tests.into_iter().map(test).collect())
}

/// A plain case on a listener, and its record as the upstream would have it.
fn example(listener: Listener) -> (Case, ModelAnswer, Record) {
    let case = generate::plain(listener);
    let expected = model::expect(&case);
    let record = example_of(&case, &expected);
    (case, expected, record)
}

/// The record of a case as the upstream would have it.
fn example_of(case: &Case, expected: &ModelAnswer) -> Record {
    let forwarded = expected.forwarded.clone();
    let line = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let key = forwarded.as_ref().and_then(|forwarded| forwarded.key.clone()).unwrap_or_default();
    let target = forwarded.as_ref().map(|forwarded| forwarded.target.clone()).unwrap_or_default();
    let message = Message {
        start: format!("POST {target} HTTP/1.1").into_bytes(),
        headers: vec![
            line("host", "api.example.com"),
            line("x-case", &case.mark("1")),
            line("x-tenant-id", "acme"),
            line("x-project-id", "shop"),
            line("x-subject", "user:u1"),
            line("idempotency-key", &key),
        ],
        body: case.payload(),
        trailers: Vec::new(),
    };
    let at = forwarded.map_or(Backend::Restate, |forwarded| forwarded.at);
    Record { message, at, complete: true, part: "1".to_owned() }
}

fn answered(status: u16) -> CaseOutcome {
    CaseOutcome { answers: vec![End::Answered { status, body: Vec::new() }] }
}

fn sound() -> Result<()> {
    for listener in super::LISTENERS {
        let (case, expected, record) = example(listener);
        ensure!(expected.reach == Reach::Must, "{expected:?}");
        let wrong = judge::judge(&case, &expected, &answered(200), &[record]);
        ensure!(wrong.is_empty(), "{}: {wrong:?}", listener.name());
    }
    Ok(())
}

type Fault = fn(&mut Record);

fn faults() -> Result<()> {
    let faults: [(&str, Listener, Fault); 44] = [
        ("a raw key", Listener::Plain, |record| set(record, "idempotency-key", "k-1")),
        ("another's key", Listener::Plain, |record| set(record, "idempotency-key", "t-globex:shop:user:u2:k-1")),
        ("a key beside", Listener::Plain, |record| add(record, "idempotency_key", "t-acme:shop:user:u1:k-1")),
        ("two keys", Listener::Plain, |record| add(record, "idempotency-key", "t-acme:shop:user:u1:k-1")),
        ("a key in a trailer", Listener::AsWritten, |record| {
            record.message.trailers.push(("idempotency-key".to_owned(), b"k".to_vec()));
        }),
        ("another tenant", Listener::Plain, |record| set(record, "x-tenant-id", "globex")),
        ("a tenant beside", Listener::Plain, |record| add(record, "x_tenant_id", "globex")),
        ("an identity in a trailer", Listener::Plain, |record| {
            record.message.trailers.push(("x_subject".to_owned(), b"user:u2".to_vec()));
        }),
        ("a method override", Listener::Plain, |record| add(record, "x_http_method_override", "DELETE")),
        ("a retry's policy", Listener::Plain, |record| add(record, "x-envoy-retry-on", "5xx")),
        ("the mark", Listener::Plain, |record| add(record, "x-edge-idempotency", "1")),
        ("a denied path", Listener::Plain, |record| start(record, "POST /api/v1/denied HTTP/1.1")),
        ("a denied path in other words", Listener::Plain, |record| {
            start(record, "POST /api//v1/x/%2e%2e/%64enied/ HTTP/1.1");
        }),
        ("a denied path for who decodes first", Listener::Plain, |record| {
            start(record, "POST /api/v1/items/..%2f..%2fv1%2fdenied HTTP/1.1");
        }),
        ("a denied service", Listener::Rewriting, |record| start(record, "POST /Admin/orders HTTP/1.1")),
        ("a denied service's results", Listener::Rewriting, |record| {
            start(record, "GET /restate/invocation/Closed/denied/t-acme:shop:user:u1:k/output HTTP/1.1");
        }),
        ("a call of a denied service", Listener::Rewriting, |record| {
            start(record, "POST /restate/call/Admin/orders HTTP/1.1");
        }),
        ("a denied method", Listener::Plain, |record| start(record, "DELETE /api/v1/orders HTTP/1.1")),
        ("a denied host", Listener::Plain, |record| set(record, "host", "INTERNAL.example.com.:80")),
        ("a denied host's suffix", Listener::Plain, |record| set(record, "host", "a.private.example.com")),
        ("a body of another's", Listener::Plain, |record| record.message.body = b"{}".to_vec()),
        ("a part of a request", Listener::Plain, |record| record.complete = false),
        ("a hidden request", Listener::Plain, |record| record.part = "body".to_owned()),
        ("a host in capitals", Listener::Hosts, |record| set(record, "host", "PAY.example.com")),
        ("a host with a port", Listener::Plain, |record| set(record, "host", "api.example.com:8443")),
        ("a host with a final dot", Listener::Hosts, |record| set(record, "host", "hooks.example.com.")),
        ("a wildcard's host in capitals", Listener::Hosts, |record| set(record, "host", "A.shops.example.com")),
        ("a longer address", Listener::Hosts, |record| set(record, "host", "[2001:db8:0:0:0:0:0:1]")),
        ("an address in one number", Listener::Hosts, |record| set(record, "host", "3221225985")),
        ("a stored result", Listener::RestatePaths, |record| start(record, "POST /restate/output HTTP/1.1")),
        ("a stored result by its key", Listener::RestatePathsStrict, |record| {
            start(record, "GET /restate/invocation/Orders/create/k/output HTTP/1.1");
        }),
        ("a claim", Listener::Declared, |record| start(record, "POST /Claims/claim HTTP/1.1")),
        ("a send that no route declares", Listener::Declared, |record| {
            start(record, "POST /Orders/create/send HTTP/1.1");
        }),
        ("a handler that no route declares", Listener::RestatePathsStrict, |record| {
            start(record, "POST /Cart/c/empty HTTP/1.1")
        }),
        ("a reserved path", Listener::RestatePaths, |record| start(record, "POST /internal/jobs HTTP/1.1")),
        ("the other backend", Listener::Beside, |record| record.at = Backend::Api),
        ("the other backend with Restate first", Listener::Behind, |record| record.at = Backend::Api),
        ("a backend that the listener does not have", Listener::Plain, |record| record.at = Backend::Api),
        ("a cookie at Restate", Listener::Beside, |record| add(record, "cookie", "a=b")),
        ("the mark of a backend", Listener::Behind, |record| add(record, "x_edge_idempotency", "restate")),
        ("the API's path at Restate", Listener::Beside, |record| start(record, "POST /api/v1/notes HTTP/1.1")),
        ("another service", Listener::Behind, |record| start(record, "POST /restate/call/Cart/checkout HTTP/1.1")),
        ("a result with a key", Listener::Beside, |record| start(record, "GET /restate/output/inv_1 HTTP/1.1")),
        ("two framings", Listener::Plain, |record| {
            add(record, "content-length", "3");
            add(record, "transfer-encoding", "chunked");
        }),
    ];
    for (name, listener, fault) in faults {
        let (case, expected, mut record) = example(listener);
        fault(&mut record);
        let wrong = judge::judge(&case, &expected, &answered(200), &[record]);
        ensure!(!wrong.is_empty(), "{name}: nothing is found");
    }
    // Whatever the model says of such a case, the judge finds it by itself.
    let doubtful = |listener: Listener, fault: Fault| {
        let (case, _, mut record) = example(listener);
        fault(&mut record);
        let expected = ModelAnswer { reach: Reach::Either("a test"), forwarded: None };
        judge::judge(&case, &expected, &answered(200), &[record]).join("; ")
    };
    let host = doubtful(Listener::Hosts, |record| set(record, "host", "PAY.example.com"));
    ensure!(host.contains("another spelling of a declared host"), "{host}");
    let path = doubtful(Listener::Declared, |record| start(record, "POST /Orders/create/send HTTP/1.1"));
    ensure!(path.contains("a path of a named service that no route declares"), "{path}");
    let path = doubtful(Listener::RestatePaths, |record| start(record, "POST /x%2f..%2frestate/output HTTP/1.1"));
    ensure!(path.contains("as who decodes the whole first reads it"), "{path}");
    let other = doubtful(Listener::Beside, |record| record.at = Backend::Api);
    ensure!(other.contains("is closed, as who decodes the whole first reads it"), "{other}");
    let own = doubtful(Listener::Behind, |record| start(record, "POST /api/v1/notes HTTP/1.1"));
    ensure!(own.contains("is not Restate's"), "{own}");
    let restates = doubtful(Listener::Behind, |record| {
        record.at = Backend::Api;
        start(record, "POST /api/v1/orders HTTP/1.1");
    });
    ensure!(restates.contains("is a route's of Restate"), "{restates}");
    let key = doubtful(Listener::Beside, |record| {
        record.at = Backend::Api;
        start(record, "POST /elsewhere HTTP/1.1");
    });
    ensure!(key.contains("takes no key of the API"), "{key}");
    let mut case = generate::plain(Listener::Beside);
    case.target = b"/api/v1/notes".to_vec();
    let mut record = example_of(&case, &model::expect(&case));
    case.lines.push(CaseLine::new("cookie", "a-1"));
    let expected = model::expect(&case);
    let lost = judge::judge(&case, &expected, &answered(200), std::slice::from_ref(&record)).join("; ");
    ensure!(lost == "the API did not get cookie", "{lost}");
    add(&mut record, "cookie", "a-1");
    let got = judge::judge(&case, &expected, &answered(200), &[record]);
    ensure!(got.is_empty(), "{got:?}");
    let (case, expected, record) = example(Listener::Plain);
    let twice = judge::judge(&case, &expected, &answered(200), &[record.clone(), record.clone()]);
    ensure!(!twice.is_empty(), "a request that came twice is not found");
    let lost = judge::judge(&case, &expected, &answered(200), &[]);
    ensure!(!lost.is_empty(), "a request that did not come is not found");
    let trapped = judge::judge(&case, &expected, &answered(503), std::slice::from_ref(&record));
    ensure!(!trapped.is_empty(), "a 503 is not found");
    let never = ModelAnswer { reach: Reach::Never("a test"), forwarded: None };
    let refused = judge::judge(&case, &never, &answered(200), &[record]);
    ensure!(!refused.is_empty(), "a request that must not come is not found");
    Ok(())
}

fn set(record: &mut Record, name: &str, value: &str) {
    for (_, old) in record.message.headers.iter_mut().filter(|(found, _)| found == name) {
        *old = value.as_bytes().to_vec();
    }
}

fn add(record: &mut Record, name: &str, value: &str) {
    record.message.headers.push((name.to_owned(), value.as_bytes().to_vec()));
}

fn start(record: &mut Record, line: &str) {
    record.message.start = line.as_bytes().to_vec();
}

fn readings() -> Result<()> {
    for (path, shipped, as_written) in [
        ("/a//b/./c/../%64/", Some("/a/b/d"), Some("/a/b/d")),
        ("/a\\b", Some("/a/b"), None),
        ("/a;b/../c", Some("/c"), None),
        ("/a%2fb/../c", None, None),
        ("/a%2fb", None, None),
        ("/a%5cb/../c", None, None),
        ("/a%3A|", Some("/a%3A%7C"), Some("/a%3A%7C")),
        ("/a%0a/../c", Some("/c"), None),
        ("/a%0A", None, None),
        ("/a%c2%85", None, None),
        ("/a%FF", None, None),
        ("/x/..;y=1/a", Some("/a"), None),
        ("/a;b", None, None),
        ("/%00/../a", None, None),
        ("/%zz", None, None),
    ] {
        for (normalises, expected) in [(true, shipped), (false, as_written)] {
            let seen = reading::path(path.as_bytes(), normalises);
            ensure!(seen.clone().ok().as_deref() == expected, "{path}: {seen:?} instead of {expected:?}");
        }
    }
    for (authority, host, stripped) in [
        ("api.example.com", Some("api.example.com"), "api.example.com"),
        ("api.example.com.:80", Some("api.example.com."), "api.example.com"),
        ("[::1]:80", Some("[::1]"), "[::1]"),
        ("a:x", None, "a:x"),
        ("a:80:80", None, "a:80"),
        ("a:65536", None, "a"),
        ("a@b", None, "a@b"),
        ("", None, ""),
    ] {
        let seen = reading::authority(authority.as_bytes()).map(|(host, _)| host);
        ensure!(seen.as_deref() == host, "{authority}: {seen:?} instead of {host:?}");
        let seen = reading::stripped_authority(authority.as_bytes());
        ensure!(seen == stripped.as_bytes(), "{authority}: {seen:?} instead of {stripped}");
    }
    Ok(())
}

fn reproducible() -> Result<()> {
    for number in 0..500 {
        let (one, again) = (generate::case(7, number), generate::case(7, number));
        ensure!(one.to_string() == again.to_string(), "{one}\n{again}");
    }
    ensure!(generate::case(7, 1).to_string() != generate::case(8, 1).to_string(), "the seed makes no difference");
    Ok(())
}
