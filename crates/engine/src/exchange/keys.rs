//! Reads the key of a request: clients' keys by the grammar and the route's rules, signed callers' keys by a grammar of
//! their own.

use super::request_head::EditedLines;
use crate::key::{self, KeyError, KeyGrammar, KeyRules, KeySyntax, RawKey};
use crate::problem::Problem;

/// How the keys of a request's caller are read.
pub(super) struct KeyReading<'k> {
    grammar: &'k KeyGrammar,
    /// For clients, the route's rules and the clock.
    rules: Option<(&'k KeyRules, &'k dyn Fn() -> u64)>,
}

impl<'k> KeyReading<'k> {
    /// Clients' keys.
    pub(super) fn of_clients(rules: Option<&'k KeyRules>, now_unix_ms: &'k dyn Fn() -> u64) -> Self {
        let grammar = rules.map_or(&KeyGrammar::CLIENT, |rules| rules.charset.grammar());
        Self { grammar, rules: rules.map(|rules| (rules, now_unix_ms)) }
    }

    /// The keys of a signed caller, for which the rules of clients do not hold.
    pub(super) const fn of_caller(grammar: &'k KeyGrammar) -> Self {
        Self { grammar, rules: None }
    }

    /// The key of a request; `None` if it has none.
    pub(super) fn read<'a>(&self, edited: &EditedLines<'a>) -> Result<Option<(RawKey<'a>, KeySyntax)>, KeyError> {
        let Some((rules, now_unix_ms)) = self.rules else { return key::read_as(self.grammar, edited.key_lines()) };
        let read = key::read_as(self.grammar, edited.key_lines())?;
        if let Some((raw, _)) = &read {
            rules.check(raw, Some(now_unix_ms))?;
        }
        Ok(read)
    }

    /// The problem of a key that is refused.
    pub(super) fn problem(&self, why: KeyError) -> Problem {
        self.rules.map_or_else(|| Problem::key_invalid(why), |(rules, _)| Problem::key_refused(why, rules))
    }
}
