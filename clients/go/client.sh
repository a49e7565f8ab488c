#!/usr/bin/env bash
# The Go client. `build` leaves the module zip and the program `driver` (clients/DRIVER.md) in target/clients/go/; it needs nothing but Go.
# `test` runs gofmt, go vet, staticcheck, the unit tests and the package, and prints one summary line. staticcheck is built once into
# .tools/clients/go/, of the modules that tools/go.sum pins.
#
# Where Go is missing it says what is left out.
#
# usage: clients/go/client.sh build|test
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"
HERE=$ROOT/clients/go
OUT=$ROOT/target/clients/go
CACHE=$TOOLS/clients/go
# The oldest Go that can fetch the version which go.mod names.
GO_MINIMUM=1.21
PASSED=0 FAILED=0 IGNORED=0

summary() {
    local verdict=ok
    [ "$FAILED" -eq 0 ] || verdict=FAILED
    printf 'test result: %s. %d passed; %d failed; %d ignored;\n' "$verdict" "$PASSED" "$FAILED" "$IGNORED"
}

# check NAME COMMAND ...: runs one check and counts it.
check() {
    say "clients/go: $1"
    if "${@:2}"; then
        PASSED=$((PASSED + 1))
    else
        FAILED=$((FAILED + 1))
        say "FAILED: clients/go: $1"
    fi
}

format() {
    local unformatted
    # gofmt need not be on PATH.
    unformatted=$("$(go env GOROOT)/bin/gofmt" -l .) || return 1
    [ -z "$unformatted" ] || { say "gofmt would change these files:" "$unformatted" "(gofmt -w clients/go)"; return 1; }
}

# Prints the path of staticcheck, and builds it if it is not there. Another Go needs another one, because it reads Go's own packages.
staticcheck() {
    local version program work
    version=$(sed -n 's/^.*honnef.co\/go\/tools \(v[^ ]*\).*$/\1/p' tools/go.mod)
    program=$CACHE/staticcheck-$version-$(go env GOVERSION)
    if [ ! -x "$program" ]; then
        say "clients/go: building staticcheck $version (about a minute)"
        mkdir -p "$CACHE"
        work=$(mktemp -d "$CACHE/.building.XXXXXX")
        if ! (cd tools && go build -mod=readonly -o "$work/staticcheck" honnef.co/go/tools/cmd/staticcheck) >&2; then
            rm -rf "$work"
            return 1
        fi
        mv "$work/staticcheck" "$program"
        rm -rf "$work"
    fi
    printf '%s\n' "$program"
}

lint() {
    local program
    program=$(staticcheck) && "$program" ./...
}

# The race detector needs cgo.
unit_tests() {
    local flags=() counts
    if has "$(go env CC)"; then
        flags=(-race)
    else
        printf 'SKIPPED: clients/go: a C compiler is missing: the tests run without the race detector (Debian: apt-get install gcc libc6-dev)\n'
        IGNORED=$((IGNORED + 1))
    fi
    CGO_ENABLED=${#flags[@]} go test -json -count=1 ${flags[@]+"${flags[@]}"} ./... >"$WORK/tests.json" 2>&1 || true
    "$ROOT/crates/xtask/scripts/go-test.py" <"$WORK/tests.json" >"$WORK/tests"
    grep -v '^test result: ' "$WORK/tests" || true
    read -r -a counts < <(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' "$WORK/tests")
    PASSED=$((PASSED + counts[0])) FAILED=$((FAILED + counts[1])) IGNORED=$((IGNORED + counts[2]))
    # A run without a test is a mistake of this script.
    [ $((counts[0] + counts[1])) -gt 0 ]
}

same_version() {
    local package workspace
    package=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' doc.go)
    workspace=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
    [ -n "$package" ] && [ "$package" = "$workspace" ] || { say "doc.go has the version \"$package\", Cargo.toml \"$workspace\""; return 1; }
}

# The package is the same when it is made twice, it has the repository's license, and the example of README.md compiles with it as README.md says.
package() {
    local zip
    mkdir -p "$OUT" "$WORK/again" "$WORK/user"
    cmp LICENSE "$ROOT/LICENSE" || return 1
    zip=$(go run ./internal/pack . "$OUT") && cmp "$zip" "$(go run ./internal/pack . "$WORK/again")" || return 1
    has unzip || unzip() { python3 -m zipfile -e "${@: -1}" .; }
    (
        cp "$zip" README.md "$WORK/user"
        cd "$WORK/user"
        sed -n '/^```go$/,/^```$/{/^```/d;p}' README.md >main.go
        export GOPROXY=off GOWORK=off
        # Exactly the commands of README.md.
        go mod init example.com/user 2>/dev/null && eval "$(sed -n 's/^\$ //p' README.md)" && go vet . && cd idempotency && go vet ./... &&
            cmp LICENSE "$ROOT/LICENSE"
    )
}

case ${1:-} in build | test) ;; *) die "unknown argument: ${1:-}" "usage: clients/go/client.sh build|test" ;; esac
cd "$HERE"
if ! GO=$(find_go "$GO_MINIMUM" .); then
    printf 'SKIPPED: clients/go: Go %s or newer is missing: the Go client is neither built nor tested\n' "$(sed -n 's/^go //p' go.mod)"
    [ "$1" = build ] || { IGNORED=1; summary; }
    exit 0
fi
PATH=$(dirname "$GO"):$PATH
export PATH

# The same for every command, but for the race detector: with other flags Go compiles its own packages again.
export CGO_ENABLED=0 GOFLAGS=-trimpath

if [ "$1" = build ]; then
    mkdir -p "$OUT"
    go build -o "$OUT/driver" ./internal/driver
    say "clients/go: $(go run ./internal/pack . "$OUT")"
    exit
fi
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
check "gofmt" format
check "go vet" go vet ./...
check "staticcheck" lint
check "go test" unit_tests
check "the version is that of Cargo.toml" same_version
check "the package" package
summary
[ "$FAILED" -eq 0 ]
