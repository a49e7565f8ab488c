#!/usr/bin/env bash
# Builds the plugin for one release of KrakenD CE into dist/, under a name that says what it fits: the release, its Go, the architecture
# and the C library. Go loads a plugin only into a program that was built with the same Go, the same versions of shared modules at the
# same paths, and the same flags; krakend/releases.txt has what KrakenD's images and packages were built with.
#
# usage: crates/xtask/scripts/krakend-plugin.sh RELEASE
#   CC=musl-gcc              for KrakenD's images (Alpine); without it for its packages (glibc), on a machine with glibc
#   GOARCH=arm64 CC=…        for another architecture, with a C compiler for it
#   KRAKEND_MODCACHE=DIR     where the modules lay when KrakenD was built: /go/pkg/mod, unless you have built it yourself
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
release=${1:-}
read -r _ goversion modules < <(grep "^${release:-?} " "$ROOT/krakend/releases.txt") ||
    die "krakend/releases.txt has no KrakenD \"$release\"" "It has $(grep -v '^#' "$ROOT/krakend/releases.txt" | cut -d ' ' -f 1 | paste -sd ' ')."
GO=$(find_go 1.21 "$ROOT/krakend") || die "Go 1.21 or newer is missing" "It fetches $goversion."
PATH=$(dirname "$GO"):$PATH
modcache=${KRAKEND_MODCACHE:-/go/pkg/mod}
export PATH CGO_ENABLED=1 GOTOOLCHAIN=$goversion
compiler=${CC:-$(go env CC)}
has "${compiler%% *}" || die "a C compiler is missing: $compiler" "Debian: apt-get install gcc libc6-dev (or musl-tools, and CC=musl-gcc)"
macros=$($compiler -xc -E -dM -include features.h - </dev/null)
case $macros in *'#define __GLIBC__'*) libc=glibc ;; *) libc=musl ;; esac

work=$ROOT/target/krakend-plugin/$release
mkdir -p "$work" "$ROOT/dist"
cp "$ROOT/krakend/go.mod" "$ROOT/krakend/go.sum" "$work/"
cd "$ROOT/krakend"
flags=(-mod=mod "-modfile=$work/go.mod" -buildvcs=false -buildmode=plugin)
shared=()
for module in $modules; do
    path=${module%@*} version=${module#*@}
    [ "$version" != - ] && grep -q "[[:space:]]$path " "$work/go.mod" || continue
    shared+=("$path $version")
    go mod edit -replace "$path=$path@$version" "$work/go.mod"
    # Paths of sources are part of what is compared. The standard library's do not count.
    flags+=("-gcflags=$path/...=-trimpath=$(go env GOMODCACHE)=>$modcache")
done
plugin=$ROOT/dist/edge-idempotency-krakend-$release-$goversion-linux-$(go env GOARCH)-$libc.so
go build "${flags[@]}" -o "$plugin" ./plugin

# What the file itself says.
built=$(go version -m "$plugin")
grep -q ": $goversion\$" <<<"$built" || die "$plugin was built with another Go than $goversion" "$built"
for module in "${shared[@]}"; do
    # A module that is replaced has its version in the line behind.
    awk -v path="${module% *}" -v wanted="${module#* }" \
        '$2 == path && ($1 == "dep" || $1 == "=>") { has = $3 } END { exit has != "" && has != wanted }' <<<"$built" ||
        die "$plugin has another version of ${module% *} than ${module#* }" "$built"
done
# KrakenD takes every file in its folder for a plugin that has `.so` in its name.
(cd "$ROOT/dist" && sha256sum "${plugin##*/}" >"${plugin%.so}.sha256")
say "krakend-plugin: ${plugin#"$ROOT"/}"
