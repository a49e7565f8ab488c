//! Makes a case: a valid request to one of the routes, and up to four mutations.

use e2e::frames::Flow;

use super::api::{Keys, LISTENERS, Listener, ROUTES, Route};
use super::case::{CLASSES, Case, CaseLine, Class, Frames, Framing, Protocol, Sound, Then, Token};
use super::random::Random;
use super::{framing, hosts, lines, paths, tables};

/// The case with this number.
pub(crate) fn case(seed: u64, number: u64) -> Case {
    let mut random = Random::of(seed, number);
    let protocol = if random.percent(60) { Protocol::Http1 } else { Protocol::Http2 };
    let listener = LISTENERS.get(random.below(LISTENERS.len())).copied().unwrap_or(Listener::Plain);
    let route = ROUTES.get(random.below(ROUTES.len())).unwrap_or(&ROUTES[0]);
    let mut case = valid(seed, number, protocol, listener, route);
    if matches!(route.keys, Keys::Required) || (route.keys == Keys::Accepted && random.percent(60)) {
        case.lines.push(CaseLine::new("idempotency-key", lines::key(number)));
    }
    let mutations = random.weighted(&[6, 44, 28, 14, 8]);
    for _ in 0..mutations {
        let class = CLASSES.get(random.weighted(&[34, 20, 20, 6, 0, 6])).copied().unwrap_or(Class::Path);
        let what = match class {
            Class::Path => paths::mutate(&mut case, route, &mut random),
            Class::Host => hosts::mutate(&mut case, &mut random),
            Class::Header => lines::mutate(&mut case, &mut random),
            Class::Method => lines::method(&mut case, &mut random),
            Class::Token => lines::token(&mut case, &mut random),
            Class::Framing => String::new(),
        };
        case.mutations.push((class, what));
    }
    // The framing is about the bytes of the request as it is by then.
    usual_framing(&mut case);
    if mutations > 0 && random.percent(25) {
        let what = framing::mutate(&mut case, &mut random);
        case.mutations.push((Class::Framing, what));
    }
    if protocol == Protocol::Http2 && random.percent(40) {
        let what = tables::mutate(&mut case, &mut random);
        case.mutations.push((Class::Framing, what));
    }
    case
}

fn valid(seed: u64, number: u64, protocol: Protocol, listener: Listener, route: &'static Route) -> Case {
    let (host, path) = route.example;
    Case {
        seed,
        number,
        protocol,
        listener,
        route,
        method: route.method.to_owned(),
        target: path.as_bytes().to_vec(),
        absolute: None,
        hosts: vec![host.as_bytes().to_vec()],
        has_authority: true,
        lines: vec![CaseLine::new("content-type", "application/json")],
        token: Token::One,
        trailers: Vec::new(),
        framing: Framing {
            version: "HTTP/1.1",
            lines: Vec::new(),
            body: Vec::new(),
            bare_line_feeds: false,
            then: Then::Reads,
            sound: Sound::Yes,
            payload: None,
        },
        frames: Frames {
            pseudo: Vec::new(),
            late: Vec::new(),
            data: Vec::new(),
            flow: Flow::Whole,
            table: false,
            sound: Sound::Yes,
        },
        second: None,
        mutations: Vec::new(),
    }
}

/// A length, or a DATA frame, with the body.
fn usual_framing(case: &mut Case) {
    let payload = case.payload();
    if !payload.is_empty() {
        case.framing.lines.push(CaseLine::new("content-length", payload.len().to_string()));
        case.frames.data.push(payload.clone());
    }
    case.framing.body.clone_from(&payload);
    case.framing.payload = Some(payload);
    let field = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    case.frames.pseudo =
        vec![field(":method", case.method.as_bytes()), field(":scheme", b"http"), field(":path", &case.target)];
}

/// The number of the plain request; no run has so many cases.
const PLAIN: u64 = u64::MAX;

/// A request as it should be, which works on every listener.
pub(crate) fn plain(listener: Listener) -> Case {
    let mut case = valid(0, PLAIN, Protocol::Http1, listener, &ROUTES[0]);
    case.lines.push(CaseLine::new("idempotency-key", lines::key(PLAIN)));
    usual_framing(&mut case);
    case
}
