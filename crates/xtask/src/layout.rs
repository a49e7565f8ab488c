//! The layout of test data in JSON: an object or a list that fits into 140 columns stands on one line, and one that was written on one
//! line stays there. Every other one begins with its first member and ends with its last one, without a line for a bracket. Members
//! stand side by side up to 140 columns; a member with several lines begins a line, and so does each object of a list. Texts, numbers
//! and the order of members stay as they are written.

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
    let mut rest = text;
    let value = value(&mut rest)?;
    let mut written = String::new();
    write(&mut written, &value, 0, 0);
    written.push('\n');
    Ok(written)
}

/// The next token.
fn token<'t>(rest: &mut &'t str) -> Result<&'t str> {
    let start = rest.trim_start();
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
    Ok(token)
}

fn value(rest: &mut &str) -> Result<Value> {
    let start = *rest;
    let (open, close) = match token(rest)? {
        "{" => ('{', '}'),
        "[" => ('[', ']'),
        plain => return Ok(Value::Plain(plain.to_owned())),
    };
    let mut members = Vec::new();
    loop {
        let before = *rest;
        let next = token(rest)?;
        if next.starts_with(close) {
            let (written, _) = start.trim_start().split_at(start.trim_start().len() - rest.len());
            return Ok(Value::Container { open, close, members, stays: !written.contains('\n') });
        }
        if next != "," {
            *rest = before;
        }
        let mut name = String::new();
        if open == '{' {
            name = format!("{}: ", token(rest)?);
            if token(rest)? != ":" {
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

/// Writes a value where a line has come to, with room for so many columns after it.
fn write(written: &mut String, value: &Value, indentation: usize, after: usize) {
    let line = one_line(value);
    let Value::Container { open, close, members, stays: false } = value else {
        written.push_str(&line);
        return;
    };
    if column(written) + line.chars().count() + after <= COLUMNS {
        written.push_str(&line);
        return;
    }
    written.push(*open);
    let mut begins = false;
    for (at, (name, member)) in members.iter().enumerate() {
        let after = if at + 1 == members.len() { after + 1 } else { 1 };
        if at > 0 {
            let is_object = *open == '[' && matches!(member, Value::Container { open: '{', .. });
            let length = name.chars().count() + one_line(member).chars().count();
            begins |= is_object || column(written) + 2 + length + after > COLUMNS;
            if begins {
                written.push_str(",\n");
                written.push_str(&" ".repeat(indentation + 1));
            } else {
                written.push_str(", ");
            }
        }
        written.push_str(name);
        let start = written.len();
        write(written, member, indentation + 1, after);
        begins = written.bytes().skip(start).any(|byte| byte == b'\n');
    }
    written.push(*close);
}

fn column(written: &str) -> usize {
    written.rsplit('\n').next().map_or(0, |line| line.chars().count())
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
            "{{\"a\": 1.0, \"b\\\"\": [],\n \"a\": [1e3, \"{long}\"],\n \"c\": [\"{long}\",\n  {{}},\n  {{\"d\": []}}]}}\n"
        );
        assert_eq!(format(&before).unwrap(), after);
        assert_eq!(format(&after).unwrap(), after);
        let alone = format!("{{\"a\": [\"{long}\", 1], \"b\": 2}}\n");
        assert_eq!(format(&alone).unwrap(), alone);
        format("{\"a\": 1").unwrap_err();
    }

    #[test]
    fn members_fill_a_line_and_objects_of_a_list_begin_one() {
        let [long, half] = ["x".repeat(150), "y".repeat(70)];
        let before = format!(
            "{{\"a\": [\n{{\"b\": \"{half}\"}}, {{\"b\": 2}}], \"c\": \"{half}\", \"d\": [[\"{long}\"\n, 1], 2]}}"
        );
        let after = format!(
            "{{\"a\": [{{\"b\": \"{half}\"}}, {{\"b\": 2}}],\n \"c\": \"{half}\",\n \"d\": [[\"{long}\",\n   1],\n  2]}}\n"
        );
        assert_eq!(format(&before).unwrap(), after);
        assert_eq!(format(&after).unwrap(), after);
    }
}
