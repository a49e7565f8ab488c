//! Timer, clock and metrics.

use super::{get, run, said, vm};

#[test]
fn ticks_come_when_the_test_says_and_the_clock_stands_still() {
    let mut vm = vm(r#"
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32)
            (call $check (call $raw_tick (i32.const 250))) (i32.const 1))
        (func (export "proxy_on_tick") (param i32)
            (call $check (call $raw_now (i32.const 8)))
            (if (i64.eq (i64.load (i32.const 8)) (i64.const 77)) (then (call $say «now»))))"#);
    assert_eq!(vm.tick_period_ms(), 250);
    vm.tick();
    assert!(said(&vm).is_empty());
    vm.set_now(77);
    vm.tick();
    assert_eq!(said(&vm), ["now"]);
}

#[test]
fn metrics_of_one_name_are_one_series() {
    let mut vm = vm(r#"
        (func $with (param $id i32) (param $value i64) (call $check (call $raw_increment (local.get $id) (local.get $value))))
        (func $new (param $kind i32) (param $name i32) (param $size i32) (result i32)
            (call $check (call $raw_define (local.get $kind) (local.get $name) (local.get $size) (i32.const 8)))
            (i32.load (i32.const 8)))
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
            (local $c i32) (local $g i32) (local $h i32)
            (local.set $c (call $new (i32.const 0) «c;a=b»))
            (local.set $g (call $new (i32.const 1) «g»))
            (local.set $h (call $new (i32.const 2) «h»))
            (call $with (local.get $c) (i64.const 2))
            (call $with (call $new (i32.const 0) «c;a=b») (i64.const 3))
            (call $with (local.get $g) (i64.const 5))
            (call $with (local.get $g) (i64.const -1))
            (call $check (call $raw_record (local.get $h) (i64.const 9)))
            (call $say «errors»)
            (call $with (local.get $c) (i64.const 0))
            (call $with (local.get $h) (i64.const 1))
            (call $check (call $raw_metric (local.get $h) (i32.const 8)))
            (call $with (i32.const 400) (i64.const 1))
            (call $check (call $raw_metric (local.get $c) (i32.const 8)))
            (i64.eq (i64.load (i32.const 8)) (i64.const 5)) (if (then (call $say «5»)))
            (drop (call $new (i32.const 3) «x»))
            (i32.const 0))"#);
    run(&mut vm, &get());
    assert_eq!(vm.metrics().counters(), [("c;a=b", 5)].into());
    assert_eq!(vm.metrics().gauges(), [("g", 4)].into());
    assert_eq!(vm.metrics().histograms()["h"], [9]);
    assert_eq!(vm.metrics().series(), 3);
    assert_eq!(said(&vm), ["errors", "!02", "!02", "!02", "!01", "5", "!02"]);
}
