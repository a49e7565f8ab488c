//! Signed callers' behaviour cases for a clock that nobody can set: each is signed again for now.

use serde_json::Value;
use testkit::cases::Case;
use testkit::http::Message;
use testkit::signatures::SignedCall;

const SIGNATURE: &str = "x-schedule-signature";
/// How long a test may take without leaving a window's edge that its case stands near.
const MARGIN: i64 = 90;

/// The case with its clock at `now`, in Unix seconds. What was signed rightly is signed again, what was not keeps a
/// signature that fits nothing. `None` where this cannot be done: another scheme, or a timestamp at a window's edge.
pub fn signed_at(case: &Case, now: u64) -> Option<Case> {
    let then = case.now_unix_ms? / 1000;
    let policy: Value = serde_json::from_slice(&case.policy).ok()?;
    let scheduler = policy.pointer("/callers/scheduler")?;
    let template = scheduler.pointer("/signature/template").and_then(Value::as_str);
    template.filter(|template| *template == SignedCall::TEMPLATE)?;
    let mut case = Case { now_unix_ms: None, ..case.clone() };
    let lines: Vec<Vec<u8>> = case.request.headers.all(SIGNATURE).map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        return case.request.headers.get("x-billing-signature").is_none().then_some(case);
    }
    let secrets: Vec<&str> = scheduler.pointer("/secrets")?.as_array()?.iter().filter_map(Value::as_str).collect();
    case.request.headers.remove(SIGNATURE);
    for line in lines {
        let line = String::from_utf8(line).ok()?;
        let Some((old, rest)) = line.strip_prefix("t=").and_then(|line| line.split_once(',')) else {
            case.request.headers.add(SIGNATURE, line);
            continue;
        };
        let old: u64 = old.parse().ok()?;
        let behind = i64::try_from(then).ok()? - i64::try_from(old).ok()?;
        let edge = |bound: &str, sign: i64| {
            let bound = scheduler.pointer("/signature/timestamp").and_then(|at| at.get(bound)).and_then(Value::as_i64);
            bound.is_some_and(|bound| (behind * sign - bound).abs() < MARGIN && behind * sign > 0)
        };
        // Growing older, what was too old stays so.
        if edge("max_ahead_s", -1) || (edge("max_age_s", 1) && behind <= 300) {
            return None;
        }
        let time = now.checked_add_signed(-behind)?;
        let mut anew = format!("t={time}");
        for item in rest.split(',') {
            let fits = |secret: &&&str| Some(item) == sign(&case.request, old, secret).as_deref();
            let signed = secrets.iter().find(fits).and_then(|secret| sign(&case.request, time, secret));
            anew.push_str(&format!(",{}", signed.as_deref().unwrap_or(item)));
        }
        case.request.headers.add(SIGNATURE, anew);
    }
    Some(case)
}

/// `v1=…`; `None` for a request that lacks a part.
fn sign(request: &Message, time: u64, secret: &str) -> Option<String> {
    let part = |name: &str| request.headers.get(name);
    let call = SignedCall {
        method: part(":method")?,
        path: part(":path")?,
        time,
        key: part("idempotency-key")?,
        tenant: part("x-tenant-id")?,
        project: part("x-project-id")?,
        body: &request.body,
    };
    Some(format!("v1={}", call.signature(secret)))
}
