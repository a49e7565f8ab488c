//! The filters that are compared, and what each must have done to a request before it is timed.

use std::path::PathBuf;

use serde_json::Value;

use crate::Files;
use crate::claims::{self, CollisionVariant};
use crate::client::Request;
use crate::delivery::{self, Sender, Size};
use crate::policy::{self, KEYED_PATH, KEYED_TARGET, NAMESPACE, OPERATION};

/// What the requests of a variant look like; each kind has its own Envoy without a filter to be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A POST with a key.
    Keyed,
    /// A POST with a key, and with the caller's claims in headers.
    Claimed,
    /// A POST with a key, and with the payload of the caller's token in a header.
    Passed,
    /// A GET without a key, to an endpoint at which there is nothing to do.
    Idle,
    /// A POST with a key and a body of 1 KiB, which goes to an upstream.
    Order,
    /// A webhook's delivery.
    Delivery(Size),
}

/// What stands between the metadata and the router.
#[derive(Clone)]
pub(crate) enum Filter {
    /// Nothing.
    None,
    /// Envoy's own, that waits for the body's end.
    Buffer,
    /// A Lua script.
    Lua(&'static str),
    /// A module, with its configuration. If the file's name ends in `.so` it is the dynamic module, with the filter that hands
    /// metadata over to it.
    Wasm(PathBuf, Option<Value>),
    /// Whatever filter stands in this file, which is replaced while Envoy runs.
    Discovered(PathBuf),
}

impl Filter {
    /// Whether it is the dynamic module, or comes by a file that names it.
    pub(crate) fn is_dynamic_module(&self) -> bool {
        match self {
            Self::Wasm(file, _) => file.extension().is_some_and(|extension| extension == "so"),
            Self::Discovered(file) => std::fs::read_to_string(file).is_ok_and(|text| text.contains(".so\"")),
            Self::None | Self::Buffer | Self::Lua(_) => false,
        }
    }
}

/// One of the things that are compared.
#[derive(Clone)]
pub(crate) struct Variant {
    /// As the report names it.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) filter: Filter,
    expected: ExpectedChange,
}

/// What becomes of a keyed request.
#[derive(Clone, Copy)]
enum ExpectedChange {
    /// Nothing.
    Unchanged,
    /// The key is namespaced.
    Key,
    /// So it is, and the backend's path and the caller's identity are there, the credentials gone.
    Whole,
    /// The body's digest is where the key would be.
    Digest,
    /// The delivery is verified and has its key.
    Verified(Sender),
}

/// The names of the report's lines that others are set against.
pub(crate) mod names {
    use crate::claims::CollisionVariant;
    use crate::delivery::{Sender, Size};

    pub(crate) const BARE: &str = "Envoy without a filter";
    pub(crate) const LUA_HEADER: &str = "Lua: grammar, constant prefix";
    pub(crate) const LUA_IDENTITY: &str = "Lua: grammar, caller's prefix";
    pub(crate) const LUA_WHOLE: &str = "Lua: all that ours does, no record";
    pub(crate) const LUA_RECORD: &str = "Lua: all that ours does";
    pub(crate) const KEY_ONLY: &str = "ours: the key alone";
    pub(crate) const WHOLE: &str = "ours: 10 routes";
    pub(crate) const WHOLE_LARGE: &str = "ours: 10,000 routes";
    pub(crate) const BARE_CLAIMED: &str = "Envoy without a filter, claims in headers";
    pub(crate) const CLAIMED: &str = "ours: 10 routes, claims in headers";
    pub(crate) const BARE_PASSED: &str = "Envoy without a filter, payload in a header";
    pub(crate) const PASSED: &str = "ours: 10 routes, payload in a header";
    pub(crate) const PASSED_LARGE: &str = "ours: 10,000 routes, payload in a header";
    pub(crate) const BARE_IDLE: &str = "Envoy without a filter, no key";
    pub(crate) const NOOP: &str = "wasm that does nothing";
    pub(crate) const NOOP_LINKED: &str = "wasm that does nothing, all callbacks";
    pub(crate) const IDLE: &str = "ours: nothing to do";
    pub(crate) const IDLE_PASSED: &str = "ours: nothing to do, sources read a payload";

