//! `webhook` and `completions` as people call them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use crate::credentials::stand_in::StandIn;
use serde_json::Value;
use std::process::Command;

const POLICY: &str = r#"{
  "version": 1,
  "backend": {"kind": "generic"},
  "routes": [{"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
  "webhooks": {
    "public_base_url": "https://api.example.com",
    "static": {
      "wh_01JSTRIPE": {"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": "HOOK_SECRET"}]},
      "wh_01JGITLAB": {"tenant": "acme", "project": "shop", "provider": "gitlab", "secrets": [{"env": "HOOK_SECRET"}]},
      "wh_01JPARCEL": {"tenant": "acme", "project": "shop", "provider": "parcel_post", "secrets": [{"env": "HOOK_SECRET"}]}
    },
    "providers": {"parcel_post": {
      "name": "Parcel Post", "docs_url": "https://parcel.example/docs",
      "schemes": [{"algorithm": "hmac-sha256", "signature": {"header": "X-Parcel-Signature", "encoding": "hex"}, "template": "{id}.{body}"}],
      "identifiers": [{"header": "X-Parcel-Id", "signed": true}],
      "retry": {"horizon": "1 day", "attempts": "5", "known_from": "documentation"}
    }}
  }
}"#;

const SECRET: &str = "planted-0123456789abcdef";

