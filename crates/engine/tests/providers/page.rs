//! docs/providers.md, made from the provider files.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// What stands above the table.
const HEAD: &str = include_str!("page_head.md");
/// What stands below it.
const FOOT: &str = include_str!("page_foot.md");

/// The page is what the files say. With `UPDATE_DOCS=1` it is written anew.
pub(crate) fn is_fresh() -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).map_err(|error| error.to_string())?;
    }
    if std::fs::read_to_string(&path).is_ok_and(|text| text == page) {
        Ok(())
    } else {
        Err("docs/providers.md is stale: UPDATE_DOCS=1 cargo test --test cases providers::page".to_owned())
    }
}

fn page() -> String {
    let files: Vec<(String, Value)> =
        super::files::sources().into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap())).collect();
    let (with, without): (Vec<_>, Vec<_>) = files.iter().partition(|(_, file)| file.get("identifiers").is_some());
    let mut page = HEAD.replace("{count}", &files.len().to_string());
    page.push_str("\n## With an identifier\n\n");
    page.push_str("| provider | signed with | what is signed | how old it may be | identifier | covered by the signature | tried again for |\n");
    page.push_str("|---|---|---|---|---|---|---|\n");
    for (name, file) in &with {
        let (identifier, covered) = identifier(file);
        row(&mut page, name, file, &[&identifier, &covered]);
    }
    page.push_str("\n## Verified only\n\n");
    page.push_str(
        "These send no identifier that stays the same: put them on a `HANDLER_INTERNAL_C` route, where the handler \
         deduplicates by what it knows, or on an `ACCEPTED` route.\n\n",
    );
    page.push_str("| provider | signed with | what is signed | how old it may be | why there is no identifier | tried again for |\n");
    page.push_str("|---|---|---|---|---|---|\n");
    for (name, file) in &without {
        row(&mut page, name, file, &[text(&file["no_identifier"])]);
    }
    page.push_str("\n## Notes\n\nFor the person who sets the webhook up.\n");
    for (name, file) in &files {
        let facts = file["identifiers"].as_array().into_iter().flatten().map(facts);
        let notes = file["notes"].as_array().into_iter().flatten().map(|note| text(note).to_owned());
        let notes: Vec<String> = facts.chain(notes).collect();
        let size = file["max_body_bytes"].as_u64().map(|bytes| format!(" Longest body: {} MiB.", bytes >> 20));
        let read: Vec<String> =
            file["handler_headers"].as_array().into_iter().flatten().map(|name| format!("`{}`", text(name))).collect();
        let read = if read.is_empty() { String::new() } else { format!(" Handlers may read {}.", read.join(", ")) };
        let (retry, size) = (retry(&file["retry"]), size.unwrap_or_default());
        let _ = write!(page, "\n### {name}\n\n{}. {retry}{size}{read}\n", text(&file["name"]));
        for (index, note) in notes.iter().enumerate() {
            let _ = writeln!(page, "{}- {note}", if index == 0 { "\n" } else { "" });
        }
    }
    page.push('\n');
    page.push_str(FOOT);
    page
}

/// What is known of an identifier.
fn facts(identifier: &Value) -> String {
    let mut sentences = format!("The {} names {}.", place(identifier), text(&identifier["of"]));
    for (member, yes, no) in [
        ("unique", "", " Another event can have the same one: the body is folded into the key."),
        ("same_on_retry", " A retry keeps it.", " A retry has another one."),
        (
            "same_on_resend",
            " A delivery that is sent again by hand keeps it.",
            " One that is sent again by hand has another one.",
        ),
    ] {
        sentences += match identifier[member].as_bool() {
            Some(true) => yes,
            Some(false) => no,
            None => "",
        };
    }
    match identifier.get("source").map(text) {
        Some(source) => sentences + &format!(" ([Source]({source}).)"),
        None => sentences + " (Not confirmed by documentation that was read.)",
    }
}

fn row(page: &mut String, name: &str, file: &Value, middle: &[&str]) {
    let schemes = file["schemes"].as_array().unwrap();
    let each = |read: &dyn Fn(&Value) -> String| {
        let mut all: Vec<String> = Vec::new();
        for scheme in schemes.iter().map(read) {
            if !all.contains(&scheme) {
                all.push(scheme);
            }
        }
        all.join("; or ")
    };
    let mut cells = vec![
        format!("[`{name}`](#{name}) [{}]({})", text(&file["name"]), text(&file["docs_url"])),
        each(&algorithm),
        each(&|scheme| signed(scheme) + boundaries(scheme, file)),
        each(&age),
    ];
    cells.extend(middle.iter().map(|cell| (*cell).to_owned()));
    cells.push(text(&file["retry"]["horizon"]).to_owned());
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(page, "| {} |", escaped.join(" | "));
}