    /// How the names of the filter's variants begin.
    pub(crate) const OURS: &str = "ours: ";
    /// What the names of those with a large policy contain.
    pub(crate) const LARGE: &str = "10,000 routes";

    /// The name of the dynamic module, as of another build.
    pub(crate) const DYNAMIC_MODULE: &str = "dynamic-module";

    pub(crate) const BARE_ORDER: &str = "Envoy without a filter, with an upstream";

    /// A keyed request with a body whose payload is compared, or not.
    pub(crate) fn compared(collision: CollisionVariant, routes: usize) -> String {
        let CollisionVariant { mode, fingerprint } = collision;
        let routes = if routes == 10 { "" } else { ", 10,000 routes" };
        match mode {
            "off" => format!("ours: collision off{routes}"),
            _ => format!("ours: {mode}, {fingerprint}{routes}"),
        }
    }

    /// Envoy's buffer filter alone, what deliveries are set against.
    pub(crate) fn buffered(size: Size) -> String {
        format!("Envoy that buffers {}", size.name())
    }

    /// The hash alone.
    pub(crate) fn hashed(size: Size) -> String {
        format!("wasm that hashes {}", size.name())
    }

    /// A delivery that is verified.
    pub(crate) fn verified(sender: Sender, size: Size) -> String {
        let place = match sender {
            Sender::Github => "id in a header",
            Sender::Stripe => "id in JSON",
        };
        format!("ours: {}, {place}", size.name())
    }

    /// A short delivery whose webhook and secret were looked up, and are in the cache.
    pub(crate) const LOOKED_UP: &str = "ours: 1 KiB, id in JSON, looked up";

