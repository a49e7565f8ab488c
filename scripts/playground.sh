#!/usr/bin/env bash
# The playground (playground/): a page that runs `check` and `explain` in the browser. `build` leaves it in dist/playground/. `test`
# opens the built page in a headless Chromium, the one of the TypeScript client's tests, and compares it with the command.
#
# usage: scripts/playground.sh build|test
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
HERE=$ROOT/playground
OUT=$ROOT/dist/playground

build() {
    local linked finished=$ROOT/target/wasm/finished/playground.wasm work=$ROOT/dist/.playground policy size packed
    linked=$("$ROOT/scripts/build-wasm.sh" --package edge-idempotency-playground)
    (cd "$ROOT" && cargo run --quiet --package xtask -- finish-page "$linked" "$finished") >&2
    rm -rf "$work"
    mkdir -p "$work/policies"
    cp "$HERE"/web/*.{html,css,js,json} "$finished" "$work/"
    # The policies of the examples: the page's own, and those of policies/examples/.
    sed -n 's/^ *"policy": "\(.*\)",$/\1/p' "$HERE/web/examples.json" | sort -u | while read -r policy; do
        cp "$HERE/web/policies/$policy" "$work/policies/" 2>/dev/null || cp "$ROOT/policies/examples/$policy" "$work/policies/"
    done
    rm -rf "$OUT"
    mv "$work" "$OUT"
    size=$(wc -c <"$OUT/playground.wasm")
    packed=$(gzip -9 -c "$OUT/playground.wasm" | wc -c)
    say "playground: dist/playground/, playground.wasm has $size bytes ($packed with gzip)"
}

run_tests() {
    local why typescript=$ROOT/clients/typescript/client.sh log=$ROOT/target/test-logs/playground-node.log passed failed ignored status=0
    if why=$("$typescript" missing); then
        printf 'SKIPPED: playground: %s: the page is not tested\n' "$why"
        printf 'test result: ok. 0 passed; 0 failed; 1 ignored;\n'
        return
    fi
    "$typescript" install
    export EDGE_MODULES=$TOOLS/clients/typescript/node_modules EDGE_CHROMIUM=$TOOLS/clients/typescript/chromium
    export EDGE_CHROMIUM_LAUNCHER=$ROOT/clients/typescript/driver/chromium.sh EDGE_PLAYGROUND=$OUT
    export EDGE_COMMAND=${EDGE_COMMAND:-${CARGO_TARGET_DIR:-$ROOT/target}/debug/edge-idempotency}
    mkdir -p "$ROOT/target/test-logs"
    say "playground: node --test"
    (cd "$HERE" && node --test --test-reporter=tap tests/*.test.mjs) >"$log" 2>&1 || status=$?
    read -r passed failed ignored < <(awk '/^# pass / { p = $3 } /^# fail / { f = $3 } /^# cancelled / { c = $3 } /^# skipped / { s = $3 }
        END { print p + 0, f + c + 0, s + 0 }' "$log")
    if [ "$status" -ne 0 ]; then
        [ "$failed" -gt 0 ] || failed=1
        awk '/^ *not ok / { shown = 40; print "---- " $0 " ----" } shown > 0 { print; shown-- }' "$log"
    fi
    [ $((passed + failed)) -gt 0 ] || die "no test ran" "The log: $log"
    printf 'test result: %s. %d passed; %d failed; %d ignored;\n' "$([ "$failed" -eq 0 ] && echo ok || echo FAILED)" "$passed" "$failed" "$ignored"
    return "$status"
}

case ${1:-} in
    build) build ;;
    test) run_tests ;;
    *) die "usage: scripts/playground.sh build|test" ;;
esac
