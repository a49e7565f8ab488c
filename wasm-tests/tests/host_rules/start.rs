//! Start of a module: its imports and exports, its configuration, its environment.

use testkit::http::Message;
use wasm_tests::host::{BootError, Ending, Options, StreamInfo, Vm};

use super::{client, compile, post, program, said, upstream, vm, vm_with};

#[test]
fn an_unknown_import_is_named() {
    let text = r#"(module (import "env" "proxy_log" (func (param i32 i32 i32) (result i32)))
        (import "env" "proxy_teleport" (func)) (import "wasi_snapshot_preview1" "random_get" (func)))"#;
    let error = Vm::boot(&compile(text), Options::default()).unwrap_err();
    let BootError::Unfit(why) = error else { panic!("{error}") };
    assert!(why.contains("env.proxy_teleport, wasi_snapshot_preview1.random_get"), "{why}");
    assert!(!why.contains("proxy_log"), "{why}");
}

#[test]
fn an_import_of_another_type_is_refused() {
    for name in ["proxy_log", "proxy_done"] {
        let text = format!(r#"(module (import "env" "{name}" (func (param i64))))"#);
        let error = Vm::boot(&compile(&text), Options::default()).unwrap_err();
        assert!(matches!(error, BootError::Unfit(_)), "{error}");
    }
}

#[test]
fn a_module_needs_the_abi_a_memory_and_an_allocator() {
    let abi = r#"(func (export "proxy_abi_version_0_2_1"))"#;
    for (text, why) in [
        ("(module)".to_owned(), "proxy_abi_version_0_2_1"),
        (format!("(module {abi})"), "memory"),
        (format!(r#"(module {abi} (memory (export "memory") 1))"#), "allocator"),
    ] {
        let error = Vm::boot(&compile(&text), Options::default()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn callbacks_that_are_not_exported_are_not_called() {
    let mut vm = vm("");
    let request = Message::new(post(), "body").with_trailers([("x-t", "1")]);
    let response = Message::new([(":status", "201")], "answer").with_trailers([("x-u", "2")]);
    let exchange = vm.exchange(StreamInfo::default(), &request, &response);
    assert_eq!(upstream(&exchange), &request);
    assert_eq!(client(&exchange), &response);
    assert_eq!(exchange.ending, Ending::Answered);
}

#[test]
fn initialize_may_log_and_nothing_else() {
    let mut fine = vm(r#"(func (export "_initialize") (call $say «hello»))"#);
    assert_eq!(said(&fine), ["hello"]);
    assert!(fine.take_failures().is_empty());

    let guest = program(r#"(func (export "_initialize") (drop (call $raw_tick (i32.const 5))))"#);
    let error = Vm::boot(&guest, Options::default()).unwrap_err();
    assert!(matches!(error, BootError::Trapped { .. }), "{error}");
    assert!(error.to_string().contains("proxy_set_tick_period_milliseconds is not allowed in _initialize"), "{error}");
}

#[test]
fn configure_reads_its_configuration_and_may_refuse() {
    let text = r#"
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (call $buffer (i32.const 6)) (i32.const 1))
        (func (export "proxy_on_configure") (param i32 i32) (result i32)
            (call $buffer (i32.const 7)) (i32.eq (local.get 1) (i32.const 4)))
        (func (export "proxy_on_tick") (param i32) (call $buffer (i32.const 7)) (call $buffer (i32.const 6)))"#;
    let options = |configuration: &str| Options {
        configuration: configuration.into(),
        vm_configuration: b"vm".to_vec(),
        ..Options::default()
    };
    let mut vm = vm_with(text, options("four"));
    assert_eq!(said(&vm), ["=vm", "=four"]);
    vm.tick();
    assert_eq!(said(&vm)[2..], ["!01", "=vm"], "the plugin configuration belongs to configure");
    assert_eq!(vm.take_failures(), ["the test ticks a VM that set no tick period"]);

    let error = Vm::boot(&program(text), options("seventh")).unwrap_err();
    let BootError::Refused { callback, logs, .. } = error else { panic!("{error}") };
    assert_eq!((callback, logs[1].message.as_str()), ("proxy_on_configure", "=seventh"));
}

#[test]
fn the_environment_is_read_through_wasi() {
    let text = r#"
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32)
            (call $check (call $environ_sizes (i32.const 8) (i32.const 4)))
            (call $check (call $environ (i32.const 512) (i32.const 600)))
            (i32.store (i32.const 0) (i32.load (i32.const 512)))
            (call $show (i32.const 0))
            ;; the second pointer leads to the second entry
            (call $say (i32.load (i32.const 516)) (i32.const 3))
            (i32.load (i32.const 8)))"#;
    let environment = [("A", "x y"), ("B2", "")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let vm = vm_with(text, Options { environment, ..Options::default() });
    assert_eq!(said(&vm), ["=A=x y\0B2=\0", "B2="]);
    assert!(matches!(Vm::boot(&program(text), Options::default()), Err(BootError::Refused { .. })), "no entries");
}
