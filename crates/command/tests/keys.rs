//! `keys`, `retention` and `explain --key` without a Restate: what is refused before anything is called.

use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Exit status, standard output and standard error. Nothing listens at the address of the admin API.
fn run(args: &[&str], input: &str) -> Result<(i32, String, String), Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.args(args).env("RESTATE_ADMIN_URL", "http://127.0.0.1:1").env_remove("RESTATE_AUTH_TOKEN");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let code = output.status.code().ok_or("it was ended by a signal")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}

#[test]
fn keys_are_split_from_the_left() -> Result<(), Box<dyn Error>> {
    let (code, out, _) = run(&["explain", "--key", "t-acme:_tenant:client:a%2Fb:x:y"], "")?;
    assert_eq!(
        (code, out.as_str()),
        (0, "tenant   acme\nproject  _tenant (routes of scope tenant)\nsubject  client:a/b\nkey      x:y\n")
    );
    let (code, out, _) = run(&["explain", "--json", "--key", "-"], "t-acme:shop:user:%1B%5B2J:k\n")?;
    // A control byte is in no subject that the filter makes.
    assert_eq!((code, out.as_str()), (2, ""));
    let (code, out, _) = run(&["explain", "--json", "--key", "-"], "t-acme:shop:user:%E2%82%AC:k\r\n")?;
    let json: serde_json::Value = serde_json::from_str(&out)?;
    assert_eq!(
        (code, &json["subject"], &json["key"], &json["scope"]),
        (0, &"user:€".into(), &"k".into(), &"project".into())
    );
    let (code, _, error) = run(&["explain", "--key", "sha256:12"], "")?;
    assert!(code == 2 && error.contains("cannot be turned back"), "{error}");
    Ok(())
}

#[test]
fn arguments_are_checked_before_restate_is_called() -> Result<(), Box<dyn Error>> {
    for (args, message) in [
        (&["keys", "purge", "--all", "--tenant", "acme", "--yes"][..], "--subject"),
        (&["keys", "purge", "--all", "--subject", "user:u", "--yes"], "--tenant"),
        (&["keys", "purge", "--tenant", "acme", "--subject", "user:u", "--yes"], "say which result"),
        (&["keys", "show", "--tenant", "a'c"], "--tenant a'c"),
        (&["keys", "show", "--tenant", "acme", "--subject", "alice"], "such as user:42"),
        (&["keys", "show", "--endpoint", "refunds.create"], "--policy"),
        (&["keys", "show", "--stored-key", "refund-1", "--details"], "t-{tenant}"),
        (&["keys", "show", "--admin", "https://user:planted@example.com"], "RESTATE_AUTH_TOKEN"),
        (&["keys", "show", "--admin", "example.com:9070"], "http://host:9070"),
        (&["retention", "--policy", "/none/policy.json"], "/none/policy.json"),
        (&["keys", "show"], "Connection refused"),
    ] {
        let (code, out, error) = run(args, "")?;
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {error}");
        assert!(error.contains(message), "{args:?}: {error}");
        assert!(!error.contains("planted"), "{error}");
    }
    Ok(())
}

/// A policy whose document is standard input.
const SCOPES: &str = r#"{"version": 1, "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {"service": "Guard"}},
    "identity": {"sources": [{"name": "h", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}}]},
    "routes": [
        {"endpoint": "t", "path": "/t", "policy": "REQUIRED_A", "target": "Refunds/create", "scope": "tenant"},
        {"endpoint": "p", "path": "/p", "policy": "REQUIRED_A", "target": "Carts/create"}],
    "retention": {"classes": {"money": "2d"}, "services": {"Guard": "money"}}}"#;

/// What is typed is never replaced by something else.
#[test]
fn a_project_that_the_endpoint_cannot_have_is_refused() -> Result<(), Box<dyn Error>> {
    for (endpoint, choice) in [
        ("t", ["--project", "shop"]),
        ("t", ["--stored-key", "t-acme:shop:user:a:k"]),
        ("p", ["--project", "_tenant"]),
        ("p", ["--stored-key", "t-acme:_platform:user:a:k"]),
    ] {
        let args =
            ["keys", "purge", "--yes", "--policy", "-", "--endpoint", endpoint, choice[0], choice[1], "--id", "inv_1"];
        let (code, out, error) = run(&args, SCOPES)?;
        assert_eq!((code, out.as_str()), (2, ""), "{error}");
        assert!(error.contains("never under"), "{error}");
    }
    Ok(())
}

#[test]
fn a_subject_that_was_copied_from_a_key_is_warned_of() -> Result<(), Box<dyn Error>> {
    let args = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:a%2Fb", "--yes"];
    let (_, _, error) = run(&args, "")?;
    assert!(error.contains("write it decoded: --subject user:a/b"), "{error}");
    Ok(())
}

#[test]
fn the_guard_has_one_retention() -> Result<(), Box<dyn Error>> {
    let (code, out, error) = run(&["retention", "--apply", "--yes", "--policy", "-"], SCOPES)?;
    assert_eq!((code, out.as_str()), (2, ""), "{error}");
    assert!(error.contains("/retention/services/Guard: this is the guard's service"), "{error}");
    Ok(())
}

#[test]
fn errors_of_a_policy_are_told_as_everywhere() -> Result<(), Box<dyn Error>> {
    let (code, out, error) =
        run(&["retention", "--json", "--policy", "-"], r#"{"version": 1, "retention": {"services": {"A": "x"}}}"#)?;
    assert_eq!(code, 2);
    assert!(out.contains("/retention/services/A") && error.contains("no class"), "{out} {error}");
    Ok(())
}
