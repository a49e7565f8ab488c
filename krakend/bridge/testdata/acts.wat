;; A guest for the tests of the bridge. The first letter of a request's path says what it does:
;;   t, l  traps, or loops, in the request's headers        d  traps in the request's body
;;   g     loops in the allocator
;;   y     sets a tick of 10 ms, which loops
;;   f     calls as c does, and loops with the reply
;;   r, s  traps in the response's headers, or loops in its body
;;   x     traps when the stream is deleted
;;   p, q  pauses the request, or the response, for ever
;;   b, h  holds the request, or the response, back until its body has arrived
;;   j     lets the request's headers go, holds the beginning of its body back, and goes on with the next tick of 10 ms
;;   c, e  calls the cluster "store" with one minute, or 100 ms, and goes on with the reply, whose numbers it logs
;;   u     calls the cluster "unknown", and logs the status
;;   k     sets a tick of 10 ms and goes on with the next tick
;;   m     grows its memory beyond any limit, and answers 507 if it gets none
;;   a     answers 403 in the middle of the request's body, and adds "x-new: one" to the response's headers
;;   o     answers 409 in the middle of the response's body
;;   n     removes, replaces and adds header lines
;;   v     puts "store" in the place of the response's body, as it passes
;; Any other request it lets pass.
(module
  (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
  (import "env" "proxy_get_header_map_value" (func $get (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_replace_header_map_value" (func $replace (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_add_header_map_value" (func $add (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_remove_header_map_value" (func $remove (param i32 i32 i32) (result i32)))
  (import "env" "proxy_send_local_response" (func $reply (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_continue_stream" (func $continue (param i32) (result i32)))
  (import "env" "proxy_set_effective_context" (func $effective (param i32) (result i32)))
  (import "env" "proxy_http_call" (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_buffer_bytes" (func $set (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_tick_period_milliseconds" (func $tick (param i32) (result i32)))

  (memory (export "memory") 2)
  (func (export "proxy_abi_version_0_2_1"))

  ;; 0: a pointer; 4: a length; 8: a token; 16: text to log. 4096: a letter for each stream, by its id modulo 16384. Memory
  ;; for results starts at 65536 and is used again from the start.
  (data (i32.const 1024) ":path")
  (data (i32.const 1040) "store")
  (data (i32.const 1050) "unknown")
  ;; Three header lines: ":method" "GET", ":path" "/", ":authority" "store".
  (data (i32.const 1072) "\03\00\00\00\07\00\00\00\03\00\00\00\05\00\00\00\01\00\00\00\0a\00\00\00\05\00\00\00:method\00GET\00:path\00/\00:authority\00store\00")
  (data (i32.const 1200) "x-gone")
  (data (i32.const 1210) "x-twice")
  (data (i32.const 1220) "x-new")
  (data (i32.const 1230) "one")
  (data (i32.const 1240) "a\0d\0ab")
  (global $heap (mut i32) (i32.const 65536))
  (global $waiting (mut i32) (i32.const 0))
  (global $slow_allocator (mut i32) (i32.const 0))
  (global $slow_tick (mut i32) (i32.const 0))

  (func (export "malloc") (param $size i32) (result i32)
    (local $at i32)
    (if (global.get $slow_allocator) (then (call $hang)))
    (if (i32.gt_u (i32.add (global.get $heap) (local.get $size)) (i32.const 131072))
      (then (global.set $heap (i32.const 65536))))
    (local.set $at (global.get $heap))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (local.get $at))

  (func $slot (param $id i32) (result i32)
    (i32.add (i32.const 4096) (i32.and (local.get $id) (i32.const 16383))))
  (func $is (param $id i32) (param $letter i32) (result i32)
    (i32.eq (i32.load8_u (call $slot (local.get $id))) (local.get $letter)))
  (func $calls (param $id i32) (result i32)
    (i32.or (call $is (local.get $id) (i32.const 0x63))
      (i32.or (call $is (local.get $id) (i32.const 0x65)) (call $is (local.get $id) (i32.const 0x66)))))
  (func $hang (loop $again (br $again)))
  ;; Logs a word of four letters and a number below 10.
  (func $say (param $word i32) (param $number i32)
    (i32.store (i32.const 16) (local.get $word))
    (i32.store8 (i32.const 20) (i32.add (i32.const 48) (local.get $number)))
    (drop (call $log (i32.const 2) (i32.const 16) (i32.const 5))))
  (func $answer (param $status i32)
    (drop (call $reply (local.get $status) (i32.const 0) (i32.const 0) (i32.const 1040) (i32.const 5) (i32.const 0)
      (i32.const 0) (i32.const -1))))

  (func (export "proxy_on_context_create") (param i32 i32))
  (func (export "proxy_on_configure") (param i32 i32) (result i32) (i32.const 1))

  (func (export "proxy_on_request_headers") (param $id i32) (param i32) (param $end i32) (result i32)
    (if (call $get (i32.const 0) (i32.const 1024) (i32.const 5) (i32.const 0) (i32.const 4)) (then (unreachable)))
    (i32.store8 (call $slot (local.get $id)) (i32.load8_u (i32.add (i32.load (i32.const 0)) (i32.const 1))))
    (if (call $is (local.get $id) (i32.const 0x74)) (then (unreachable))) ;; t
    (if (call $is (local.get $id) (i32.const 0x6c)) (then (call $hang))) ;; l
    (if (call $is (local.get $id) (i32.const 0x67)) (then ;; g
      (global.set $slow_allocator (i32.const 1))
      (drop (call $get (i32.const 0) (i32.const 1024) (i32.const 5) (i32.const 0) (i32.const 4)))))
    (if (call $is (local.get $id) (i32.const 0x79)) (then ;; y
      (global.set $slow_tick (i32.const 1))
      (drop (call $tick (i32.const 10)))))
    (if (call $is (local.get $id) (i32.const 0x70)) (then (return (i32.const 1)))) ;; p
    (if (call $is (local.get $id) (i32.const 0x62)) (then (return (i32.eqz (local.get $end))))) ;; b
    (if (call $is (local.get $id) (i32.const 0x6b)) (then ;; k
      (global.set $waiting (local.get $id))
      (drop (call $tick (i32.const 10)))
      (return (i32.const 1))))
    (if (call $calls (local.get $id)) (then ;; c, e, f
      (global.set $waiting (local.get $id))
      (drop (call $effective (i32.const 1)))
      (call $say (i32.const 0x6c6c6163) (call $call (i32.const 1040) (i32.const 5) (i32.const 1072) (i32.const 65)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
        (select (i32.const 100) (i32.const 60000) (call $is (local.get $id) (i32.const 0x65))) (i32.const 8)))
      (return (i32.const 1))))
    (if (call $is (local.get $id) (i32.const 0x75)) (then ;; u
      (call $say (i32.const 0x6c6c6163) (call $call (i32.const 1050) (i32.const 7) (i32.const 1072) (i32.const 65)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 100) (i32.const 8)))))
    (if (call $is (local.get $id) (i32.const 0x6d)) (then ;; m
      (if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then
        (call $answer (i32.const 507))
        (return (i32.const 1))))))
    (if (call $is (local.get $id) (i32.const 0x6e)) (then ;; n
      (drop (call $remove (i32.const 0) (i32.const 1200) (i32.const 6)))
      (drop (call $replace (i32.const 0) (i32.const 1210) (i32.const 7) (i32.const 1230) (i32.const 3)))
      (drop (call $add (i32.const 0) (i32.const 1220) (i32.const 5) (i32.const 1230) (i32.const 3)))
      ;; A value with a line break, and bytes outside of the memory.
      (call $say (i32.const 0x656e696c) (call $add (i32.const 0) (i32.const 1220) (i32.const 5) (i32.const 1240) (i32.const 4)))
      (call $say (i32.const 0x68637566) (call $add (i32.const 0) (i32.const 1220) (i32.const 5) (i32.const -2) (i32.const 8)))))
    (i32.const 0))

  (func (export "proxy_on_request_body") (param $id i32) (param i32) (param $end i32) (result i32)
    (if (call $is (local.get $id) (i32.const 0x64)) (then (unreachable))) ;; d
    (if (call $is (local.get $id) (i32.const 0x61)) (then ;; a
      (call $answer (i32.const 403))
      (return (i32.const 1))))
    (if (call $is (local.get $id) (i32.const 0x62)) (then (return (i32.eqz (local.get $end)))))
    (if (call $is (local.get $id) (i32.const 0x6a)) (then ;; j
      (global.set $waiting (local.get $id))
      (drop (call $tick (i32.const 10)))
      (return (i32.eqz (local.get $end)))))
    (i32.or (i32.or (call $is (local.get $id) (i32.const 0x70)) (call $calls (local.get $id)))
      (call $is (local.get $id) (i32.const 0x6b))))

  (func (export "proxy_on_response_headers") (param $id i32) (param i32) (param $end i32) (result i32)
    (if (call $is (local.get $id) (i32.const 0x72)) (then (unreachable))) ;; r
    (if (call $is (local.get $id) (i32.const 0x61)) (then ;; a
      (drop (call $add (i32.const 2) (i32.const 1220) (i32.const 5) (i32.const 1230) (i32.const 3)))))
    (if (call $is (local.get $id) (i32.const 0x68)) (then (return (i32.eqz (local.get $end))))) ;; h
    (call $is (local.get $id) (i32.const 0x71))) ;; q

  (func (export "proxy_on_response_body") (param $id i32) (param i32) (param $end i32) (result i32)
    (if (call $is (local.get $id) (i32.const 0x73)) (then (call $hang))) ;; s
    (if (call $is (local.get $id) (i32.const 0x6f)) (then ;; o
      (call $answer (i32.const 409))
      (return (i32.const 1))))
    (if (call $is (local.get $id) (i32.const 0x77)) (then ;; v, after the first part
      (drop (call $set (i32.const 1) (i32.const 0) (i32.const -1) (i32.const 1040) (i32.const 0)))))
    (if (call $is (local.get $id) (i32.const 0x76)) (then ;; v
      (i32.store8 (call $slot (local.get $id)) (i32.const 0x77))
      (drop (call $set (i32.const 1) (i32.const 0) (i32.const -1) (i32.const 1040) (i32.const 5)))))
    (if (call $is (local.get $id) (i32.const 0x68)) (then (return (i32.eqz (local.get $end)))))
    (call $is (local.get $id) (i32.const 0x71)))

  (func $resume
    (if (call $effective (global.get $waiting)) (then (return)))
    (i32.store8 (call $slot (global.get $waiting)) (i32.const 0))
    (drop (call $continue (i32.const 0))))
  (func (export "proxy_on_http_call_response") (param i32 i32) (param $headers i32) (param $body i32) (param i32)
    (call $say (i32.const 0x64616568) (local.get $headers))
    (call $say (i32.const 0x79646f62) (i32.gt_u (local.get $body) (i32.const 0)))
    (if (call $is (global.get $waiting) (i32.const 0x66)) (then (call $hang))) ;; f
    (call $resume))
  (func (export "proxy_on_tick") (param i32)
    (if (global.get $slow_tick) (then (call $hang)))
    (call $resume))
  (func (export "proxy_on_delete") (param $id i32)
    (if (call $is (local.get $id) (i32.const 0x78)) (then (unreachable))))) ;; x
