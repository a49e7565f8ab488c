//! Recognises file paths in the text of errors: those of Unix, of containers and of Windows, in any JSON escaping.

use crate::json::lex;
use std::ops::Range;

/// The replacement of a path.
const GONE: &[u8] = "…".as_bytes();

/// The first directories of absolute paths, on machines and in containers.
const ROOTS: [&str; 41] = [
    "Applications",
    "Library",
    "System",
    "Users",
    "Volumes",
    "Windows",
    "app",
    "bin",
    "boot",
    "build",
    "code",
    "data",
    "dev",
    "etc",
    "function",
    "github",
    "go",
    "home",
    "layers",
    "lib",
    "lib64",
    "media",
    "mnt",
    "nix",
    "opt",
    "private",
    "proc",
    "restate-data",
    "root",
    "run",
    "sbin",
    "src",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "work",
    "workdir",
    "workspace",
    "workspaces",
];
/// The member of [`ROOTS`] that is also the first segment of pointers into JSON:API documents.
const JSON_API: &[u8] = b"data";

/// File extensions of source and object files.
const SOURCES: [&str; 33] = [
    "c", "cc", "cjs", "cpp", "cs", "dart", "dll", "ex", "exs", "fs", "go", "h", "hpp", "jar", "java", "js", "jsx",
    "kt", "kts", "mjs", "mts", "php", "py", "pyc", "rb", "rs", "scala", "so", "swift", "ts", "tsx", "vue", "zig",
];

/// Package directories. Any text with one of them is a path.
const PACKAGES: [&[u8]; 3] = [b"node_modules/", b"site-packages/", b"dist-packages/"];

/// Stands for any character beyond ASCII.
const BEYOND: u8 = 0x80;
/// Stands for a slash that is still escaped in the decoded string (`\/` or `\u002f`), as in JSON within JSON.
const ESCAPED_SLASH: u8 = 2;

/// Appends the content of a JSON string to `out`, with `…` for each file path; all other bytes stay the same. Returns
/// whether there was a path. With `pointer`, the string is a pointer into a document, so `/data/…` is no file path.
pub(super) fn clean(raw: &[u8], pointer: bool, out: &mut Vec<u8>) -> bool {
    let mut found = false;
    // Whether a Windows path and a space have just ended: the path may go on, since a directory name can contain a
    // space.
    let mut broken = false;
    let (mut word, mut ends) = (Vec::new(), Vec::new());
    let mut rest = raw;
    while let Some((first, after)) = twice_read(rest) {
        if !is_word_byte(first) {
            broken &= first == b' ';
            out.extend(written(rest, 0..rest.len().saturating_sub(after.len())));
            rest = after;
            continue;
        }
        word.clear();
        ends.clear();
        let mut left = rest;
        while let Some((byte, after)) = twice_read(left).filter(|(byte, _)| is_word_byte(*byte)) {
            word.push(byte);
            ends.push(rest.len().saturating_sub(after.len()));
            left = after;
        }
        let offset = |index: usize| index.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or_default();
        let mut done = 0;
        let goes_on = broken && word.contains(&b'\\');
        let files = if goes_on { one(0, word.len()) } else { files(&word, pointer) };
        broken = files.last().is_some_and(|last| word.get(last.clone()).is_some_and(|text| text.contains(&b'\\')));
        for Range { start, end } in files {
            found = true;
            out.extend(written(rest, done..offset(start)));
            out.extend(GONE);
            done = offset(end);
        }
        out.extend(written(rest, done..offset(word.len())));
        rest = left;
    }
    found
}

fn written(text: &[u8], range: Range<usize>) -> &[u8] {
    text.get(range).unwrap_or_default()
}

