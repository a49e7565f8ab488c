//! Commands that are printed to be pasted: shells run them as they are, and no secret is in an argument of curl.

use super::stand_in::{Received, StandIn};
use super::{ROOT_KEY, SECRET, run};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Runs a printed command in a shell, with a `curl` in front of the real one that writes its arguments down. What came to the server,
/// and the arguments.
fn pasted(shell: &str, folder: &Path, command: &str, server: &StandIn) -> (Received, String) {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let script = "#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments.txt\nPATH=${PATH#*:} exec curl \"$@\"\n";
    std::fs::write(bin.join("curl"), script).unwrap();
    std::fs::set_permissions(bin.join("curl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new(shell)
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOOK_SECRET", SECRET)
        .env("UNKEY_ROOT_KEY", ROOT_KEY)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shell}: {command}\n{errors}");
    let received = server.received();
    assert_eq!(received.len(), 1, "{shell}: {command}\n{errors}");
    (received[0].clone(), std::fs::read_to_string(folder.join("arguments.txt")).unwrap())
}

/// A provider that sends its secret as a token: in a header, or in the body.
fn token_provider(place: &Value) -> String {
    json!({
        "name": "Token", "docs_url": "https://token.example/docs",
        "schemes": [{"algorithm": "token", "signature": place}],
        "identifiers": [{"json": "/id", "signed": false}],
        "retry": {"horizon": "1 day", "attempts": "5", "known_from": "documentation"}
    })
    .to_string()
}

#[test]
fn a_printed_delivery_runs_in_shells_and_hides_its_secret() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = StandIn::answering(|_| (200, String::new()));
    let prefix = "$(touch made) `touch made` %s\\n\" ";
    std::fs::write(folder.join("token.json"), token_provider(&json!({"header": "X-Token", "prefix": prefix}))).unwrap();
    std::fs::write(folder.join("a secret's file"), format!("{SECRET}\n")).unwrap();
    for source in ["env:HOOK_SECRET", "@a secret's file"] {
        for more in [&[][..], &["--show-secret"]] {
            let url = format!("{}/hooks/$(id)'", server.url);
            let sign = ["webhook", "sign", "--provider-file", "token.json", "--url", &url, "--secret", source];
            let ran = run(folder, &[], &[&sign[..], more].concat());
            assert_eq!((ran.status, ran.errors.as_str()), (0, ""));
            assert_eq!(ran.text.contains("ted $(id)"), !more.is_empty(), "{}", ran.text);
            for shell in ["sh", "bash"] {
                let (received, arguments) = pasted(shell, folder, &ran.text, &server);
                let header = format!("X-Token: {prefix}{SECRET}");
                assert!(received.head.lines().any(|line| line == header), "{shell}: {}", received.head);
                assert!(!arguments.contains("ted $(id)"), "{shell}: {arguments}");
                assert!(received.line.ends_with("/hooks/$(id)'"), "{shell}: {}", received.line);
            }
        }
    }
    assert!(!folder.join("made").exists(), "the shell ran what the provider file says");
}

#[test]
fn a_secret_in_the_body_is_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = StandIn::answering(|_| (200, String::new()));
    std::fs::write(folder.join("token.json"), token_provider(&json!({"json": "/token"}))).unwrap();
    let sign =
        ["webhook", "sign", "--provider-file", "token.json", "--url", &server.url, "--secret", "env:HOOK_SECRET"];
    for more in [&[][..], &["--json"]] {
        let ran = run(folder, &[], &[&sign[..], more].concat());
        assert_eq!((ran.status, ran.text.as_str()), (2, ""), "{more:?}");
        assert!(ran.errors.contains("--show-secret") && !ran.errors.contains("ted $"), "{}", ran.errors);
    }
    let ran = run(folder, &[], &[&sign[..], &["--show-secret"]].concat());
    let (received, arguments) = pasted("sh", folder, &ran.text, &server);
    let body: Value = serde_json::from_str(&received.body).unwrap();
    assert_eq!(body["token"], SECRET);
    assert!(!arguments.contains("ted $"), "{arguments}");
}

#[test]
fn a_variable_that_no_shell_reads_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sign = ["webhook", "sign", "--provider", "gitlab", "--url", "https://h/", "--secret", "env:HOOK-SECRET"];
    let ran = run(folder.path(), &[("HOOK-SECRET", "planted")], &sign);
    assert_eq!((ran.status, ran.text.as_str()), (2, ""));
    assert!(ran.errors.contains("a name that shells can read"), "{}", ran.errors);
}

#[test]
fn the_printed_request_to_the_registry_runs_in_shells_and_hides_the_root_key() {
    let folder = tempfile::tempdir().unwrap();
    let server = StandIn::answering(|_| (200, String::new()));
    let unkey = format!("{}/a b'$(id)", server.url).replace(' ', "%20");
    let new =
        ["webhook", "new", "--policy", "policy.json", "--tenant", "acme", "--project", "shop", "--provider", "stripe"];
    let ran = run(folder.path(), &[], &[&new[..], &["--unkey", &unkey, "--unkey-api", "api'_$(id)"]].concat());
    assert_eq!((ran.status, ran.errors.as_str()), (0, ""));
    let (_, command) = ran.text.split_once("answer:\n\n").unwrap();
    let (command, _) = command.split_once("\n\nOpenBao").unwrap();
    for shell in ["sh", "bash"] {
        let (received, arguments) = pasted(shell, folder.path(), command, &server);
        assert_eq!(received.line, "POST /a%20b'$(id)/v2/keys.createKey", "{shell}");
        assert!(received.head.contains(&format!("Authorization: Bearer {ROOT_KEY}")), "{shell}: {}", received.head);
        assert!(received.head.contains("Content-Type: application/json"), "{shell}: {}", received.head);
        let body: Value = serde_json::from_str(&received.body).unwrap();
        assert_eq!((&body["apiId"], &body["externalId"]), (&json!("api'_$(id)"), &json!("acme")), "{shell}");
        assert!(!arguments.contains("planted"), "{shell}: {arguments}");
    }
}
