//! Tells one step: what was sent, what came back, what reached the backend, and why that is right.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::http::{Reply, Request};
use harness::openbao::OpenBao;
use harness::restate::Invocation;
use harness::senders::Senders;
use harness::service::RecordedCall;
use harness::stack::Stack;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::callers::{Caller, curl};
use crate::style::{Style, say, wrap};
use crate::table::Table;

/// Answer headers that a reader should see; the rest is Envoy's own.
const TELLING: [&str; 10] = [
    "idempotent-replayed",
    "idempotency-status",
    "retry-after",
    "idempotency-retry",
    "x-operation-id",
    "location",
    "content-type",
    "allow",
    "link",
    "www-authenticate",
];

/// How long something is waited for, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// What [`key`] says of an invocation whose request had no key.
const NO_KEY: &str = "none";

/// Where the filter asks the guard.
const CLAIM: &str = "IdempotencyGuard/claim";

/// Answer headers that would tell clients what stands behind the gateway.
const BACKENDS_OWN: [&str; 2] = ["x-restate-", "access-control-"];

/// Sends, looks, prints, and keeps the table.
pub(crate) struct Narrator<'a> {
    stack: &'a Stack,
    /// Where clients send their requests
    gateway: String,
    style: Style,
    pub(crate) table: Table,
    calls: usize,
    invocations: HashMap<String, Invocation>,
    answers: usize,
    leaks: usize,
}

/// What happened behind the gateway since the last look.
pub(crate) struct Backend {
    /// Handler runs.
    pub(crate) runs: Vec<RecordedCall>,
    /// Invocations that Restate had not had before, without the filter's own claims at the guard.
    pub(crate) new: Vec<Invocation>,
    /// Effects on what was watched.
    pub(crate) effects: u64,
}

/// A request's answer, and what happened behind the gateway.
pub(crate) struct Told {
    pub(crate) reply: Reply,
    pub(crate) backend: Backend,
}

impl<'a> Narrator<'a> {
    pub(crate) fn new(stack: &'a Stack, style: Style) -> Self {
        Self {
            stack,
            gateway: stack.gateway_url(),
            style,
            table: Table::default(),
            calls: 0,
            invocations: HashMap::new(),
            answers: 0,
            leaks: 0,
        }
    }

    /// The third parties whose webhooks the filter believes.
    pub(crate) fn senders(&self) -> &Senders {
        &self.stack.senders
    }