/// Reads one character of a JSON string's content. Returns it and the rest.
fn read(text: &[u8]) -> Option<(u8, &[u8])> {
    let (byte, rest) = match text {
        [b'\\', b'u', digits @ ..] => {
            let (unit, rest) = lex::unit(digits)?;
            (u8::try_from(unit).unwrap_or(BEYOND), rest)
        }
        [b'\\', b'n' | b'r' | b't' | b'b' | b'f', rest @ ..] => (b'\n', rest),
        [b'\\', other, rest @ ..] | [other, rest @ ..] => (*other, rest),
        [] => return None,
    };
    Some(match byte {
        0..0x20 => (b'\n', rest),
        BEYOND.. => (BEYOND, rest),
        _ => (byte, rest),
    })
}

/// [`read`], with a slash that is escaped twice as [`ESCAPED_SLASH`].
fn twice_read(text: &[u8]) -> Option<(u8, &[u8])> {
    let (byte, rest) = read(text)?;
    if byte == b'\\' {
        if let Some((b'/', after)) = read(rest) {
            return Some((ESCAPED_SLASH, after));
        }
        if let [b'u', b'0', b'0', b'2', b'f' | b'F', after @ ..] = rest {
            return Some((ESCAPED_SLASH, after));
        }
    }
    Some((byte, rest))
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'.' | b'_' | b'~' | b'@' | b'+' | b'-' | b'/' | b':' | b'\\' | b'$' | ESCAPED_SLASH | BEYOND)
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\' | ESCAPED_SLASH)
}

fn one(start: usize, end: usize) -> Vec<Range<usize>> {
    std::iter::once(start..end).collect()
}

/// The ranges of file paths in a word, in order.
fn files(word: &[u8], pointer: bool) -> Vec<Range<usize>> {
    // Characters beyond ASCII at the ends are taken as quotation marks, those in the middle as a part of the path.
    let Some(first) = word.iter().position(|byte| *byte != BEYOND) else { return Vec::new() };
    let end = word.iter().rposition(|byte| *byte != BEYOND).map_or(0, |last| last + 1);
    let plain: Vec<u8> =
        written(word, 0..end).iter().map(|byte| if *byte == ESCAPED_SLASH { b'/' } else { *byte }).collect();
    if let Some(start) = windows_path(&plain) {
        return one(start, end);
    }
    if let Some(start) = position(&plain, b"file:/") {
        return one(start, end);
    }
    let whole = written(&plain, first..end);
    if is_url(whole) {
        return Vec::new();
    }
    if whole.contains(&b'\\') && (is_source(whole, is_separator) || is_rooted(whole, pointer)) {
        return one(first, end);
    }
    // A remaining backslash is an escape, such as that of a line break in JSON within JSON, and separates words.
    let mut found = Vec::new();
    let mut start = first;
    while start < end {
        let stop = position(written(&plain, start..end), b"\\").map_or(end, |length| start + length);
        if let Some(begin) = file_begins(written(&plain, start..stop), written(word, start..stop), pointer) {
            found.push(start + begin..stop);
        }
        let letter = matches!(plain.get(stop + 1), Some(b'n' | b'r' | b't' | b'b' | b'f'));
        start = stop + 1 + usize::from(letter);
    }
    found
}

/// The index at which a path begins in a piece of a word; the path ends with the piece. In `written`, escaped slashes
/// are [`ESCAPED_SLASH`].
fn file_begins(piece: &[u8], written: &[u8], pointer: bool) -> Option<usize> {
    let is_home = piece.starts_with(b"~/") && piece.len() > 2;
    let is_above = piece.starts_with(b"../") && piece.iter().any(u8::is_ascii_alphanumeric);
    let is_package = PACKAGES.iter().any(|part| position(piece, part).is_some());
    if is_home || is_above || is_package || is_source(piece, |byte| byte == b'/') {
        return Some(0);
    }
    let mut before = None;
    for (at, (byte, as_written)) in piece.iter().zip(written).enumerate() {
        // An escaped slash can also be a backslash in front of a path.
        let begins = match before {
            None | Some(b':' | b'@' | b'+' | b'-' | b'~' | b'$' | BEYOND) => true,
            Some(other) => other != b'/' && *as_written == ESCAPED_SLASH,
        };
        if begins && *byte == b'/' && piece.get(at..).is_some_and(|rest| is_rooted(rest, pointer)) {
            return Some(at);
        }
        before = Some(*byte);
    }
    None
}

