//! Answers that are too long to keep. They pass from the API to the client whose request made it work, if front and handler of that call are in
//! one program.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::reply::Body;

/// Who waits for the answer of which call, by the call's nonce.
#[derive(Clone, Default)]
pub(super) struct LongAnswers(Arc<Mutex<HashMap<String, oneshot::Sender<Body>>>>);

/// A front that waits. When it is dropped, nobody waits any more.
pub(super) struct Awaited {
    answers: LongAnswers,
    nonce: String,
    body: oneshot::Receiver<Body>,
}

impl LongAnswers {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Body>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn expect(&self, nonce: &str) -> Awaited {
        let (give, body) = oneshot::channel();
        self.waiting().insert(nonce.to_owned(), give);
        Awaited { answers: self.clone(), nonce: nonce.to_owned(), body }
    }

    /// Hands the body of a call's answer over. If nobody waits for it, its connection ends.
    pub(super) fn give(&self, nonce: &str, body: Body) {
        let give = self.waiting().remove(nonce);
        drop(give.map(|give| give.send(body)));
    }
}

impl Awaited {
    pub(super) fn take(&mut self) -> Option<Body> {
        self.body.try_recv().ok()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.answers.waiting().remove(&self.nonce);
    }
}
