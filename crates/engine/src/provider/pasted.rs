//! Finds what a person pasted with a secret. A secret is taken as it is, so no signature fits then. Nothing of the secret is told.

use super::Provider;
use crate::headers::distinct_texts;

/// How a text is quoted: the mark before it and the mark behind it.
const QUOTES: [(char, char); 5] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('‘', '’')];

impl Provider {
    /// What is wrong with a text in the place of a secret, and what to write; `None` if nothing is seen. An empty text is the
    /// free place of a rotation.
    pub fn secret_fault(&self, secret: &[u8]) -> Option<String> {
        if secret.is_empty() {
            return None;
        }
        let prefixes = self.schemes.iter().filter_map(|scheme| scheme.secret.prefix.as_deref());
        let begins = self.schemes.iter().flat_map(|scheme| scheme.secret.begins.iter().map(String::as_str));
        let beginnings = distinct_texts(prefixes.chain(begins).collect());
        if let Some(fault) = around(secret).or_else(|| misplaced(secret, &beginnings)) {
            return Some(fault);
        }
        if self.key_lengths(secret).is_empty() {
            let message = "the secret does not have the form of this provider's secrets, so it verifies nothing: take the signing \
                           secret of this webhook, as the provider shows it";
            return Some(message.to_owned());
        }
        // A scheme without beginnings takes any text.
        let every = self.schemes.iter().all(|scheme| !scheme.secret.begins.is_empty());
        let fits = beginnings.iter().any(|beginning| secret.starts_with(beginning.as_bytes()));
        (every && !fits).then(|| {
            let known = beginnings.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" or ");
            format!("the secret does not begin with {known}, as this provider's secrets do: take the signing secret of this webhook")
        })
    }
}

/// What stands around a secret of any kind; `None` if nothing does.
pub(crate) fn around(secret: &[u8]) -> Option<String> {
    let fault = |what: &str, instead: &str| {
        Some(format!("the secret {what}, which is taken for a part of it, so no signature fits: {instead}"))
    };
    if secret.starts_with(b"\xff\xfe") || secret.starts_with(b"\xfe\xff") {
        return fault(
            "begins with the byte order mark of UTF-16",
            "write the text as UTF-8, without a byte order mark",
        );
    }
    let text = std::str::from_utf8(secret).ok()?;
    let is_unseen =
        |char: char| char.is_whitespace() || matches!(char, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}');
    if text.starts_with('\u{feff}') {
        return fault("begins with a byte order mark", "write the file without it");
    }
    let (begins, ends) = (text.starts_with(is_unseen), text.ends_with(is_unseen));
    if begins || ends {
        let place = match (begins, ends) {
            (true, true) => "begins and ends",
            (true, false) => "begins",
            _ => "ends",
        };
        let what = format!("{place} with a space, a line break or another character that nobody sees");
        return fault(&what, "write it without that, for example with `printf %s` in place of `echo`");
    }
    let inner = |(open, close): (char, char)| text.strip_prefix(open)?.strip_suffix(close);
    if QUOTES.into_iter().any(|marks| inner(marks).is_some_and(|inner| !inner.is_empty())) {
        return fault("stands in quotes", "write it without them");
    }
    if is_assignment(text) {
        return fault("begins with a name and `=`, as in a file of variables", "write what follows the `=`");
    }
    None
}

/// Whether a text is `NAME=value`. Base64 has nothing but `=` behind an `=`.
fn is_assignment(text: &str) -> bool {
    let text = text.strip_prefix("export ").unwrap_or(text);
    let Some((name, value)) = text.split_once('=') else { return false };
    let is_name = name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    let lower = name.to_ascii_lowercase();
    let is_meant = !name.bytes().any(|byte| byte.is_ascii_lowercase())
        || ["secret", "key", "token", "whsec", "webhook"].iter().any(|word| lower.contains(word));
    is_name && is_meant && !value.trim_start_matches('=').is_empty()
}

/// What is wrong with where the known beginnings of a provider's secrets stand.
fn misplaced(secret: &[u8], beginnings: &[&str]) -> Option<String> {
    let places = |beginning: &&str| {
        let is_there = |part: &&[u8]| part.eq_ignore_ascii_case(beginning.as_bytes());
        secret.windows(beginning.len().max(1)).filter(is_there).count()
    };
    let beginning = beginnings.iter().find(|beginning| places(beginning) > 0)?;
    if !secret.starts_with(beginning.as_bytes()) {
        return Some(format!(
            "the secret holds `{beginning}` and does not begin with it, so no signature fits: write it from `{beginning}` on"
        ));
    }
    (beginnings.iter().map(places).sum::<usize>() > 1)
        .then(|| format!("the secret holds `{beginning}` twice, so no signature fits: list each secret by itself"))
}

