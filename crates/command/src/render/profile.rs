//! What Envoy does for the clients of a protocol: refusals in the protocol's form, and the key that answers repeat.

use super::template::fill;
use crate::profile::{Profile, ProfileError};
use serde_json::{Value, json};

const REPLIES: &str = include_str!("templates/profile-replies.yaml");
const ECHO: &str = include_str!("templates/profile-echo.yaml");
const PROFILE: &str = include_str!("templates/profile.yaml");

/// `local_reply_config` of the connection manager, and the filters before all others; null where the protocol asks for none.
///
/// # Errors
/// The profile's file has a character that YAML does not take.
pub(crate) fn parts(profile: &Profile) -> Result<Value, String> {
    let error = |error: &ProfileError| {
        // The details of a refusal are its code, or code, full stop and reason.
        let expression =
            format!("response.code_details == '{0}' || response.code_details.startsWith('{0}.')", error.code);
        json!({"section": error.section, "expression": expression, "status": error.status, "body": error.body})
    };
    let errors: Vec<Value> = profile.errors.iter().map(error).collect();
    let replies = (!errors.is_empty()).then(|| fill(REPLIES, &json!({"errors": errors}))).transpose()?;
    let echo = |header: &str, section: &str| fill(ECHO, &json!({"header": header, "section": section}));
    let echo = profile.echo.as_ref().map(|own| echo(&own.header, &own.section)).transpose()?;
    let trimmed = |text: Option<String>| text.map(|text| text.trim_end().to_owned());
    Ok(json!({
        "about": profile.about, "title": profile.title(), "url": profile.document.url, "replies": trimmed(replies), "echo": trimmed(echo),
    }))
}

/// Both in one document, for the owner of a configuration.
///
/// # Errors
/// As of [`parts`], or the protocol asks for neither.
pub(crate) fn alone(profile: &Profile) -> Result<String, String> {
    if profile.errors.is_empty() && profile.echo.is_none() {
        return Err(format!("{} asks for nothing that Envoy does beside the filter", profile.title()));
    }
    fill(PROFILE, &parts(profile)?)
}
