//! A relay between a client and the gateway: it counts requests that the backend never sees, and breaks connections.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use e2e::runner::runtime;
use e2e::wire::{Kind, Message, Reader};

/// What becomes of the answer to the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It reaches the client.
    Whole,
    /// The client gets half of its body, and the connection ends.
    Half,
    /// The client gets nothing of it, and the connection is reset.
    Nothing,
}

/// A running relay. It ends with the process.
pub(crate) struct Relay {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Relay {
    /// Listens on a free port. The first request's answer goes to the client as `first` says, all others are whole.
    pub(crate) fn start(gateway: SocketAddr, first: Passage) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                // A connection that breaks shows in what the client sees.
                thread::spawn(move || drop(relay(stream, gateway, first, &counter)));
            }
        });
        Ok(Self { address, requests })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have come.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn relay(stream: TcpStream, gateway: SocketAddr, first: Passage, counter: &AtomicUsize) -> Result<()> {
    let socket = stream.try_clone()?;
    let mut client = Reader::patient(stream)?;
    while let Some(mut request) = client.head()? {
        client.body(&mut request, Kind::Request)?;
        let is_first = counter.fetch_add(1, Ordering::SeqCst) == 0;
        let mut upstream = Reader::new(TcpStream::connect(gateway)?)?;
        upstream.write(&written(&request))?;
        let mut answer = upstream.head()?.context("the gateway closed the connection")?;
        upstream.body(&mut answer, Kind::Response { body: true })?;
        let bytes = written(&answer);
        match if is_first { first } else { Passage::Whole } {
            Passage::Whole => client.write(&bytes)?,
            Passage::Half => {
                client.write(bytes.get(..bytes.len() - answer.body.len() / 2).unwrap_or_default())?;
                client.end();
                return Ok(());
            }
            Passage::Nothing => {
                socket.set_nonblocking(true)?;
                let _runtime = runtime()?.enter();
                tokio::net::TcpStream::from_std(socket)?.set_zero_linger()?;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A message with `content-length` as it was on the wire.
fn written(message: &Message) -> Vec<u8> {
    let mut bytes = [&message.start[..], b"\r\n"].concat();
    for (name, value) in &message.headers {
        bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(&message.body);
    bytes
}