/// Exit status, standard output and standard error.
fn run(arguments: &[&str], policy: &str, input: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    std::fs::write(&file, policy).unwrap();
    let file = file.display().to_string();
    let arguments = arguments.iter().map(|argument| if *argument == "POLICY" { file.as_str() } else { argument });
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.args(arguments).env("HOOK_SECRET", SECRET).env("NO_COLOR", "1");
    let output = crate::run_with_input(&mut command, input).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A delivery that `sign` prints is one that `explain` forwards: the policy's own providers, too.
#[test]
fn signed_deliveries_are_accepted_by_the_policy() {
    for (id, key) in [
        ("wh_01JSTRIPE", "t-acme:shop:service:webhook-ingest:stripe-evt_1"),
        ("wh_01JGITLAB", "t-acme:shop:service:webhook-ingest:gitlab-evt_1"),
        ("wh_01JPARCEL", "t-acme:shop:service:webhook-ingest:parcel_post-evt_1"),
    ] {
        let sign =
            ["webhook", "sign", "--policy", "POLICY", "--id", id, "--delivery-id", "evt_1", "--json", "--show-secret"];
        let (status, document, errors) = run(&sign, POLICY, "");
        assert_eq!(status, 0, "{errors}");
        let (status, verdict, _) =
            run(&["explain", "--policy", "POLICY", "--request", "-", "--json"], POLICY, &document);
        let verdict: Value = serde_json::from_str(&verdict).unwrap();
        assert_eq!((status, verdict["idempotency_key"].as_str()), (0, Some(key)), "{verdict}");
    }
}

#[test]
fn a_printed_command_holds_no_secret() {
    let sign =
        |more: &[&str], input: &str| run(&[&["webhook", "sign", "--policy", "POLICY"], more].concat(), POLICY, input);
    for id in ["wh_01JSTRIPE", "wh_01JGITLAB"] {
        let (status, text, errors) = sign(&["--id", id], "");
        assert_eq!((status, errors.as_str()), (0, ""));
        assert!(text.contains("curl -i -X POST https://api.example.com/hooks/") && !text.contains("planted"), "{text}");
    }
    let (_, text, _) = sign(&["--id", "wh_01JGITLAB"], "");
    assert!(text.starts_with(r#"printf '%s%s\n' 'X-Gitlab-Token: ' "${HOOK_SECRET}" |"#), "{text}");
    let (status, text, errors) = sign(&["--id", "wh_01JGITLAB", "--secret", "-"], "planted-on-input\n");
    assert_eq!((status, text.as_str()), (2, ""));
    assert!(errors.contains("--show-secret") && !errors.contains("planted"), "{errors}");
    let (_, text, _) = sign(&["--id", "wh_01JGITLAB", "--secret", "-", "--show-secret"], "planted-on-input\n");
    assert!(text.contains("X-Gitlab-Token: planted-on-input'"), "{text}");
    let (status, text, errors) = sign(&["--id", "wh_01JGITLAB", "--json"], "");
    assert!(status == 2 && text.is_empty() && errors.contains("--show-secret"), "{errors}");
    let (status, _, errors) = sign(&["--id", "wh_01JSTRIPE", "--secret", "planted"], "");
    assert!(status == 2 && errors.contains("env:NAME") && !errors.contains("planted"), "{errors}");
}

/// The printed command is one that `explain --curl` reads.
#[test]
fn a_printed_command_can_be_pasted() {
    let (_, command, _) = run(&["webhook", "sign", "--policy", "POLICY", "--id", "wh_01JSTRIPE"], POLICY, "");
    let (status, text, errors) = run(&["explain", "--policy", "POLICY", "--curl", "-"], POLICY, &command);
    assert_eq!(status, 0, "{text}{errors}");
}

#[test]
fn a_provider_with_private_keys_gets_a_new_pair_and_tells_its_public_half() {
    let url = "https://api.example.com/hooks/discord/wh_01JDISCORD";
    let (status, text, errors) = run(&["webhook", "sign", "--provider", "discord", "--url", url], POLICY, "");
    assert_eq!(status, 0);
    assert!(text.contains("X-Signature-Ed25519"), "{text}");
    let key = errors.trim().rsplit(' ').next().unwrap();
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{errors}");
}

/// A route that names provider and id, as one has it for a URL that cannot change.
#[test]
fn a_route_for_one_webhook_gets_a_binding() {
    let policy = |id: &str, stores: &str| {
        POLICY
            .replace("/hooks/{provider}/{webhook_id}", "/pushes")
            .replace("\"webhook\": {}", &format!("\"webhook\": {{\"provider\": \"github\", \"id\": \"{id}\"}}"))
            .replace("\"public_base_url\"", &format!("{stores} \"public_base_url\""))
    };
    let new = ["webhook", "new", "--policy", "POLICY", "--tenant", "acme", "--project", "shop", "--provider", "github"];
    let unkey = "\"unkey\": {\"cluster\": \"unkey\"}, \"openbao\": {\"cluster\": \"openbao\"},";
    for stores in ["", unkey] {
        let (status, text, errors) = run(&[&new[..], &["--json"]].concat(), &policy("wh_01JGITHUB", stores), "");
        assert_eq!(status, 0, "{errors}");
        let made: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&made["id"], &made["url"]), (&"wh_01JGITHUB".into(), &"https://api.example.com/pushes".into()));
        let binding = &made["static"]["wh_01JGITHUB"];
        assert_eq!((&binding["tenant"], &binding["provider"]), (&"acme".into(), &"github".into()), "{made}");
        assert!(made["unkey"].is_null(), "{made}");
    }
    let (status, text, errors) = run(&new, &policy("wh_01JSTRIPE", ""), "");
    assert!(status == 2 && text.is_empty() && errors.contains("`webhooks.static` has already"), "{errors}");
    let apply = [&new[..], &["--apply", "--unkey-api", "api_1"]].concat();
    let (status, text, errors) = run(&apply, &policy("wh_01JGITHUB", unkey), "");
    assert!(status == 2 && text.is_empty() && errors.contains("Unkey makes ids of its own"), "{errors}");
}

/// Two routes for Stripe: an inbox, and one that gives its deliveries to handlers that wait for them.
#[test]
fn where_several_routes_take_a_webhook_one_is_named() {
    let policy = POLICY.replace(
        r#""routes": ["#,
        r#""routes": [
            {"endpoint": "promises", "path": "/promises/stripe/{webhook_id}", "policy": "REQUIRED_B", "webhook": {"provider": "stripe"}},
            {"endpoint": "inbox", "path": "/inbox", "policy": "REQUIRED_B", "webhook": {"provider": "stripe", "id": "wh_01JINBOX"}},"#,
    );
    let policy = policy.replace(
        r#""static": {"#,
        r#""static": {"wh_01JINBOX": {"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": "HOOK_SECRET"}]},"#,
    );
    let new = ["webhook", "new", "--policy", "POLICY", "--tenant", "acme", "--project", "shop", "--provider", "stripe"];
    let sign = |id| vec!["webhook", "sign", "--policy", "POLICY", "--id", id, "--json"];
    let listed = "name one with --endpoint\n  promises  /promises/stripe/{webhook_id}\n  ";
    for (command, also) in [
        (new.to_vec(), "hooks  /hooks/stripe/{webhook_id}\n"),
        (sign("wh_01JSTRIPE"), "hooks  /hooks/stripe/{webhook_id}\n"),
        (sign("wh_01JINBOX"), "inbox  /inbox\n  hooks  /hooks/stripe/{webhook_id}\n"),
    ] {
        let (status, text, errors) = run(&command, &policy, "");
        assert!(
            status == 2 && text.is_empty() && errors.ends_with(&format!("{listed}{also}")),
            "{command:?}: {errors}"
        );
    }
    for (command, endpoint, url) in [
        (new.to_vec(), "promises", "https://api.example.com/promises/stripe/wh_"),
        (new.to_vec(), "hooks", "https://api.example.com/hooks/stripe/wh_"),
        (sign("wh_01JSTRIPE"), "promises", "https://api.example.com/promises/stripe/wh_01JSTRIPE\""),
        (sign("wh_01JINBOX"), "inbox", "https://api.example.com/inbox\""),
        (sign("wh_01JGITLAB"), "hooks", "https://api.example.com/hooks/gitlab/wh_01JGITLAB\""),
    ] {
        let command =
            [&command[..], &["--endpoint", endpoint], if command[1] == "sign" { &["--show-secret"] } else { &[] }]
                .concat();
        let (status, text, errors) = run(&command, &policy, "");
        assert!(status == 0 && text.contains(url), "{command:?}: {text}{errors}");
    }
    for (command, endpoint, told) in [
        (new.to_vec(), "inbox", "`webhooks.static` has already"),
        (new.to_vec(), "orders", "no route `orders` of the policy takes deliveries of stripe"),
        (sign("wh_01JGITLAB"), "promises", "no route `promises` of the policy takes deliveries of gitlab"),
    ] {
        let (status, _, errors) = run(&[&command[..], &["--endpoint", endpoint]].concat(), &policy, "");
        assert!(status == 2 && errors.contains(told), "{command:?} {endpoint}: {errors}");
    }
}

/// The gateway's answer to a delivery without the member that the target names, if the route acknowledges it.
#[test]
fn a_delivery_that_reached_no_handler_is_told() {
    let body = r#"{"outcome": "acknowledged", "detail": "the body has no /data/object/id"}"#;
    let server = StandIn::answering(move |_| (200, body.to_owned()));
    let url = format!("{}/hooks/stripe/wh_1", server.url);
    let send = ["webhook", "sign", "--provider", "stripe", "--url", &url, "--secret", "env:HOOK_SECRET", "--send"];
    let (status, text, errors) = run(&send, POLICY, "");
    assert!(
        status == 1 && text.starts_with("REACHED NO HANDLER: 200 from ") && text.contains("/data/object/id"),
        "{text}{errors}"
    );
    let (status, text, _) = run(&[&send[..], &["--json"]].concat(), POLICY, "");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &answer["accepted"], &answer["status"]), (1, &false.into(), &200.into()), "{text}");
}

