//! An upstream that answers the requests with one key, or with one path if no script has their key, in the order of a script. Tests with
//! different keys can run at once.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};

use e2e::wire::{Kind, Message, Reader};

/// What the upstream does with requests, in this order. The last entry is repeated.
pub(crate) type Script = &'static [ScriptedAnswer];

/// What the upstream does with one request.
pub(crate) enum ScriptedAnswer {
    /// It answers with this status, these header lines and this body.
    Says(u16, &'static [&'static str], &'static str),
    /// The same, with half of the body, and the connection is closed.
    Cut(u16, &'static [&'static str], &'static str),
    /// It says nothing, until the client has gone.
    Hangs,
    /// It closes the connection without an answer.
    Closes,
}
use ScriptedAnswer::{Closes, Cut, Hangs, Says};

/// A request that reached the upstream, and when.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedRequest {
    /// When it was there whole.
    pub(crate) at: Instant,
    /// The request.
    pub(crate) message: Message,
}

/// The scripts and the requests so far, by their names.
type Scripts = BTreeMap<String, (Script, Vec<ScriptedRequest>)>;

/// A running upstream. It ends with the process.
pub(crate) struct ScriptedUpstream {
    address: SocketAddr,
    scripts: Arc<Mutex<Scripts>>,
}

impl ScriptedUpstream {
    /// Listens on a free port.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
        let address = listener.local_addr()?;
        let scripts = Arc::new(Mutex::new(Scripts::new()));
        let shared = Arc::clone(&scripts);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let scripts = Arc::clone(&shared);
                // A connection that breaks shows in what the client sees.
                thread::spawn(move || drop(serve(stream, &scripts)));
            }
        });
        Ok(Self { address, scripts })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on requests get the answers of this script if what follows the last `:` of their key is `name`, or what follows the last `/`
    /// of their path.
    pub(crate) fn plays(&self, name: &str, script: Script) {
        lock(&self.scripts).insert(name.to_owned(), (script, Vec::new()));
    }

    /// The requests that got answers of this script, oldest first.
    pub(crate) fn requests(&self, name: &str) -> Vec<ScriptedRequest> {
        lock(&self.scripts).get(name).map(|(_, requests)| requests.clone()).unwrap_or_default()
    }
}

fn lock(scripts: &Mutex<Scripts>) -> MutexGuard<'_, Scripts> {
    scripts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: TcpStream, scripts: &Mutex<Scripts>) -> Result<()> {
    let mut connection = Reader::patient(stream)?;
    while let Some(mut message) = connection.head()? {
        connection.body(&mut message, Kind::Request)?;
        let key = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
        let key = String::from_utf8(key.map(|(_, value)| value.clone()).unwrap_or_default())?;
        let target = String::from_utf8_lossy(&message.start).split(' ').nth(1).unwrap_or_default().to_owned();
        let answer = {
            let mut scripts = lock(scripts);
            let ends = [key.rsplit(':').next(), target.rsplit('/').next()];
            let name = ends.into_iter().flatten().find(|end| scripts.contains_key(*end));
            let name = name.with_context(|| format!("no test has the key {key} or the path {target}"))?;
            let (script, requests) = scripts.get_mut(name).context("a script")?;
            let answer = script.get(requests.len()).or(script.last()).context("an empty script")?;
            requests.push(ScriptedRequest { at: Instant::now(), message });
            answer
        };
        let head = |status: u16, lines: &[&str], body: &str| {
            let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            format!("HTTP/1.1 {status} Told\r\n{lines}content-length: {}\r\n\r\n", body.len())
        };
        match answer {
            Says(status, lines, body) => {
                connection.write(format!("{}{body}", head(*status, lines, body)).as_bytes())?;
            }
            Cut(status, lines, body) => {
                let half = body.get(..body.len() / 2).unwrap_or_default();
                connection.write(format!("{}{half}", head(*status, lines, body)).as_bytes())?;
                return Ok(());
            }
            // The client's timeout ends the wait: the connection closes, or is used no more.
            Hangs => drop(connection.head()),
            Closes => return Ok(()),
        }
    }
    Ok(())
}
