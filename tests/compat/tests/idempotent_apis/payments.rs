//! The payment provider that the examples call: it counts what it is asked to do, and answers as the test says.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use e2e::wire::{Kind, PATIENCE, Reader};
use serde::Deserialize;
use serde_json::Value;

/// How the provider answers a call.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Payment {
    /// With this status, and the id of a payment.
    Status(u16),
    /// With 200 and a text that is no JSON.
    Nonsense(Nonsense),
    /// With this status, as soon as [`Payments::release`] is called.
    #[serde(skip)]
    Held(u16),
}

/// The word `nonsense` in a table.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Nonsense {
    Nonsense,
}

/// A call: the operation, and the key that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) operation: String,
    pub(crate) key: Option<String>,
}

/// What the provider knows about one item.
#[derive(Default)]
struct OrderedItem {
    answers: Vec<Payment>,
    calls: Vec<Call>,
    is_released: bool,
}

#[derive(Default)]
struct State {
    items: Mutex<BTreeMap<String, OrderedItem>>,
    changed: Condvar,
}

impl State {
    fn items(&self) -> MutexGuard<'_, BTreeMap<String, OrderedItem>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running provider. It ends with the process.
pub(crate) struct Payments {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

impl Payments {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
        let (address, state) = (listener.local_addr()?, Arc::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A connection that breaks shows in what the API answers.
                thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        Ok(Self { address, state })
    }

    /// What it answers to the calls for an item, in this order, and 200 to all further ones.
    pub(crate) fn answer(&self, item: &str, answers: &[Payment]) {
        self.state.items().entry(item.to_owned()).or_default().answers = answers.to_vec();
    }

    /// The calls for an item so far.
    pub(crate) fn calls(&self, item: &str) -> Vec<Call> {
        self.state.items().get(item).map(|item| item.calls.clone()).unwrap_or_default()
    }

    /// Waits until there are so many calls for an item.
    pub(crate) fn until_called(&self, item: &str, times: usize) -> Result<()> {
        let items = self.state.items();
        let is_missing =
            |items: &mut BTreeMap<String, OrderedItem>| items.get(item).is_none_or(|item| item.calls.len() < times);
        let waited = self.state.changed.wait_timeout_while(items, PATIENCE, is_missing);
        let (_items, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        ensure!(!timeout.timed_out(), "the provider got no {times} calls for {item} within {PATIENCE:?}");
        Ok(())
    }

    /// Answers the calls for an item that are held.
    pub(crate) fn release(&self, item: &str) {
        self.state.items().entry(item.to_owned()).or_default().is_released = true;
        self.state.changed.notify_all();
    }
}

fn serve(stream: TcpStream, state: &State) -> Result<()> {
    let mut connection = Reader::patient(stream)?;
    while let Some(mut request) = connection.head()? {
        connection.body(&mut request, Kind::Request)?;
        let line = String::from_utf8_lossy(&request.start).into_owned();
        let operation = line.split(['/', ' ']).nth(2).context("a request line")?.to_owned();
        let key = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
        let key = key.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
        let body: Value = serde_json::from_slice(&request.body)?;
        let name = body.get("item").and_then(Value::as_str).context("no item")?.to_owned();

        let mut items = state.items();
        let item = items.entry(name.clone()).or_default();
        item.calls.push(Call { operation, key });
        let number = item.calls.len();
        let answer = item.answers.get(number - 1).copied().unwrap_or(Payment::Status(200));
        state.changed.notify_all();
        if matches!(answer, Payment::Held(_)) {
            let held =
                |items: &mut BTreeMap<String, OrderedItem>| items.get(&name).is_some_and(|item| !item.is_released);
            items = state.changed.wait_while(items, held).unwrap_or_else(PoisonError::into_inner);
        }
        drop(items);
        let (status, body) = match answer {
            Payment::Status(status) | Payment::Held(status) => (status, format!("{{\"id\":\"{name}-{number}\"}}")),
            Payment::Nonsense(_) => (200, "<html>".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        connection.write(format!("{head}{body}").as_bytes())?;
    }
    Ok(())
}
