//! `keys purge` where not all is purged, or not all is known: the exit status and the words are honest. A
//! listener stands in for Restate, which cannot be made to answer so.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::run_command;
use super::stand_in::{Sound, StandIn, unknown_invocation};

const KEY: &str = "t-acme:p:user:u:a";
const ERASE: [&str; 8] = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:u", "--yes"];
const FORGET: [&str; 5] = ["keys", "purge", "--stored-key", KEY, "--yes"];

/// The result under [`KEY`].
fn result() -> Value {
    json!({"id": "inv_1", "target_service_name": "Refunds", "target_handler_name": "create", "idempotency_key": KEY,
        "status": "completed", "completion_result": "success"})
}

/// Rows for a query: the result, its calls, and its claim, which are there also after a purge if `stays`.
fn rows(sql: &str, calls: Value, claim_status: Option<&str>, stays: &[Value]) -> Value {
    if sql.contains("where (id in") {
        return stays.iter().filter(|row| row["id"].as_str().is_some_and(|id| sql.contains(id))).cloned().collect();
    }
    if sql.contains("invoked_by_id in ('inv_1')") {
        return calls;
    }
    if sql.contains("invoked_by_id in") {
        return json!([]);
    }
    if sql.contains("target_service_name = 'IdempotencyGuard'") {
        let Some(status) = claim_status else { return json!([]) };
        // The first key of the query is as good as any.
        let key =
            sql.split("idempotency_key in ('").nth(1).and_then(|rest| rest.split('\'').next()).unwrap_or_default();
        return json!([claim(key, status)]);
    }
    json!([result()])
}

fn claim(key: &str, status: &str) -> Value {
    json!({"id": "inv_claim", "target_service_name": "IdempotencyGuard", "target_handler_name": "claim", "idempotency_key": key,
        "status": status})
}

fn call(id: &str, status: &str) -> Value {
    json!({"id": id, "target_service_name": "Emails", "target_handler_name": "send", "status": status, "invoked_by_id": "inv_1"})
}

#[test]
fn proxy() -> Result<()> {
    let server = StandIn::sound(Sound {
        rows: Box::new(|sql| rows(sql, json!([]), None, &[result()])),
        change: |_| Some((404, "404 page not found".to_owned())),
        ..Sound::default()
    })?;
    for args in [&FORGET[..], &ERASE] {
        let ran = run_command(&server.url, &[], args)?.exits(1)?;
        ensure!(ran.audit()? == [("result".to_owned(), "failed".to_owned())], "{ran:?}");
        ran.says("purged: 0 results")?;
        ran.says("inv_1 was not purged")?;
        ran.says("does a proxy in front of the admin API let PATCH pass?")?;
    }
    Ok(())
}

#[test]
fn still_stored() -> Result<()> {
    let server = StandIn::sound(Sound {
        rows: Box::new(|sql| rows(sql, json!([]), None, &[result()])),
        change: |_| Some(unknown_invocation()),
        ..Sound::default()
    })?;
    let ran = run_command(&server.url, &[], FORGET)?.exits(1)?;
    ensure!(ran.audit()? == [("result".to_owned(), "already_gone".to_owned())], "{ran:?}");
    ran.says("inv_1 (Refunds/create) is still stored")?;
    // A result that has come since then is another one.
    let server = StandIn::sound(Sound {
        rows: Box::new(|sql| {
            let later = json!({"id": "inv_1", "target_service_name": "Refunds", "target_handler_name": "create",
                "idempotency_key": KEY, "status": "completed", "created_at": "2026-11-22T11:49:23.922Z"});
            rows(sql, json!([]), None, &[later])
        }),
        ..Sound::default()
    })?;
    run_command(&server.url, &[], FORGET)?.exits(0)?;
    Ok(())
}

#[test]
fn others_still_stored() -> Result<()> {
    let is_first = AtomicBool::new(true);
    let server = StandIn::sound(Sound {
        rows: Box::new(move |sql| match sql.contains("starts_with") {
            // The result itself is gone after the first look.
            true if is_first.swap(false, Ordering::Relaxed) => json!([result()]),
            true => json!([]),
            false => {
                let call = call("inv_call", "completed");
                rows(sql, json!([call]), Some("completed"), &[call.clone(), claim("", "completed")])
            }
        }),
        ..Sound::default()
    })?;
    let ran = run_command(&server.url, &[], ERASE)?.exits(1)?;
    ensure!(server.changes().len() == 3, "{ran:?}");
    ran.says("inv_call (Emails/send) is still stored")?;
    ran.says("inv_claim (IdempotencyGuard/claim) is still stored")?;
    ensure!(!ran.stderr.contains("inv_1 "), "the result is gone: {ran:?}");
    Ok(())
}