/// The index at which a path with a drive (`C:\app`) or a server (`\\server\share`) begins.
fn windows_path(word: &[u8]) -> Option<usize> {
    let mut before = 0;
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let begins = match rest {
            [b'\\', b'\\', server @ ..] => before != b'\\' && is_share(server),
            _ => !before.is_ascii_alphanumeric() && has_drive(rest),
        };
        if begins {
            return Some(word.len() - rest.len());
        }
        before = *first;
        rest = after;
    }
    None
}

fn has_drive(text: &[u8]) -> bool {
    let [letter, b':', separator, next, ..] = text else { return false };
    // `x://` begins a URL.
    letter.is_ascii_alphabetic() && is_separator(*separator) && (*separator, *next) != (b'/', b'/')
}

/// Whether the text after two backslashes names a server and a share.
fn is_share(text: &[u8]) -> bool {
    let mut names = text.split(|byte| is_separator(*byte)).filter(|name| !name.is_empty());
    let is_server = |name: &[u8]| {
        name.len() > 1
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'$'))
    };
    names.next().is_some_and(is_server) && names.next().is_some()
}

/// Whether the word begins with a scheme of at least two letters and `://`.
fn is_url(word: &[u8]) -> bool {
    let scheme = position(word, b"://").and_then(|end| word.get(..end));
    scheme.is_some_and(|scheme| {
        scheme.len() > 1 && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
    })
}

/// Whether the word is the path of a source file, or a file and a line number.
fn is_source(word: &[u8], is_separator: fn(u8) -> bool) -> bool {
    let path = trimmed(word, |byte| matches!(byte, b':' | b'.'));
    let name = trimmed(path, |byte| byte.is_ascii_digit() || byte == b':');
    let has_line = path.get(name.len()) == Some(&b':');
    let extension = name.iter().rposition(|byte| *byte == b'.').and_then(|dot| name.get(dot + 1..));
    let is_source = extension.is_some_and(|extension| SOURCES.iter().any(|known| known.as_bytes() == extension));
    is_source && (has_line || name.iter().any(|byte| is_separator(*byte)))
}

