#!/usr/bin/env bash
# Records crates/dynamic-module/profile.profdata, which crates/xtask/scripts/build-dynamic-module.sh gives to the compiler: how often a request runs each part of the dynamic-module
# module. The benchmark sends requests of every kind to a module that counts, in a real Envoy. Run it on x86_64, with the compiler that
# builds releases, when the code of a request has changed; without that the module is right all the same, and slower.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

rustup component add llvm-tools >/dev/null 2>&1 || die "the component llvm-tools of Rust cannot be installed"
target=$(rustc -vV | sed -n 's/^host: //p')
[[ $target == x86_64-*-linux-gnu ]] || die "the profile is recorded on x86_64 Linux with glibc; this is $target"
profdata=$(rustc --print sysroot)/lib/rustlib/$target/bin/llvm-profdata
counts=${CARGO_TARGET_DIR:-target}/profile
rm -rf "$counts/raw"
mkdir -p "$counts/raw"
counts=$(cd "$counts" && pwd)

say "== a module that counts"
RUSTC_WORKSPACE_WRAPPER='' CARGO_ENCODED_RUSTFLAGS=$(remapped_paths)$'\x1f'-Cprofile-generate=$counts/raw \
    cargo rustc --quiet --package edge-idempotency-dynamic-module --lib --profile module --crate-type cdylib --target "$target" \
    --target-dir "$counts" >&2
say "== requests"
EDGE_DYNAMIC_MODULE=$counts/$target/module/libedge_idempotency.so cargo run --quiet --profile fast --package bench -- --exercise
"$profdata" merge --sparse --output crates/dynamic-module/profile.profdata "$counts"/raw/*.profraw
profile_inputs >crates/dynamic-module/profile.txt
say "crates/dynamic-module/profile.profdata ($(stat -c %s crates/dynamic-module/profile.profdata) bytes)"
