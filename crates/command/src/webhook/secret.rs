//! Secrets that a user gives: from a variable, a file or standard input. The command line of a process can be read by others,
//! so a secret is no argument.

use crate::input::{read, variable};
use std::path::Path;

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecretSource {
    /// `env:NAME`
    Variable(String),
    /// `@FILE`
    File(String),
    /// `-`
    Input,
}

impl SecretSource {
    /// Parses the argument.
    ///
    /// # Errors
    /// It is none of these. The text, which may be the secret itself, is not repeated.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("env:").filter(|name| !name.is_empty()) {
            return Ok(Self::Variable(name.to_owned()));
        }
        match text.strip_prefix('@') {
            Some(file) if !file.is_empty() => Ok(Self::File(file.to_owned())),
            _ if text == "-" => Ok(Self::Input),
            _ => Err(
                "--secret: give the secret as env:NAME, @FILE or - (standard input); an argument can be seen by others"
                    .to_owned(),
            ),
        }
    }

    /// Reads the secret. One line break at the end of a file or of standard input is no part of it.
    ///
    /// # Errors
    /// It cannot be read, or is empty.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        let mut secret = match self {
            Self::Variable(name) => variable(name).ok_or_else(|| format!("the variable {name} is not set"))?,
            Self::File(name) => read(Path::new(name))?,
            Self::Input => read(Path::new("-"))?,
        };
        if !matches!(self, Self::Variable(_)) && secret.last() == Some(&b'\n') {
            secret.pop();
            if secret.last() == Some(&b'\r') {
                secret.pop();
            }
        }
        if secret.is_empty() { Err("the secret is empty".to_owned()) } else { Ok(secret) }
    }

    /// The word of a shell's command that expands to it; `None` if there is none: for standard input, and for a variable whose
    /// name is no name of a shell (POSIX, XBD 3.216 "Name").
    pub(crate) fn in_shell(&self) -> Option<String> {
        match self {
            Self::Variable(name) => {
                let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && !name.starts_with(|letter: char| letter.is_ascii_digit());
                is_name.then(|| format!("\"${{{name}}}\""))
            }
            // `--` would not help: cat reads standard input for a file of the name `-`.
            Self::File(name) if name.starts_with('-') => {
                Some(format!("\"$(cat {})\"", shell_words::quote(&format!("./{name}"))))
            }
            Self::File(name) => Some(format!("\"$(cat {})\"", shell_words::quote(name))),
            Self::Input => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_no_argument() {
        assert_eq!(SecretSource::parse("env:A"), Ok(SecretSource::Variable("A".to_owned())));
        for (source, word) in [
            ("env:A_1", Some("\"${A_1}\"")),
            ("env:A-B", None),
            ("env:1A", None),
            ("env:A}$(id)", None),
            ("@a b", Some("\"$(cat 'a b')\"")),
            ("@-b", Some("\"$(cat ./-b)\"")),
            ("@a'$(id)", Some("\"$(cat 'a'\\''$(id)')\"")),
            ("-", None),
        ] {
            assert_eq!(SecretSource::parse(source).unwrap().in_shell().as_deref(), word, "{source}");
        }
        assert_eq!(SecretSource::parse("-"), Ok(SecretSource::Input));
        for bad in ["", "env:", "@", "planted"] {
            assert!(!SecretSource::parse(bad).unwrap_err().contains("planted"), "{bad}");
        }
    }

    #[test]
    fn the_line_break_of_a_file_is_no_part_of_its_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        for (text, expected) in
            [("a", Some("a")), ("a\n", Some("a")), ("a\r\n", Some("a")), ("a\n\n", Some("a\n")), ("\n", None)]
        {
            std::fs::write(&file, text).unwrap();
            let read = SecretSource::File(file.display().to_string()).read().ok();
            assert_eq!(read.as_deref(), expected.map(str::as_bytes), "{text:?}");
        }
    }
}
