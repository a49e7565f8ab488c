//! `--module` of the resources for Kubernetes: a file that is here, or where the proxies get the module, with its digest.

use super::module::{ModuleFile, ModuleKind, has_checksum};
use std::path::{Path, PathBuf};

/// A module, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModuleSource {
    /// A file that is here; the proxies have it, too
    File(PathBuf),
    /// An image, or a file that is not here
    Url(String),
}

impl ModuleSource {
    /// Reads `FILE`, `oci://REGISTRY/IMAGE[:TAG]`, `https://…`, `http://…` or `file:///…`.
    ///
    /// # Errors
    /// The sentence says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Self::File(PathBuf::from(text))) };
        match scheme {
            "oci" if rest.contains('@') => {
                Err("name the image by its tag or without one, and write its digest as --module-digest".to_owned())
            }
            "file" if !rest.starts_with('/') => Err("write the whole path, file:///…".to_owned()),
            "oci" | "https" | "http" | "file" if !rest.is_empty() => Ok(Self::Url(text.to_owned())),
            _ => Err("write a file, oci://REGISTRY/IMAGE:TAG, https://… or file:///…".to_owned()),
        }
    }

    /// The module for a gateway that has files in `directory`; with an image or another URL this stands in the place of the path.
    ///
    /// # Errors
    /// The digest is missing or would change nothing, or the file cannot be read; the sentence says what to write.
    pub(crate) fn find(&self, digest: Option<&str>, directory: &Path, kind: ModuleKind) -> Result<ModuleFile, String> {
        match (self, digest) {
            (Self::File(file), None) => ModuleFile::read(file, Some(directory), kind),
            (Self::File(file), Some(_)) => Err(format!(
                "--module-digest would change nothing here: the digest of {} is computed; leave it out",
                file.display()
            )),
            (Self::Url(url), None) => {
                let of = if url.starts_with("oci:") { "the image's digest" } else { "the SHA-256 of the module" };
                Err(format!("--module {url}: what is there can be replaced; add --module-digest sha256:DIGEST, {of}"))
            }
            (Self::Url(url), Some(digest)) => {
                let path = url.strip_prefix("file://").unwrap_or(url).to_owned();
                let hashed_name = has_checksum(&path, digest);
                Ok(ModuleFile { path, sha256: Some(digest.to_owned()), hashed_name })
            }
        }
    }
}

/// The digits of `sha256:DIGEST`.
///
/// # Errors
/// It is no such digest.
pub(crate) fn digest(text: &str) -> Result<String, String> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.bytes().all(hex));
    digits.map(str::to_owned).ok_or_else(|| "write sha256: and 64 digits from 0 to 9 and a to f".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_urls_are_read() {
        assert_eq!(ModuleSource::parse("dist/m.wasm"), Ok(ModuleSource::File("dist/m.wasm".into())));
        for url in ["oci://127.0.0.1:5000/edge:0.1.0", "https://m.example/m.wasm", "http://m/m", "file:///m.wasm"] {
            assert_eq!(ModuleSource::parse(url), Ok(ModuleSource::Url(url.to_owned())));
        }
        for text in ["oci://", "ftp://m/m.wasm", "file://m.wasm", "oci://registry/edge@sha256:00"] {
            assert!(ModuleSource::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_digest_has_its_algorithm_and_all_digits() {
        let digits = "0123456789abcdef".repeat(4);
        assert_eq!(digest(&format!("sha256:{digits}")), Ok(digits.clone()));
        for text in [
            digits.clone(),
            format!("sha512:{digits}"),
            "sha256:00".to_owned(),
            format!("sha256:{}", digits.to_uppercase()),
        ] {
            assert!(digest(&text).is_err(), "{text}");
        }
    }
}
