//! A delivery as a curl command.

use super::delivery::SignedDelivery;
use super::secret::SecretSource;

/// The command, over several lines. Where the provider sends the secret itself as a token, the command takes it from where the
/// user has it; `show_secret` writes it out.
///
/// # Errors
/// The body is not text, or the token came from standard input and is not to be shown.
pub(crate) fn curl(
    delivery: &SignedDelivery,
    secret: Option<&SecretSource>,
    show_secret: bool,
) -> Result<String, String> {
    let body = std::str::from_utf8(&delivery.body)
        .map_err(|_| "the body is not text, so it cannot stand in a command: send the delivery with --send")?;
    let mut lines = vec![format!("curl -i -X {} {}", delivery.method, shell_words::quote(&delivery.url))];
    for (name, value) in &delivery.headers {
        let is_token = delivery.token.as_ref().is_some_and(|(header, _)| header == name);
        let line = if is_token && !show_secret {
            let place = secret.and_then(SecretSource::in_shell).ok_or(
                "the provider sends the secret itself, which is not shown: give it as env:NAME or @FILE, or add --show-secret, \
                 or --send",
            )?;
            let prefix = delivery.token.as_ref().map(|(_, prefix)| prefix.as_str()).unwrap_or_default();
            format!("  -H \"{name}: {prefix}{place}\"")
        } else {
            format!("  -H {}", shell_words::quote(&format!("{name}: {value}")))
        };
        lines.push(line);
    }
    lines.push(format!("  --data-raw {}", shell_words::quote(body)));
    Ok(lines.join(" \\\n"))
}
