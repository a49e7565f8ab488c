//! For how long providers try again, and what their signatures cover, from the notes for people in the provider files.

use crate::lints::catalogue;
use serde_json::Value;

/// The file of a provider: the document's own, or else the one of the catalogue.
pub(super) fn provider_file(name: &str, own: Option<&Value>) -> Option<Value> {
    if let Some(own) = own {
        return Some(own.clone());
    }
    serde_json::from_str(catalogue::file(name)?).ok()
}

/// For how long a provider tries again, in seconds; `None` if it does not, or nothing is known.
pub(super) fn horizon(name: &str, own: Option<&Value>) -> Option<u64> {
    longest(provider_file(name, own)?.pointer("/retry/horizon")?.as_str()?)
}

/// The longest time in a text such as `7 days (WhatsApp), 36 hours (Graph)`, in seconds.
fn longest(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let times = words.iter().zip(words.iter().skip(1)).filter_map(|(count, unit)| {
        let factor = match unit.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            "week" => 604_800,
            _ => return None,
        };
        count.parse::<u64>().ok()?.checked_mul(factor)
    });
    times.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_counts() {
        assert_eq!(longest("3 days (a few hours in a sandbox)"), Some(259_200));
        assert_eq!(longest("28 hours (Svix); 76 hours (the specification's example)"), Some(273_600));
        assert_eq!(longest("none: a hook is disabled after 5 failures"), None);
        assert_eq!(longest("one retry, on 5xx and timeouts"), None);
    }

    #[test]
    fn the_catalogue_has_times() {
        assert_eq!(horizon("stripe", None), Some(259_200));
        assert_eq!(horizon("github", None), None);
        assert!(catalogue::files().is_sorted_by_key(|(name, _)| name));
        assert!(catalogue::files().all(|(_, file)| serde_json::from_str::<Value>(file).is_ok()));
    }
}