/// Whether the path begins at the root of a file system and has at least two names.
fn is_rooted(path: &[u8], pointer: bool) -> bool {
    let mut names = path.split(|byte| is_separator(*byte));
    let from_root = names.next() == Some(b"");
    let mut names = names.filter(|name| !name.is_empty());
    let first = names.next().unwrap_or_default();
    let known = ROOTS.iter().any(|root| root.as_bytes().eq_ignore_ascii_case(first));
    from_root && known && !(pointer && first == JSON_API) && names.next().is_some()
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The text without the bytes at its end for which `is_cut` is true.
fn trimmed(mut text: &[u8], is_cut: fn(u8) -> bool) -> &[u8] {
    while let [rest @ .., last] = text {
        if !is_cut(*last) {
            break;
        }
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of the inside of a JSON string.
    fn cleaned(raw: &str) -> String {
        let mut out = Vec::new();
        let found = clean(raw.as_bytes(), false, &mut out);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(found, out != raw, "{raw}");
        out
    }

    #[test]
    fn paths_of_files_go_wherever_they_stand() {
        for (message, expected) in [
            ("open '/srv/app/secret.json': no such file", "open '…': no such file"),
            (
                r"boom\n    at run (file:///app/dist/index.js:10:5)\n    at /app/x.ts:3",
                r"boom\n    at run (…)\n    at …",
            ),
            ("panicked at src/main.rs:10:5: no", "panicked at … no"),
            ("handlers.py:7", "…"),
            ("in /home/builder/x, /usr/lib/y.", "in …, …"),
            ("app/node_modules/lib/index", "…"),
            ("at jar:file:/srv/app.jar!/a", "at jar:…!/a"),
            ("cwd=/srv/app env:/etc/env", "cwd=… env:…"),
            ("in ~/keys/a or ../../keys/a", "in … or …"),
            (r"a\n/var/lib/x", r"a\n…"),
            ("//srv//app", "…"),
            ("x:///srv/app", "x:…"),
        ] {
            assert_eq!(cleaned(message), expected, "{message}");
        }
    }

    #[test]
    fn paths_in_containers_go() {
        for path in ["/app/server", "/data/keys.pem", "/workspace/a", "/workspaces/a/b", "/code/a", "/run/secrets/a"] {
            assert_eq!(cleaned(&format!("read {path}: no")), "read … no", "{path}");
        }
    }

    #[test]
    fn escapes_hide_no_path() {
        for (message, expected) in [
            (r"at \/srv\/app\/x", "at …"),
            (r"at \u002fsrv\u002Fapp", "at …"),
            (r"at /s\u0072v/app", "at …"),
            (r"\u0066ile:///a/b", "…"),
            // JSON inside of JSON.
            (r#"{\"path\":\"\\/srv\\/app\\/x\"}"#, r#"{\"path\":\"…\"}"#),
            (r#"{\"path\":\"\\u002fsrv\\u002fapp\"}"#, r#"{\"path\":\"…\"}"#),
            (r"boom\\n/srv/app/x\\n", r"boom\\n…\\n"),
            (r"a\\/var/lib/x", "a…"),
        ] {
            assert_eq!(cleaned(message), expected, "{message}");
        }
    }

    #[test]
    fn windows_paths_go() {
        for (message, expected) in [
            (r"open 'C:\\app\\x.js': no", "open '…': no"),
            (r"open C:/app/x", "open …"),
            (r"at (c:\\new\\table:10)", "at (…)"),
            (r"at C:\u005capp\u005cx", "at …"),
            (r#"{\"a\":\"C:\\\\app\\\\x\"}"#, r#"{\"a\":\"…\"}"#),
            (r"in \\\\server\\share\\x", "in …"),
            (r"in \\\\?\\C:\\x", r"in \\\\?\\…"),
            (r"in D:\\Program Files\\App\\x.", "in … …"),
            (r"at dist\\index.js:10:5", "at …"),
            (r"in \\Users\\bob\\x", "in …"),
        ] {
            assert_eq!(cleaned(message), expected, "{message}");
        }
    }

    #[test]
    fn letters_beyond_ascii_are_part_of_a_path_and_quotation_marks_are_not() {
        for (message, expected) in [
            ("„/srv/app“ fehlt", "„…“ fehlt"),
            ("/home/jürgen/app", "…"),
            (r"/home/j\u00fcrgen/app", "…"),
            ("“src/main.rs:7”", "“…”"),
            ("é/srv/app", "é…"),
        ] {
            assert_eq!(cleaned(message), expected, "{message}");
        }
    }

    #[test]
    fn what_is_no_path_of_a_file_stays() {
        for untouched in [
            "no /api/v1/orders/17",
            "see https://docs.example.com/var/x.js",
            r"see https:\/\/docs.example.com\/var\/x.js",
            r"see https:\\/\\/docs.example.com\\/var\\/x.js",
            "/items/0/name is not a number",
            "1/2 of 3.5",
            "at 10:30:05",
            "node.js and Vue.js are fine",
            "/tmp",
            "~/ or ../ or ~",
            "orders/data/17",
            r"\u0002srv\u0002app",
            "k:value x://host/a",
            r"\\\\server \\\\d\\w",
            "card 4242 was declined.",
            r"has to match ^\\d{4}-\\d{2}\\.\\w+$",
            r#"he said \"no\"\tand left"#,
            r"a\\b \\\\ c\\n",
            "\u{1f600} \\ud83d\\ude00 \\ud83d",
            "N/A, and/or",
        ] {
            assert_eq!(cleaned(untouched), untouched);
        }
    }
}
