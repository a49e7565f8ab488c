//! The adversary with a captured delivery: random lines beside the signed ones, whose names a server could take for those of
//! headers that the filter verified, or of the caller's identity. The upstream has to get the lines that were verified and the
//! filter's own, and no other that looks like one of them.
//!
//! `HOSTILE_SEED` chooses the deliveries, and `HOSTILE_CASES` how many there are: one for every ten cases of the differ.

use std::env;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::deliveries::{self, now};
use e2e::gateway::{TestEnvironment, TestGateway, sorted};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use e2e::wire::HeaderLine;
use serde_json::json;

use super::differ::random::Random;

const CASES: u64 = 500;
const KINDS: [&str; 2] = ["restate", "generic"];
const SECRET: (&str, &str) = ("E2E_TWINS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
const SIGNATURES: [&str; 3] = ["webhook-signature", "svix-signature", "x-hub-signature-256"];

struct TwinsSetup(TestGateway);

/// A delivery as its provider sends it, and names that could be taken for its headers.
struct Captured {
    request: Request,
    /// Headers that its provider's file reads, by their own names
    read: &'static [&'static str],
    /// Those of them that this delivery has no such line of, and whose every line has to go
    unread: &'static [&'static str],
    /// A line that may come twice
    repeated: &'static str,
}

pub(crate) fn group() -> Group {
    let test =
        Test::new("adversary: what looks like a verified header, beside captured deliveries", |setup: &TwinsSetup| {
            let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
            let seed = number("HOSTILE_SEED").unwrap_or(1);
            (0..number("HOSTILE_CASES").map_or(CASES, |cases| cases / 10))
                .try_for_each(|case| setup.check(seed, case).with_context(|| format!("seed {seed}, delivery {case}")))
        });
    sharing(TwinsSetup::start, vec![test])
}

fn policy(kind: &str) -> String {
    let binding = |provider: &str| json!({"tenant": "acme", "project": "shop", "provider": provider, "secrets": [{"env": SECRET.0}], "key_scope": "project", "bind_body": false});
    json!({
        "version": 1,
        "identity": {
            "sources": [{"name": "jwt", "metadata": ["jwt"], "tenant": "t", "project": "p", "subject": {"field": "s", "type": "user"}}],
            "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"},
        },
        "backend": {"kind": kind},
        "routes": [{"endpoint": "hooks", "path": "/webhooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
        "webhooks": {"static": {
            "wh_standard": binding("standard_webhooks"), "wh_github01": binding("github"),
        }},
    })
    .to_string()
}

fn captured(random: &mut Random, number: u64) -> (Captured, String) {
    const STANDARD: [&str; 6] =
        ["webhook-id", "webhook-timestamp", "webhook-signature", "svix-id", "svix-timestamp", "svix-signature"];
    let id = format!("msg_{number}");
    let standard = || deliveries::standard("/webhooks/standard_webhooks/wh_standard", SECRET.1, &id, now(), "{}");
    let key = format!("t-acme:shop:service:webhook-ingest:standard_webhooks-{id}");
    match random.below(3) {
        0 => (
            Captured {
                request: standard(),
                read: &STANDARD,
                unread: &["svix-id", "svix-timestamp", "svix-signature"],
                repeated: "webhook-id",
            },
            key,
        ),
        1 => {
            let mut request = standard();
            for (name, _) in &mut request.headers {
                *name = name.replace("webhook-", "svix-");
            }
            let unread = &["webhook-id", "webhook-timestamp", "webhook-signature"];
            (Captured { request, read: &STANDARD, unread, repeated: "svix-timestamp" }, key)
        }
        _ => {
            let request = deliveries::github("/webhooks/github/wh_github01", SECRET.1, &id, "{}");
            let read = &["x-hub-signature-256", "x-hub-signature", "x-github-delivery"];
            let key = format!("t-acme:shop:service:webhook-ingest:github-{id}");
            (Captured { request, read, unread: &["x-hub-signature"], repeated: "x-github-delivery" }, key)
        }
    }
}

/// The name with `_` in the place of some of its `-`, one of them at least.
fn twin(name: &str, random: &mut Random) -> String {
    let spelled: String = name.chars().map(|c| if c == '-' && random.percent(50) { '_' } else { c }).collect();
    if spelled == name { name.replacen('-', "_", 1) } else { spelled }
}

impl TwinsSetup {
    fn start() -> Result<Self> {
        let around = TestEnvironment {
            environment: [(SECRET.0.to_owned(), SECRET.1.to_owned())].into(),
            ..TestEnvironment::default()
        };
        let changes = vec![Change::Environment(vec![SECRET.0.to_owned()]), Change::DeliveriesAnHour(None)];
        let listener = |kind: &str| (kind.to_owned(), ListenerSpec { policy: policy(kind), changes: changes.clone() });
        Ok(Self(TestGateway::start_within(&around, &KINDS.map(listener))?))
    }

    fn check(&self, seed: u64, number: u64) -> Result<()> {
        let mut random = Random::of(seed, number);
        let (captured, key) = captured(&mut random, number);
        let (kind, http2) = (random.pick(&KINDS), random.percent(50));
        let mut sent = captured.request.clone();
        for _ in 0..=random.below(6) {
            let name = match random.weighted(&[50, 25, 25]) {
                0 => twin(random.pick(captured.read), &mut random),
                1 => random.pick(captured.unread).to_owned(),
                _ => twin(random.pick(&["x-tenant-id", "x-project-id", "x-subject", "idempotency-key"]), &mut random),
            };
            let name = if !http2 && random.percent(30) { name.to_ascii_uppercase() } else { name };
            let place = random.below(sent.headers.len() + 1);
            sent.headers.insert(place, (name, b"FORGED".to_vec()));
        }
        if random.percent(30) {
            let line = sent.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(captured.repeated)).cloned();
            sent.headers.extend(line);
        }
        let seen = if http2 { self.0.http2(kind, &sent)? } else { self.0.http1(kind, &sent)? };
        let told = || format!("{kind}, HTTP/{}: {:?}", if http2 { 2 } else { 1 }, sent.headers);
        ensure!(seen.reply.status == 200, "status {}: {}", seen.reply.status, told());
        let [received] = seen.received.as_slice() else {
            anyhow::bail!("{} requests: {}", seen.received.len(), told())
        };
        let kept = captured.request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        let mut expected: Vec<HeaderLine> =
            kept.filter(|(name, _)| name != "content-length" && !SIGNATURES.contains(&name.as_str())).collect();
        let own = [
            ("x-tenant-id", "acme"),
            ("x-project-id", "shop"),
            ("x-subject", "service:webhook-ingest"),
            ("idempotency-key", &key),
        ];
        expected.extend(own.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())));
        ensure!(received.headers == sorted(expected), "{}\n  went on as\n{}", told(), seen.upstream());
        Ok(())
    }
}
