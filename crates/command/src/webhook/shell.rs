//! A delivery as a curl command.

use super::delivery::{SecretPart, SignedDelivery};
use super::secret::SecretSource;
use shell_words::quote;

/// The command, over several lines, for any POSIX shell. A secret is in no argument of curl, because other users of the machine can
/// see arguments: `printf`, which shells run themselves, writes it to curl's standard input. Where the provider sends the secret itself as a
/// token, the command takes it from where the user has it; `show_secret` writes it out.
///
/// # Errors
/// The body is not text, or the command would have to show the secret.
pub(crate) fn curl(
    delivery: &SignedDelivery,
    secret: Option<&SecretSource>,
    show_secret: bool,
) -> Result<String, String> {
    let body = std::str::from_utf8(&delivery.body)
        .map_err(|_| "the body is not text, so it cannot stand in a command: send the delivery with --send")?;
    let mut lines = vec![format!("curl -i -X {} {}", delivery.method, quote(&delivery.url))];
    let mut input = None;
    for (name, value) in &delivery.headers {
        let line = format!("{name}: {value}");
        match &delivery.secret {
            Some(SecretPart::Header { name: secret_name, prefix }) if secret_name == name => {
                input = Some(if show_secret {
                    format!("printf '%s\\n' {}", quote(&line))
                } else {
                    let secret = secret.and_then(SecretSource::in_shell).ok_or(
                        "the provider sends the secret itself, which is not shown: give it as @FILE, or as env:NAME with a name that \
                         shells can read, or add --show-secret, or --send",
                    )?;
                    format!("printf '%s%s\\n' {} {secret}", quote(&format!("{name}: {prefix}")))
                });
                lines.push("  -H @-".to_owned());
            }
            _ => lines.push(format!("  -H {}", quote(&line))),
        }
    }
    if matches!(delivery.secret, Some(SecretPart::Body)) {
        if !show_secret {
            return Err("the body holds the secret itself, which is not shown: add --show-secret, or --send".to_owned());
        }
        input = Some(format!("printf '%s' {}", quote(body)));
        lines.push("  --data-binary @-".to_owned());
    } else {
        lines.push(format!("  --data-raw {}", quote(body)));
    }
    let command = lines.join(" \\\n");
    Ok(input.map_or_else(|| command.clone(), |input| format!("{input} |\n{command}")))
}
