#!/usr/bin/env bash
# Runs what finds faults only by repetition: operations while processes are killed, the Go programs with the race detector, 5,000
# random hostile requests, and every property with ten times as many cases. It takes about half an hour.
#
# usage: scripts/test-long.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

MAKE=${MAKE:-make}
failed=()

part() {
    local name=$1
    shift
    say "test-long: $name"
    "$@" </dev/null || failed+=("$name")
}

say "test-long: build"
scripts/krakend.sh build race
"$MAKE" --no-print-directory programs
cargo build --quiet --workspace --test short

part "properties, ten times" env PROPTEST_TIMES=10 cargo test --workspace --test engine properties::
part "the bridge with the race detector" env EDGE_LONG=1 cargo test --workspace --test e2e "race detector"
part "hostile requests" env HOSTILE_CASES=5000 cargo test --workspace --test e2e adversary
part "soak" cargo test --workspace --test short
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
say "test-long: green on $(git rev-parse --short HEAD 2>/dev/null || echo 'no commit')"