fn algorithm(scheme: &Value) -> String {
    match text(&scheme["algorithm"]) {
        "hmac-sha256" => "HMAC-SHA-256",
        "hmac-sha1" => "HMAC-SHA-1",
        "hmac-sha512" => "HMAC-SHA-512",
        "sha256-secret-first" => "SHA-256",
        "token" => "a static token",
        "ed25519" => "Ed25519",
        "ecdsa-p256" => "ECDSA P-256",
        other => panic!("what is {other}?"),
    }
    .to_owned()
}

fn signed(scheme: &Value) -> String {
    match scheme.get("template").map(text) {
        None => "nothing".to_owned(),
        // The parts of Adyen's template are long.
        Some(template) if template.len() > 80 => "some members of the body".to_owned(),
        Some(template) => match scheme.get("body_hash").map(text) {
            Some(hash) => format!("`{template}`, with the body's hash in `{hash}` where that is no form"),
            None => format!("`{template}`"),
        },
    }
}

/// What keeps one signature from fitting several deliveries.
fn boundaries(scheme: &Value, file: &Value) -> &'static str {
    let identifiers = file["identifiers"].as_array();
    let form = identifiers.is_some_and(|places| places.iter().any(|place| place.get("form").is_some()));
    match (scheme.get("boundaries").map(text), identifiers) {
        (None, _) => "",
        (Some("timestamp"), _) => "; told apart by the timestamp's form",
        (Some("json_body"), _) => "; told apart by the body, which has to be a JSON object or array",
        (Some("none"), Some(_)) if form => "; not told apart: the key of a form is a digest of all that is signed",
        (Some("none"), Some(_)) => "; not told apart: a form has no key",
        (Some("none"), None) => "; not told apart: there is no key",
        (Some(other), _) => panic!("what is {other}?"),
    }
}

fn age(scheme: &Value) -> String {
    match scheme["timestamp"]["max_age_s"].as_u64() {
        None => "for ever".to_owned(),
        Some(seconds) if seconds % 60 == 0 => format!("{} min", seconds / 60),
        Some(seconds) => format!("{seconds} s"),
    }
}

/// Where an identifier is.
fn place(place: &Value) -> String {
    if let Some(header) = place.get("header") {
        format!("header `{}`", text(header))
    } else if let Some(json) = place.get("json") {
        let body = if place["single"] == true { "a body that is an array of one" } else { "the body" };
        format!("`{}` of {body}", text(json))
    } else {
        let group = |names: &Value| {
            let names: Vec<&str> = names.as_array().unwrap().iter().map(text).collect();
            format!("`{}`", names.join("-"))
        };
        let groups: Vec<String> = place["form"].as_array().unwrap().iter().map(group).collect();
        format!("form fields {}", groups.join(" or "))
    }
}

/// Where identifiers are, and whether the signature covers them.
fn identifier(file: &Value) -> (String, String) {
    let mut places: Vec<(String, bool)> = Vec::new();
    let own = file["schemes"].as_array().unwrap().iter().filter_map(|scheme| scheme.get("identifier"));
    for found in own.chain(file["identifiers"].as_array().unwrap()) {
        let found = (place(found), found["signed"] == true);
        if !places.contains(&found) {
            places.push(found);
        }
    }
    let word = |signed: bool| if signed { "yes" } else { "**no**" }.to_owned();
    let all: Vec<&str> = places.iter().map(|(text, _)| text.as_str()).collect();
    let any = |member: &str| file["identifiers"].as_array().unwrap().iter().any(|place| place[member] == false);
    let bound = any("unique") || any("signed") && file["retry"]["same_body_on_resend"] == true;
    let bound = if bound { "; the body is folded into the key" } else { "" };
    let covered = if places.iter().all(|(_, signed)| *signed == places[0].1) {
        word(places[0].1)
    } else {
        places.iter().map(|(_, signed)| word(*signed)).collect::<Vec<_>>().join(", else ")
    };
    (all.join(", else "), covered + bound)
}

fn retry(retry: &Value) -> String {
    for member in ["horizon", "attempts", "known_from"] {
        assert!(!text(&retry[member]).is_empty(), "the page needs `retry.{member}` of each provider file: {retry}");
    }
    let mut sentence = format!("Tried again for: {}. Attempts: {}.", text(&retry["horizon"]), text(&retry["attempts"]));
    match retry["same_body_on_resend"].as_bool() {
        Some(true) => sentence.push_str(" Every attempt has the same body."),
        Some(false) => sentence.push_str(" Another attempt has another body."),
        None => {}
    }
    match text(&retry["known_from"]) {
        "unconfirmed" => sentence.push_str(" (Not confirmed by documentation that was read.)"),
        source => {
            let _ = write!(sentence, " (From {source}.)");
        }
    }
    sentence
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
