//! A connection of the upstream. What is well-formed goes through hyper, what breaks is written as bytes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{future, io};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::answer::UpstreamAnswer;
use super::fault::Failure;
use super::store::Reaction;
use super::{UpstreamState, react};

/// Between two bytes of an answer that drips. The whole answer takes longer than a client gives any attempt.
const DRIP: Duration = Duration::from_millis(400);

/// Serves a connection until it ends or breaks.
pub(super) async fn serve(stream: TcpStream, state: Arc<UpstreamState>) {
    let broken = Arc::new(Mutex::new(None));
    let told = Arc::clone(&broken);
    let service = service_fn(move |request| {
        let (state, broken) = (Arc::clone(&state), Arc::clone(&told));
        // hyper gives the connection back only where this can move.
        Box::pin(async move {
            match react(request, &state).await {
                Ok(Reaction::Answers(answer)) => answer.response(),
                Ok(Reaction::Breaks(failure, answer)) => {
                    *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some((failure, answer));
                    // An error makes hyper stop, and the connection is ours again.
                    Err(anyhow::anyhow!("it breaks"))
                }
                Err(error) => Err(error),
            }
        })
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // The result is an error if the connection breaks, which is what some faults are.
    drop(future::poll_fn(|context| connection.poll_without_shutdown(context)).await);
    let stream = connection.into_parts().io.into_inner();
    let broken = broken.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((failure, answer)) = broken {
        // The peer may go at any time.
        drop(fail(stream, failure, &answer).await);
    }
}

async fn fail(mut stream: TcpStream, failure: Failure, answer: &UpstreamAnswer) -> io::Result<()> {
    let sized = format!("content-length: {}", answer.body.len());
    let (first, _) = answer.body.split_at_checked(answer.body.len() / 2).unwrap_or_default();
    match failure {
        Failure::Hang | Failure::Says(_) => gone(&mut stream).await,
        Failure::Reset => stream.set_zero_linger(),
        Failure::ResetAfterHeaders => {
            stream.write_all(head(answer, &sized).as_bytes()).await?;
            stream.set_zero_linger()
        }
        Failure::Cut => {
            stream.write_all(format!("{}{first}", head(answer, &sized)).as_bytes()).await?;
            stream.shutdown().await
        }
        Failure::CutChunked => {
            let head = head(answer, "transfer-encoding: chunked");
            stream.write_all(format!("{head}{:x}\r\n{first}\r\n", first.len()).as_bytes()).await?;
            stream.shutdown().await
        }
        Failure::Drip => {
            stream.set_nodelay(true)?;
            stream.write_all(head(answer, &sized).as_bytes()).await?;
            for byte in answer.body.bytes() {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(DRIP).await;
            }
            gone(&mut stream).await
        }
        Failure::Garbage => {
            stream.write_all(b"this is no answer of HTTP\r\n\r\n").await?;
            stream.shutdown().await
        }
    }
}

fn head(answer: &UpstreamAnswer, framing: &str) -> String {
    let lines: String = answer.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {} Told\r\n{lines}{framing}\r\n\r\n", answer.status)
}

/// Waits until the peer has closed the connection.
async fn gone(stream: &mut TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}
