//! A curl command that somebody pasted, as the request that curl would send (`man curl`). Only the options that change the
//! request count.

use super::{Files, PastedCommand, RequestInput, ansi_c, shell};
use lexopt::{Arg, ValueExt as _};
use std::ffi::OsString;

/// Options without a value that change nothing here.
const WITHOUT_EFFECT: &str = "silent show-error fail fail-with-body fail-early insecure location include verbose \
                              progress-bar no-progress-meter no-buffer tcp-nodelay no-keepalive http0.9 http1.0 \
                              http1.1 http2 http2-prior-knowledge http3 http3-only tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 \
                              tlsv1.3 ipv4 ipv6 remote-name remote-header-name create-dirs parallel raw path-as-is \
                              compressed negotiate ntlm digest basic anyauth location-trusted \
                              retry-all-errors retry-connrefused styled-output disable junk-session-cookies alpn \
                              buffer keepalive progress-meter sessionid compressed-ssh tcp-fastopen";
/// Options with a value that change nothing here.
const VALUE_WITHOUT_EFFECT: &str = "output write-out max-time connect-timeout retry retry-delay retry-max-time proxy \
                                    proxy-user noproxy cacert capath cert cert-type key key-type pass ciphers \
                                    resolve connect-to cookie-jar dump-header limit-rate interface unix-socket \
                                    abstract-unix-socket keepalive-time max-redirs trace trace-ascii stderr \
                                    speed-limit speed-time local-port dns-servers doh-url expect100-timeout \
                                    max-filesize time-cond netrc-file proto proto-default proto-redir tls-max curves \
                                    tls13-ciphers";
/// Short options.
const SHORT: &str = "s=silent S=show-error f=fail k=insecure L=location i=include v=verbose #=progress-bar \
                     N=no-buffer 0=http1.0 1=tlsv1 4=ipv4 6=ipv6 O=remote-name J=remote-header-name Z=parallel \
                     g=globoff q=disable j=junk-session-cookies I=head G=get o=output w=write-out m=max-time x=proxy \
                     U=proxy-user E=cert c=cookie-jar D=dump-header z=time-cond y=speed-time Y=speed-limit X=request \
                     H=header d=data u=user A=user-agent e=referer b=cookie F=form T=upload-file";
/// What stands in front of a command: a prompt of a shell.
const PROMPTS: [&str; 3] = ["$ ", "% ", "> "];
/// Commands that run the command behind them.
const RUNNERS: [&str; 6] = ["time", "sudo", "command", "exec", "env", "nohup"];

/// The parts of a command that together make the request.
#[derive(Default)]
struct Parts {
    method: Option<String>,
    urls: Vec<String>,
    /// The data so far
    data: Option<Vec<u8>>,
    /// What `--url-query` adds to the query
    query: Option<Vec<u8>>,
    get: bool,
    head: bool,
    json: bool,
    /// Braces and brackets of URLs are no lists
    globoff: bool,
}

