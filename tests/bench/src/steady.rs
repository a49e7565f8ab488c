//! A steady stream of requests: a fixed number in a second, whatever the answers take. Latency counts from the moment at
//! which a request should have been sent, so that a gateway that stands still is charged for all requests that had to wait,
//! and not only for those that were under way.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use crate::client::{Connection, Request};
use crate::statistics::{Summary, quantile};

/// Each sends its share of the requests, one after the other. They are many, because a gateway that turns to every connection
/// once in a while answers at most this many requests in that while.
const CONNECTIONS: u32 = 64;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// When it should have been sent, from the stream's beginning
    pub(crate) at: Duration,
    /// From then until its answer
    pub(crate) latency: Duration,
}

/// Has the cases take turns, as many rounds as asked for, and says what it is at. Returns the turns of each case.
pub(crate) fn in_turns<C, T>(
    what: &str,
    rounds: usize,
    length: Duration,
    cases: &[C],
    turn: impl Fn(&C) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut turns: Vec<Vec<T>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        eprintln!("{what}: round {round} of {rounds}, {} streams of {} s", cases.len(), length.as_secs());
        for (case, turns) in cases.iter().zip(&mut turns) {
            turns.push(turn(case)?);
        }
    }
    Ok(turns)
}

/// Sends `rate` requests a second for `length`, beginning at `began`. Every answer must have the status 200.
pub(crate) fn stream(port: u16, request: &Request, rate: u32, began: Instant, length: Duration) -> Result<Vec<Timed>> {
    let one = |first: u32| -> Result<Vec<Timed>> {
        let mut request = request.clone();
        let mut connection = Connection::open(port)?;
        let mut timed = Vec::new();
        for number in (first..).step_by(CONNECTIONS as usize) {
            let at = Duration::from_secs(1) * number / rate;
            if at >= length {
                break;
            }
            thread::sleep(at.saturating_sub(began.elapsed()));
            connection.exchange(&mut request, number as usize)?;
            timed.push(Timed { at, latency: began.elapsed().saturating_sub(at) });
        }
        Ok(timed)
    };
    let shares = thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|first| scope.spawn(move || one(first))).collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a client panicked"))));
        joined.collect::<Result<Vec<_>>>()
    })?;
    Ok(shares.concat())
}

/// The latencies of a stream, in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies([f64; 4]);

impl Latencies {
    /// The names of the four numbers.
    pub(crate) const NAMES: [&str; 4] = ["p50", "p99", "p99.9", "max"];

    pub(crate) fn of(timed: &[Timed]) -> Self {
        let mut sorted: Vec<f64> = timed.iter().map(|one| one.latency.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        Self([0.5, 0.99, 0.999, 1.0].map(|part| quantile(&sorted, part)))
    }

    /// The median of each number over several streams.
    pub(crate) fn median(streams: &[Self]) -> Self {
        let mut medians = [f64::NAN; 4];
        for (place, median) in medians.iter_mut().enumerate() {
            *median = Summary::of(streams.iter().filter_map(|stream| stream.0.get(place).copied())).median;
        }
        Self(medians)
    }

    /// The four numbers, for a table.
    pub(crate) fn columns(self) -> String {
        self.0.map(|number| format!("{number:9.1}")).concat()
    }

    pub(crate) fn to_json(self) -> Value {
        let [p50, p99, p999, max] = self.0.map(|number| (number * 1e3).round() / 1e3);
        json!({"p50_ms": p50, "p99_ms": p99, "p99_9_ms": p999, "max_ms": max})
    }
}

/// The names of the four numbers, for the head of a table.
pub(crate) fn heads() -> String {
    Latencies::NAMES.map(|name| format!("{name:>9}")).concat()
}
