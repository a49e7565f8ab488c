//! Parts that are missing or broken: nothing that an upstream could use gets there.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use e2e::capture::Capture;
use e2e::raw::Request;
use e2e::runner::Test;
use harness::senders::Senders;
use harness::tokens::Signer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::captured::{MESSAGES, claims, environment, keyed, shown};
use super::config::policy;
use super::standin::{Options, StandIn, Way};

pub(crate) fn tests(way: Way) -> Vec<Test<()>> {
    let mut tests = vec![
        test(way, "the module is not there", "gone.wasm", |parts| {
            parts.module = Some(parts.directory.path().join("gone.wasm"))
        }),
        test(way, "the policy has an unknown member", "versoin", |parts| {
            set(&mut parts.policy, "", "versoin", json!(1))
        }),
        test(way, "an endpoint that is not bound lets keys through", "/input_headers/0 (POST /open)", |parts| {
            parts.open_headers = json!(["Idempotency-Key"]);
        }),
    ];
    if way == Way::Plugin {
        tests.push(test(way, "the plugin is not there", "", |parts| {
            parts.plugins = Some(parts.directory.path().to_owned())
        }));
    }
    tests.into_iter().map(|test| test.within(way.name()).within("broken")).collect()
}

fn set(value: &mut Value, at: &str, name: &str, new: Value) {
    if let Some(object) = value.pointer_mut(at).and_then(Value::as_object_mut) {
        object.insert(name.to_owned(), new);
    }
}

struct Parts {
    directory: TempDir,
    module: Option<PathBuf>,
    plugins: Option<PathBuf>,
    policy: Value,
    environment: Vec<(String, String)>,
    /// The headers that the endpoint which is not bound passes on.
    open_headers: Value,
}

/// A custom build does not start. KrakenD starts without a plugin, and with one that cannot start: then every endpoint of the
/// policy answers an error, with the second every other endpoint, too, and the upstream gets nothing. `reason` is a piece of
/// what the log says.
fn test(way: Way, name: &str, reason: &'static str, break_it: fn(&mut Parts)) -> Test<()> {
    Test::new(name, move |()| {
        let (capture, signer) = (Capture::start()?, Signer::generate());
        let mut parts = Parts {
            directory: tempfile::tempdir()?,
            module: None,
            plugins: None,
            policy: policy()?,
            environment: environment(&Senders::generate()),
            open_headers: json!(["Content-Type"]),
        };
        break_it(&mut parts);
        let upstream = json!({"url": format!("http://{}", capture.address())});
        let open = json!({
            "endpoint": "/open", "method": "POST", "output_encoding": "no-op", "input_headers": parts.open_headers,
            "backend": [{"host": [format!("http://{}", capture.address())], "url_pattern": "/open"}],
        });
        let started = StandIn::start(Options {
            way,
            race: false,
            module: parts.module.as_deref(),
            plugins: parts.plugins.as_deref(),
            policy: &parts.policy,
            upstreams: json!({"backend": upstream, "unkey": upstream, "openbao": upstream}),
            others: vec![open],
            own: Vec::new(),
            environment: parts.environment,
            signer: &signer,
            directory: parts.directory.path(),
        });
        match (way, started) {
            (Way::Executor, Ok(_)) => bail!("it starts"),
            (Way::Executor, Err(error)) => {
                let error = format!("{error:#}");
                ensure!(error.contains("ended with exit status: 1"), "it does not end by itself: {error}");
                ensure!(
                    error.contains("standin-executor: ") && error.contains(reason) && !error.contains("panic"),
                    "it does not say {reason}: {error}"
                );
            }
            (Way::Plugin, started) => {
                let gateway = started?;
                let log = gateway.log()?;
                ensure!(log.contains(reason), "the log does not say {reason}: {log}");
                let token = signer.mint(&claims("acme", "alice"))?;
                for _ in 0..3 {
                    let reply = gateway.send(&keyed(MESSAGES, "raw-key").bearer(&token))?;
                    if parts.plugins.is_some() {
                        // KrakenD itself looks for the host, which no resolver knows.
                        ensure!(reply.status == 500, "{}\n{}", shown(&reply), gateway.log()?);
                    } else {
                        ensure!(reply.status == 503, "{}\n{}", shown(&reply), gateway.log()?);
                        let code = reply.json().get("code").and_then(Value::as_str).map(str::to_owned);
                        ensure!(code.as_deref() == Some("policy_invalid"), "{}", shown(&reply));
                    }
                }
                // The plugin closes what is not bound, too, and KrakenD's health endpoint tells it.
                if parts.plugins.is_none() {
                    for request in [keyed("/open", "raw-key"), Request::new("GET", "/__health")] {
                        let reply = gateway.send(&request)?;
                        ensure!(reply.status == 503, "{}\n{}", shown(&reply), gateway.log()?);
                    }
                    let log = gateway.log()?;
                    ensure!(log.contains("all endpoints of this gateway answer 503"), "{log}");
                }
            }
        }
        ensure!(capture.take().is_empty(), "the upstream got a request");
        Ok(())
    })
}