#[cfg(test)]
mod tests {
    use crate::provider::Catalogue;

    /// What is said of a text as the secret of a provider, or nothing.
    fn said(provider: &str, secret: &str) -> String {
        Catalogue::compiled_in().provider(provider).unwrap().secret_fault(secret.as_bytes()).unwrap_or_default()
    }

    #[test]
    fn what_is_pasted_with_a_secret_is_told() {
        const SVIX: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
        for (wrapped, words) in [
            ("{}\n", "ends with a space"),
            ("\u{a0}{}", "begins with a space"),
            (" {}\u{200b}", "begins and ends with a space"),
            ("\u{feff}{}", "byte order mark"),
            ("\"{}\"", "in quotes"),
            ("'{}'", "in quotes"),
            ("“{}”", "in quotes"),
            ("WEBHOOK_SECRET={}", "a name and `=`"),
            ("export WEBHOOK_SECRET={}", "a name and `=`"),
            ("signing-key={}", "a name and `=`"),
        ] {
            for (provider, secret) in [
                ("standard_webhooks", SVIX),
                ("clerk", SVIX),
                ("gitlab", SVIX),
                ("stripe", "whsec_abcdefghijklmnop123456"),
                ("paddle", "pdl_ntfset_01hsdn8d43dt7mezr1ef2jtbaw_hKkRiCGyyRhbFwIUuqiTBg"),
                ("github", "It's a Secret to Everybody"),
                ("twilio", "0123456789abcdef0123456789abcdef"),
                ("adyen", "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"),
                ("discord", "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"),
            ] {
                assert_eq!(said(provider, secret), "", "{provider}");
                let wrapped = wrapped.replace("{}", secret);
                let said = said(provider, &wrapped);
                assert!(said.contains(words) && !said.contains(secret), "{provider} {wrapped:?}: {said}");
            }
        }
    }

    #[test]
    fn a_secret_of_another_form_is_told() {
        const SVIX: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
        for (provider, secret, words) in [
            ("standard_webhooks", format!("v1,{SVIX}"), "does not begin with it"),
            ("standard_webhooks", format!("v1,{SVIX}|v1,{SVIX}"), "does not begin with it"),
            ("standard_webhooks", format!("secret: {SVIX}"), "does not begin with it"),
            ("standard_webhooks", SVIX.replace("whsec", "WHSEC"), "does not begin with it"),
            ("standard_webhooks", format!("\"{SVIX}"), "does not begin with it"),
            ("standard_webhooks", format!("{SVIX},{SVIX}"), "twice"),
            ("standard_webhooks", format!("{SVIX}-"), "the form"),
            ("openai", format!("v1,{SVIX}"), "does not begin with it"),
            ("stripe", "v1,whsec_abcdefghijklmnop".to_owned(), "does not begin with it"),
            ("stripe", "abcdefghijklmnopqrst".to_owned(), "does not begin with `whsec_`"),
            ("paystack", "0123456789abcdef".to_owned(), "`sk_live_` or `sk_test_`"),
            ("adyen", "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C05755=".to_owned(), "the form"),
            ("discord", "03a107bff3ce10be".to_owned(), "the form"),
            ("sendgrid", "-----BEGIN PUBLIC KEY-----".to_owned(), "the form"),
        ] {
            let said = said(provider, &secret);
            assert!(said.contains(words), "{provider} {secret}: {said}");
        }
        for (provider, secret) in [
            ("stripe", ""),
            ("github", "\""),
            ("github", "a=b"),
            ("xero", "A1B2=="),
            ("standard_webhooks", "my raw secret"),
            ("gitlab", "mytoken"),
            ("paystack", "sk_live_0123456789abcdef"),
        ] {
            assert_eq!(said(provider, secret), "", "{provider} {secret}");
        }
        let utf16 = b"\xff\xfew\0h\0";
        assert!(Catalogue::compiled_in().provider("github").unwrap().secret_fault(utf16).unwrap().contains("UTF-16"));
    }
}