/// Reads a curl command, and by `files` the files that it names.
///
/// # Errors
/// A sentence that says what to change.
pub fn parse(command: &str, files: &mut dyn Files) -> Result<RequestInput, String> {
    let command = command.replace("\r\n", "\n");
    let command = command.trim();
    let command = PROMPTS.iter().find_map(|prompt| command.strip_prefix(prompt)).unwrap_or(command).trim_start();
    if is_for_cmd(command) {
        return Err(
            "--curl: the command is written for cmd.exe: copy it for bash (\"Copy as cURL (bash)\" in browsers)"
                .to_owned(),
        );
    }
    if ansi_c::has_bytes(command) {
        return Err(
            "--curl: the command has a character of Unicode's last private area: write it as an escape".to_owned()
        );
    }
    let PastedCommand { words, replaced, notes } = shell::words(command)?;
    let mut words = words.into_iter().skip_while(|word| RUNNERS.contains(&word.as_str()) || is_assignment(word));
    if !words.next().is_some_and(|word| matches!(word.rsplit('/').next(), Some("curl" | "curl.exe"))) {
        return Err("--curl: the command does not begin with `curl`: paste only the curl command".to_owned());
    }
    let mut parser = lexopt::Parser::from_args(words.map(OsString::from));
    let (mut parts, mut request) = (Parts::default(), RequestInput { notes, ..RequestInput::default() });
    while let Some(arg) = parser.next().map_err(|error| wrong(&error))? {
        let name = match arg {
            Arg::Value(url) => {
                parts.urls.push(text("URL", &url.string().map_err(|error| wrong(&error))?)?);
                continue;
            }
            Arg::Long(name) => name.to_owned(),
            Arg::Short(letter) => long_name(letter).ok_or_else(|| unknown(&format!("-{letter}")))?.to_owned(),
        };
        match name.as_str() {
            "get" => parts.get = true,
            "head" => parts.head = true,
            "globoff" | "no-globoff" => parts.globoff = name == "globoff",
            "next" => {
                request.notes.push("The command has several requests (--next); the first one is explained.".to_owned());
                break;
            }
            // `--no-compressed` takes back `--compressed`.
            name if listed(WITHOUT_EFFECT, name.strip_prefix("no-").unwrap_or(name)) => {}
            name => {
                let value = parser.value().and_then(|value| value.string()).map_err(|error| wrong(&error))?;
                if !listed(VALUE_WITHOUT_EFFECT, name) {
                    parts.take(name, &value, &mut request, files)?;
                }
            }
        }
    }
    let mut request = parts.finish(request)?;
    told_replaced(&mut request, &replaced)?;
    Ok(request)
}

/// Whether the command is quoted for `cmd.exe`: with `^"`, or with a caret at the end of its first line.
fn is_for_cmd(command: &str) -> bool {
    let (first, more) = command.split_once('\n').unwrap_or((command, ""));
    let quote = command.find(['"', '\'']).and_then(|at| command.get(..at));
    quote.is_some_and(|before| before.ends_with('^')) || (first.ends_with('^') && !more.is_empty())
}

/// A value that has to be text.
fn text(what: &str, word: &str) -> Result<String, String> {
    utf8(what, ansi_c::bytes(word))
}

fn utf8(what: &str, bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| {
        format!("--curl: the {what} holds bytes that are no UTF-8, which only a request document can have")
    })
}