/// Without the result nobody could find the call when it has ended.
#[test]
fn waiting_call() -> Result<()> {
    let server = StandIn::sound(Sound {
        rows: Box::new(|sql| rows(sql, json!([call("inv_2", "scheduled")]), None, &[])),
        ..Sound::default()
    })?;
    let ran = run_command(&server.url, &[], ERASE)?.exits(1)?;
    ensure!(ran.audit()? == [("call".to_owned(), "refused_in_flight".to_owned())], "{ran:?}");
    ran.says("inv_2 is a call of a handler (Emails/send) and is under way (scheduled)")?;
    ran.says("the result inv_1 was not purged, because what is left is found through it")?;
    // A call has no key, so there is no retry with one, and nothing is stored under it.
    ensure!(!ran.stderr.contains("retry") && !ran.stderr.contains("409"), "{ran:?}");
    ensure!(server.changes().is_empty(), "{:?}", server.changes());
    Ok(())
}

/// Without the result nobody could find the claim when it has ended.
#[test]
fn waiting_claim() -> Result<()> {
    let sound = || Sound {
        rows: Box::new(|sql| rows(sql, json!([call("inv_2", "completed")]), Some("backing-off"), &[])),
        ..Sound::default()
    };
    let server = StandIn::sound(sound())?;
    let ran = run_command(&server.url, &[], ERASE)?.exits(1)?;
    ensure!(ran.audit()? == [("claim".to_owned(), "refused_in_flight".to_owned())], "{ran:?}");
    ran.says("inv_claim is a claim of the guard that is under way (backing-off)")?;
    ran.says("the result inv_1 was not purged")?;
    ensure!(server.changes().is_empty(), "{:?}", server.changes());
    // What is to be forgotten is forgotten also while the guard is down, but the claim is not.
    let server = StandIn::sound(sound())?;
    let ran = run_command(&server.url, &[], FORGET)?.exits(1)?;
    ensure!(server.changes() == ["/invocations/inv_1/purge"], "{ran:?}");
    ran.says("inv_claim is a claim of the guard")
}

/// A policy with an endpoint for `Refunds/create`, one for a target with an object key, and a guard of this name.
fn policy(guard: &str) -> Result<(TempDir, String)> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("policy.json");
    let route = |endpoint: &str, target: &str| json!({"endpoint": endpoint, "path": format!("/{endpoint}"), "policy": "REQUIRED_A", "target": target});
    let source =
        json!({"name": "h", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}});
    let policy = json!({"version": 1, "identity": {"sources": [source]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {"service": guard}},
        "routes": [route("refund", "Refunds/create"), route("cart", "Cart/{tenant}:{project}/checkout")]});
    std::fs::write(&file, policy.to_string())?;
    let path = file.to_str().context("a path that is text")?.to_owned();
    Ok((directory, path))
}

#[test]
fn other_id() -> Result<()> {
    let (_directory, policy) = policy("IdempotencyGuard")?;
    let hash = format!("sha256:{}", "0".repeat(64));
    for other in [["--id", "inv_2"], ["--key-hash", &hash]] {
        let server = StandIn::sound(Sound {
            // Restate has no invocation of this id under the key.
            rows: Box::new(|sql| {
                if sql.contains("'inv_2'") { json!([]) } else { rows(sql, json!([]), Some("completed"), &[]) }
            }),
            ..Sound::default()
        })?;
        let args = FORGET.into_iter().chain(["--policy", &policy, "--endpoint", "refund"]).chain(other);
        let ran = run_command(&server.url, &[], args)?.exits(1)?;
        ensure!(server.changes().is_empty(), "{:?}", server.changes());
        ran.says("nothing is stored under such a key")?;
        ran.says("Claims of the guard were not looked for")?;
        ensure!(!ran.stderr.contains("next request"), "{ran:?}");
    }
    Ok(())
}

