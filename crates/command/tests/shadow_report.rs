//! `shadow-report` as its users call it: files and standard input in, exit status and output out.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs the command in `folder` with `input` on standard input.
fn run(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"))
        .current_dir(folder)
        .arg("shadow-report")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The command may have failed, and then it reads no input.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Exit status, report and standard error of a run with `--format json`.
fn report(folder: &Path, arguments: &[&str], input: &[u8]) -> (i32, Value, String) {
    let output = run(folder, &[&["--format", "json"], arguments].concat(), input);
    let errors = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    (output.status.code().unwrap(), report, errors)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// An access log's line with a record.
fn line(time: &str, record: &Value) -> String {
    format!("{}\n", json!({"time": time, "method": "POST", "status": 200, "edge_idempotency": record}))
}

fn refused(tenant: Option<&str>, endpoint: &str, code: &str, reason: Option<&str>) -> Value {
    json!({"idempotency_outcome": "forwarded", "idempotency_shadow": "refuse", "idempotency_policy": "REQUIRED_A",
           "tenant": tenant, "endpoint": endpoint, "idempotency_code": code, "idempotency_reason": reason})
}

fn rewritten(tenant: &str) -> Value {
    json!({"idempotency_outcome": "stored", "idempotency_shadow": "rewrite", "idempotency_policy": "REQUIRED_A",
           "idempotency_case": "A", "tenant": tenant, "endpoint": "orders.create", "attempt": 2, "payload_hash": "sha256:2a81"})
}

/// A key of a caller, both with their digests in the log.
fn with_keys(tenant: &str, endpoint: &str, raw: &str) -> Value {
    let mut record = rewritten(tenant);
    record["endpoint"] = json!(endpoint);
    record["idempotency_key_raw"] = json!(format!("sha256:{raw}"));
    record["idempotency_key_namespaced"] = json!(format!("sha256:{tenant}-{raw}"));
    record
}

#[test]
fn raw_keys_that_several_callers_sent_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let long = "k".repeat(255);
    let mut records = vec![
        with_keys("acme", "orders.create", "1"),
        with_keys("acme", "orders.create", "1"),
        with_keys("globex", "orders.create", "1"),
        with_keys("initech", "orders.create", "1"),
        with_keys("acme", "orders.create", "2"),
        with_keys("globex", "refunds.create", "2"),
        with_keys("acme", "refunds.create", "3"),
        with_keys("globex", "refunds.create", "3"),
        with_keys("acme", "refunds.create", "4"),
        with_keys("globex", "refunds.create", "4"),
        rewritten("acme"),
    ];
    // Keys that differ behind what is kept of other values.
    for raw in ["a", "b"] {
        let mut record = with_keys("acme", "long", "5");
        record["idempotency_key_raw"] = json!(long);
        record["idempotency_key_namespaced"] = json!(format!("t-acme:p:user:{}:{raw}", "u".repeat(300)));
        records.push(record);
    }
    let input: String = records.iter().map(|record| line("2026-11-20T00:00:00Z", record)).collect();
    let (code, report, errors) = report(folder.path(), &["-"], input.as_bytes());
    assert_eq!((code, errors.as_str()), (0, ""));
    let row = |endpoint: &str, shared: u64| json!({"endpoint": endpoint, "shared": shared});
    assert_eq!(
        report["raw_keys"],
        json!({"compared": 6, "shared": 4, "requests_not_compared": 0,
            "endpoints": [row("refunds.create", 2), row("long", 1), row("orders.create", 1)]})
    );
    let text = String::from_utf8(run(folder.path(), &["-"], input.as_bytes()).stdout).unwrap();
    assert!(text.contains("Of 6 keys in shadow mode 4 came from several callers."), "{text}");
    assert!(text.contains("Keys that several callers sent, which enforcing keeps apart:"), "{text}");
}

const INVALID: &str = "idempotency_key_invalid";
const MISSING: &str = "idempotency_key_required";

/// Seven requests, a line of the gateway's own, and two lines that are no JSON.
fn log() -> String {
    let enforced = json!({"idempotency_outcome": "rejected", "idempotency_code": "not_found"});
    [
        line("2026-11-22T04:00:03.000Z", &refused(Some("acme"), "orders.create", INVALID, Some("length"))),
        line("2026-11-20T04:00:01.000Z", &refused(Some("acme"), "orders.create", INVALID, Some("length"))),
        line("2026-11-21T04:00:02.000Z", &refused(Some("acme"), "orders.create", INVALID, Some("length"))),
        "127.0.0.1 - - POST /orders 200\n".to_owned(),
        line("2026-11-22T04:00:04.000Z", &refused(None, "orders.create", MISSING, None)),
        "\n{\"time\": \"2026\n".to_owned(),
        line("2026-11-22T04:00:05.000Z", &rewritten("acme")),
        line("2026-11-22T04:00:06.000Z", &rewritten("globex")),
        line("2026-11-22T04:00:07.000Z", &enforced),
        line("2026-11-22T04:00:08.000Z", &Value::Null),
    ]
    .concat()
}

fn folder_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

#[test]
fn a_report_counts_by_tenant_endpoint_and_reason() {
    let folder = folder_with(&[("access.log", log().as_bytes())]);
    let (status, report, errors) = report(folder.path(), &["access.log"], b"");
    assert_eq!((status, errors.as_str()), (0, ""));
    let totals = |requests: u64, refused: u64, share: f64, rewritten: u64, rejected: u64| {
        json!({"requests": requests, "would_be_refused": refused, "share": share, "would_be_rewritten": rewritten,
               "refused": rejected})
    };
    let row = |name: &str, value: Value, totals: Value| {
        let mut row = totals;
        row[name] = value;
        row
    };
    let mut expected = totals(7, 4, 4.0 / 7.0, 2, 1);
    expected["lines"] = json!(10);
    expected["raw_keys"] = json!({"compared": 0, "shared": 0, "requests_not_compared": 0, "endpoints": []});
    expected["refusals"] = json!([
        {"tenant": "acme", "endpoint": "orders.create", "policy": "REQUIRED_A", "code": INVALID, "reason": "length",
         "method": null, "path": null, "count": 3, "first": "2026-11-20T04:00:01.000Z", "last": "2026-11-22T04:00:03.000Z"},
        {"tenant": null, "endpoint": "orders.create", "policy": "REQUIRED_A", "code": MISSING, "reason": null,
         "method": null, "path": null, "count": 1, "first": "2026-11-22T04:00:04.000Z", "last": "2026-11-22T04:00:04.000Z"},
    ]);
    expected["tenants"] = json!([
        row("tenant", json!("acme"), totals(4, 3, 0.75, 1, 0)),
        row("tenant", Value::Null, totals(2, 1, 0.5, 0, 1)),
        row("tenant", json!("globex"), totals(1, 0, 0.0, 1, 0)),
    ]);
    expected["endpoints"] = json!([
        row("endpoint", json!("orders.create"), totals(6, 4, 4.0 / 6.0, 2, 0)),
        row("endpoint", Value::Null, totals(1, 0, 0.0, 0, 1)),
    ]);
    expected["not_counted"] = json!({
        "not_json": {"count": 2, "first": {"file": "access.log", "line": 4}},
        "no_record": {"count": 1, "first": {"file": "access.log", "line": 11}},
        "too_long": {"count": 0, "first": null},
        "outside_range": {"count": 0, "first": null},
    });
    expected["errors"] = json!([]);
    expected["unrouted"] = json!([]);
    expected["webhooks"] = json!([]);
    assert_eq!(report, expected);
}

/// A route that the policy lacks is found by method and path. Webhook routes have no shadow mode, so they are counted apart.
#[test]
fn what_has_no_route_is_named_and_webhooks_are_apart() {
    let of = |method: &str, record: Value| {
        format!("{}\n", json!({"time": "2026-11-22T04:00:00.000Z", "method": method, "edge_idempotency": record}))
    };
    let unrouted = |outcome: &str, code: &str, path: &str| {
        let mut record = json!({"idempotency_outcome": outcome, "idempotency_code": code, "original_path": path});
        if outcome == "forwarded" {
            record["idempotency_shadow"] = json!("refuse");
        }
        record
    };
    let hook = |outcome: &str| json!({"idempotency_outcome": outcome, "idempotency_case": "B", "endpoint": "hooks"});
    let log = [
        of("POST", unrouted("forwarded", "not_found", "/customers/{}")),
        of("POST", unrouted("forwarded", "not_found", "/customers/{}")),
        of("GET", unrouted("forwarded", "method_not_allowed", "/orders")),
        of("GET", unrouted("rejected", "not_found", "/Other/run")),
        of("POST", hook("rejected")),
        of("POST", hook("forwarded")),
    ];
    let folder = folder_with(&[("access.log", log.concat().as_bytes())]);
    let (status, found, _) = report(folder.path(), &["access.log"], b"");
    let named = |name: &str| {
        let rows = found[name].as_array().unwrap().iter();
        rows.map(|row| json!([row["method"], row["path"], row["code"], row["count"]])).collect::<Vec<_>>()
    };
    assert_eq!(status, 0);
    assert_eq!(found["requests"], 4);
    let missing =
        [json!(["POST", "/customers/{}", "not_found", 2]), json!(["GET", "/orders", "method_not_allowed", 1])];
    assert_eq!(named("refusals"), missing);
    assert_eq!(named("unrouted"), [json!(["GET", "/Other/run", "not_found", 1])]);
    assert_eq!(found["webhooks"], json!([{"endpoint": "hooks", "requests": 2, "refused": 1}]));
    let text = String::from_utf8(run(folder.path(), &["access.log"], b"").stdout).unwrap();
    for part in
        ["POST /customers/{}", "Refused already, without a route:", "Webhook routes, which have no shadow mode:"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_table_is_for_people() {
    let folder = folder_with(&[("access.log", log().as_bytes())]);
    let output = run(folder.path(), &["access.log"], b"");
    let expected = "\
Enforcing would refuse:
 requests  tenant  endpoint       policy      code                      reason  first                     last
        3  acme    orders.create  REQUIRED_A  idempotency_key_invalid   length  2026-11-20T04:00:01.000Z  2026-11-22T04:00:03.000Z
        1  _none   orders.create  REQUIRED_A  idempotency_key_required          2026-11-22T04:00:04.000Z  2026-11-22T04:00:04.000Z

By tenant:
 requests  would be refused    share  key rewritten  refused now  tenant
        4                 3  75.00 %              1            0  acme
        2                 1  50.00 %              0            1  _none
        1                 0   0.00 %              1            0  globex

By endpoint:
 requests  would be refused    share  key rewritten  refused now  endpoint
        6                 4  66.67 %              2            0  orders.create
        1                 0   0.00 %              0            1  _unmatched

10 lines read, 7 requests of the filter.
Enforcing would refuse 4 of them (57.14 %) and rewrite the key of 2; 1 was refused already.
Not counted: 2 that are no JSON object; the first is access.log:4.
Not counted: 1 without a record of the filter, which did not see these requests or had not decided about them; the first is access.log:11.
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));

    let output = run(folder.path(), &["--top", "1", "access.log"], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n … and 2 more rows (--top 0 shows all)\n") && !text.contains("globex"), "{text}");
}

/// The record may be Envoy's typed filter state, a member of the line, or the line's own members. A tenant of the line
/// stands for one that the record lacks.
#[test]
fn records_are_read_in_each_of_their_shapes() {
    let record = refused(Some("acme"), "orders.create", INVALID, Some("empty"));
    let mut flat = record.clone();
    flat["time"] = json!("2026-11-22T04:00:01.000Z");
    let lines = [
        line("2026-11-22T04:00:00.000Z", &record),
        line(
            "2026-11-22T04:00:02.000Z",
            &json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": record}),
        ),
        format!("{flat}\r\n"),
        format!(
            "{}\n",
            json!({"edge_idempotency": refused(None, "orders.create", INVALID, Some("empty")), "tenant": "acme",
                   "endpoint": "another"})
        ),
    ];
    let folder = folder_with(&[]);
    let (status, report, _) = report(folder.path(), &["-"], lines.concat().as_bytes());
    assert_eq!((status, &report["requests"]), (0, &json!(4)));
    assert_eq!(report["refusals"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["refusals"][0]["count"], 4);
    assert_eq!(report["refusals"][0]["last"], "2026-11-22T04:00:02.000Z");
}

#[test]
fn files_are_read_whatever_their_compression() {
    let (one, other) = (log(), line("2026-11-22T05:00:00.000Z", &rewritten("initech")));
    // Logs that are compressed and then appended to each other; a line may begin in one member and end in the next.
    let (head, tail) = one.split_at(one.len() / 2);
    let members = [gzip(head), gzip(tail), gzip("")].concat();
    let folder =
        folder_with(&[("a.log", other.as_bytes()), ("b.log.1", &members), ("empty", b""), ("empty.gz", &gzip(""))]);
    let files = ["a.log", "b.log.1", "empty", "empty.gz", "-"];
    let (status, all, errors) = report(folder.path(), &files, &gzip(&other));
    assert_eq!((status, errors.as_str()), (0, ""));
    assert_eq!((&all["requests"], &all["lines"]), (&json!(9), &json!(12)));
    assert_eq!(all["not_counted"]["no_record"]["first"], json!({"file": "b.log.1", "line": 11}));
}

/// What cannot be read is told, and nothing else is lost.
#[test]
fn what_cannot_be_read_is_told_and_the_rest_counts() {
    let whole = gzip(&log().repeat(200));
    let (cut, _) = whole.split_at(whole.len() - 100);
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle..middle + 64].fill(0xff);
    let trailing = [gzip(&log()), b"not gzip".to_vec()].concat();
    let folder = folder_with(&[
        ("cut.gz", cut),
        ("changed.gz", &changed),
        ("trailing.gz", &trailing),
        ("good", log().as_bytes()),
    ]);
    for file in ["cut.gz", "changed.gz", "trailing.gz", "absent", "."] {
        let (status, report, errors) = report(folder.path(), &[file, "good"], b"");
        assert_eq!(status, 2, "{file}: {errors}");
        assert!(errors.starts_with(&format!("edge-idempotency: {file}: ")), "{errors}");
        assert_eq!(report["errors"][0]["file"], *file);
        let read = report["errors"][0]["lines_read"].as_u64().unwrap();
        let requests = report["requests"].as_u64().unwrap();
        let expected = if file == "trailing.gz" { 14 } else { 7 };
        if file.ends_with(".gz") && file != "trailing.gz" {
            assert!(read > 100 && requests > 100, "{file}: {report}");
        } else {
            assert_eq!(requests, expected, "{file}: {report}");
        }
    }
    let other_formats: PathBuf = folder.path().join("binary");
    std::fs::write(&other_formats, [0xff, 0, 0xfe, b'\n', 0x80]).unwrap();
    let (status, report, errors) = report(folder.path(), &["binary"], b"");
    assert_eq!((status, &report["not_counted"]["not_json"]["count"]), (2, &json!(2)));
    assert!(errors.contains("no line has a record of the filter"), "{errors}");
}

#[test]
fn lines_of_any_length_and_nesting_are_passed() {
    let long = format!("{{\"a\": \"{}\"}}\n", "x".repeat(3 << 20));
    let deep = format!("{{\"a\": {}\n", "[".repeat(500_000));
    let input = [long.as_str(), &deep, &line("t", &rewritten("acme")), long.trim_end()].concat();
    let (status, report, _) = report(folder_with(&[]).path(), &["-"], input.as_bytes());
    assert_eq!(status, 0);
    assert_eq!(report["requests"], 1);
    assert_eq!(report["not_counted"]["too_long"], json!({"count": 2, "first": {"file": "-", "line": 1}}));
    assert_eq!(report["not_counted"]["not_json"], json!({"count": 1, "first": {"file": "-", "line": 2}}));
}

#[test]
fn a_range_of_time_and_a_limit_for_ci() {
    let folder = folder_with(&[("access.log", log().as_bytes())]);
    let count = |arguments: &[&str]| {
        let (_, report, _) = report(folder.path(), &[arguments, &["access.log"]].concat(), b"");
        (report["requests"].as_u64().unwrap(), report["would_be_refused"].as_u64().unwrap())
    };
    assert_eq!(count(&["--since", "2026-11-21"]), (6, 3));
    assert_eq!(count(&["--until", "2026-11-22"]), (2, 2));
    assert_eq!(count(&["--since", "2026-11-21T04", "--until", "2026-11-22T04:00:04.000Z"]), (2, 2));

    let status = |arguments: &[&str]| run(folder.path(), &[arguments, &["access.log"]].concat(), b"").status.code();
    assert_eq!(status(&["--fail-over", "57"]), Some(1));
    assert_eq!(status(&["--fail-over", "57.2"]), Some(0));
    assert_eq!(status(&["--fail-over", "101"]), Some(2));
    // A log in which there is nothing to count does not pass.
    assert_eq!(status(&["--fail-over", "100", "--since", "2027"]), Some(2));
    // There are records, so nothing is wrong with the log's format.
    let (_, _, errors) = report(folder.path(), &["--since", "2027", "access.log"], b"");
    assert_eq!(errors, "edge-idempotency: no line with a record of the filter is within --since and --until\n");
    assert_eq!(run(folder.path(), &[], b"").status.code(), Some(2));
}

#[test]
fn values_of_a_log_do_not_act_on_the_terminal() {
    let hostile = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\nb";
    let input = line("\u{1b}[2J", &refused(Some(hostile), hostile, hostile, Some(hostile)));
    for format in ["table", "json"] {
        let output = run(folder_with(&[]).path(), &["--format", format, "-"], input.as_bytes());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            !text.contains(|letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}'),
            "{text:?}"
        );
    }
    let output = run(folder_with(&[]).path(), &["\u{1b}[2J"], b"");
    assert!(!String::from_utf8(output.stderr).unwrap().contains('\u{1b}'));
}

/// Memory does not grow with the number of lines: 140 MB are read with 128 MiB of address space.
#[test]
#[ignore = "make test-all: it reads 140 MB"]
fn memory_does_not_grow_with_the_number_of_lines() {
    let block = log().repeat(1_000);
    let blocks = 140_000_000 / block.len();
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v 131072; exec \"$0\" shadow-report --format json -"])
        .arg(env!("CARGO_BIN_EXE_edge-idempotency"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..blocks {
            stdin.write_all(block.as_bytes()).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["requests"], 7 * 1_000 * blocks);
}

#[test]
fn the_help_has_examples_and_exit_statuses() {
    let text = String::from_utf8(run(folder_with(&[]).path(), &["--help"], b"").stdout).unwrap();
    for part in ["Examples:", "shadow-report access.log access.log.1.gz", "Exit status: 0", "--fail-over", "--since"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}