    /// The same line for another build of the module.
    pub(crate) fn of(build: &str, ours: &str) -> String {
        ours.replacen("ours", build, 1)
    }
}

/// All variants, in the report's order.
pub(crate) fn all(files: &Files, compared: &[(String, PathBuf)]) -> Vec<Variant> {
    let keyed = |name: &str, filter, expected| Variant { name: name.to_owned(), kind: Kind::Keyed, filter, expected };
    let claimed =
        |name: &str, filter, expected| Variant { name: name.to_owned(), kind: Kind::Claimed, filter, expected };
    let passed = |name: &str, filter, expected| Variant { name: name.to_owned(), kind: Kind::Passed, filter, expected };
    let idle = |name: &str, filter| Variant {
        name: name.to_owned(),
        kind: Kind::Idle,
        filter,
        expected: ExpectedChange::Unchanged,
    };
    let wasm = |file: &PathBuf, policy| Filter::Wasm(file.clone(), Some(policy));
    let ours = &files.module;
    let mut variants = vec![
        keyed(names::BARE, Filter::None, ExpectedChange::Unchanged),
        keyed(names::LUA_HEADER, Filter::Lua(include_str!("../lua/header.lua")), ExpectedChange::Key),
        keyed(names::LUA_IDENTITY, Filter::Lua(include_str!("../lua/identity.lua")), ExpectedChange::Key),
        keyed(names::KEY_ONLY, wasm(ours, policy::key_only()), ExpectedChange::Key),
        keyed(names::LUA_WHOLE, Filter::Lua(include_str!("../lua/whole.lua")), ExpectedChange::Whole),
        keyed(names::LUA_RECORD, Filter::Lua(include_str!("../lua/whole_with_record.lua")), ExpectedChange::Whole),
        keyed(names::WHOLE, wasm(ours, policy::whole(10)), ExpectedChange::Whole),
        keyed(names::WHOLE_LARGE, wasm(ours, policy::whole(10_000)), ExpectedChange::Whole),
        claimed(names::BARE_CLAIMED, Filter::None, ExpectedChange::Unchanged),
        claimed(names::CLAIMED, wasm(ours, policy::whole_from_headers(10)), ExpectedChange::Whole),
        passed(names::BARE_PASSED, Filter::None, ExpectedChange::Unchanged),
        passed(names::PASSED, wasm(ours, policy::payload(policy::whole(10))), ExpectedChange::Whole),
        idle(names::BARE_IDLE, Filter::None),
        idle(names::NOOP, Filter::Wasm(files.noop.clone(), None)),
        idle(names::NOOP_LINKED, Filter::Wasm(files.noop_linked.clone(), None)),
        idle(names::IDLE, wasm(ours, policy::idle())),
        idle(names::IDLE_PASSED, wasm(ours, policy::payload(policy::idle()))),
    ];
    for (name, file) in compared {
        variants.push(keyed(&names::of(name, names::KEY_ONLY), wasm(file, policy::key_only()), ExpectedChange::Key));
        variants.push(keyed(&names::of(name, names::WHOLE), wasm(file, policy::whole(10)), ExpectedChange::Whole));
        let large = names::of(name, names::WHOLE_LARGE);
        variants.push(keyed(&large, wasm(file, policy::whole(10_000)), ExpectedChange::Whole));
        let headers = wasm(file, policy::whole_from_headers(10));
        variants.push(claimed(&names::of(name, names::CLAIMED), headers, ExpectedChange::Whole));
        let payload = wasm(file, policy::payload(policy::whole(10)));
        variants.push(passed(&names::of(name, names::PASSED), payload, ExpectedChange::Whole));
        let payload = wasm(file, policy::payload(policy::whole(10_000)));
        variants.push(passed(&names::of(name, names::PASSED_LARGE), payload, ExpectedChange::Whole));
        variants.push(idle(&names::of(name, names::IDLE), wasm(file, policy::idle())));
        variants.push(idle(&names::of(name, names::IDLE_PASSED), wasm(file, policy::payload(policy::idle()))));
    }
    variants
}

/// Keyed requests with a body: what comparing their payloads costs.
pub(crate) fn orders(files: &Files, compared: &[(String, PathBuf)]) -> Vec<Variant> {
    let order = |name: String, filter, expected| Variant { name, kind: Kind::Order, filter, expected };
    let wasm = |file: &PathBuf, policy| Filter::Wasm(file.clone(), Some(policy));
    let mut variants = vec![order(names::BARE_ORDER.to_owned(), Filter::None, ExpectedChange::Unchanged)];
    let large = [CollisionVariant::OFF, CollisionVariant::OBSERVE, CollisionVariant::ENFORCE]
        .map(|collision| (collision, 10_000));
    for (collision, routes) in CollisionVariant::ALL.map(|collision| (collision, 10)).into_iter().chain(large) {
        let name = names::compared(collision, routes);
        if routes == 10 {
            for (build, file) in compared {
                variants.push(order(
                    names::of(build, &name),
                    wasm(file, collision.policy(routes)),
                    ExpectedChange::Whole,
                ));
            }
        }
        variants.push(order(name, wasm(&files.module, collision.policy(routes)), ExpectedChange::Whole));
    }
    variants
}

/// Deliveries of every size: buffered, hashed, verified.
pub(crate) fn deliveries(files: &Files, compared: &[(String, PathBuf)]) -> Vec<Variant> {
    let mut variants = Vec::new();
    for size in Size::ALL {
        let mut push = |name: String, filter, expected| {
            variants.push(Variant { name, kind: Kind::Delivery(size), filter, expected })
        };
        push(names::buffered(size), Filter::Buffer, ExpectedChange::Unchanged);
        push(names::hashed(size), Filter::Wasm(files.hash.clone(), None), ExpectedChange::Digest);
        for sender in Sender::ALL {
            let ours = names::verified(sender, size);
            let filter = |file: &PathBuf| Filter::Wasm(file.clone(), Some(sender.policy()));
            for (name, file) in compared {
                push(names::of(name, &ours), filter(file), ExpectedChange::Verified(sender));
            }
            push(ours, filter(&files.module), ExpectedChange::Verified(sender));
        }
        if size == Size::Small {
            let filter = Filter::Wasm(files.module.clone(), Some(delivery::looked_up()));
            push(names::LOOKED_UP.to_owned(), filter, ExpectedChange::Verified(Sender::Stripe));
        }
    }
    variants
}

/// A platform's policy in a file that is replaced while Envoy runs.
pub(crate) fn discovered(name: String, file: PathBuf) -> Variant {
    Variant { name, kind: Kind::Keyed, filter: Filter::Discovered(file), expected: ExpectedChange::Whole }
}

/// Keyed requests on a listener that also takes deliveries of this sender: verified, or only buffered by Envoy.
pub(crate) fn beside_deliveries(name: String, module: Option<&PathBuf>, sender: Sender) -> Variant {
    let (filter, expected) = match module {
        Some(file) => {
            (Filter::Wasm(file.clone(), Some(delivery::policy_with_keyed_route(sender))), ExpectedChange::Key)
        }
        None => (Filter::Buffer, ExpectedChange::Unchanged),
    };
    Variant { name, kind: Kind::Keyed, filter, expected }
}

/// A token of the usual length; nothing here verifies it.
const TOKEN: &str = concat!(
    "Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6ImRlbW8ta2V5LTEiLCJ0eXAiOiJKV1QifQ.",
    "eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tLyIsImF1ZCI6ImFwaS5leGFtcGxlLmNvbSIsInN1YiI6ImFsaWNlIiwidGVuYW50X2lk",
    "IjoiYWNtZSIsInByb2plY3RfaWQiOiJoZWFsdGgtcHJvZCIsInNjb3BlIjoiY29udmVyc2F0aW9uczp3cml0ZSByZWZ1bmRzOndyaXRlIn0.",
    "c2lnbmF0dXJlLXNpZ25hdHVyZS1zaWduYXR1cmUtc2lnbmF0dXJlLXNpZ25hdHVyZS1zaWduYXR1cmUtc2lnbmF0dXI"
);

/// What a client library sends with every request.
const HEADERS: [(&str, &str); 10] = [
    ("host", "api.example.com"),
    ("user-agent", "example-sdk-python/4.2.0 (linux; x86_64) python/3.12.3"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-language", "en-GB,en;q=0.9"),
    ("cache-control", "no-cache"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "vendor=t61rcWkgMzE"),
    ("x-client-version", "4.2.0"),
    ("x-client-platform", "linux-x86_64"),
];

/// What a POST has besides.
const KEYED_HEADERS: [(&str, &str); 3] =
    [("authorization", TOKEN), ("content-type", "application/json"), ("content-length", "0")];

/// What a POST with a body has besides.
fn order_headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    HEADERS.into_iter().chain(KEYED_HEADERS).filter(|(name, _)| *name != "content-length")
}

/// A keyed request whose key is outside the grammar.
pub(crate) fn malformed() -> Request {
    let key = [("idempotency-key", "not a key")];
    Request::new("POST", KEYED_PATH, HEADERS.into_iter().chain(KEYED_HEADERS).chain(key))
}

impl Kind {
    /// The request of this kind.
    pub(crate) fn request(self) -> Request {
        match self {
            Self::Keyed => Request::new("POST", KEYED_PATH, HEADERS.into_iter().chain(KEYED_HEADERS)).with_key(),
            Self::Claimed => {
                let headers = HEADERS.into_iter().chain(KEYED_HEADERS).chain(policy::CLAIM_HEADERS);
                Request::new("POST", KEYED_PATH, headers).with_key()
            }
            Self::Passed => {
                let payload = policy::encoded_claims();
                let payload = [(policy::PAYLOAD_HEADER, payload.as_str())];
                Request::new("POST", KEYED_PATH, HEADERS.into_iter().chain(KEYED_HEADERS).chain(payload)).with_key()
            }
            Self::Idle => Request::new("GET", policy::IDLE_PATH, HEADERS),
            Self::Order => claims::with_order(KEYED_PATH, order_headers()),
            Self::Delivery(size) => size.request(),
        }
    }

