#!/usr/bin/env bash
# The playground (docs/playground/): a page that runs `check` and `explain` in the browser. `build` leaves it in dist/playground/. `test`
# opens the built page in a headless Chromium, the one of the TypeScript client's tests, and compares it with the command.
#
# usage: crates/xtask/scripts/playground.sh build|test
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
HERE=$ROOT/docs/playground
OUT=$ROOT/dist/playground

build() {
    local linked finished=$ROOT/target/wasm/finished/playground.wasm work=$ROOT/dist/.playground policy size packed
    linked=$("$ROOT/crates/xtask/scripts/build-wasm.sh" --package edge-idempotency-playground)
    (cd "$ROOT" && cargo run --quiet --bin xtask -- finish-page "$linked" "$finished") >&2
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
    local why typescript=$ROOT/clients/typescript/client.sh log=$ROOT/target/test-logs/playground-node.log
    if why=$("$typescript" missing); then
        printf 'SKIPPED: playground: %s: the page is not tested\n' "$why"
        printf 'test result: ok. 0 passed; 0 failed; 1 ignored;\n'
        return
    fi
    "$typescript" install
    export EDGE_MODULES=$TOOLS/clients/typescript/node_modules EDGE_CHROMIUM=$TOOLS/clients/typescript/chromium
    export EDGE_CHROMIUM_LAUNCHER=$ROOT/clients/typescript/driver/chromium.sh EDGE_PLAYGROUND=$OUT
    export EDGE_COMMAND=${EDGE_COMMAND:-${CARGO_TARGET_DIR:-$ROOT/target}/debug/edge-idempotency}
    say "playground: node --test"
    cd "$HERE"
    node_tests "$log" tests/*.test.mjs
}

case ${1:-} in
    build) build ;;
    test) run_tests ;;
    *) die "usage: crates/xtask/scripts/playground.sh build|test" ;;
esac