    /// The secret store, if it is there.
    pub(crate) fn openbao(&self) -> Option<&'a Mutex<OpenBao>> {
        self.stack.openbao.as_ref()
    }

    /// What is running.
    pub(crate) fn stack(&self) -> &'a Stack {
        self.stack
    }

    /// Sends requests to another gateway from here on.
    pub(crate) fn use_gateway(&mut self, url: String) {
        self.gateway = url;
    }

    /// Begins a step.
    pub(crate) fn step(&mut self, title: &str) {
        let number = self.table.step(title);
        say(format!("\n{}", self.style.bold(&format!("{number}. {title}"))));
    }

    /// Tells of a step that is not played.
    pub(crate) fn leave_out(&mut self, title: &str, why: &str) {
        let number = self.table.leave_out(title, why);
        say(format!("\n{}\n  left out: {why}", self.style.bold(&format!("{number}. {title}"))));
    }

    /// Sends one request and tells all about it. `watch` is the id whose effects are counted, if there can be any.
    pub(crate) async fn tell(
        &mut self,
        caller: Option<&Caller>,
        request: Request,
        watch: Option<&str>,
    ) -> Result<Told> {
        print_request(&request, caller);
        self.told(caller, request, watch).await
    }

    async fn told(&mut self, caller: Option<&Caller>, request: Request, watch: Option<&str>) -> Result<Told> {
        let reply = self.send(caller, request).await?;
        print_reply(&reply);
        let backend = self.look(watch, reply.header("x-operation-id")).await?;
        Ok(Told { reply, backend })
    }

    /// As [`Narrator::tell`], for what a third party sends.
    pub(crate) async fn deliver(&mut self, sender: &str, request: Request, watch: Option<&str>) -> Result<Told> {
        print_sent(sender, &request, None);
        self.told(None, request, watch).await
    }

    /// Sends one request and prints it with its answer's gist; what reached the backend is for [`Narrator::look`].
    pub(crate) async fn probe(&mut self, caller: Option<&Caller>, request: Request) -> Result<Reply> {
        print_request(&request, caller);
        let reply = self.send(caller, request).await?;
        say(wrap("  came back  ", format!("{} {}", status(&reply), reply.code()).trim_end()));
        Ok(reply)
    }

    /// Sends the same request many times at once; prints it once.
    pub(crate) async fn burst(&mut self, caller: &Caller, request: Request, times: usize) -> Result<Vec<Reply>> {
        print_request(&request, Some(caller));
        say(wrap("             ", &format!("… {times} times at once, over {times} connections")));
        let (request, url) = (self.signed(Some(caller), request)?, self.gateway.clone());
        let mut requests = JoinSet::new();
        for _ in 0..times {
            let (request, url) = (request.clone(), url.clone());
            requests.spawn(async move { request.send(&url).await });
        }
        let replies: Vec<Reply> = requests.join_all().await.into_iter().map(answered).collect();
        replies.iter().for_each(|reply| self.note(reply));
        Ok(replies)
    }

    /// Sends one request and breaks the connection as soon as the handler runs.
    pub(crate) async fn give_up(&self, caller: &Caller, request: Request) -> Result<()> {
        print_request(&request, Some(caller));
        let (request, url) = (self.signed(Some(caller), request)?, self.gateway.clone());
        let waiting = tokio::spawn(async move { request.send(&url).await });
        let start = Instant::now();
        while self.stack.service.calls(self.calls).await?.total == self.calls {
            ensure!(start.elapsed() < PATIENCE, "the handler does not run");
            tokio::time::sleep(POLL).await;
        }
        waiting.abort();
        say(wrap("  came back  ", "nothing: the connection broke"));
        Ok(())
    }

    /// Asks Restate itself, past the gateway, as somebody in the backend's network could.
    pub(crate) async fn past_the_gateway(&self, request: &Request) -> Result<Reply> {
        request.send(&self.stack.restate.ingress_url()).await
    }

    /// Prints what happened behind the gateway since the last look.
    pub(crate) async fn look(&mut self, watch: Option<&str>, operation: Option<&str>) -> Result<Backend> {
        let calls = self.stack.service.calls(self.calls).await?;
        self.calls = calls.total;
        let (mut new, mut claims) = (Vec::new(), 0);
        for invocation in self.stack.restate.invocations().await? {
            if self.invocations.insert(invocation.id.clone(), invocation.clone()).is_none() {
                if invocation.target == CLAIM {
                    claims += 1;
                } else {
                    new.push(invocation);
                }
            }
        }
        let all = self.stack.service.effects().await?;
        let effects = watch.and_then(|id| all.get(id)).copied().unwrap_or(0);
        let backend = Backend { runs: calls.calls, new, effects };

        let mut lines = Vec::new();
        if claims > 0 {
            lines.push(format!("guard: {claims} first request under a key"));
        }
        // The filter puts a tag behind the id, which belongs to the caller.
        let operation = operation.map(|id| id.split_once('.').map_or(id, |(id, _)| id));
        match backend.new.as_slice() {
            [] => match operation.and_then(|id| self.invocations.get(id)) {
                Some(first) if key(first) == NO_KEY => {
                    lines.push("Restate: nothing new; it kept the result of that invocation".to_owned());
                }
                Some(first) => lines.push(format!("Restate: nothing new; it kept the result under {}", key(first))),
                None => lines.push("Restate: nothing".to_owned()),
            },
            new => lines.extend(new.iter().map(|one| {
                format!(
                    "Restate: new invocation of {}
         key: {}",
                    one.target,
                    key(one)
                )
            })),
        }
        match backend.runs.as_slice() {
            [] => lines.push("handler: did not run".to_owned()),
            runs => lines.extend(runs.iter().map(seen_by_handler)),
        }
        lines.extend(watch.map(|id| format!("effects on {id} so far: {effects}")));
        say(wrap("  backend    ", &lines.join("\n")));
        Ok(backend)
    }

    /// Ends a step's telling.
    pub(crate) fn why(&self, text: &str) {
        say(wrap("  why        ", text));
    }

    /// Adds a check to the table, and says so at once if it differs.
    pub(crate) fn check(&mut self, what: &str, expected: impl Display, seen: impl Display) {
        if let Some(difference) = self.table.check(what, expected, seen) {
            say(self.style.red(wrap("  DIFFERS    ", &difference).trim_end()));
        }
    }

    /// How many answers there were, and how many of them named the backend in a header or in the body.
    pub(crate) fn leaks(&self) -> (usize, usize) {
        (self.answers, self.leaks)
    }

    async fn send(&mut self, caller: Option<&Caller>, request: Request) -> Result<Reply> {
        let reply = answered(self.signed(caller, request)?.send(&self.gateway).await);
        self.note(&reply);
        Ok(reply)
    }

    fn signed(&self, caller: Option<&Caller>, request: Request) -> Result<Request> {
        Ok(match caller {
            Some(caller) => request.bearer(&caller.token(&self.stack.signer)?),
            None => request,
        })
    }

    fn note(&mut self, reply: &Reply) {
        self.answers += 1;
        let own = |name: &str| BACKENDS_OWN.iter().any(|prefix| name.starts_with(prefix));
        let leaks = reply.headers.iter().any(|(name, _)| own(name)) || reply.text().to_lowercase().contains("restate");
        self.leaks += usize::from(leaks);
    }
}

