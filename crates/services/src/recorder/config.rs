//! The APIs whose answers are recorded, as the operator writes them down.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::Uri;
use hyper::header::HeaderName;
use serde::{Deserialize, Deserializer, Serialize};

/// Headers of credentials. Restate keeps what it is sent, so they go to the API only where the operator lets them.
pub(super) const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

/// The file of a recorder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// By the names that backends have in the policy.
    upstreams: BTreeMap<String, Upstream>,
}

/// An API. Times are texts such as `30s`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// `http://HOST:PORT`; a path of the request is never put behind another one.
    #[serde(deserialize_with = "origin")]
    pub url: Uri,
    /// How long the API may take for an answer.
    #[serde(default = "defaults::timeout", with = "time")]
    pub timeout: Duration,
    /// What to do when nobody knows whether the API has worked.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// Statuses of requests with which the API did nothing; of these a 5xx counts only with `Retry-After`.
    #[serde(default = "defaults::not_run")]
    pub not_run: Vec<u16>,
    /// How long a call is repeated as long as the API does nothing.
    #[serde(default = "defaults::retry_for", with = "time")]
    pub retry_for: Duration,
    /// The longest request body in bytes.
    #[serde(default = "defaults::bytes")]
    pub max_body_bytes: usize,
    /// The longest answer body in bytes.
    #[serde(default = "defaults::bytes")]
    pub max_answer_bytes: usize,
    /// The most calls with keys at once.
    #[serde(default = "defaults::calls")]
    pub max_calls: usize,
    /// Of the headers of credentials those that reach the API. Restate's journal then holds them until the call has ended.
    #[serde(default)]
    pub keep_headers: Vec<String>,
}

impl Upstream {
    /// How long Restate may take for a call: two of the API, one of which began just before `retry_for` was over.
    pub fn longest_call(&self) -> Duration {
        self.timeout * 2 + self.retry_for
    }
}

/// What becomes of a key when a call was interrupted.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnknown {
    /// The key is answered `outcome_unknown`.
    #[default]
    Fail,
    /// The API is called again, with the same key.
    Retry,
}

mod defaults {
    use super::Duration;

    pub(super) const fn timeout() -> Duration {
        Duration::from_secs(30)
    }

    pub(super) fn not_run() -> Vec<u16> {
        vec![429, 503]
    }

    pub(super) const fn retry_for() -> Duration {
        Duration::from_secs(5)
    }

    pub(super) const fn bytes() -> usize {
        1 << 20
    }

    pub(super) const fn calls() -> usize {
        256
    }
}