/// `NAME=value`, in front of a command
fn is_assignment(word: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Notes what only the shell of the command knows.
///
/// # Errors
/// The verdict depends on it: it stands in the method, in the URL or in the key.
fn told_replaced(request: &mut RequestInput, replaced: &[String]) -> Result<(), String> {
    let keys = request.headers.iter().filter(|(name, _)| name == "idempotency-key").map(|(_, value)| value);
    let decisive: Vec<&String> = [&request.method, &request.url].into_iter().chain(keys).collect();
    if let Some(text) = replaced.iter().find(|text| decisive.iter().any(|place| place.contains(*text))) {
        return Err(format!(
            "--curl: the shell would replace {text}, and its value is not known here: write the value instead"
        ));
    }
    if let Some(text) = replaced.first() {
        request.notes.push(format!(
            "The shell would replace {text}, but here it is taken as it was written. Write the value instead if the \
             verdict depends on it."
        ));
    }
    Ok(())
}

fn wrong(error: &lexopt::Error) -> String {
    format!("--curl: {error}")
}

fn unknown(option: &str) -> String {
    format!(
        "--curl: curl's option {option} is not known here: leave it out, or describe the request with --method, --url, -H"
    )
}

fn listed(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

fn long_name(letter: char) -> Option<&'static str> {
    SHORT.split_ascii_whitespace().find_map(|pair| pair.strip_prefix(letter)?.strip_prefix('='))
}

impl Parts {
    /// Takes an option that has a value and an effect.
    fn take(
        &mut self,
        name: &str,
        value: &str,
        request: &mut RequestInput,
        files: &mut dyn Files,
    ) -> Result<(), String> {
        let file = value.strip_prefix('@');
        let bytes = |files: &mut dyn Files| file.map_or_else(|| Ok(ansi_c::bytes(value)), |file| files.file(file));
        match name {
            "data" | "data-ascii" => {
                let mut data = bytes(files)?;
                if file.is_some() {
                    // curl leaves out the line breaks and the zero bytes of the file.
                    data.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
                }
                self.add(&data);
                return Ok(());
            }
            "data-raw" => {
                self.add(&ansi_c::bytes(value));
                return Ok(());
            }
            "data-binary" => {
                self.add(&bytes(files)?);
                return Ok(());
            }
            "data-urlencode" => {
                self.add(&encoded(value, files)?);
                return Ok(());
            }
            "json" => {
                let bytes = bytes(files)?;
                // Several --json are one text, without a separator.
                match &mut self.data {
                    Some(data) if self.json => data.extend(bytes),
                    _ => self.add(&bytes),
                }
                self.json = true;
                return Ok(());
            }
            _ => {}
        }
        let value = text(&format!("value of --{name}"), value)?;
        self.take_text(name, &value, request, files)
    }

    /// Takes an option whose value is text.
    fn take_text(
        &mut self,
        name: &str,
        value: &str,
        request: &mut RequestInput,
        files: &mut dyn Files,
    ) -> Result<(), String> {
        let file = value.strip_prefix('@');
        match name {
            "request" => self.method = Some(value.to_owned()),
            "url" => self.urls.push(value.to_owned()),
            "header" => match file {
                Some(file) => {
                    let lines = files.file(file)?;
                    for line in String::from_utf8_lossy(&lines).lines().filter(|line| !line.trim().is_empty()) {
                        request.add_header(line)?;
                    }
                }
                None => request.add_header(value)?,
            },
            "user-agent" => request.add_header(&format!("user-agent: {value}"))?,
            "referer" => request.add_header(&format!("referer: {value}"))?,
            "cookie" if value.contains('=') => request.add_header(&format!("cookie: {value}"))?,
            "cookie" => {}
            "oauth2-bearer" => request.add_header(&format!("authorization: Bearer {value}"))?,
            "user" => request.notes.push(
                "curl's option -u sends a name and a password. The header is left out, because the filter does not read it."
                    .to_owned(),
            ),
            "url-query" => {
                let added = match value.strip_prefix('+') {
                    Some(literal) => literal.as_bytes().to_vec(),
                    None => encoded(value, files)?,
                };
                join(&mut self.query, &added);
            }
            "form" | "upload-file" => {
                self.method.get_or_insert_with(|| (if name == "form" { "POST" } else { "PUT" }).to_owned());
                request.notes.push(format!(
                    "This command does not build the body of curl's option --{name}: the request is explained with an \
                     empty body."
                ));
            }
            _ => return Err(unknown(&format!("--{name}"))),
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) {
        join(&mut self.data, bytes);
    }

    /// Puts the parts together, with the method, the URL and the content type that curl would send.
    fn finish(mut self, mut request: RequestInput) -> Result<RequestInput, String> {
        let Some(url) = self.urls.first() else { return Err("--curl: the command has no URL".to_owned()) };
        let mut url = match url.split_once("://") {
            None => format!("http://{url}"),
            Some((scheme, rest)) => format!("{}://{rest}", scheme.to_ascii_lowercase()),
        };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err("--curl: the URL is neither http:// nor https://".to_owned());
        }
        if url.contains(|letter: char| letter == ' ' || letter.is_ascii_control()) {
            return Err(
                "--curl: the URL has a space or a control character in it, and curl sends no such URL".to_owned()
            );
        }
        // The brackets of an IPv6 address are no list.
        let without_address = url
            .split_once("://[")
            .map_or(url.as_str(), |(_, rest)| rest.split_once(']').map_or(rest, |(_, rest)| rest));
        if !self.globoff && without_address.contains(['{', '}', '[', ']']) {
            return Err(
                "--curl: curl makes a list of URLs of `{ }` and `[ ]` in one: write the URL that is meant, or add -g, with which curl \
                 sends them as they stand there"
                    .to_owned(),
            );
        }
        if self.urls.len() > 1 {
            request.notes.push(format!("The command has {} URLs; the first one is explained.", self.urls.len()));
        }
        if let Some(hash) = url.find('#') {
            url.truncate(hash);
        }
        let by_get = if self.get { self.data.take() } else { None };
        for query in [by_get, self.query.take()].into_iter().flatten() {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&utf8("query", query)?);
        }
        let by_data = if self.head {
            "HEAD"
        } else if self.data.is_some() {
            "POST"
        } else {
            "GET"
        };
        request.method = self.method.unwrap_or_else(|| by_data.to_owned());
        request.url = url;
        if let Some(data) = self.data {
            let content_type = if self.json { "application/json" } else { "application/x-www-form-urlencoded" };
            if !request.removed.iter().any(|name| name == "content-type") {
                request.add_missing_header("content-type", content_type);
            }
            request.body = data;
        }
        Ok(request)
    }
}

