//! What goes wrong with an attempt, and when its operation runs.

use anyhow::{Context as _, Result, bail, ensure};

/// When the operation of an attempt that fails has its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EffectTime {
    /// Never because of this attempt
    Never,
    /// Before the attempt fails, so that the answer is lost and kept
    Before,
    /// After the attempt has failed. The key is in flight until the next attempt has been told so
    After,
}

/// How an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No answer, until the client or the gateway gives up
    Hang,
    /// The connection is reset before the first byte of an answer
    Reset,
    /// The connection is reset after the headers of the right answer
    ResetAfterHeaders,
    /// The right answer ends in the middle, before its `content-length`
    Cut,
    /// The right answer ends in the middle, without the last chunk
    CutChunked,
    /// The right answer comes byte by byte, slower than any client waits
    Drip,
    /// Bytes that are no HTTP
    Garbage,
    /// A whole answer, which is not that of the operation
    Says(&'static Said),
}

/// The `Retry-After` of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAfter {
    /// None
    Missing,
    /// A number of seconds
    Seconds(u64),
    /// A date: the beginning of the next second
    Date,
}

/// Where the `Location` of an answer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// There is none
    Missing,
    /// To the intent's result, at the origin of the request
    SameOrigin,
    /// To the intent's result, at another origin
    OtherOrigin,
}

/// An answer that is not that of the operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The fault's name
    pub(crate) name: &'static str,
    /// The status
    pub(crate) status: u16,
    /// `Retry-After`
    pub(crate) retry_after: RetryAfter,
    /// Whether it has `Idempotency-Status: processing`
    pub(crate) processing: bool,
    /// `Location`
    pub(crate) location: Location,
}

const fn said(name: &'static str, status: u16, retry_after: RetryAfter) -> Said {
    Said { name, status, retry_after, processing: false, location: Location::Missing }
}

const fn processing(name: &'static str, location: Location) -> Said {
    Said { processing: true, location, ..said(name, 202, RetryAfter::Seconds(0)) }
}

/// The name of a 404 that is not the backend's.
pub(super) const NO_ROUTE: &str = "404_no_route";

static SAYS: [Said; 15] = [
    said("500", 500, RetryAfter::Missing),
    said("503", 503, RetryAfter::Missing),
    // Longer than any test runs: whoever obeys it is between two attempts.
    said("503_long", 503, RetryAfter::Seconds(600)),
    said("429", 429, RetryAfter::Seconds(0)),
    said("429_second", 429, RetryAfter::Seconds(1)),
    said("429_date", 429, RetryAfter::Date),
    said("409", 409, RetryAfter::Seconds(0)),
    said("425", 425, RetryAfter::Seconds(0)),
    said("409_without_time", 409, RetryAfter::Missing),
    said("400", 400, RetryAfter::Missing),
    said("404", 404, RetryAfter::Missing),
    // Where the backend is Restate this 404 is a gateway's, which has no route to it.
    said(NO_ROUTE, 404, RetryAfter::Missing),
    processing("202", Location::Missing),
    processing("202_location", Location::SameOrigin),
    processing("202_elsewhere", Location::OtherOrigin),
];

const BREAKS: [(&str, Failure); 7] = [
    ("hang", Failure::Hang),
    ("reset", Failure::Reset),
    ("reset_after_headers", Failure::ResetAfterHeaders),
    ("cut", Failure::Cut),
    ("cut_chunked", Failure::CutChunked),
    ("drip", Failure::Drip),
    ("garbage", Failure::Garbage),
];

/// What happens to one attempt. As text it is the name of the failure, with `_before` or `_after` if the operation runs: `hang`,
/// `cut_before`, `503_after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptFault {
    /// How the attempt fails.
    pub(crate) failure: Failure,
    /// When its operation runs.
    pub(crate) effect: EffectTime,
}

impl AttemptFault {
    /// Reads a fault.
    ///
    /// # Errors
    /// There is no such fault.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let (name, effect) = match (text.strip_suffix("_before"), text.strip_suffix("_after")) {
            (Some(name), _) => (name, EffectTime::Before),
            (_, Some(name)) => (name, EffectTime::After),
            _ => (text, EffectTime::Never),
        };
        let breaks = BREAKS.iter().find(|(known, _)| *known == name).map(|(_, failure)| *failure);
        let says = SAYS.iter().find(|said| said.name == name).map(Failure::Says);
        let Some(failure) = breaks.or(says) else { bail!("no fault is named `{text}`") };
        let accepts = matches!(failure, Failure::Says(Said { processing: true, .. }));
        ensure!(!accepts || effect == EffectTime::Never, "`{text}`: an accepted operation runs later in any case");
        Ok(Self { failure, effect })
    }
}

/// What a request's body says: which intent it is, and what happens to its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The intent's name.
    pub(crate) intent: String,
    /// The fault of the first attempt, of the second, and so on. Attempts that are not listed have none.
    pub(crate) faults: Vec<Option<AttemptFault>>,
    /// The status of the operation's own answer: an error is kept like a success.
    pub(crate) result: u16,
}

impl Schedule {
    /// Reads `{"intent": "7", "faults": ["hang_before", "none", "cut_after"], "result": 200}`. `faults` may be missing, and `result` is 200 if
    /// it is missing.
    ///
    /// # Errors
    /// It is not of this form.
    pub(crate) fn read(body: &[u8]) -> Result<Self> {
        let body: serde_json::Value = serde_json::from_slice(body).context("the body is no JSON")?;
        let intent = body.get("intent").and_then(|intent| intent.as_str()).context("the body names no intent")?;
        let faults = body.get("faults").and_then(|faults| faults.as_array()).into_iter().flatten();
        let faults = faults.map(|fault| match fault.as_str().context("a fault is a text")? {
            "none" => Ok(None),
            fault => AttemptFault::read(fault).map(Some),
        });
        let result = body.get("result").map_or(Some(200), serde_json::Value::as_u64);
        let result = result.and_then(|status| u16::try_from(status).ok()).context("`result` is a status")?;
        Ok(Self { intent: intent.to_owned(), faults: faults.collect::<Result<_>>()?, result })
    }
}