mod time {
    use super::{Deserialize as _, Deserializer, Duration};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        humantime::parse_duration(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

fn origin<'de, D: Deserializer<'de>>(from: D) -> Result<Uri, D::Error> {
    parse_origin(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn parse_origin(text: &str) -> Result<Uri> {
    let url: Uri = text.parse().with_context(|| format!("`{text}` is no URL"))?;
    let is_plain = url.scheme_str() == Some("http") && matches!(url.path(), "" | "/") && url.query().is_none();
    let has_user = url.authority().is_none_or(|authority| authority.as_str().contains('@'));
    ensure!(is_plain && !has_user, "expected `http://HOST:PORT`, without a user and without a path, and not `{text}`");
    Ok(url)
}

impl Upstream {
    /// An API with the default of everything.
    ///
    /// # Errors
    /// If the text is not of the form `http://HOST:PORT`.
    pub fn at(url: &str) -> Result<Self> {
        Self::check(serde_json::from_value(serde_json::json!({"url": url}))?)
    }

    fn check(self) -> Result<Self> {
        for name in &self.keep_headers {
            let known = HeaderName::try_from(name.as_str()).is_ok() && CREDENTIALS.contains(&name.as_str());
            ensure!(known, "`keep_headers`: `{name}` is none of {}", CREDENTIALS.join(", "));
        }
        if let Some(status) = self.not_run.iter().find(|status| !(400..600).contains(*status)) {
            bail!("`not_run`: {status} is no status of an error");
        }
        ensure!(self.max_calls > 0, "`max_calls` has to be at least 1");
        ensure!(
            self.max_body_bytes <= LARGEST && self.max_answer_bytes <= LARGEST,
            "`max_body_bytes` and `max_answer_bytes` may be {LARGEST} at most, because Restate takes messages of 32 MiB"
        );
        Ok(self)
    }
}

/// The file with these APIs and all their members, also those that have their defaults.
pub fn written(upstreams: &BTreeMap<String, Upstream>) -> String {
    let time = |time: Duration| humantime::format_duration(time).to_string();
    let members = |upstream: &Upstream| {
        serde_json::json!({
            "url": upstream.url.to_string(),
            "timeout": time(upstream.timeout),
            "on_unknown": upstream.on_unknown,
            "not_run": upstream.not_run,
            "retry_for": time(upstream.retry_for),
            "max_body_bytes": upstream.max_body_bytes,
            "max_answer_bytes": upstream.max_answer_bytes,
            "max_calls": upstream.max_calls,
            "keep_headers": upstream.keep_headers,
        })
    };
    let upstreams: BTreeMap<_, _> = upstreams.iter().map(|(name, upstream)| (name, members(upstream))).collect();
    format!("{:#}", serde_json::json!({"upstreams": upstreams}))
}

/// A message of Restate has at most 32 MiB, and its journal holds a body once.
const LARGEST: usize = 16 << 20;

/// Reads the file of a recorder: the APIs by name.
///
/// # Errors
/// If it is no JSON of this form. The message names the member.
pub fn read(text: &str) -> Result<BTreeMap<String, Upstream>> {
    let File { upstreams } = serde_json::from_str(text)?;
    ensure!(!upstreams.is_empty(), "`upstreams` names no API");
    let checked = upstreams.into_iter().map(|(name, upstream)| {
        let upstream = upstream.check().with_context(|| format!("the upstream `{name}`"))?;
        Ok((name, upstream))
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::{read, written};

    #[test]
    fn what_is_written_is_read() {
        let text = r#"{"upstreams": {"a": {"url": "http://a:1"}, "b": {"url": "http://b", "timeout": "1m 5s", "on_unknown": "retry",
            "not_run": [], "retry_for": "0s", "max_body_bytes": 1, "max_answer_bytes": 2, "max_calls": 3, "keep_headers": ["cookie"]}}}"#;
        let read = [text.to_owned(), written(&read(text).unwrap())].map(|text| format!("{:?}", read(&text).unwrap()));
        assert_eq!(read[0], read[1]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let of = |members: &str| read(&format!(r#"{{"upstreams": {{"api": {{"url": "http://a:1"{members}}}}}}}"#));
        assert!(of("").is_ok());
        for (members, part) in [
            (r#", "keep_headers": ["x-tenant"]"#, "`x-tenant` is none of"),
            (r#", "not_run": [200]"#, "200 is no status of an error"),
            (r#", "max_calls": 0"#, "at least 1"),
            (r#", "max_body_bytes": 99999999"#, "at most"),
            (r#", "timeout": "soon""#, "expected number"),
            (r#", "on_unknown": "maybe""#, "unknown variant"),
            (r#", "colour": 1"#, "unknown field"),
        ] {
            let error = format!("{:#}", of(members).unwrap_err());
            assert!(error.contains(part), "{members}: {error}");
        }
        for url in ["https://a", "http://u@a", "http://a/b", "http://a?b", "a:1", ""] {
            let error = read(&format!(r#"{{"upstreams": {{"api": {{"url": "{url}"}}}}}}"#)).unwrap_err();
            assert!(
                format!("{error:#}").contains("URL") || format!("{error:#}").contains("http://HOST"),
                "{url}: {error:#}"
            );
        }
        assert!(read(r#"{"upstreams": {}}"#).is_err());
    }
}
