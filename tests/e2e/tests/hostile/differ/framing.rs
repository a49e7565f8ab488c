//! Requests that stand on the wire in other ways, HTTP/1.1's and HTTP/2's, and what hides behind them.

use e2e::frames::Flow;

use super::case::{Case, CaseLine, Protocol, Sound, Then};
use super::random::Random;

/// Trailers that must not go in.
const TRAILERS: [(&str, &str); 7] = [
    ("idempotency-key", "t-globex:shop:user:u2:k"),
    ("idempotency_key", "k-9"),
    ("x-tenant-id", "globex"),
    ("x_subject", "user:u2"),
    ("x-edge-idempotency", "1"),
    ("x-http-method-override", "DELETE"),
    ("x-restate-id", "inv_1"),
];

/// Changes the framing, and says how.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) -> String {
    let how = match case.protocol {
        Protocol::Http1 => http1(case, random),
        Protocol::Http2 => http2(case, random),
    };
    format!("framing: {how}")
}

fn http1(case: &mut Case, random: &mut Random) -> &'static str {
    match random.weighted(&[22, 22, 14, 12, 12, 10, 8]) {
        0 => chunks(case, random),
        1 => lengths(case, random),
        2 => both(case, random),
        3 => encodings(case, random),
        4 => second(case, random),
        5 => versions(case, random),
        _ => leaving(case, random),
    }
}

/// A request that a gateway would forward, if it took it for one. It has no key of its own namespace's.
fn hidden(case: &Case, part: &str) -> Vec<u8> {
    format!(
        "POST /api/v1/devices HTTP/1.1\r\nx-case: {}\r\nHost: api.example.com\r\nidempotency-key: t-globex:shop:user:u2:k\r\n\
         x-tenant-id: globex\r\ncontent-length: 0\r\n\r\n",
        case.mark(part)
    )
    .into_bytes()
}

fn length(bytes: &[u8]) -> CaseLine {
    CaseLine::new("Content-Length", bytes.len().to_string())
}

fn chunked() -> CaseLine {
    CaseLine::new("Transfer-Encoding", "chunked")
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A body in chunks.
fn chunks(case: &mut Case, random: &mut Random) -> &'static str {
    let body = if case.payload().is_empty() { b"{}".to_vec() } else { case.payload() };
    let framing = &mut case.framing;
    framing.lines = vec![chunked()];
    framing.payload = Some(body.clone());
    let size = body.len();
    let ended = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend([body.as_slice(), b"\r\n0\r\n\r\n"].concat());
        bytes
    };
    let whole = [chunk(&body), b"0\r\n\r\n".to_vec()].concat();
    let (how, bytes, sound) = match random.below(14) {
        0 => ("chunks", whole, Sound::Yes),
        1 => {
            let parts = body.chunks(3).map(chunk).collect::<Vec<_>>().concat();
            ("small chunks", [parts, b"0\r\n\r\n".to_vec()].concat(), Sound::Yes)
        }
        2 => ("a chunk extension", ended(&format!("{size:x};a=b\r\n")), Sound::Yes),
        3 => ("a quoted chunk extension", ended(&format!("{size:x};a=\"b;c\"\r\n")), Sound::Yes),
        4 => ("a chunk size with zeros before", ended(&format!("000{size:x}\r\n")), Sound::Yes),
        5 => ("a chunk size in upper case", ended(&format!("{size:X}\r\n")), Sound::Yes),
        6 => ("a chunk size with 0x", ended(&format!("0x{size:x}\r\n")), Sound::Broken),
        7 => ("a chunk size that is none", ended("zz\r\n"), Sound::Broken),
        8 => ("a chunk size that is negative", ended(&format!("-{size:x}\r\n")), Sound::Broken),
        9 => ("a chunk size beyond 64 bits", ended("10000000000000002\r\n"), Sound::Broken),
        10 => ("a chunk that is longer than it says", ended("1\r\n"), Sound::Broken),
        11 => ("chunks without an end", chunk(&body), Sound::Broken),
        _ => return trailers(case, random),
    };
    framing.body = bytes;
    framing.sound = sound;
    if how == "chunks without an end" {
        framing.then = Then::Ends;
    }
    how
}

