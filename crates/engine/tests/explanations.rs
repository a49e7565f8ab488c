//! The tables of docs/ about codes and reasons are what `crates/engine/src/codes/` says.

use edge_idempotency_engine::problem::{Code, CodeExplanation, Reason, ReasonTable, Retry};
use std::collections::BTreeSet;
use testkit::cases::workspace;

/// A table: its name in the page, its head, its rows.
type Table = (&'static str, &'static [&'static str], Vec<Vec<String>>);

/// With `UPDATE_DOCS=1` the tables are written anew.
#[test]
fn the_pages_have_the_tables_of_the_code() {
    for (page, tables) in [("callers.md", callers()), ("webhooks.md", webhooks()), ("identity.md", identity())] {
        let file = workspace().join("docs").join(page);
        let before = std::fs::read_to_string(&file).unwrap();
        let mut text = before.clone();
        for (name, head, rows) in tables {
            let begin = format!("<!-- The test `explanations` writes this table: {name}. -->\n");
            let (above, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page} has no place for: {name}"));
            let (_, below) = rest.split_once(END).unwrap_or_else(|| panic!("{page}: no end of: {name}"));
            text = format!("{above}{begin}{}{END}{below}", written(head, &rows, page));
        }
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&file, &text).unwrap();
        } else {
            let command = "UPDATE_DOCS=1 cargo test --test engine explanations::";
            assert!(before == text, "docs/{page} is stale: {command}");
        }
    }
}

/// The contract lists which advice codes have; what it lists as "varies" has `never` as a rule.
#[test]
fn the_contract_has_the_advice_of_each_code() {
    let contract = std::fs::read_to_string(workspace().join("docs/contract.md")).unwrap();
    for retry in [Retry::NewRequest, Retry::NewKey, Retry::Wait, Retry::SameKey] {
        let begin = format!("| `{}` |", retry.name());
        let row = contract.lines().find_map(|line| line.strip_prefix(&begin)).unwrap();
        // What stands in brackets is about one of the codes.
        let outside =
            row.split('(').map(|part| part.split_once(')').map_or(part, |(_, after)| after)).collect::<String>();
        let listed: BTreeSet<&str> = outside.split([',', ' ', '|']).filter(|word| !word.is_empty()).collect();
        let codes: BTreeSet<&str> =
            Code::ALL.iter().filter(|code| code.retry() == retry).map(|code| code.name()).collect();
        assert_eq!(listed, codes, "docs/contract.md section 8, the row `{}`", retry.name());
    }
}

const END: &str = "<!-- The end of the table. -->\n";

fn callers() -> Vec<Table> {
    vec![
        ("what to do with each code", &["code, status, gRPC", "what happened", "what to do"], codes()),
        ("reasons of keys", &["reason", "what is wrong"], reasons(&[ReasonTable::Keys], |_| vec![])),
        (
            "reasons that only logs and metrics have",
            &["reason", "what is wrong"],
            reasons(&[ReasonTable::Logs, ReasonTable::Unshaped, ReasonTable::Observed], |_| vec![]),
        ),
    ]
}

/// One row for all codes after which one has to do the same, in the words for the reader who is named first.
fn codes() -> Vec<Vec<String>> {
    let mut rows: Vec<(&str, Vec<String>, Vec<&str>)> = Vec::new();
    for code in Code::ALL {
        let Some(CodeExplanation { cause, cure, .. }) = code.explanations().first() else { continue };
        let grpc = code.rpc_status(code.retry()).name().to_uppercase();
        let text = format!("`{}`, {}, `{grpc}`", code.name(), code.status_in_words());
        if let Some((_, codes, causes)) = rows.iter_mut().find(|(other, ..)| other == cure) {
            codes.push(text);
            causes.push(cause);
        } else {
            rows.push((cure, vec![text], vec![cause]));
        }
    }
    assert!(rows.len() <= 25, "nobody reads a table of {} rows", rows.len());
    let row = |(cure, codes, causes): (&str, Vec<String>, Vec<&str>)| {
        vec![codes.join("<br>"), causes.join("<br>"), cure.to_owned()]
    };
    rows.into_iter().map(row).collect()
}

fn webhooks() -> Vec<Table> {
    let answer = |reason: Reason| {
        vec![reason.codes().iter().map(|code| code.status().to_string()).collect::<Vec<_>>().join(", ")]
    };
    vec![
        ("reasons of signatures", &["reason", "what is wrong"], reasons(&[ReasonTable::Signatures], |_| vec![])),
        ("reasons of lookups", &["reason", "answer", "what is wrong"], reasons(&[ReasonTable::Lookups], answer)),
    ]
}

fn identity() -> Vec<Table> {
    let answer = |reason: Reason| vec![reason.codes().iter().map(|code| quoted(code.name())).collect::<String>()];
    vec![("reasons of API keys", &["reason", "code", "what is wrong"], reasons(&[ReasonTable::ApiKeys], answer))]
}

/// The rows of all reasons of these tables; `between` gives the cells between the reason and its meaning.
fn reasons(tables: &[ReasonTable], between: impl Fn(Reason) -> Vec<String>) -> Vec<Vec<String>> {
    let of = |table: ReasonTable| Reason::ALL.iter().filter(move |reason| reason.table() == table);
    let row =
        |reason: Reason| [vec![quoted(reason.name())], between(reason), vec![reason.meaning().to_owned()]].concat();
    tables.iter().copied().flat_map(of).copied().map(row).collect()
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

/// The table as Markdown, with links as they lead from the page.
fn written(head: &[&str], rows: &[Vec<String>], page: &str) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.to_vec()) + &format!("|{}\n", "---|".repeat(head.len()));
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text.replace(&format!("]({page}#"), "](#")
}

#[test]
fn every_code_and_every_reason_is_explained_once() {
    for code in Code::ALL {
        let readers = code.explanations();
        assert!(!readers.is_empty(), "{}", code.name());
        for (at, explanation) in readers.iter().enumerate() {
            assert!(readers[at + 1..].iter().all(|other| other.reader != explanation.reader), "{}", code.name());
            assert!(!explanation.cause.is_empty() && !explanation.cure.is_empty(), "{}", code.name());
        }
    }
    let meanings: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.meaning()).collect();
    assert_eq!(meanings.len(), Reason::ALL.len());
    let texts = Code::ALL.iter().flat_map(|code| code.explanations()).flat_map(|one| [one.cause, one.cure]);
    for text in texts.chain(meanings) {
        assert!(!text.contains('|') && !text.contains("  ") && !text.ends_with('.') && !text.is_empty(), "{text}");
    }
}
