#!/usr/bin/env bash
# The Go bridge for KrakenD (krakend/): format, vet and tests of the Go code. `build` builds the programs that the Rust
# tests start into target/krakend/ (EDGE_KRAKEND), and `build race` those with the race detector as well. Go fetches its
# modules from the Go module proxy.
#
# Where Go or a C compiler is missing it says what is left out, counts that as skipped, and leaves a file there that tells the
# Rust tests: without-go, without-plugin.
#
# usage: crates/xtask/scripts/krakend.sh [build [race]]
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
    if [ "${1:-}" = build ]; then
        mkdir -p "$OUT"
        touch "$OUT/without-go"
    else
        skip 1 "$why: no Go tests, no behaviour cases through the bridge, no requests through the stand-in gateway (install Go $needed or newer)"
    fi
    exit 0
fi
PATH=$(dirname "$GO"):$PATH
export PATH

# A plugin and the race detector need cgo.
CC_FOUND=
if has "$(go env CC)"; then CC_FOUND=1; else export CGO_ENABLED=0; fi

# stand_ins DIRECTORY [FLAG ...]: the stand-ins for the gateway, and the plugin with the versions of modules that they have.
stand_ins() {
    local out=$1
    shift
    mkdir -p "$out/plugins"
    go -C internal/standin build -trimpath "$@" -o "$out/" ./standin-executor
    rm -f "$out/plugins/edge-idempotency.so"
    [ -n "$CC_FOUND" ] || return 0
    CGO_ENABLED=1 go -C internal/standin build -trimpath "$@" -o "$out/" ./standin-plugin
    CGO_ENABLED=1 go -C internal/standin build -trimpath "$@" -buildmode=plugin -o "$out/plugins/edge-idempotency.so" edge-idempotency/krakend/plugin
}

if [ "${1:-}" = build ]; then
    mkdir -p "$OUT"
    rm -f "$OUT/without-go" "$OUT/without-plugin"
    [ -n "$CC_FOUND" ] || touch "$OUT/without-plugin"
    go build -trimpath -o "$OUT/" ./internal/caserunner ./check
    stand_ins "$OUT"
    [ "${2:-}" != race ] || [ -z "$CC_FOUND" ] || CGO_ENABLED=1 stand_ins "$OUT/race" -race
    exit
fi

say "krakend: gofmt"
# gofmt need not be on PATH.
unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
[ -z "$unformatted" ] || die "gofmt would change these files" "$unformatted" "gofmt -w krakend"
say "krakend: go vet"
# With -trimpath, as `build` has it, Go need not compile its own packages once more.
go vet -trimpath ./...
go -C internal/standin vet -trimpath ./...

say "krakend: go test"
status=0
{
    go test -trimpath -json ./...
    go -C internal/standin test -trimpath -json ./...
} 2>&1 | "$ROOT/crates/xtask/scripts/go-test.py" || status=1

if [ -z "$CC_FOUND" ]; then
    skip 1 "a C compiler is missing: the plugin (.so) is not tested (Debian: apt-get install gcc libc6-dev)"
fi
exit "$status"
