//! Text in SQL. Restate's dialect knows one escape in a literal: a quote is doubled. A backslash is a character like any
//! other. Nothing here uses LIKE, in which `_` and `%` would stand for other characters.

/// The text as a literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A condition that is true for one of the texts only.
pub(crate) fn one_of<'t>(column: &str, texts: impl IntoIterator<Item = &'t str>) -> String {
    let list: Vec<String> = texts.into_iter().map(literal).collect();
    if list.is_empty() { "false".to_owned() } else { format!("{column} in ({})", list.join(", ")) }
}

/// A condition that is true for texts that begin so.
pub(crate) fn begins_with(column: &str, prefix: &str) -> String {
    format!("starts_with({column}, {})", literal(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_ends_where_the_text_ends() {
        assert_eq!(literal("a' or '1'='1"), "'a'' or ''1''=''1'");
        assert_eq!(literal("\\' --"), "'\\'' --'");
        assert_eq!(literal("a_%"), "'a_%'");
        assert_eq!(one_of("id", ["a", "b'"]), "id in ('a', 'b''')");
        assert_eq!(one_of("id", []), "false");
        assert_eq!(begins_with("key", "t-a_c:"), "starts_with(key, 't-a_c:')");
    }
}
