#!/usr/bin/env bash
# Writes crates/envoy/request_functions.txt: the functions that a request runs, in the order in which they are called first. build-wasm.sh
# has them optimised for speed, and all others for size. The exchanges are those of wasm-tests/tests/first_calls.rs. When the list
# is old, wasm-tests/tests/cost.rs fails. Run it with the compiler that builds releases.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

list=$ROOT/crates/envoy/request_functions.txt
counts=$ROOT/target/wasm-profile
mkdir -p "$counts"
printf '# %s\n' "$(rustc --version)" >"$counts/functions.txt"
say "== a module in which nothing is optimised for speed"
linked=$(EDGE_WASM_FUNCTIONS=$counts/functions.txt crates/xtask/scripts/build-wasm.sh)
cargo run --quiet --bin xtask -- note-first-calls "$linked" "$counts/noting.wasm" >&2
say "== requests"
EDGE_WASM=$counts/noting.wasm EDGE_FIRST_CALLS=$counts/called.txt cargo test --quiet --test module -- --ignored first_calls >&2
cat "$counts/called.txt" >>"$counts/functions.txt"
cp "$counts/functions.txt" "$list"
say "${list#"$ROOT/"}: $(grep -vc '^#' "$list") functions. Next: make wasm, then UPDATE_COSTS=1 cargo test --workspace --test module cost::"