    /// The variant without a filter.
    pub(crate) fn bare(self) -> String {
        match self {
            Self::Keyed => names::BARE.to_owned(),
            Self::Claimed => names::BARE_CLAIMED.to_owned(),
            Self::Passed => names::BARE_PASSED.to_owned(),
            Self::Idle => names::BARE_IDLE.to_owned(),
            Self::Order => names::BARE_ORDER.to_owned(),
            Self::Delivery(size) => names::buffered(size),
        }
    }

    /// How many requests are under way at a time. Of short ones the worker finds several whenever it looks. Deliveries come one after
    /// the other: if the next ones come while the worker hashes, the worker is charged for them, too, and the more the longer it hashes
    /// (docs/operate.md).
    pub(crate) const fn connections(self) -> usize {
        match self {
            Self::Keyed | Self::Claimed | Self::Passed | Self::Idle | Self::Order => 16,
            Self::Delivery(_) => 1,
        }
    }

    /// The requests of a turn in which others send `requests`.
    pub(crate) fn requests(self, requests: usize) -> usize {
        match self {
            Self::Keyed | Self::Claimed | Self::Passed | Self::Idle | Self::Order => requests,
            Self::Delivery(size) => size.deliveries(requests),
        }
    }
}

impl Variant {
    /// What the upstream must have seen of a request with this key: path, key, tenant, project, subject, and the first
    /// letters of the credentials.
    pub(crate) fn seen(&self, key: &str) -> String {
        match (self.kind, self.expected) {
            (Kind::Idle, _) => format!("{}|||||", policy::IDLE_PATH),
            (Kind::Delivery(_), ExpectedChange::Verified(sender)) => {
                format!("{}|{}{}||||", delivery::PATH, delivery::NAMESPACE, sender.key())
            }
            (Kind::Delivery(size), ExpectedChange::Digest) => format!("{}|{}||||", delivery::PATH, size.digest()),
            (Kind::Delivery(_), _) => format!("{}|||||", delivery::PATH),
            (Kind::Claimed, ExpectedChange::Unchanged) => format!("{KEYED_PATH}|{key}|acme|health-prod||Bea"),
            (Kind::Keyed | Kind::Passed | Kind::Order, ExpectedChange::Unchanged) => {
                format!("{KEYED_PATH}|{key}||||Bea")
            }
            (
                Kind::Keyed | Kind::Claimed | Kind::Passed | Kind::Order,
                ExpectedChange::Key | ExpectedChange::Digest | ExpectedChange::Verified(_),
            ) => {
                format!("{KEYED_PATH}|{NAMESPACE}{key}||||Bea")
            }
            (Kind::Keyed | Kind::Claimed | Kind::Passed | Kind::Order, ExpectedChange::Whole) => {
                format!("{KEYED_TARGET}|{NAMESPACE}{key}|acme|health-prod|user:alice|")
            }
        }
    }

    /// Headers that the client must have got.
    pub(crate) const fn answer(&self) -> &'static [(&'static str, Option<&'static str>)] {
        match (self.kind, self.expected) {
            (Kind::Idle | Kind::Delivery(_), _) => &[],
            (Kind::Keyed | Kind::Claimed | Kind::Passed | Kind::Order, ExpectedChange::Whole) => {
                &[("x-restate-id", None), ("x-operation-id", Some(OPERATION)), ("idempotency-status", Some("stored"))]
            }
            (Kind::Keyed | Kind::Claimed | Kind::Passed | Kind::Order, _) => &[("x-restate-id", Some(OPERATION))],
        }
    }

    /// A request that must be refused, and the status: a key outside the grammar, a body that was changed.
    pub(crate) fn refusal(&self) -> Option<(Request, u16)> {
        match self.expected {
            ExpectedChange::Unchanged | ExpectedChange::Digest => None,
            ExpectedChange::Key | ExpectedChange::Whole => Some((malformed(), 400)),
            ExpectedChange::Verified(_) => Some((self.kind.request().tampered(), 401)),
        }
    }
}
