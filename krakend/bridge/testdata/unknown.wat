;; Imports a function that no host has, and one with another type.
(module
  (import "env" "proxy_not_there" (func (param i32) (result i32)))
  (import "env" "proxy_log" (func (param i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "malloc") (param i32) (result i32) (i32.const 0)))
