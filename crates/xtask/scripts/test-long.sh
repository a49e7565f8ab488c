#!/usr/bin/env bash
# Runs the tests that need many repetitions to find a fault: operations while processes are killed, the Go programs with the race
# detector, 5,000 random hostile requests, a thousand schedules of faults for each reference client, properties with ten times as many
# cases, Envoy Gateway and Istio (crates/xtask/scripts/platforms.sh), a release, and a part of the end-to-end tests in every Envoy
# (crates/xtask/scripts/envoys.sh). A part in which no test passes has failed.
#
# usage: crates/xtask/scripts/test-long.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

MAKE=${MAKE:-make}
failed=()

part() {
    local name=$1 log=target/test-logs/long.log
    shift
    say "test-long: $name"
    if ! "$@" </dev/null 2>&1 | tee "$log" || ! grep -q '^test result: ok. [1-9]' "$log"; then failed+=("$name"); fi
}

mkdir -p target/test-logs
say "test-long: build"
crates/xtask/scripts/krakend.sh build race
"$MAKE" --no-print-directory programs
cargo build --quiet --workspace --test short

part "properties, ten times" env EDGE_CASES_PERCENT=1000 cargo test --test engine --test cases
part "the bridge with the race detector" env EDGE_LONG=1 cargo test --test e2e "race detector"
part "the dynamic module under Miri and with AddressSanitizer" crates/xtask/scripts/dynamic-module-sanitizers.sh
part "hostile requests in both hosts" crates/xtask/scripts/hostile-hosts.sh 5000
part "reference clients" env EDGE_LONG=1 cargo test --workspace --test compat reference_clients::
# Without root it says that it is left out.
if [ "$(id -u)" -eq 0 ]; then
    part "Envoy Gateway and Istio" crates/xtask/scripts/platforms.sh
else
    say "SKIPPED: Envoy Gateway and Istio: crates/xtask/scripts/platforms.sh needs root for a network namespace"
fi
part "soak" cargo test --workspace --test short
say "test-long: release"
if "$MAKE" --no-print-directory release; then part "the release, as its users see it" deploy/release/check.sh; else failed+=("release"); fi
say "test-long: every Envoy"
crates/xtask/scripts/envoys.sh || failed+=("every Envoy")
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
say "test-long: green on $(git describe --always --dirty 2>/dev/null || echo 'no commit')"
