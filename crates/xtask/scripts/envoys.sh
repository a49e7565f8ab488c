#!/usr/bin/env bash
# Runs about two minutes of the end-to-end tests, and thousands of requests of the test of whole bodies, in every Envoy that PyPI has
# from the minimum in README.md on: with the wasm module, and with the dynamic one if it is built. The last lines say which Envoy
# passed how many tests, and what was left out.
#
# usage: crates/xtask/scripts/envoys.sh [VERSION ...]
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT" || exit 1

# What is in these: behaviour cases, keys with a real Restate, webhooks, collisions, keys in flight, recovery, changes of the
# policy, answers, metrics, access logs, bodies.
MODULES="access_log body_integrity buffers cases collision guard metrics_bounds rbac recovery reload restate streamed_answers
    waits webhooks"

LOGS=target/test-logs
[ $# -gt 0 ] || set -- "${OLDER_ENVOYS[@]}" "$ENVOY_VERSION"
results=() failed=0

# run VERSION HOST
run() {
    local log=$LOGS/envoy-$1-$2.log envoy=$TOOLS/envoy-$1/envoy line
    say "envoys: $2 in Envoy $1 (log: $log)"
    EDGE_HOST=$2 EDGE_ENVOY=$envoy EDGE_LONG=1 EDGE_EXTENT=all EDGE_MODULES=$MODULES \
        cargo test --test e2e </dev/null >"$log" 2>&1
    local status=$?
    line=$(sed -n 's/^test result: //p' "$log")
    grep -ao 'SKIPPED: .*' "$log"
    results+=("$2 in Envoy $1: ${line:-no test ran}")
    if [ $status -ne 0 ] || ! grep -q '^test result: ok. [1-9]' "$log"; then
        failed=1
        grep -a 'FAILED$' "$log"
    fi
}

mkdir -p "$LOGS"
for version in "$@"; do
    if ! crates/xtask/scripts/tools.sh "envoy-$version"; then
        results+=("Envoy $version: it cannot be installed, so nothing was tested in it")
        failed=1
        continue
    fi
    run "$version" wasm
    if [ -f "${EDGE_DYNAMIC_MODULE:-dist/libedge_idempotency.so}" ]; then
        run "$version" dynamic-module
    else
        results+=("SKIPPED: dynamic-module in Envoy $version: there is no dist/libedge_idempotency.so (make dynamic-module)")
    fi
done
printf '%s\n' "${results[@]}"
[ $failed -eq 0 ]
