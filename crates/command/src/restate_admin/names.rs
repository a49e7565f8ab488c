//! What names things in Restate, as the admin API gives it or a user writes it. An id or a name becomes a part of a URL, of a
//! query and of what a terminal shows, so nothing else than the characters that Restate itself allows is taken for one.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Deref;

/// The longest id, in bytes; those of Restate 1.7 have 37.
const MAX_ID: usize = 64;
/// The longest name, in bytes.
const MAX_NAME: usize = 255;

/// The id of an invocation: `inv_` and letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct InvocationId(String);

/// The name of a service or of a handler: letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct RestateName(String);

impl TryFrom<String> for InvocationId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let rest = text.strip_prefix("inv_").unwrap_or_default();
        let is_id = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_id && text.len() <= MAX_ID {
            Ok(Self(text))
        } else {
            Err("the reply has a text that is not the id of an invocation")
        }
    }
}

impl TryFrom<String> for RestateName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = text.bytes().all(is_letter) && !matches!(text.as_str(), "" | "." | "..");
        if is_name && text.len() <= MAX_NAME {
            Ok(Self(text))
        } else {
            Err("the reply has a text that is not the name of a service or of a handler")
        }
    }
}

impl Deref for InvocationId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Deref for RestateName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RestateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_is_an_id() {
        for good in ["inv_1", "inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt"] {
            assert_eq!(InvocationId::try_from(good.to_owned()).unwrap().to_string(), good);
        }
        let long = format!("inv_{}", "1".repeat(MAX_ID));
        for bad in [
            "",
            "inv_",
            "1",
            "INV_1",
            "inv_1/../../../deployments/dp_x?force=true",
            "inv_1?a",
            "inv_1#",
            "inv_1%2f",
            "inv_1' or '1'='1",
            "inv_1\u{1b}[2J",
            "inv_1\u{202e}",
            "inv_1\r\n",
            "inv_é",
            " inv_1",
            &long,
        ] {
            assert!(InvocationId::try_from(bad.to_owned()).is_err(), "{bad:?}");
            assert!(serde_json::from_value::<InvocationId>(bad.into()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nothing_else_is_a_name() {
        for good in ["Refunds", "_guard", "a.b-c_1", "..a"] {
            assert_eq!(&*RestateName::try_from(good.to_owned()).unwrap(), good);
        }
        for bad in ["", ".", "..", "a/b", "a?b", "a b", "a\u{1b}", "a\u{202e}", "é", "a%2e", &"a".repeat(MAX_NAME + 1)]
        {
            assert!(RestateName::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