/// Trailers behind chunks.
fn trailers(case: &mut Case, random: &mut Random) -> &'static str {
    let body = if case.payload().is_empty() { b"{}".to_vec() } else { case.payload() };
    let mut bytes = [chunk(&body), b"0\r\n".to_vec()].concat();
    for _ in 0..=random.below(3) {
        let (name, value) = random.pick(&TRAILERS);
        bytes.extend(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend(b"\r\n");
    case.framing.body = bytes;
    "trailers"
}

/// A content-length that is not that of the body.
fn lengths(case: &mut Case, random: &mut Random) -> &'static str {
    let body = case.payload();
    let size = body.len();
    let say = |text: String| vec![CaseLine::new("Content-Length", text)];
    let framing = &mut case.framing;
    framing.payload = Some(body.clone());
    let (how, lines, sound) = match random.below(12) {
        0 => ("the same length twice", vec![length(&body), length(&body)], Sound::No),
        1 => ("two lengths", vec![length(&body), CaseLine::new("content-length", "0")], Sound::No),
        2 => ("a list of lengths", say(format!("{size}, {size}")), Sound::No),
        3 => ("a length with a sign", say(format!("+{size}")), Sound::No),
        4 => ("a negative length", say("-1".to_owned()), Sound::No),
        5 => ("a length in hexadecimal", say(format!("0x{size:x}")), Sound::No),
        6 => ("a length with a blank", say(format!("{size} 1")), Sound::No),
        7 => ("an empty length", say(String::new()), Sound::No),
        8 => ("a length beyond 64 bits", say("18446744073709551616".to_owned()), Sound::No),
        9 => ("a length with zeros before", say(format!("00{size}")), Sound::Yes),
        10 => {
            framing.then = Then::Ends;
            ("a length that is too long", say((size + 5).to_string()), Sound::Broken)
        }
        _ => {
            framing.payload = Some(Vec::new());
            ("a length of 0 before a body", say("0".to_owned()), Sound::Yes)
        }
    };
    framing.lines = lines;
    framing.sound = sound;
    how
}

/// Both a length and chunks, each of which would end the body elsewhere.
fn both(case: &mut Case, random: &mut Random) -> &'static str {
    let hidden = hidden(case, "body");
    let body = case.payload();
    let framing = &mut case.framing;
    framing.sound = Sound::No;
    let ended = [b"0\r\n\r\n".to_vec(), hidden.clone()].concat();
    let (how, lines, bytes) = match random.below(6) {
        0 => ("a length over a hidden request, chunks end before it", vec![length(&ended), chunked()], ended),
        1 => ("chunks end before a hidden request, a length over it", vec![chunked(), length(&ended)], ended),
        2 => {
            let bytes = [chunk(&hidden), b"0\r\n\r\n".to_vec()].concat();
            (
                "a chunk over a hidden request, a length before it",
                vec![CaseLine::new("Content-Length", "4"), chunked()],
                bytes,
            )
        }
        3 => {
            framing.sound = Sound::Yes;
            framing.payload = Some(hidden.clone());
            ("a length over a hidden request", vec![length(&hidden)], hidden)
        }
        4 => {
            framing.sound = Sound::Yes;
            framing.payload = Some(hidden.clone());
            let bytes = [chunk(&hidden), b"0\r\n\r\n".to_vec()].concat();
            ("a chunk over a hidden request", vec![chunked()], bytes)
        }
        _ => ("a length and chunks", vec![length(&body), chunked()], [chunk(&body), b"0\r\n\r\n".to_vec()].concat()),
    };
    framing.lines = lines;
    framing.body = bytes;
    how
}

/// Other names for chunks, and names that only look so.
fn encodings(case: &mut Case, random: &mut Random) -> &'static str {
    let hidden = hidden(case, "body");
    let framing = &mut case.framing;
    let named = |text: &'static str| CaseLine::new("Transfer-Encoding", text);
    // Who does not see the encoding goes by the length, to which the whole is one body.
    let bytes = [b"0\r\n\r\n".to_vec(), hidden].concat();
    let mut lines = vec![length(&bytes)];
    framing.sound = Sound::No;
    let (how, line) = match random.below(10) {
        0 => ("Transfer-Encoding: xchunked", named("xchunked")),
        1 => ("Transfer-Encoding: chunked, identity", named("chunked, identity")),
        2 => ("Transfer-Encoding: identity, chunked", named("identity, chunked")),
        3 => ("Transfer-Encoding: gzip, chunked", named("gzip, chunked")),
        4 => ("Transfer-Encoding: \"chunked\"", named("\"chunked\"")),
        5 => ("Transfer-Encoding: chunked with a vertical tab", named("\x0bchunked")),
        6 => ("Transfer-Encoding in a folded line", named("\r\n chunked")),
        7 => ("Transfer-Encoding with a blank before the colon", CaseLine { between: " : ", ..named("chunked") }),
        8 => ("Transfer_Encoding", CaseLine::new("Transfer_Encoding", "chunked")),
        _ => ("two Transfer-Encodings", named("chunked")),
    };
    if how == "Transfer_Encoding" {
        framing.sound = Sound::Yes;
        framing.payload = Some(bytes.clone());
    } else if how == "two Transfer-Encodings" {
        lines.push(named("identity"));
    }
    lines.push(line);
    framing.lines = lines;
    framing.body = bytes;
    how
}

/// Another request behind the first, which is one of its own.
fn second(case: &mut Case, _: &mut Random) -> &'static str {
    case.second = Some(hidden(case, "2"));
    "a second request behind the first"
}

fn versions(case: &mut Case, random: &mut Random) -> &'static str {
    let framing = &mut case.framing;
    if random.below(6) == 0 {
        framing.bare_line_feeds = true;
        framing.sound = Sound::Yes;
        return "line feeds alone";
    }
    framing.version = random.pick(&["HTTP/1.0", "HTTP/2.0", "http/1.1", "HTTP/1.1 x", "HTTP/9.9"]);
    framing.sound = Sound::No;
    framing.version
}

