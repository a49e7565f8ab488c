//! A relay between a client and the gateway: it counts requests that the backend never sees, and resets a connection.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use e2e::runner::runtime;
use e2e::wire::{Kind, Message, Reader};

/// A running relay. It ends with the process.
pub(crate) struct Relay {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Relay {
    /// Listens on a free port. With `resets` the connection of the first request is reset when the gateway has answered it, and the
    /// client gets nothing of this answer.
    pub(crate) fn start(gateway: SocketAddr, resets: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                // A connection that breaks shows in what the client sees.
                thread::spawn(move || drop(relay(stream, gateway, resets, &counter)));
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

fn relay(stream: TcpStream, gateway: SocketAddr, resets: bool, counter: &AtomicUsize) -> Result<()> {
    let socket = stream.try_clone()?;
    let mut client = Reader::patient(stream)?;
    while let Some(mut request) = client.head()? {
        client.body(&mut request, Kind::Request)?;
        let is_first = counter.fetch_add(1, Ordering::SeqCst) == 0;
        let mut upstream = Reader::new(TcpStream::connect(gateway)?)?;
        upstream.write(&written(&request))?;
        let mut answer = upstream.head()?.context("the gateway closed the connection")?;
        upstream.body(&mut answer, Kind::Response { body: true })?;
        if resets && is_first {
            socket.set_nonblocking(true)?;
            let _runtime = runtime()?.enter();
            tokio::net::TcpStream::from_std(socket)?.set_zero_linger()?;
            return Ok(());
        }
        client.write(&written(&answer))?;
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
