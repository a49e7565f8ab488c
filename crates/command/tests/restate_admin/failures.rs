//! What the commands say when there is no Restate, a broken one, or something else.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use serde_json::json;

use super::stand_in::{Sound, StandIn, version};
use super::{Ran, run_command};

const LIST: [&str; 2] = ["keys", "show"];

fn list(admin: &str) -> Result<Ran> {
    let ran = run_command(admin, &[], LIST)?.exits(2)?;
    ensure!(ran.stdout.is_empty(), "{ran:?}");
    Ok(ran)
}

#[test]
fn down() -> Result<()> {
    let closed = "http://127.0.0.1:1";
    let ran = list(closed)?;
    ran.says("refused")?;
    ran.says("Does Restate run, and is this the address of its admin API")?;
    // A listener that never answers.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let silent = format!("http://{}", silent.local_addr()?);
    run_command(&silent, &[], ["keys", "show", "--timeout", "1"])?.exits(2)?.says("no whole reply in time")
}

/// What answers in the place of Restate, or of its queries, and what the command says.
#[test]
fn broken() -> Result<()> {
    let says = |message: &str| json!({"message": message}).to_string();
    for (is_all, status, body, told) in [
        (true, 500, says("the partition has no leader"), "status 500: the partition has no leader"),
        (
            false,
            500,
            says("Datafusion error: out of memory"),
            "does not answer a query of sys_invocation as it should: status 500: Datafusion error: out of memory",
        ),
        (false, 200, json!({"rows": [{"id": 7}]}).to_string(), "in a form that is not known here"),
        (true, 200, "<html>welcome</html>".to_owned(), "is no admin API of Restate"),
        (true, 200, json!({"version": "9"}).to_string(), "is no admin API of Restate"),
        (true, 307, String::new(), "Redirects are not followed"),
        (true, 401, String::new(), "RESTATE_AUTH_TOKEN"),
    ] {
        let server = StandIn::start(move |path| match path {
            "/version" if !is_all => Some((200, version())),
            _ => Some((status, body.clone())),
        })?;
        list(&server.url)?.says(told)?;
    }
    Ok(())
}

/// An id becomes a part of a URL and of a line on a terminal. From what is no id nothing is made.
#[test]
fn names() -> Result<()> {
    let ids = ["inv_1/../../../deployments/dp_x?force=true", "inv_1\u{1b}[2J"];
    for id in ids {
        let row = json!({"id": id, "target_service_name": "Refunds", "target_handler_name": "create",
            "idempotency_key": "t-acme:p:user:u:a", "status": "completed", "completion_result": "success"});
        let server = StandIn::sound(Sound { rows: Box::new(move |_| json!([row.clone()])), ..Sound::default() })?;
        let erase: &[&str] = &["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:u", "--yes"];
        let forget: &[&str] = &["keys", "purge", "--stored-key", "t-acme:p:user:u:a", "--yes"];
        for args in [
            erase,
            forget,
            &["keys", "show"],
            &["keys", "show", "--json"],
            &["keys", "show", "--details", "--tenant", "acme"],
        ] {
            let ran = run_command(&server.url, &[], args)?.exits(2)?;
            ran.says("the reply has a text that is not the id of an invocation")?;
            let is_plain = |text: &str| !text.contains(['\u{1b}', '\u{202e}']);
            ensure!(ran.stdout.is_empty() && is_plain(&ran.stderr), "{id:?}: {ran:?}");
        }
        ensure!(server.changes().is_empty(), "{id:?}: {:?}", server.changes());
    }
    // The names of services and handlers, and the version, too.
    let strange = "Refunds/../x\u{1b}[2J";
    let service = StandIn::start(move |path| match path {
        "/version" => Some((200, version())),
        _ => Some((200, json!({"services": [{"name": strange}]}).to_string())),
    })?;
    let args = ["keys", "purge", "--stored-key", "t-acme:p:user:u:a", "--yes"];
    let rowless = run_command(&service.url, &[], args)?.exits(2)?;
    ensure!(!rowless.stderr.contains('\u{1b}'), "{rowless:?}");
    let told = json!({"version": "1\u{1b}[2J", "min_admin_api_version": 2, "max_admin_api_version": 4}).to_string();
    let other = StandIn::start(move |_| Some((200, told.clone())))?;
    let ran = list(&other.url)?;
    ran.says("is no admin API of Restate")?;
    ensure!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
    Ok(())
}