/// Adds a piece of data: curl joins the pieces by `&`.
fn join(data: &mut Option<Vec<u8>>, bytes: &[u8]) {
    match data {
        Some(data) => {
            data.push(b'&');
            data.extend(bytes);
        }
        None => *data = Some(bytes.to_vec()),
    }
}

/// What `--data-urlencode` makes of its value: `content`, `=content`, `name=content`, `@file`, `name@file`.
fn encoded(value: &str, files: &mut dyn Files) -> Result<Vec<u8>, String> {
    let (name, content) = match value.find(['=', '@']).and_then(|at| value.split_at_checked(at)) {
        Some((name, rest)) => match rest.strip_prefix('@') {
            Some(file) => (name, files.file(file)?),
            None => (name, ansi_c::bytes(rest.strip_prefix('=').unwrap_or(rest))),
        },
        None => ("", ansi_c::bytes(value)),
    };
    let mut out = ansi_c::bytes(name);
    if !name.is_empty() {
        out.push(b'=');
    }
    for byte in content {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else if byte == b' ' {
            out.push(b'+');
        } else {
            out.extend(format!("%{byte:02X}").into_bytes());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine without files.
    struct NoFiles;

    impl Files for NoFiles {
        fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
            Err(format!("{name}: no such file"))
        }
    }

    fn read(command: &str) -> RequestInput {
        parse(command, &mut NoFiles).unwrap_or_else(|why| panic!("{command}: {why}"))
    }

    fn error(command: &str) -> String {
        parse(command, &mut NoFiles).err().unwrap()
    }

    fn headers(request: &RequestInput) -> Vec<String> {
        request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn a_command_over_several_lines_is_one_request() {
        let request = read(
            "curl -sS -X POST 'https://api.example.com/orders?dry=1#top' \\\n  -H 'Idempotency-Key: \"8e03978e\"' \\\n  \
             --header \"content-type: application/json\" \\\n  -d '{\"a\": \"it'\\''s\"}' | jq .",
        );
        assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://api.example.com/orders?dry=1"));
        assert_eq!(headers(&request), ["idempotency-key: \"8e03978e\"", "content-type: application/json"]);
        assert_eq!(request.body, br#"{"a": "it's"}"#);
        assert!(request.notes.is_empty());
    }

    #[test]
    fn the_method_follows_from_the_data_as_in_curl() {
        for (command, method, url, body) in [
            ("curl h.example/a", "GET", "http://h.example/a", ""),
            ("curl -I https://h/a", "HEAD", "https://h/a", ""),
            ("curl https://h/a -d a=1 --data-raw @b --data-urlencode 'c=d e'", "POST", "https://h/a", "a=1&@b&c=d+e"),
            ("curl -G https://h/a -d a=1 --data-urlencode =x/y", "GET", "https://h/a?a=1&x%2Fy", ""),
            ("curl https://h/a?b --url-query c==d --url-query +e=f -d g", "POST", "https://h/a?b&c=%3Dd&e=f", "g"),
            ("% time sudo curl \\\r\n h.example/a \\\r\n -d a", "POST", "http://h.example/a", "a"),
            ("curl -g 'https://h/{a,b}[1-2]' --no-compressed", "GET", "https://h/{a,b}[1-2]", ""),
            ("curl 'http://[::1]:80/a?b'", "GET", "http://[::1]:80/a?b", ""),
            ("curl -G 'https://h/a' -d '{c,d}'", "GET", "https://h/a?{c,d}", ""),
            ("curl https://h/$'\\xc3\\xa4' -d $'\\303\\244\\x41'", "POST", "https://h/\u{e4}", "\u{e4}A"),
            ("curl -d a h/a;curl h/b", "POST", "http://h/a", "a"),
            ("curl -sXPUT --url https://h/a --json '{\"a\":' --json '1}'", "PUT", "https://h/a", "{\"a\":1}"),
            ("/usr/bin/curl --request PATCH https://h/a -o out.txt --compressed -m 5", "PATCH", "https://h/a", ""),
            ("$ curl -XDELETE https://h/a && echo done", "DELETE", "https://h/a", ""),
        ] {
            let request = read(command);
            let found = (request.method.as_str(), request.url.as_str(), String::from_utf8(request.body).unwrap());
            assert_eq!(found, (method, url, body.to_owned()), "{command}");
        }
        assert_eq!(read(r"curl h -d $'\xe2\x82\xac\xff'").body, b"\xe2\x82\xac\xff");
        assert_eq!(read(r"curl h --data-urlencode $'a=\xff \303'").body, b"a=%FF+%C3");
        assert_eq!(headers(&read("curl https://h/a -d a")), ["content-type: application/x-www-form-urlencoded"]);
        assert_eq!(headers(&read("curl https://h/a -d a -H 'Content-Type:' -H 'X-Empty;'")), ["x-empty: "]);
        assert_eq!(headers(&read("curl https://h/a --json 1")), ["content-type: application/json"]);
    }

    #[test]
    fn what_is_left_out_is_told() {
        let notes = |command: &str| read(command).notes.join(" ");
        assert!(
            notes("curl -u me:secret https://h/a").contains("-u") && !notes("curl -u me:secret h").contains("secret")
        );
        assert!(notes("curl https://h/a https://h/b").contains("2 URLs"));
        assert!(notes("curl https://h/a --next https://h/b").contains("--next"));
        assert!(notes("curl -F a=@b https://h/a").contains("--form"));
        assert!(notes("curl h -H \"Authorization: Bearer $TOKEN\"").contains("replace $TOKEN,"));
        assert!(notes("curl h -H 'a: $TOKEN' -d `date`").contains("replace `date`,"));
        assert!(notes("curl h?a=1&b=2").contains("first `&`"));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_says_what_to_change() {
        for (command, told) in [
            ("wget https://h/a", "does not begin with `curl`"),
            ("curl 'https://h/a", "is not closed"),
            ("curl -X POST", "no URL"),
            ("curl https://h/a -d", "missing argument"),
            ("curl --no-such https://h/a", "--no-such"),
            ("curl -\u{e4} https://h/a", "is not known here"),
            ("curl https://h/a -H nothing", "Name: value"),
            ("curl https://h/a -d @/no/such/file", "/no/such/file"),
            ("curl ftp://h/a", "neither http:// nor https://"),
            ("curl h -H \"Idempotency-Key: $(uuidgen)\"", "replace $(uuidgen)"),
            ("curl \"https://$HOST/orders\"", "replace $HOST"),
            ("curl -X $METHOD h", "replace $METHOD"),
            ("curl ^\"https://h/a^\" -H ^\"idempotency-key: %KEY%^\"", "cmd.exe"),
            ("curl https://h/a ^\n -d x", "cmd.exe"),
            ("curl 'https://h/{a,b}'", "add -g"),
            ("curl 'https://h/{id}'", "add -g"),
            ("curl 'https://h/a[1-3]' -g --no-globoff", "add -g"),
            ("curl 'http://[::1]/[a]'", "add -g"),
            ("curl -X POST \\ \n 'https://h/a'", "line 1"),
            ("curl 'https://h/a b'", "a space"),
            ("curl https://h/a $'\\xff'/ -H x:y -X $'\\xe2'", "no UTF-8"),
            ("curl https://h/a -H $'a: \\xff'", "--header holds bytes"),
            ("curl -G https://h/a -d $'\\xff'", "the query holds bytes"),
            ("curl -d @- h <body.json", "takes its input from `<`"),
            ("curl h -H $'a: b\\r\\nc: d'", "must not contain a line break"),
        ] {
            assert!(error(command).contains(told), "{command}: {}", error(command));
        }
    }
}