#[test]
fn not_looked_for() -> Result<()> {
    let (_directory, policy) = policy("IdempotencyGuard")?;
    let endpoint = |name: &'static str| vec!["--stored-key", KEY, "--policy", &policy, "--endpoint", name];
    let cases = [
        (endpoint("refund"), "the guard has no claim of it, so the next request with it runs"),
        (endpoint("cart"), "it depends on the target's object key"),
        (vec!["--stored-key", KEY], "and --endpoint with --policy"),
        (vec!["--tenant", "acme", "--key", "a"], "That needs the whole key"),
        (vec!["--id", "inv_1"], "It does not find calls of handlers, claims, or requests without a key"),
    ];
    for (args, words) in cases {
        let server = StandIn::sound(Sound::default())?;
        let ran = run_command(&server.url, &[], ["keys", "purge", "--yes"].into_iter().chain(args))?.exits(1)?;
        ran.says("nothing is stored under such a key")?;
        ran.says(words)?;
        let runs = ran.stderr.contains("the next request with it runs");
        ensure!(runs == words.contains("runs"), "{ran:?}");
    }
    Ok(())
}

#[test]
fn unknown_guard() -> Result<()> {
    let sound = || Sound {
        guard: "Other",
        rows: Box::new(|sql| rows(sql, json!([]), Some("completed"), &[])),
        ..Sound::default()
    };
    let server = StandIn::sound(sound())?;
    let ran = run_command(&server.url, &[], ERASE)?.exits(2)?;
    ran.says("no service IdempotencyGuard. --policy FILE says what the guard's service is called")?;
    ran.says("nothing was purged")?;
    ensure!(server.changes().is_empty(), "{:?}", server.changes());
    let ran = run_command(&server.url, &[], FORGET)?.exits(0)?;
    ensure!(server.changes() == ["/invocations/inv_1/purge"], "{ran:?}");
    ran.says("note: claims of the guard were not looked for")?;
    let shown =
        run_command(&server.url, &[], ["keys", "show", "--details", "--json", "--stored-key", KEY])?.exits(0)?;
    ensure!(shown.json()?.pointer("/invocations/0/claims") == Some(&Value::Null), "{shown:?}");
    // The policy says the name.
    let (_directory, policy) = policy("IdempotencyGuard")?;
    let server = StandIn::sound(sound())?;
    let args = ERASE.into_iter().chain(["--policy", &policy]);
    let ran = run_command(&server.url, &[], args)?;
    ensure!(server.changes() == ["/invocations/inv_1/purge", "/invocations/inv_claim/purge"], "{ran:?}");
    Ok(())
}

/// Restate does not know digests, so every row is read: in few pages, whatever the limit is.
#[test]
fn digest_pages() -> Result<()> {
    let server = StandIn::sound(Sound {
        rows: Box::new(|sql| {
            let limit: usize = sql.rsplit(' ').next().and_then(|limit| limit.parse().ok()).unwrap_or_default();
            let first =
                sql.split("id > 'inv_").nth(1).and_then(|rest| rest.split('\'').next()).and_then(|id| id.parse().ok());
            let first = first.map_or(0, |last: usize| last + 1);
            let row = |number: usize| {
                json!({"id": format!("inv_{number:04}"), "target_service_name": "Refunds",
                "target_handler_name": "create", "idempotency_key": format!("t-acme:p:user:u:{number}"), "status": "completed"})
            };
            (first..(first + limit).min(2000)).map(row).collect()
        }),
        ..Sound::default()
    })?;
    // printf %s t-acme:p:user:u:1999 | sha256sum
    let hash = "sha256:9ca16326a2eb8f25bdca594714b0dfe43c10101b5dcd47f34cc7959f13588d5e";
    let args = ["keys", "show", "--json", "--limit", "1", "--key-hash", hash];
    let ran = run_command(&server.url, &[], args)?.exits(0)?;
    let key = ran.json()?.pointer("/invocations/0/namespaced_key").cloned();
    ensure!(key == Some(json!("t-acme:p:user:u:1999")), "{ran:?}");
    let queries = server.requests().iter().filter(|head| head.starts_with("POST /query")).count();
    ensure!(queries == 1, "{queries} queries for 2000 rows");
    Ok(())
}
