//! The host's own rules, each with a guest of a few lines that would see them broken.
//!
//! In a guest's text `«…»` stands for the address and the length of those bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod calls;
mod failures;
mod headers;
mod metrics;
mod pauses;
mod properties;
mod replies;
mod start;

use testkit::http::{Headers, Message};
use wasm_tests::host::{Exchange, LogLine, Options, Program, StreamInfo, Vm};

/// A guest with the functions of `tests/guests/prelude.wat` in front.
fn program(text: &str) -> Program {
    let text = format!("(module\n{}\n{text}\n", include_str!("../guests/prelude.wat"));
    let (mut module, mut data, mut rest, mut at) = (String::new(), String::new(), text.as_str(), 1024);
    while let Some((before, tail)) = rest.split_once('«') {
        let (bytes, after) = tail.split_once('»').expect("« without »");
        let escapes = bytes.matches('\\').count();
        let length = bytes.len() - 2 * escapes;
        module += &format!("{before}(i32.const {at}) (i32.const {length})");
        data += &format!("(data (i32.const {at}) \"{bytes}\")\n");
        at += length;
        rest = after;
    }
    compile(&format!("{module}{rest}{data})"))
}

fn compile(text: &str) -> Program {
    Program::new(&wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

fn vm(text: &str) -> Vm {
    vm_with(text, Options::default())
}

fn vm_with(text: &str, options: Options) -> Vm {
    Vm::boot(&program(text), options).unwrap_or_else(|error| panic!("{error}"))
}

fn post() -> Headers {
    Headers::from([(":method", "POST"), (":path", "/p?q=1"), (":authority", "a.example"), ("x-a", "1"), ("x-a", "2")])
}

fn get() -> Message {
    Message::new([(":method", "GET"), (":path", "/"), (":authority", "a.example")], "")
}

fn ok() -> Message {
    Message::new([(":status", "200"), ("x-up", "yes")], "")
}

fn run(vm: &mut Vm, request: &Message) -> Exchange {
    vm.exchange(StreamInfo::default(), request, &ok())
}

fn said(vm: &Vm) -> Vec<&str> {
    vm.logs().iter().map(|LogLine { message, .. }| message.as_str()).collect()
}

fn all<'a>(headers: &'a Headers, name: &str) -> Vec<&'a str> {
    headers.all(name).map(|value| std::str::from_utf8(value).unwrap()).collect()
}

fn upstream(exchange: &Exchange) -> &Message {
    exchange.upstream.as_ref().expect("the upstream got nothing")
}

fn client(exchange: &Exchange) -> &Message {
    exchange.client.as_ref().expect("the client got nothing")
}

fn status(exchange: &Exchange) -> Option<u16> {
    client(exchange).headers.status()
}
