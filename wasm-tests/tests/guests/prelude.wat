  ;; What every guest of tests/host_rules.rs starts from. Helpers that observe log what they saw: "=bytes" for a value,
  ;; "!status" for a failed host call.
  (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
  (import "env" "proxy_get_header_map_value" (func $raw_get (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_header_map_pairs" (func $raw_pairs (param i32 i32 i32) (result i32)))
  (import "env" "proxy_replace_header_map_value" (func $raw_set (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_add_header_map_value" (func $raw_add (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_remove_header_map_value" (func $raw_remove (param i32 i32 i32) (result i32)))
  (import "env" "proxy_get_buffer_bytes" (func $raw_buffer (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_buffer_bytes" (func $raw_set_buffer (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_property" (func $raw_property (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_property" (func $raw_set_property (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_send_local_response" (func $raw_reply (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_continue_stream" (func $raw_continue (param i32) (result i32)))
  (import "env" "proxy_close_stream" (func $raw_close (param i32) (result i32)))
  (import "env" "proxy_set_effective_context" (func $raw_effective (param i32) (result i32)))
  (import "env" "proxy_http_call"
    (func $raw_call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_tick_period_milliseconds" (func $raw_tick (param i32) (result i32)))
  (import "env" "proxy_define_metric" (func $raw_define (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_increment_metric" (func $raw_increment (param i32 i64) (result i32)))
  (import "env" "proxy_record_metric" (func $raw_record (param i32 i64) (result i32)))
  (import "env" "proxy_get_metric" (func $raw_metric (param i32 i32) (result i32)))
  (import "env" "proxy_get_shared_data" (func $raw_shared (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_current_time_nanoseconds" (func $raw_now (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))

  (memory (export "memory") 64)
  (func (export "proxy_abi_version_0_2_1"))

  ;; 0: where a host call puts a pointer; 4: a length; 8: a number or token; 16: text to log. Texts start at 1024, the
  ;; heap at 65536; nothing is ever freed.
  (global $heap (mut i32) (i32.const 65536))
  (func $malloc (export "malloc") (param $size i32) (result i32)
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get $size))))

  (func $say (param $at i32) (param $size i32)
    (drop (call $log (i32.const 2) (local.get $at) (local.get $size))))

  ;; Logs "!" and the status in two digits, unless it is 0.
  (func $check (param $status i32)
    (if (local.get $status) (then
      (i32.store8 (i32.const 16) (i32.const 0x21))
      (i32.store8 (i32.const 17) (i32.add (i32.const 0x30) (i32.div_u (local.get $status) (i32.const 10))))
      (i32.store8 (i32.const 18) (i32.add (i32.const 0x30) (i32.rem_u (local.get $status) (i32.const 10))))
      (call $say (i32.const 16) (i32.const 3)))))

  ;; Logs "=" and the bytes a host call handed over, or its status.
  (func $show (param $status i32)
    (local $at i32)
    (if (local.get $status) (then (call $check (local.get $status))) (else
      (local.set $at (call $malloc (i32.add (i32.load (i32.const 4)) (i32.const 1))))
      (i32.store8 (local.get $at) (i32.const 0x3d))
      (memory.copy (i32.add (local.get $at) (i32.const 1)) (i32.load (i32.const 0)) (i32.load (i32.const 4)))
      (call $say (local.get $at) (i32.add (i32.load (i32.const 4)) (i32.const 1))))))

  (func $get (param $map i32) (param $key i32) (param $size i32)
    (call $show (call $raw_get (local.get $map) (local.get $key) (local.get $size) (i32.const 0) (i32.const 4))))
  (func $pairs (param $map i32)
    (call $show (call $raw_pairs (local.get $map) (i32.const 0) (i32.const 4))))
  (func $set (param $map i32) (param $key i32) (param $size i32) (param $value i32) (param $length i32)
    (call $check (call $raw_set (local.get $map) (local.get $key) (local.get $size) (local.get $value)
      (local.get $length))))
  (func $add (param $map i32) (param $key i32) (param $size i32) (param $value i32) (param $length i32)
    (call $check (call $raw_add (local.get $map) (local.get $key) (local.get $size) (local.get $value)
      (local.get $length))))
  (func $remove (param $map i32) (param $key i32) (param $size i32)
    (call $check (call $raw_remove (local.get $map) (local.get $key) (local.get $size))))
  (func $buffer (param $kind i32)
    (call $show (call $raw_buffer (local.get $kind) (i32.const 0) (i32.const 1000000) (i32.const 0) (i32.const 4))))
  ;; Reads a property and keeps its bytes as the property "kept", or logs the status.
  (func $property (param $path i32) (param $size i32)
    (local $status i32)
    (local.set $status (call $raw_property (local.get $path) (local.get $size) (i32.const 0) (i32.const 4)))
    (if (local.get $status) (then (call $check (local.get $status))) (else
      (call $check (call $raw_set_property «kept» (i32.load (i32.const 0)) (i32.load (i32.const 4)))))))
  (func $reply (param $code i32) (param $body i32) (param $size i32)
    (call $check (call $raw_reply (local.get $code) «because of this» (local.get $body) (local.get $size)
      «\01\00\00\00\08\00\00\00\05\00\00\00X-Reason\00rules\00» (i32.const -1))))
  (func $continue (param $kind i32) (call $check (call $raw_continue (local.get $kind))))
  (func $effective (param $id i32) (call $check (call $raw_effective (local.get $id))))
