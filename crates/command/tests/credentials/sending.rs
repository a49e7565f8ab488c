//! Ways that credentials must not go: over plain http to another machine, and through a proxy to this one.

use super::run;
use super::stand_in::StandIn;
use std::net::TcpListener;

const ELSEWHERE: &str = "http://no-such-host.invalid:9070";
const HOOK: &str = "http://no-such-host.invalid:9070/in";

/// Whether the error is that of a request that was made: there is no such host.
fn is_sent(errors: &str) -> bool {
    errors.contains(&format!("{ELSEWHERE}/")) && !errors.contains("--allow-plain-http")
}

#[test]
fn requests_to_this_machine_do_not_go_through_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let admin = StandIn::answering(|_| (503, r#"{"message": "from the stand-in"}"#.to_owned()));
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    for name in ["ALL_PROXY", "HTTPS_PROXY", "http_proxy"] {
        for url in [admin.url.clone(), admin.url.replace("127.0.0.1", "localhost")] {
            let environment = [(name, address.as_str()), ("RESTATE_AUTH_TOKEN", "planted")];
            let ran = run(folder.path(), &environment, &["keys", "show", "--admin", &url, "--timeout", "5"]);
            assert_eq!(ran.status, 2);
            assert!(ran.errors.contains("from the stand-in"), "{name} {url}: {}", ran.errors);
            assert_eq!(admin.received().len(), 1);
            assert!(proxy.accept().is_err(), "{name} {url}: a request came to the proxy");
        }
    }
    // Another machine is asked through the proxy: here it is reached, and says nothing.
    let environment = [("ALL_PROXY", address.as_str())];
    let ran = run(folder.path(), &environment, &["keys", "show", "--admin", ELSEWHERE, "--timeout", "1"]);
    assert!(ran.status == 2 && proxy.accept().is_ok(), "{}", ran.errors);
}

#[test]
fn credentials_do_not_go_over_plain_http_to_another_machine() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "planted").unwrap();
    let token = [("RESTATE_AUTH_TOKEN", "planted")];
    let new =
        ["webhook", "new", "--policy", "policy.json", "--tenant", "acme", "--project", "shop", "--provider", "stripe"];
    let to_unkey = [&new[..], &["--apply", "--unkey-api", "api_1", "--unkey", ELSEWHERE]].concat();
    let to_openbao =
        [&new[..], &["--apply", "--unkey-api", "api_1", "--secret", "@secret", "--openbao", ELSEWHERE]].concat();
    let gitlab = vec!["webhook", "sign", "--provider", "gitlab", "--url", HOOK, "--secret", "@secret", "--send"];
    for arguments in [
        vec!["keys", "show", "--admin", ELSEWHERE],
        vec!["retention", "--policy", "policy.json", "--admin", ELSEWHERE],
        to_unkey,
        to_openbao,
        gitlab,
    ] {
        let ran = run(folder.path(), &token, &arguments);
        assert_eq!((ran.status, ran.text.as_str()), (2, ""), "{arguments:?}");
        let is_told = ran.errors.contains("--allow-plain-http") && !ran.errors.contains("planted");
        assert!(is_told, "{arguments:?}: {}", ran.errors);
        // With the option the request is made, and there is no such host.
        let ran = run(folder.path(), &token, &[&arguments[..], &["--allow-plain-http"]].concat());
        assert!(ran.status == 2 && is_sent(&ran.errors), "{arguments:?}: {}", ran.errors);
    }
    // A signature is no credential, and without a token nothing has to be encrypted.
    let stripe = ["webhook", "sign", "--provider", "stripe", "--url", HOOK, "--secret", "@secret", "--send"];
    for arguments in [&stripe[..], &["keys", "show", "--admin", ELSEWHERE]] {
        let ran = run(folder.path(), &[], arguments);
        assert!(is_sent(&ran.errors), "{arguments:?}: {}", ran.errors);
    }
}

#[test]
fn a_user_in_a_url_is_refused_and_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "planted").unwrap();
    const URL: &str = "https://me:planted@no-such-host.invalid";
    let new =
        ["webhook", "new", "--policy", "policy.json", "--tenant", "acme", "--project", "shop", "--provider", "stripe"];
    let sign = ["webhook", "sign", "--provider", "stripe", "--secret", "@secret", "--url", URL];
    for (arguments, told) in [
        ([&new[..], &["--unkey", URL]].concat(), "--unkey"),
        (
            [&new[..], &["--apply", "--unkey-api", "api_1", "--secret", "@secret", "--openbao", URL]].concat(),
            "--openbao",
        ),
        ([&new[..], &["--base-url", URL]].concat(), "--base-url"),
        (sign.to_vec(), "--url"),
        ([&sign[..], &["--send"]].concat(), "--url"),
        (vec!["keys", "show", "--admin", URL], "RESTATE_AUTH_TOKEN"),
    ] {
        let ran = run(folder.path(), &[], &arguments);
        assert_eq!((ran.status, ran.text.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.errors.contains(told) && !ran.errors.contains("planted"), "{arguments:?}: {}", ran.errors);
    }
}
