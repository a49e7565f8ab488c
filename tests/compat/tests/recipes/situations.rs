//! What goes wrong at the first attempt. The second one gets a 200, whatever it is.

use crate::scripted::Script;
use crate::scripted::ScriptedAnswer::{self, Closes, Hangs, Says};

use super::relay::Passage;

/// What happens to the first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    /// The backend answers 503 with `Retry-After: 1`.
    Busy,
    /// The backend answers 409 with `Retry-After: 1`: an earlier request is under way.
    InFlight,
    /// The backend closes the connection before an answer, and the gateway answers 503 without `Retry-After`.
    Closed,
    /// The client's connection is reset before the answer, after the backend has the request.
    Reset,
    /// The client's connection ends in the middle of the answer. The backend has the request.
    CutOff,
    /// No answer comes within the timeout of the attempt.
    Slow,
    /// The backend replays a 409 that it keeps: `Idempotency-Retry: new_key`.
    Kept409,
    /// The same with a 503.
    Kept503,
    /// The filter refuses the key: 400.
    Refused,
    /// As [`Situation::Busy`], to a request without a key, on a route that takes it: nobody knows whether a second one does the work again.
    WithoutKey,
}

const JSON: &str = "content-type: application/json";
/// The body of the answer that ends it.
pub(crate) const DONE: &str = r#"{"id":"re_1","object":"refund"}"#;
const ERROR: &str = r#"{"error":{"code":"refund_failed","message":"No."}}"#;

impl Situation {
    /// All of them, in the order of the page's columns.
    pub(crate) const ALL: [Self; 10] = [
        Self::Busy,
        Self::InFlight,
        Self::Closed,
        Self::Reset,
        Self::CutOff,
        Self::Slow,
        Self::Kept409,
        Self::Kept503,
        Self::Refused,
        Self::WithoutKey,
    ];

    /// The heading of its column.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Busy => "503 with `Retry-After`",
            Self::InFlight => "409 with `Retry-After`",
            Self::Closed => "503 without it",
            Self::Reset => "reset",
            Self::CutOff => "cut off",
            Self::Slow => "timeout",
            Self::Kept409 => "kept 409",
            Self::Kept503 => "kept 503",
            Self::Refused => "400",
            Self::WithoutKey => "503 without a key",
        }
    }

    /// What the backend does.
    pub(crate) const fn script(self) -> Script {
        const SUCCESS: ScriptedAnswer = Says(200, &[JSON], DONE);
        match self {
            Self::Busy | Self::WithoutKey => &[Says(503, &[JSON, "retry-after: 1"], ERROR), SUCCESS],
            Self::InFlight => &[Says(409, &[JSON, "retry-after: 1"], ERROR), SUCCESS],
            Self::Closed => &[Closes, SUCCESS],
            Self::Reset | Self::CutOff | Self::Refused => &[SUCCESS],
            Self::Slow => &[Hangs, SUCCESS],
            Self::Kept409 => &[Says(409, &[JSON, "idempotent-replayed: true"], ERROR), SUCCESS],
            Self::Kept503 => &[Says(503, &[JSON, "idempotent-replayed: true"], ERROR), SUCCESS],
        }
    }

    /// How a relay between client and gateway passes the first answer; none if there is no relay. The backend does not see a refused request,
    /// so the relay counts it.
    pub(crate) const fn relayed(self) -> Option<Passage> {
        match self {
            Self::Refused => Some(Passage::Whole),
            Self::CutOff => Some(Passage::Half),
            Self::Reset => Some(Passage::Nothing),
            _ => None,
        }
    }

    /// The timeout of an attempt, in milliseconds. A busy machine answers within the short one, too.
    pub(crate) const fn timeout(self) -> u64 {
        if matches!(self, Self::Slow) { 4_000 } else { 30_000 }
    }
}
