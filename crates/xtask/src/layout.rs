//! The layout of test data in JSON: an object or a list that fits into 140 columns stands on one line, and one that was written on one
//! line stays there. Every other one has a line for each member. Texts, numbers and the order of members stay as they are written.

use anyhow::{Context, Result, bail};

const COLUMNS: usize = 140;

enum Value {
    /// A text, a number or a word, as it is written.
    Plain(String),
    Container {
        open: char,
        close: char,
        /// Each with its name and `: ` before it, if it has a name.
        members: Vec<(String, Value)>,
        stays: bool,
    },
}

/// The document in this layout.
pub(crate) fn format(text: &str) -> Result<String> {
    // What is read below has the form of JSON.
    serde_json::from_str::<serde_json::Value>(text)?;
    let indentation = text.lines().nth(1).map_or(0, |line| line.len() - line.trim_start().len());
    let mut rest = text;
    let value = value(&mut rest)?;
    let mut written = String::new();
    write(&mut written, &value, indentation.max(1), 0, 0);
    written.push('\n');
    Ok(written)
}

/// The next token, with whether a line ended before it.
fn token<'t>(rest: &mut &'t str) -> Result<(&'t str, bool)> {
    let start = rest.trim_start();
    let (blank, _) = rest.split_at(rest.len() - start.len());
    let length = match start.chars().next().context("the document ends too early")? {
        '"' => {
            let mut escaped = false;
            let end = start.char_indices().skip(1).find(|(_, own)| {
                let is_end = *own == '"' && !escaped;
                escaped = *own == '\\' && !escaped;
                is_end
            });
            end.context("a text does not end")?.0 + 1
        }
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        _ => start.find(|own: char| own.is_whitespace() || "{}[],:\"".contains(own)).unwrap_or(start.len()),
    };
    let (token, after) = start.split_at(length);
    *rest = after;
    Ok((token, blank.contains('\n')))
}

fn value(rest: &mut &str) -> Result<Value> {
    let (open, close) = match token(rest)?.0 {
        "{" => ('{', '}'),
        "[" => ('[', ']'),
        plain => return Ok(Value::Plain(plain.to_owned())),
    };
    let mut members = Vec::new();
    let mut stays = true;
    loop {
        let before = *rest;
        let (next, new_line) = token(rest)?;
        if members.is_empty() {
            stays = !new_line;
        }
        if next.starts_with(close) {
            return Ok(Value::Container { open, close, members, stays });
        }
        if next != "," {
            *rest = before;
        }
        let mut name = String::new();
        if open == '{' {
            name = format!("{}: ", token(rest)?.0);
            if token(rest)?.0 != ":" {
                bail!("a member has no value");
            }
        }
        members.push((name, value(rest)?));
    }
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Plain(text) => text.clone(),
        Value::Container { open, close, members, .. } => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}{}", one_line(value))).collect();
            format!("{open}{}{close}", members.join(", "))
        }
    }
}

/// Writes a value behind so many columns of its line.
fn write(written: &mut String, value: &Value, step: usize, indentation: usize, columns: usize) {
    let line = one_line(value);
    match value {
        Value::Container { open, close, members, stays: false }
            // A comma follows.
            if !members.is_empty() && columns + line.chars().count() >= COLUMNS =>
        {
            let inner = indentation + step;
            written.push(*open);
            for (at, (name, member)) in members.iter().enumerate() {
                written.push_str(if at == 0 { "\n" } else { ",\n" });
                written.push_str(&" ".repeat(inner));
                written.push_str(name);
                write(written, member, step, inner, inner + name.chars().count());
            }
            written.push('\n');
            written.push_str(&" ".repeat(indentation));
            written.push(*close);
        }
        _ => written.push_str(&line),
    }
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn what_fits_is_joined_and_what_is_written_stays() {
        let long = "x".repeat(150);
        let before = format!(
            "{{\n  \"a\":\n  1.0, \"b\\\"\": [\n\n ],\n \"a\": [1e3, \"{long}\"], \"c\": [\"{long}\",{{}}\n,\n{{\n\"d\":[]}}] }}"
        );
        let after = format!(
            "{{\n  \"a\": 1.0,\n  \"b\\\"\": [],\n  \"a\": [1e3, \"{long}\"],\n  \"c\": [\"{long}\", {{}}, {{\"d\": []}}]\n}}\n"
        );
        assert_eq!(format(&before).unwrap(), after);
        assert_eq!(format(&after).unwrap(), after);
        let broken = format!("[\n    \"{long}\",\n    {{\"a\": 1}}\n]\n");
        assert_eq!(format(&broken.replace("\": 1", "\":\n1")).unwrap(), broken);
        format("{\"a\": 1").unwrap_err();
    }
}