/// A connection that breaks is a result like any other: status 0, with the reason as the body.
fn answered(result: Result<Reply>) -> Reply {
    result.unwrap_or_else(|error| Reply { status: 0, headers: Vec::new(), body: format!("{error:#}").into_bytes() })
}

fn print_request(request: &Request, caller: Option<&Caller>) {
    let who = caller.map_or_else(|| "somebody without a token".to_owned(), Caller::introduction);
    print_sent(&who, request, caller);
}

fn print_sent(who: &str, request: &Request, caller: Option<&Caller>) {
    say(wrap("  sent by    ", who));
    for line in curl(request, caller).lines() {
        say(format!("             {line}"));
    }
}

pub(crate) fn print_reply(reply: &Reply) {
    let mut lines = vec![status(reply)];
    for (name, value) in &reply.headers {
        if TELLING.contains(&name.as_str()) {
            lines.push(format!("{name}: {}", String::from_utf8_lossy(value)));
        }
    }
    lines.push(reply.text());
    say(wrap("  came back  ", &lines.join("\n")));
}

fn status(reply: &Reply) -> String {
    if reply.status == 0 { "no answer".to_owned() } else { format!("HTTP {}", reply.status) }
}

/// The key that an invocation is stored for. Restate makes one up, a ULID, where the request had none.
pub(crate) fn key(invocation: &Invocation) -> &str {
    match invocation.idempotency_key.as_deref() {
        Some(key) if !is_ulid(key) => key,
        _ => NO_KEY,
    }
}

fn is_ulid(key: &str) -> bool {
    key.len() == 26 && key.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

fn seen_by_handler(call: &RecordedCall) -> String {
    let header = |name| format!("{name}: {}", call.header(name).unwrap_or("-"));
    let identity = ["x-tenant-id", "x-project-id", "x-subject"].map(header).join(", ");
    format!("handler: {} ran and saw\n{identity}", call.handler)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(key: Option<&str>) -> Invocation {
        Invocation {
            id: "inv_1".to_owned(),
            target: "Refunds/create".to_owned(),
            idempotency_key: key.map(str::to_owned),
            status: "completed".to_owned(),
        }
    }

    #[test]
    fn a_key_of_restates_own_is_none() {
        assert_eq!(key(&invocation(Some("01M7YHH4Q06AZBDJ5WKDKSB7HR"))), "none");
        assert_eq!(key(&invocation(None)), "none");
        assert_eq!(key(&invocation(Some("t-acme:p:user:a:k"))), "t-acme:p:user:a:k");
        assert_eq!(key(&invocation(Some("raw"))), "raw");
    }
}
