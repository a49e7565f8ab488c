#!/bin/sh
# Builds KrakenD with the bridge from this folder: one static program. It needs Go (1.21 or newer, which fetches the one that KrakenD was
# built with), the Go module proxy, and wget for KrakenD's schema. It writes go.mod, go.sum and schema/schema.json.
#
# usage: build.sh PROGRAM
#   KRAKEND=2.12.1   another release than go.mod has
set -eu
program=${1:?usage: build.sh PROGRAM}
case $program in /*) ;; *) program=$PWD/$program ;; esac
cd "$(dirname "$0")"

version=${KRAKEND:-$(sed -n 's|.*github.com/krakend/krakend-ce/v2 v||p' go.mod)}
bridge=$(sed -n 's|^replace edge-idempotency/krakend => ||p' go.mod)
go=$(sed -n "s|^$version \(go[0-9.]*\) .*|\1|p" "$bridge/releases.txt")
[ -n "$go" ] || echo "build.sh: krakend/releases.txt has no KrakenD $version: the Go on PATH builds it" >&2
[ -z "$go" ] || [ "$(go env GOVERSION)" = "$go" ] || export GOTOOLCHAIN="$go"

# As KrakenD's Makefile does. Without the file `check --lint-no-network` finds no mistake.
[ -s schema/schema.json ] || wget -qO schema/schema.json \
    "https://raw.githubusercontent.com/krakend/krakend-schema/refs/heads/main/v${version%.*}/krakend.json" || {
    rm -f schema/schema.json
    echo "build.sh: the schema cannot be fetched, so the program has none: put it there as schema/schema.json" >&2
}
go mod edit -require "github.com/krakend/krakend-ce/v2@v$version"
# KrakenD's own sums: the checksum database does not have those of all its modules.
go mod download github.com/krakend/krakend-ce/v2 2>/dev/null || : # there is nothing to be had if go.mod replaces it
sums=$(go list -mod=mod -m -f '{{.Dir}}' github.com/krakend/krakend-ce/v2)/go.sum
[ ! -f "$sums" ] || cat "$sums" >>go.sum
# -mod=mod takes KrakenD's own requirements over into go.mod.
CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "-X github.com/luraproject/lura/v2/core.KrakendVersion=$version" -o "$program" .
