//! The body of a backend's error, and what the client gets of it.

use crate::COMPILED;
use crate::json::Tree;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::{Effect, Exchange, ResponseFlow};

/// The body of an error in JSON: the client gets JSON without a member `stacktrace`, and otherwise the same value but for
/// strings in which `…` stands; or, where the body cannot be read, a problem document.
pub fn error(body: &[u8]) {
    let lines: [(&[u8], &[u8]); 2] = [(b":status", b"500"), (b"content-type", b"application/json")];
    let mut exchange = Exchange::new();
    let flow = exchange.response_headers(&COMPILED, &Headers::new(lines.to_vec()), &mut Vec::new());
    let ResponseFlow::AwaitBody(awaited) = flow else { panic!("{flow:?}") };
    if body.len() as u64 > awaited.limit {
        return;
    }
    let mut effects = Vec::new();
    exchange.response_body(awaited, &COMPILED, body, &mut effects);
    let told = effects.into_iter().find_map(|effect| if let Effect::Body(body) = effect { Some(body) } else { None });
    let told = told.as_deref().unwrap_or(body);
    let problem = exchange.refusal().is_some();
    match (serde_json::from_slice::<Tree>(body), serde_json::from_slice::<Tree>(told)) {
        (Ok(came), Ok(told)) if !problem => assert!(is_cleaned(&came, &told)),
        (_, Ok(_)) if problem => {}
        // What serde_json does not take for limits of its own.
        (Err(_), Err(_)) if !problem => {}
        (Err(_), Ok(_)) => {}
        (came, _) => panic!("{} ({}) became {}", body.escape_ascii(), came.is_ok(), told.escape_ascii()),
    }
}

fn is_trace(name: &str) -> bool {
    name.replace(['-', '_'], "").eq_ignore_ascii_case("stacktrace")
}

fn is_cleaned(came: &Tree, told: &Tree) -> bool {
    let same_text = |came: &str, told: &str| came == told || told.contains('…');
    match (came, told) {
        (Tree::Object(came), Tree::Object(told)) => {
            let kept: Vec<_> = came.iter().filter(|(name, _)| !is_trace(name)).collect();
            kept.len() == told.len()
                && kept.iter().zip(told).all(|((name, value), (told_name, told_value))| {
                    same_text(name, told_name) && is_cleaned(value, told_value)
                })
        }
        (Tree::Array(came), Tree::Array(told)) => {
            came.len() == told.len() && came.iter().zip(told).all(|(came, told)| is_cleaned(came, told))
        }
        (Tree::Text(came), Tree::Text(told)) => same_text(came, told),
        (came, told) => came == told,
    }
}
