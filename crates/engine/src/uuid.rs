//! UUIDs in their text form (RFC 9562 section 4): 32 hexadecimal digits of either case with four dashes.

use crate::percent::hex_byte;
use std::fmt;

/// A UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The length of the text form, in bytes.
    pub(crate) const TEXT_LENGTH: usize = 36;

    /// Parses the text form; `None` for any other text. The version and the variant can be any.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() != Self::TEXT_LENGTH {
            return None;
        }
        let mut bytes = [0; 16];
        let mut rest = text;
        for (index, byte) in bytes.iter_mut().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                rest = rest.strip_prefix(b"-")?;
            }
            let (digits, after) = rest.split_first_chunk()?;
            *byte = hex_byte(digits)?;
            rest = after;
        }
        rest.is_empty().then_some(Self(bytes))
    }

    /// The time of a UUID version 7 in Unix milliseconds (RFC 9562 section 5.7); `None` for another version or variant.
    pub(crate) const fn time_of_version_7(self) -> Option<u64> {
        let [a, b, c, d, e, f, version, _, variant, ..] = self.0;
        if version >> 4 == 7 && variant >> 6 == 0b10 {
            Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
        } else {
            None
        }
    }
}

/// The text form in lower case.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            f.write_str(base16ct::lower::encode_str(&[*byte], &mut [0; 2]).unwrap_or_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_one_form_in_two_cases() {
        let lower = "8e03978e-40d5-43e8-bc93-6894a57f9324";
        for text in [lower, "8E03978E-40D5-43E8-BC93-6894A57F9324"] {
            assert_eq!(Uuid::parse(text.as_bytes()).map(|uuid| uuid.to_string()).as_deref(), Some(lower));
        }
        for bad in [
            "",
            "8e03978e40d543e8bc936894a57f9324",
            "8e03978e-40d5-43e8-bc93-6894a57f932",
            "8e03978e-40d5-43e8-bc93-6894a57f93245",
            "8e03978e-40d5-43e8-bc936-894a57f9324",
            "8e03978e-40d5-43e8-bc93-6894a57f932g",
            "{8e03978e-40d5-43e8-bc93-6894a57f932}",
        ] {
            assert_eq!(Uuid::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn only_version_7_holds_this_time() {
        // The example of RFC 9562, appendix A.6.
        let time = |text: &str| Uuid::parse(text.as_bytes()).unwrap().time_of_version_7();
        assert_eq!(time("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), Some(0x017F_22E2_79B0));
        assert_eq!(time("017F22E2-79B0-4CC3-98C4-DC0C0C07398F"), None);
        assert_eq!(time("017F22E2-79B0-7CC3-C8C4-DC0C0C07398F"), None);
    }
}