#[test]
fn what_cannot_be_signed_is_told() {
    for (arguments, told) in [
        (vec!["sign", "--provider", "strip", "--url", "http://h/"], "did you mean `stripe`?"),
        (vec!["sign", "--provider", "stripe", "--url", "http://h/"], "--secret"),
        (vec!["sign", "--policy", "POLICY", "--id", "wh_other"], "--provider"),
        (vec!["sign", "--provider", "stripe", "--url", "http://h/", "--secret", "env:NOT_SET_HERE"], "NOT_SET_HERE"),
        (vec!["sign", "--provider", "stripe"], "required"),
        (vec!["new", "--policy", "POLICY", "--tenant", "a:b", "--project", "p", "--provider", "stripe"], "--tenant"),
        (vec!["new", "--policy", "POLICY", "--tenant", "a", "--project", "p", "--provider", "strip"], "did you mean"),
        (
            vec![
                "new",
                "--policy",
                "POLICY",
                "--tenant",
                "a",
                "--project",
                "p",
                "--provider",
                "stripe",
                "--apply",
                "--unkey-api",
                "x",
            ],
            "webhooks.unkey",
        ),
    ] {
        let (status, text, errors) = run(&[&["webhook"], &arguments[..]].concat(), POLICY, "");
        assert_eq!((status, text.as_str()), (2, ""), "{arguments:?}");
        assert!(errors.contains(told), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_new_webhook_of_a_static_policy_starts_with_the_policy() {
    let new = ["webhook", "new", "--policy", "POLICY", "--tenant", "acme", "--project", "shop", "--provider", "github"];
    let (status, text, _) = run(&[&new[..], &["--bind-body", "true", "--json"]].concat(), POLICY, "");
    assert_eq!(status, 0);
    let shown: Value = serde_json::from_str(&text).unwrap();
    let id = shown["id"].as_str().unwrap();
    assert_eq!(shown["url"], format!("https://api.example.com/hooks/github/{id}"));
    let mut policy: Value = serde_json::from_str(POLICY).unwrap();
    policy["webhooks"]["static"][id] = shown["static"][id].clone();
    let (status, _, errors) = run(&["check", "-"], "", &policy.to_string());
    assert_eq!(status, 0, "{errors}");
}

/// docs/webhooks.md has the same records.
#[test]
fn the_records_of_stores_are_printed() {
    let policy = POLICY.replace(
        r#""static""#,
        r#""unkey": {"cluster": "unkey"}, "openbao": {"cluster": "openbao", "mount": "webhooks"}, "static""#,
    );
    let new = ["webhook", "new", "--policy", "POLICY", "--tenant", "acme", "--project", "shop", "--provider", "stripe"];
    insta::assert_snapshot!(run(&new, &policy, "").1);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, text, _) = run(&["completions", shell], "", "");
        assert!(status == 0 && text.contains("webhook") && text.contains("print-request"), "{shell}");
    }
    let (_, help, _) = run(&["webhook", "sign", "--help"], "", "");
    assert!(!help.contains('\u{1b}') && help.contains("Examples:"), "{help}");
}
