//! What `check` looks for: a lint, with its severity and its texts.

/// Where the texts of all lints are.
const PAGE: &str = "docs/lints.md";

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// It works, and probably not as intended.
    Warning,
    /// It does not start, or it breaks a promise of the contract.
    Error,
}

impl Severity {
    /// The word for it, the same in all formats but SARIF's level, which happens to be the same.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that `check` looks for.
#[derive(Debug)]
pub struct Lint {
    /// The name, for `--deny` and `--allow`
    pub name: &'static str,
    /// How bad a finding is
    pub severity: Severity,
    /// What it finds, in a few words
    pub summary: &'static str,
    /// Why that is bad
    pub why: &'static str,
    /// What to write instead
    pub instead: &'static str,
}

/// Declares lints: a static for each of them, and the list of all in the order in which they are written.
macro_rules! lints {
    (
        $(#[$about:meta])*
        $visibility:vis $list:ident;
        $($lint:ident {
            name: $name:literal,
            severity: $severity:ident,
            summary: $summary:literal,
            why: $why:literal,
            instead: $instead:literal,
        })+
    ) => {
        $(
            #[doc = $summary]
            $visibility static $lint: $crate::lints::diagnostics::lint::Lint = $crate::lints::diagnostics::lint::Lint {
                name: $name,
                severity: $crate::lints::diagnostics::lint::Severity::$severity,
                summary: $summary,
                why: $why,
                instead: $instead,
            };
        )+

        $(#[$about])*
        $visibility static $list: &[&$crate::lints::diagnostics::lint::Lint] = &[$(&$lint),+];
    };
}
pub(crate) use lints;

impl Lint {
    /// Where a person reads more about it.
    pub fn page(&self) -> String {
        format!("{PAGE}#{}", self.name)
    }
}