/// The client goes before it has an answer, or before it has sent everything.
fn leaving(case: &mut Case, random: &mut Random) -> &'static str {
    let framing = &mut case.framing;
    framing.then = Then::Leaves;
    if framing.body.len() > 3 && random.percent(50) {
        framing.body.truncate(3);
        framing.sound = Sound::Broken;
        return "the client leaves within the body";
    }
    framing.sound = Sound::Either("the client leaves before the answer");
    "the client leaves before the answer"
}

/// Lines that no server may take: what each is, its name and its value.
const LINES: [(&str, &str, &str); 5] = [
    ("a content-length with a sign", "content-length", "+2"),
    ("a name in upper case", "Idempotency-Key", "k-9"),
    ("a line break in a name", "x-a\r\nidempotency-key", "k"),
    ("a line break in a value", "x-a", "b\r\nidempotency-key: k"),
    ("an empty name", "", "x"),
];

/// The same of pseudo-header fields.
const PSEUDO: [(&str, &str, &str); 4] = [
    ("two :path", ":path", "/api/v1/denied"),
    ("two :method", ":method", "DELETE"),
    ("an unknown pseudo-header field", ":foo", "x"),
    (":protocol", ":protocol", "websocket"),
];

/// Headers of an HTTP/1.1 connection.
const OF_THE_CONNECTION: [(&str, &str); 6] = [
    ("connection", "idempotency-key"),
    ("transfer-encoding", "chunked"),
    ("keep-alive", "1"),
    ("upgrade", "websocket"),
    ("proxy-connection", "close"),
    ("te", "gzip"),
];

fn http2(case: &mut Case, random: &mut Random) -> &'static str {
    let payload = case.payload();
    let line = |name: &str, value: &str| CaseLine::new(name, value);
    let length = |length: usize| CaseLine::new("content-length", length.to_string());
    let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let frames = &mut case.frames;
    let (how, sound) = match random.below(26) {
        0 => {
            frames.data = payload.chunks(2).map(<[u8]>::to_vec).collect();
            ("small DATA frames", None)
        }
        1 => {
            frames.flow = Flow::Padded;
            ("padded DATA frames", None)
        }
        2 => {
            frames.flow = Flow::EmptyEnd;
            ("an empty DATA frame at the end", None)
        }
        3 => {
            frames.flow = Flow::Reset;
            ("the client resets the stream", Some(Sound::Broken))
        }
        4 => {
            case.lines.push(length(payload.len()));
            ("the body's content-length", None)
        }
        5 => {
            case.lines.push(length(payload.len() + 1));
            ("a content-length that is too long", Some(Sound::Broken))
        }
        6 => {
            frames.data = vec![b"{}".to_vec()];
            case.lines.push(length(1));
            ("a content-length that is too short", Some(Sound::Broken))
        }
        7..=10 => {
            for _ in 0..=random.below(3) {
                let (name, value) = random.pick(&TRAILERS);
                case.trailers.push(field(name, value));
            }
            ("trailers", None)
        }
        11 => {
            case.trailers.push(field(":path", "/api/v1/denied"));
            ("a pseudo-header field among the trailers", Some(Sound::Broken))
        }
        12 => {
            let (name, value) = random.pick(&OF_THE_CONNECTION);
            case.lines.push(line(name, value));
            ("a header of the connection", Some(Sound::No))
        }
        13..=17 => {
            let (how, name, value) = random.pick(&LINES);
            case.lines.push(line(name, value));
            (how, Some(Sound::No))
        }
        18..=21 => {
            let (how, name, value) = random.pick(&PSEUDO);
            frames.pseudo.push(field(name, value));
            (how, Some(Sound::No))
        }
        // With another :authority behind it there are two; else it is the only one.
        22 if case.has_authority && !case.hosts.is_empty() => {
            frames.pseudo.push(field(":authority", "admin.example.com"));
            ("another :authority", Some(Sound::No))
        }
        22 => {
            case.hosts.insert(0, b"admin.example.com".to_vec());
            case.has_authority = true;
            ("another :authority", None)
        }
        23 => {
            frames.late.push((":path".to_owned(), case.target.clone()));
            frames.pseudo.retain(|(name, _)| name != ":path");
            (":path behind the headers", Some(Sound::No))
        }
        24 => {
            let gone = random.pick(&[":path", ":method", ":scheme"]);
            frames.pseudo.retain(|(name, _)| name != gone);
            ("a pseudo-header field less", Some(Sound::No))
        }
        _ => {
            let scheme = random.pick(&["https", "ftp", "", "http://", "h t"]);
            frames.pseudo.retain(|(name, _)| name != ":scheme");
            frames.pseudo.push(field(":scheme", scheme));
            // A scheme of another name makes no difference here; one that is no name does.
            ("another :scheme", Some(if matches!(scheme, "https" | "ftp") { Sound::Yes } else { Sound::No }))
        }
    };
    frames.sound = sound.unwrap_or(frames.sound);
    how
}
