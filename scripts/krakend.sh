#!/usr/bin/env bash
# Checks and tests the Go bridge for KrakenD (krakend/): format, vet and tests of the Go code, then the Rust tests that run the
# behaviour cases through the bridge and requests through a stand-in for the gateway. The programs that the Rust tests
# start are built into target/krakend/ (EDGE_KRAKEND). Go fetches its modules from the Go module proxy.
#
# Where Go or a C compiler is missing it says what it leaves out, and counts that as skipped.
#
# usage: scripts/krakend.sh [build]     build: the programs only
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
OUT=${EDGE_KRAKEND:-$ROOT/target/krakend}
case $OUT in /*) ;; *) OUT=$PWD/$OUT ;; esac
cd "$ROOT/krakend"

# The oldest Go that can fetch the version which go.mod names.
GO_MINIMUM=1.21

# skip COUNT WHY: COUNT parts of the tests are left out.
skip() {
    printf 'SKIPPED: krakend: %s\n' "$2"
    printf 'test result: ok. 0 passed; 0 failed; %d ignored; 0 measured\n' "$1"
}

if ! GO=$(find_go "$GO_MINIMUM" .); then
    needed=$(sed -n 's/^go //p' go.mod)
    if ! has go; then
        why="Go is missing"
    elif ! at_least "$(go_version go)" "$GO_MINIMUM"; then
        why="Go $(go_version go) is too old"
    else
        why="Go $(go_version go) cannot fetch Go $needed (GOTOOLCHAIN is $(cd / && go env GOTOOLCHAIN))"
    fi
    skip 3 "$why: no Go tests, no behaviour cases through the bridge, no requests through the stand-in gateway (install Go $needed or newer)"
    exit 0
fi
PATH=$(dirname "$GO"):$PATH
export PATH

# A plugin and the race detector need cgo.
CC_FOUND=
if has "$(go env CC)"; then CC_FOUND=1; else export CGO_ENABLED=0; fi

# stand_ins DIRECTORY [FLAG ...]: the stand-ins for the gateway, and the plugin.
stand_ins() {
    local out=$1
    shift
    mkdir -p "$out/plugins"
    go build -trimpath "$@" -o "$out/" ./internal/standin/standin-executor
    rm -f "$out/plugins/edge-idempotency.so"
    [ -n "$CC_FOUND" ] || return 0
    CGO_ENABLED=1 go build -trimpath "$@" -o "$out/" ./internal/standin/standin-plugin
    CGO_ENABLED=1 go build -trimpath "$@" -buildmode=plugin -o "$out/plugins/edge-idempotency.so" ./plugin
}

build_all() {
    mkdir -p "$OUT"
    go build -trimpath -o "$OUT/" ./internal/caserunner
    stand_ins "$OUT"
    [ -n "$CC_FOUND" ] || rm -rf "$OUT/race"
    [ -z "$CC_FOUND" ] || CGO_ENABLED=1 stand_ins "$OUT/race" -race
}

if [ "${1:-}" = build ]; then
    build_all
    exit
fi

say "krakend: gofmt"
# gofmt need not be on PATH.
unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
[ -z "$unformatted" ] || die "gofmt would change these files" "$unformatted" "gofmt -w krakend"
say "krakend: go vet"
go vet ./...

say "krakend: go test"
status=0
go test -json ./... 2>&1 | "$ROOT/scripts/go-test.py" || status=1

say "krakend: build"
build_all

cd "$ROOT"
export EDGE_KRAKEND=$OUT
if [ -z "$CC_FOUND" ]; then
    skip 1 "a C compiler is missing: the plugin (.so) and the race detector are not tested (Debian: apt-get install gcc libc6-dev)"
    export EDGE_KRAKEND_WITHOUT_PLUGIN=1
fi
# Both programs are called krakend: the behaviour cases in wasm-tests/, and the requests through the stand-in in e2e/.
cargo test --no-fail-fast --workspace --test krakend || status=1
exit "$status"