#[test]
fn goes_away() -> Result<()> {
    let row = |id: &str, key: &str| {
        json!({"id": id, "target_service_name": "Refunds", "target_handler_name": "create", "idempotency_key": key,
            "status": "completed", "completion_result": "success"})
    };
    let rows = json!({"rows": [row("inv_1", "t-acme:p:user:u:a"), row("inv_2", "t-acme:p:user:u:b"), row("inv_3", "t-abc:p:user:u:c")]});
    let server = StandIn::start(move |path| match path {
        "/version" => Some((200, version())),
        "/services" => Some((200, json!({"services": [{"name": "IdempotencyGuard"}]}).to_string())),
        "/query" => Some((200, rows.to_string())),
        "/invocations/inv_1/purge" => Some((200, String::new())),
        _ => None,
    })?;
    let args = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:u", "--yes"];
    let ran = run_command(&server.url, &[], args)?.exits(2)?;
    let results: Vec<String> = ran.audit()?.into_iter().map(|(_, result)| result).collect();
    ensure!(results == ["purged", "unknown"], "{ran:?}");
    // A row that Restate should not have sent is nobody's business here.
    ensure!(!server.requests().iter().any(|head| head.contains("inv_3")), "{:?}", server.requests());
    Ok(())
}

#[test]
fn ignores() -> Result<()> {
    let server = StandIn::start(|path| match path {
        "/version" => Some((200, version())),
        "/services" => {
            Some((200, json!({"services": [{"name": "Refunds", "idempotency_retention": "1d"}]}).to_string()))
        }
        _ => Some((200, json!({}).to_string())),
    })?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("policy.json");
    let retention = json!({"classes": {"short": "1h"}, "services": {"Refunds": "short"}});
    let policy = json!({"version": 1, "backend": {"kind": "restate"}, "routes": [], "retention": retention});
    std::fs::write(&file, policy.to_string())?;
    let policy = file.display().to_string();
    let ran = run_command(&server.url, &[], ["retention", "--apply", "--yes", "--policy", &policy])?.exits(1)?;
    ran.says("Restate accepted the change, but has another value now")
}

/// Restate refuses to lengthen the guard, so no service is lengthened; it refuses to shorten a service, so the guard is not.
#[test]
fn failed_change() -> Result<()> {
    for (service_has, guard_has, changed, left) in [
        ("1d", "1d 2h", "IdempotencyGuard", "not changed: the guard IdempotencyGuard keeps claims for 1d 2h"),
        ("4d", "9d", "Refunds", "not changed: Refunds keeps results for 4d"),
    ] {
        let service = |name: &str, retention: &str| json!({"name": name, "idempotency_retention": retention});
        let services =
            json!({"services": [service("Refunds", service_has), service("IdempotencyGuard", guard_has)]}).to_string();
        let server = StandIn::start(move |path| match path {
            "/version" => Some((200, version())),
            "/services" => Some((200, services.clone())),
            _ => Some((400, json!({"message": "no", "restate_code": null}).to_string())),
        })?;
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("policy.json");
        let retention = json!({"classes": {"money": "2d"}, "services": {"Refunds": "money"}});
        let source = json!({"name": "h", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}});
        let backend =
            json!({"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {"retention": "50h"}});
        let route = json!({"endpoint": "refund", "path": "/refund", "policy": "REQUIRED_A", "target": "Refunds/create",
            "collision": "enforce"});
        let policy = json!({"version": 1, "identity": {"sources": [source]}, "backend": backend, "routes": [route],
            "retention": retention});
        std::fs::write(&file, policy.to_string())?;
        let policy = file.display().to_string();
        let ran = run_command(&server.url, &[], ["retention", "--apply", "--yes", "--policy", &policy])?.exits(1)?;
        ensure!(server.changes() == [format!("/services/{changed}")], "{:?} {ran:?}", server.changes());
        ran.says(left)?;
        ran.says("Restate refused the change with status 400: no")?;
    }
    Ok(())
}
