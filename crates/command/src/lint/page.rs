//! The page of all lints, docs/lints.md, from the texts in the code.

use super::{can_be_allowed, gateway_list, live_list, openapi_list};
use crate::lints::diagnostics::lint::Lint;
use crate::lints::list;

const HEAD: &str = include_str!("page_head.txt");

/// The whole page.
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, lints) in [
        ("Policy documents", list::LINTS),
        ("The gateway around them", gateway_list::LINTS),
        ("What they need while they run", live_list::LINTS),
        ("OpenAPI descriptions beside them", openapi_list::LINTS),
    ] {
        page += &format!("\n## {title}\n");
        lints.iter().for_each(|lint| page += &section(lint));
    }
    page
}

fn section(lint: &Lint) -> String {
    let severity = lint.severity.name();
    let fixed = if can_be_allowed(lint) { "" } else { ", cannot be allowed" };
    format!("\n### {}\n({severity}{fixed}) {} {}\n", lint.name, lint.summary, lint.why)
}

/// The table of `check --list-lints`.
pub(crate) fn table() -> String {
    let width = super::lints().map(|lint| lint.name.len()).max().unwrap_or_default();
    super::lints().map(|lint| format!("{:width$}  {:7}  {}\n", lint.name, lint.severity.name(), lint.summary)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `UPDATE_DOCS=1` writes the page anew.
    #[test]
    fn the_page_has_the_texts_of_the_code() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lints.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(file, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), page(), "run this test with UPDATE_DOCS=1");
    }

    #[test]
    fn every_lint_has_a_name_of_its_own_and_whole_sentences() {
        let mut names = BTreeSet::new();
        for lint in crate::lint::lints() {
            assert!(names.insert(lint.name), "{} twice", lint.name);
            assert!(lint.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", lint.name);
            for text in [lint.summary, lint.why, lint.instead] {
                assert!(text.ends_with('.') && !text.contains("  "), "{}: {text}", lint.name);
            }
        }
    }
}
