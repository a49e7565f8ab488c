#!/usr/bin/env bash
# Builds everything that a release consists of into dist/release/. docs/operate.md says what each file is. The same commit gives the same
# bytes, in any folder, with the same rustc.
#
# usage: deploy/release/build.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"
cd "$ROOT"

MAKE=${MAKE:-make}
OUT=dist/release
WORK=target/release-work
VERSION=$(version)
# Envoy's own programs need glibc 2.30.
GLIBC=2.28
PROCESSORS=(x86_64 aarch64)

# The name that Go and images have for a processor.
go_name() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; esac; }

started=$SECONDS
step() { say "release: $* ($((SECONDS - started)) s)"; }

for tool in cargo rustc python3 tar gzip sha256sum dpkg-deb; do has "$tool" || die "$tool is missing"; done
if [ -z "${EDGE_IDEMPOTENCY_GIT_HASH:-}" ]; then
    git rev-parse HEAD >/dev/null 2>&1 || die "this is no git checkout" "Set EDGE_IDEMPOTENCY_GIT_HASH and SOURCE_DATE_EPOCH."
    [ -z "$(git status --porcelain --untracked-files=no)" ] ||
        say "release: WARNING: files differ from the commit: what is built says -dirty, and is not to be published"
fi
# All files are of one commit, and say the same.
commit=$(git rev-parse HEAD 2>/dev/null || true)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
time=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
# What is in an image has the bytes of this build, whatever a faster profile was tried with before.
unset CARGO_TARGET_DIR

rm -rf "$OUT" "$WORK"
mkdir -p "$OUT/images" "$WORK"

step "the module"
"$MAKE" --no-print-directory wasm >&2
cp dist/edge_idempotency.wasm "$OUT/"

[ "$(profile_inputs)" = "$(cat crates/dynamic-module/profile.txt)" ] ||
    die "crates/dynamic-module/profile.profdata was recorded with another compiler, version or Cargo.lock: run make dynamic-module-profile, and commit it"
for processor in "${PROCESSORS[@]}"; do
    step "the dynamic module for $processor"
    crates/xtask/scripts/build-dynamic-module.sh --arch "$processor" --glibc "$GLIBC"
    step "the programs for $processor"
    folder=$(deploy/release/command.sh "$processor")
    for program in edge-idempotency idempotency-guard promises recorder; do cp "$folder/$program" "$OUT/$program-$processor"; done
done
cp dist/libedge_idempotency-aarch64.so "$OUT/"
cp dist/libedge_idempotency.so "$OUT/libedge_idempotency-x86_64.so"

# xtask TASK ARGUMENT ...
xtask() { cargo run --quiet --locked --bin xtask -- "$@"; }

# sbom FILE PACKAGE TARGET [OPTION ...]: what a file of the release consists of.
sbom() {
    local file=$1
    xtask sbom "$OUT/$file" --package "$2" --target "$3" --time "$time" "${@:4}" >"$OUT/${file##*/}.cdx.json"
}

step "what each file consists of"
sbom edge_idempotency.wasm edge-idempotency wasm32-unknown-unknown
for processor in "${PROCESSORS[@]}"; do
    sbom "libedge_idempotency-$processor.so" edge-idempotency-dynamic-module "$processor-unknown-linux-gnu"
    sbom "edge-idempotency-$processor" edge-idempotency-command "$processor-unknown-linux-musl"
    for program in idempotency-guard promises recorder; do
        sbom "$program-$processor" edge-idempotency-services "$processor-unknown-linux-musl"
    done
done

step "the images of the module"
deploy/release/images.sh "$OUT/edge_idempotency.wasm" "$OUT/images" >"$WORK/images"

step "the images of programs and of a gateway"
deploy/release/containers.sh "$OUT" "$WORK/containers" >>"$WORK/images"
for processor in "${PROCESSORS[@]}"; do
    xtask sbom "$OUT/edge_idempotency.wasm" --package edge-idempotency --target wasm32-unknown-unknown --time "$time" \
        --name "edge-idempotency-gateway-$(go_name "$processor")" --part "$WORK/containers/parts-$processor.json" \
        >"$OUT/image-gateway-$processor.cdx.json"
done
# Without the folder: the names under which they are published.
sed "s|^$OUT/images/||" "$WORK/images" >"$OUT/IMAGES"

# archive FOLDER NAME: a folder's files, sorted, of one owner and one time, without the keys that the example makes.
archive() {
    tar --exclude=key.pem --exclude=jwks.json --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX --format=gnu \
        -C "$1" -c "$2" | gzip -n -9
}

step "the chart and the example"
archive charts edge-idempotency >"$OUT/edge-idempotency-chart-$VERSION.tgz"
archive examples own-api >"$OUT/own-api.tar.gz"
cp LICENSE "$OUT/"

[ "$(git rev-parse HEAD 2>/dev/null || true)" = "$commit" ] ||
    die "the commit changed while the release was built, so its files are of different commits" "make release, and commit nothing meanwhile"
(cd "$OUT" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum) >"$WORK/SHA256SUMS"
mv "$WORK/SHA256SUMS" "$OUT/"
step "done: $OUT, version $VERSION, $(du -sh "$OUT" | cut -f 1)"
