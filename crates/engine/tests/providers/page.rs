//! docs/providers.md, made from the provider files.

use serde_json::Value;
use std::fmt::Write as _;
use testkit::cases::workspace;

/// What stands above the table.
const HEAD: &str = include_str!("page_head.txt");
/// What stands below it.
const FOOT: &str = include_str!("page_foot.txt");

/// The page is what the files say. With `UPDATE_DOCS=1` it is written anew.
pub(crate) fn is_fresh() -> Result<(), String> {
    let path = workspace().join("docs/providers.md");
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
    let mut page = HEAD.replace("{count}", &files.len().to_string());
    page.push_str(
        "\n## The providers\n\n| provider | what is signed | how old | identifier | signed | tried again for |\n",
    );
    page.push_str("|---|---|---|---|---|---|\n");
    for (name, file) in &files {
        row(&mut page, name, file);
    }
    page.push('\n');
    page.push_str(FOOT);
    page
}

fn row(page: &mut String, name: &str, file: &Value) {
    let schemes = file["schemes"].as_array().unwrap();
    let each = |read: fn(&Value) -> String| {
        let mut all: Vec<String> = Vec::new();
        for scheme in schemes.iter().map(read) {
            if !all.contains(&scheme) {
                all.push(scheme);
            }
        }
        all.join("; or ")
    };
    let (identifier, covered) =
        if file.get("identifiers").is_some() { identifier(file) } else { ("none".to_owned(), "-".to_owned()) };
    let horizon = text(&file["retry"]["horizon"]);
    assert!(!horizon.is_empty(), "the page needs `retry.horizon` of {name}");
    let cells = [
        format!("[`{name}`](../policies/providers/{name}.json)"),
        each(signed),
        each(age),
        identifier,
        covered,
        horizon.split(':').next().unwrap_or_default().to_owned(),
    ];
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(page, "| {} |", escaped.join(" | "));
}

fn signed(scheme: &Value) -> String {
    match scheme.get("template").map(text) {
        None => "nothing".to_owned(),
        // The parts of Adyen's template are long.
        Some(template) if template.len() > 80 => "some members of the body".to_owned(),
        Some(template) => format!("`{template}`"),
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
        format!("`{}`", text(header))
    } else if let Some(json) = place.get("json") {
        format!("`{}`", text(json))
    } else {
        let group = |names: &Value| {
            let names: Vec<&str> = names.as_array().unwrap().iter().map(text).collect();
            format!("`{}`", names.join("-"))
        };
        let groups: Vec<String> = place["form"].as_array().unwrap().iter().map(group).collect();
        format!("a form's {}", groups.join(" or "))
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
    let bound = if bound { " +" } else { "" };
    let covered = if places.iter().all(|(_, signed)| *signed == places[0].1) {
        word(places[0].1)
    } else {
        places.iter().map(|(_, signed)| word(*signed)).collect::<Vec<_>>().join(", else ")
    };
    (all.join(", else "), covered + bound)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
