//! The attacks. Each has at most [`CONNECTIONS`] connections.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use e2e::held::HeldRequests;
use e2e::table::Field;

use super::{FairnessSetup, LISTENER, webhook};

const CONNECTIONS: usize = 24;
/// The requests of a connection.
const STREAMS: usize = 100;
/// A field of this length fits into a table of 4,096 bytes.
const LONG: usize = 3500;

/// An attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Begins it. It goes on until what this returns is dropped.
    pub(super) begin: fn(&FairnessSetup) -> Result<Vec<HeldRequests>>,
}

pub(super) const ATTACKS: [Attack; 5] = [
    Attack { name: "stale_signatures_hold_a_long_header", begin: stale_signatures },
    Attack { name: "signatures_that_could_fit_hold_a_long_header", begin: possible_signatures },
    Attack { name: "deliveries_of_one_webhook_hold_bodies_back", begin: held_deliveries },
    Attack { name: "one_tenant_holds_bodies_back", begin: held_bodies },
    Attack { name: "made_up_webhook_ids", begin: made_up_ids },
];

fn field(name: &str, value: impl Into<Vec<u8>>) -> Field {
    (name.to_owned(), value.into())
}

/// The head of a `POST`. The path is the third field.
fn head(path: &str, more: Vec<Field>) -> Vec<Field> {
    let pseudo = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "api.example.com")];
    pseudo.into_iter().map(|(name, value)| field(name, value)).chain(more).collect()
}

/// The long field, and where it stands.
enum Long {
    /// A line that nobody reads, so many times at the end
    Filler(usize),
    /// The path, with a long query
    Path(String),
}

/// Begins the requests of all connections. `fields` are those of the request with this number, without its path if that is
/// the long one. The last connections send shorter requests, which fill the space that is too small for long ones.
fn hold(setup: &FairnessSetup, fields: impl Fn(usize) -> Vec<Field>, long: &Long) -> Result<Vec<HeldRequests>> {
    let address = setup.gateway.address(LISTENER)?;
    let mut all = Vec::new();
    for connection in 0..CONNECTIONS {
        let mut held = HeldRequests::open(address)?;
        for stream in 0..STREAMS {
            let mut fields = fields(connection * STREAMS + stream);
            let left = CONNECTIONS - connection;
            match long {
                Long::Filler(times) => {
                    let times = match left {
                        1 | 2 => 0,
                        3 | 4 => 1,
                        _ => *times,
                    };
                    held.begin(&fields, &field("x-filler", vec![b'x'; LONG]), fields.len(), times)?;
                }
                Long::Path(path) if left <= 2 => {
                    fields.insert(2, field(":path", path.as_str()));
                    held.begin(&fields, &field("", ""), 0, 0)?;
                }
                Long::Path(path) => {
                    held.begin(&fields, &field(":path", format!("{path}?{}", "q".repeat(LONG))), 2, 1)?;
                }
            }
        }
        held.settle()?;
        all.push(held);
    }
    Ok(all)
}

fn signed(age_s: u64) -> Result<Vec<Field>> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() - age_s;
    Ok(head(
        "/api/v1/reports/run",
        vec![
            field("x-schedule-signature", format!("t={time},v1={}", "0f".repeat(32))),
            field("idempotency-key", "sched-1"),
            field("x-tenant-id", "acme"),
            field("x-project-id", "shop"),
        ],
    ))
}

/// A stranger, with a signature that is too old.
fn stale_signatures(setup: &FairnessSetup) -> Result<Vec<HeldRequests>> {
    let fields = signed(3600)?;
    hold(setup, |_| fields.clone(), &Long::Filler(15))
}

/// A stranger, with signatures that only the body can show to be wrong.
fn possible_signatures(setup: &FairnessSetup) -> Result<Vec<HeldRequests>> {
    let fields = signed(0)?;
    hold(setup, |_| fields.clone(), &Long::Filler(15))
}

/// A stranger who knows a webhook id. The long field is one that the filter has to keep: the path.
fn held_deliveries(setup: &FairnessSetup) -> Result<Vec<HeldRequests>> {
    let mut fields = head("", vec![field("x-gitlab-token", "a guess"), field("idempotency-key", "1")]);
    fields.remove(2);
    hold(setup, |_| fields.clone(), &Long::Path(format!("/webhooks/gitlab/{}", webhook(0))))
}

/// A tenant with a token, whose requests are compared when their bodies have come.
fn held_bodies(setup: &FairnessSetup) -> Result<Vec<HeldRequests>> {
    let token = format!("Bearer {}", setup.attacker());
    let fields = |number: usize| {
        let key = format!("held-{number}");
        let mut fields = head("", vec![field("authorization", token.as_str()), field("idempotency-key", key)]);
        fields.remove(2);
        fields
    };
    hold(setup, fields, &Long::Path("/api/v1/refunds/order-1".to_owned()))
}

/// A stranger who makes webhook ids up.
fn made_up_ids(setup: &FairnessSetup) -> Result<Vec<HeldRequests>> {
    let fields = |number: usize| {
        let path = format!("/webhooks/gitlab/wh_made_up_{number:06}");
        head(&path, vec![field("x-gitlab-token", "a guess"), field("idempotency-key", "1")])
    };
    hold(setup, fields, &Long::Filler(15))
}
